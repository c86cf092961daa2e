"""Frequencies of chains that hardly ever go from some of their states to others, to the last digits.

A linear solve loses as many digits as the chain takes powers of ten of time to forget where it was. Censoring state
after state (Grassmann, Taksar and Heyman 1985) loses none, at the cost of S³ slow operations; where that is too much,
solves are repeated for what is missing of the equations, summed with more digits. Censoring also tells in which of
several recurrent classes a chain ends. `verify` has its own of both (stationary.py), on purpose: it shares no code with
what it checks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mdcontest.arrays import Array, Ints
from mdcontest.chain import Chain
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.factors import Factors

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
    nu, (weights, off) = np.zeros(len(chain.time)), _accurate_absorption(chain)
    for members, weight in zip(chain.recurrent_classes, weights, strict=True):
        if weight > 0:
            law, lost = _accurate_law(chain, members)
            nu[members], off = weight * law, off + float(weight) * lost
    return nu[: chain.num_states], off


def accurate_values(chain: Chain, cumulant: Array, nu: Array) -> tuple[Array, float]:
    """h of `chain.poisson` for its frequencies ν, shape [S], and what part of the largest may be lost; 0 if nothing is.

    The chain has one recurrent class.
    """
    lost, h = 4 * EPS * chain.values_norm, None
    if lost > LOST and chain.num_states <= FEW_STATES:
        found = _censored_values(
            chain, np.append(cumulant, np.zeros(len(chain.time) - len(cumulant))), float(nu @ cumulant)
        )
        h, lost = (found, 0.0) if np.isfinite(found).all() else (None, lost)
    if h is None:
        _, h = chain.relative_values(cumulant)
    return h - nu @ h, lost if lost > LOST else 0.0


def _censored_values(chain: Chain, cumulant: Array, gain: float) -> Array:
    """States are left out one by one, what is earned in one going to those that lead to it; then h, state by state."""
    members = chain.recurrent_classes[0]
    order = np.concatenate([members, chain.transient])  # from these all ways lead to those
    Q = (chain.matrix.toarray() if sp.issparse(chain.matrix) else chain.matrix)[np.ix_(order, order)]
    earned, h = (cumulant - gain * chain.time)[order], np.zeros(len(order))
    with np.errstate(all="ignore"):  # what is lost is no number, which the caller sees
        for k in range(len(order) - 1, 0, -1):
            leaves = Q[k, :k].sum()
            Q[k, :k] /= leaves
            earned[k] /= leaves
            earned[:k] += Q[:k, k] * earned[k]
            Q[:k, :k] += Q[:k, k, None] * Q[k, :k]
        for k in range(1, len(order)):
            h[k] = earned[k] + Q[k, :k] @ h[:k]
    values = np.empty_like(h)
    values[order] = h
    return values[: chain.num_states]


def _accurate_absorption(chain: Chain) -> tuple[Array, float]:
    """The probability of ending in each class, and how far off it may be; 0 where that is not worth a word."""
    if chain.is_unichain or not len(chain.transient):
        return chain.absorption, 0.0
    lost = _lost_on_the_way(chain)
    if lost > LOST and len(chain.transient) <= MOST_STATES:
        found = _censored_absorption(chain)
        if np.isfinite(found).all():
            return found, 0.0
    return chain.absorption, 0.0 if lost <= LOST else min(2.0, lost)


def _lost_on_the_way(chain: Chain) -> float:
    """How far off the solved probabilities of ending in each class may be altogether.

    If v are visits to transient states and r = μ − (I − P)ᵀv what their equations lack, these are off by Bᵀr, where a
    row of B says where a transient state ends and so sums to one: by ‖r‖₁, with what rounding hides of r. Twice that
    where they are then divided by their sum.
    """
    try:
        missing = chain.first[chain.transient] - chain.staying.T @ chain.passing
    except InputError:  # singular in float64
        return np.inf
    return 2 * float(np.abs(missing).sum() + 8 * EPS * (chain.staying.diagonal() @ chain.passing))


def _censored_absorption(chain: Chain) -> Array:
    """Transient states are left out one by one; what entered one goes where it leads. The last row is μ."""
    transient, classes = chain.transient, chain.recurrent_classes
    P = chain.matrix.toarray() if sp.issparse(chain.matrix) else chain.matrix
    rows = np.vstack([P[transient], chain.first])
    Q = np.column_stack([rows[:, transient], *(rows[:, members].sum(axis=1) for members in classes)])
    with np.errstate(all="ignore"):  # what is lost is no number, which the caller sees
        for k in range(len(transient)):
            Q[k + 1 :, k] /= Q[k, k + 1 :].sum()
            Q[k + 1 :, k + 1 :] += Q[k + 1 :, k, None] * Q[k, k + 1 :]
        ends = Q[-1, len(transient) :]
        return np.asarray(ends / ends.sum())


def _accurate_law(chain: Chain, members: Ints) -> tuple[Array, float]:
    """The stationary law of one class, and how far it may be off."""
    factors = chain.factors_of(members)
    norm = factors.inverse_norm
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
    """x^d, shape [S, A]; class by class, and by linear solves where those do, if a rule has several recurrent ones."""
    chain = Chain(contest.dynamics, contest.read_rule(rule))
    if not chain.is_unichain:
        return accurate_frequencies(chain)[0][:, None] * rule
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
