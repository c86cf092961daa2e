"""Frequencies of chains that hardly ever go from some of their states to others, to the last digits.

A linear solve loses as many digits as the chain takes powers of ten of time to forget where it was. Censoring state
after state (Grassmann, Taksar and Heyman 1985) loses none, at the cost of S³ slow operations; where that is too much,
solves are repeated for what is missing of the equations, summed with more digits. `verify` has its own of both
(stationary.py), on purpose: it shares no code with what it checks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mdcontest.arrays import Array, Ints
from mdcontest.chain import Chain, Factors
from mdcontest.contest import Contest

FEW_STATES, MOST_STATES = 600, 1200
"""States that take a few tenths of a second, and three seconds."""
LOST = 1e-10
"""Frequencies that may be off by less than this altogether are accurate."""
SMALL = 1e-12
"""Corrections that stop shrinking when they are this small are rounding, and nothing is known better than that."""
SOLVES = 10
"""How often frequencies are corrected at most."""
EPS, LONG_EPS = float(np.finfo(float).eps), float(np.finfo(np.longdouble).eps)


def accurate_frequencies(chain: Chain) -> tuple[Array, float]:
    """ν as `chain.frequencies`, shape [S], and how far in ‖·‖₁ it may be off; 0 where that is not worth a word."""
    nu, off = np.zeros(len(chain.time)), 0.0
    for members, weight in zip(chain.recurrent_classes, chain.absorption, strict=True):
        if weight > 0:
            law, lost = _accurate_law(chain, members)
            nu[members], off = weight * law, off + float(weight) * lost
    return nu[: chain.num_states], off


def _accurate_law(chain: Chain, members: Ints) -> tuple[Array, float]:
    """The stationary law of one class, and how far it may be off."""
    factors = chain.factors_of(members)
    norm = factors.inverse_norm()
    if 4 * EPS * norm <= LOST:
        return chain.stationary(members, factors), 0.0
    law, lost = (np.empty(0), np.inf) if len(members) <= FEW_STATES else _refined(chain, members, factors, norm)
    if lost > LOST and len(members) <= MOST_STATES:
        found = _eliminated(chain.within(members))
        if 0 < found.sum() < np.inf:  # neither under- nor overflow
            return chain.in_time(members, found), 0.0
    return (law, lost) if len(law) else (chain.stationary(members, factors), 2.0)


def _refined(chain: Chain, members: Ints, factors: Factors, norm: float) -> tuple[Array, float]:
    """Corrections δ with Kᵀδ = what is missing of the equations, in extended precision, as long as they shrink.

    When each is at most half as large as the one before, what is left after the last is at most as large as that; and
    the equations themselves are known up to their rounding, times ‖K⁻ᵀ‖₁.
    """
    P = sp.csr_array(chain.within(members)).astype(np.longdouble)
    moves = sp.csr_array(P - sp.diags_array(P.diagonal()))
    leaving, arriving, time = moves.sum(axis=1), sp.csr_array(moves.T), chain.time[members]
    law: Any = chain.stationary(members, factors).astype(np.longdouble)
    last, floor = np.inf, max(SMALL, 4 * LONG_EPS * norm)
    for _ in range(SOLVES):
        missing = np.append(arriving @ law - leaving * law, 1 - time @ law).astype(float)
        change = factors.once(missing, True)[:-1]
        size = float(np.abs(change).sum())
        if not size <= last / 2:  # as small as rounding leaves it, or no longer shrinking at all
            last = last if last <= floor else 2.0
            break
        law, last = law + change, size
        if size <= EPS:
            break
    return chain.in_time(members, np.maximum(law, 0).astype(float)), min(2.0, last + floor)


def eliminated_occupancy(contest: Contest, rule: Array) -> Array:
    """x^d, shape [S, A]; by a linear solve where a rule has several recurrent classes."""
    chain = Chain(contest.dynamics, contest.read_rule(rule))
    if not chain.is_unichain:
        return chain.frequencies[:, None] * rule
    members = chain.recurrent_classes[0]
    visits = np.zeros(len(chain.time))
    visits[members] = _eliminated(chain.within(members))
    nu = visits[: chain.num_states]
    if not 0 < nu.sum() < np.inf:  # under- or overflow
        nu = chain.frequencies
    return (nu / nu.sum())[:, None] * rule


def _eliminated(P: Any) -> Array:
    """The stationary law of an irreducible chain, up to a factor."""
    Q = P.toarray() if sp.issparse(P) else P.copy()
    size = len(Q)
    with np.errstate(all="ignore"):  # what is lost is no number, which the caller sees
        for k in range(size - 1, 0, -1):
            Q[:k, k] /= Q[k, :k].sum()
            Q[:k, :k] += Q[:k, k, None] * Q[k, :k]
        nu = np.zeros(size)
        nu[0] = 1.0
        for k in range(1, size):
            nu[k] = nu[:k] @ Q[:k, k]
            nu[: k + 1] /= max(nu[k], 1.0)  # only ratios count
    return nu
