"""Occupancies of chains that hardly ever go from some of their states to others, without a subtraction.

A linear solve loses as many digits as the chain takes powers of ten of time to forget where it was. Censoring state
after state (Grassmann, Taksar and Heyman 1985) loses none, at the cost of S³ slow operations. `verify` has its own
(stationary.py), on purpose: it shares no code with what it checks.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from mdcontest.arrays import Array
from mdcontest.chain import Chain
from mdcontest.contest import Contest

FEW_STATES, MOST_STATES = 600, 1200
"""States that take a few tenths of a second, and three seconds."""


def eliminated_occupancy(contest: Contest, rule: Array) -> Array:
    """x^d, shape [S, A]; by a linear solve where a rule has several recurrent classes."""
    chain = Chain(contest.dynamics, contest.read_rule(rule))
    if not chain.is_unichain:
        return chain.frequencies[:, None] * rule
    members = chain.recurrent_classes[0]
    inner = chain.matrix[members][:, members]
    visits = np.zeros(len(chain.time))
    visits[members] = _stationary(inner.toarray() if sp.issparse(inner) else inner)
    nu = visits[: chain.num_states]
    if not 0 < nu.sum() < np.inf:  # under- or overflow
        nu = chain.frequencies
    return (nu / nu.sum())[:, None] * rule


def _stationary(P: Array) -> Array:
    """The stationary law of an irreducible chain, up to a factor."""
    Q, size = P.copy(), len(P)
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
