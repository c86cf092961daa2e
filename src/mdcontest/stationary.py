"""The occupancy of a rule found again for `verify`, by methods that no solver uses.

Elimination without subtractions for small chains, sparse LU for larger ones, and, where every pair restarts now and
then, a bound from the flow residual that needs neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse.csgraph import breadth_first_order, connected_components

from mdcontest.arrays import Array
from mdcontest.contest import Contest

ELIMINATION_STATES = 600
"""Up to here occupancies are solved by elimination; beyond, from the flow residual or by sparse LU."""
ELIMINATION_LIMIT = 1200
"""Up to here (three seconds) they are eliminated too where LU would lose digits: chains that hardly ever go"""
LOST = 1e-10
"""from some of their states to others lose about this share of their frequencies, or more."""
EPS = float(np.finfo(float).eps)
LEAST_RESTART = 1e-9
"""Restarts rarer than this are too near to rounding for the bound."""
SMALL = 1e-12
"""Corrections that stop shrinking when they are this small are rounding, and nothing is known better than that."""
CORRECTIONS = 10
"""How often the law of a chain that LU loses digits of is corrected."""
SWEEPS = 300
"""Steps of the chain that may improve the residual before the equations are solved instead."""
SMALL_SHARE = 1 / 64
"""The bound is good enough if it is this share of the tolerance,"""
SHARP = 1e-10
"""but however large the tolerance is, sweeps go on for a bound as sharp as this."""


def occupancy_again(contest: Contest, rule: Array, near: Array, tol: float) -> tuple[Array, float] | None:
    """x^{d,μ}, shape [n], and how far in ‖·‖₁ it may be off; None if the rule reaches several recurrent classes.

    `near` is an occupancy that may be close to it, shape [S, A]; any will do, a close one saves work.
    """
    e = contest.dynamics.restart
    if contest.num_states > ELIMINATION_STATES and e is not None:
        within = _by_restarts(contest, e, rule, near, tol * SMALL_SHARE)
        if within is not None:
            return within
    return solved_within(contest, rule)


def _by_restarts(contest: Contest, e: Array, rule: Array, near: Array, wanted: float) -> tuple[Array, float] | None:
    """A distribution ν over states that is nearly stationary, as ν·d, and a bound on ‖ν·d − x^d‖₁.

    Let every row of the rule's chain Q contain ε μ, and let r = Qᵀν − ν. With δ = ν^d − ν, which sums to zero,

        δ = Qᵀν^d − ν = Qᵀδ + r = (Q − ε 1 μᵀ)ᵀδ + r,

    because (1 μᵀ)ᵀδ = μ·(1ᵀδ) = 0. The matrix in brackets is nonnegative with row sums 1 − ε, so its transpose shortens
    ‖·‖₁ to (1 − ε) times that, hence ‖δ‖₁ ≤ (1 − ε)‖δ‖₁ + ‖r‖₁ and ‖δ‖₁ ≤ ‖r‖₁/ε. What rounding can have hidden of r is
    added to it. Where r is too large, ν ← Qᵀν shrinks it; None if that takes too long.
    """
    P, start = contest.dynamics.matrix, contest.start
    eps = float(e.min()) * (1 - 1e-4)  # rows sum to one up to rounding only
    if eps < LEAST_RESTART:
        return None
    d = np.maximum(rule, 0)
    d = d / d.sum(axis=1, keepdims=True)
    nu = np.maximum(near.sum(axis=1), 0)
    nu = nu / nu.sum() if 0 < nu.sum() < np.inf else start
    additions = np.bincount(P.indices, minlength=len(nu)) + 96  # numpy's own long sums count as 64
    arriving = sp.csc_array((P.data, P.indices, P.indptr), shape=P.shape[::-1])  # Pᵀ, nothing copied
    x, within = near.reshape(-1), np.inf
    for _ in range(SWEEPS):
        x = (nu[:, None] * d).reshape(-1)
        later = arriving @ x + start * float((e * x).sum())
        hidden = EPS * (float((additions * later).sum()) + 96)
        off = float(np.abs(later - nu).sum())
        within = (off + hidden) / eps
        if within <= min(wanted, SHARP) or off <= hidden:
            break  # good enough, or as good as it gets
        nu = later / later.sum()
    return (x, within) if within <= wanted else None


def solved_within(contest: Contest, rule: Array) -> tuple[Array, float] | None:
    """x^{d,μ}, shape [n], from equations, and how far in ‖·‖₁ rounding may have moved it where that can be felt.

    None if several recurrent classes can be reached from the start.
    """
    states = contest.num_states
    chain = _chain(contest, np.maximum(rule, 0))
    reached = np.zeros(chain.shape[0], bool)
    for s in np.flatnonzero(contest.start):
        if not reached[s]:
            reached[breadth_first_order(chain, int(s), return_predecessors=False)] = True
    _, label = connected_components(chain, directed=True, connection="strong")
    arcs = chain.tocoo()
    leaves = np.unique(label[arcs.row[label[arcs.row] != label[arcs.col]]])
    final = np.setdiff1d(np.unique(label[reached]), leaves)
    if len(final) != 1:
        return None
    members = np.flatnonzero(label == final[0])
    inner = chain[members][:, members]
    nu = np.zeros(chain.shape[0])
    nu[members], lost = _stationary(inner)
    share = nu[:states].sum()  # what is off counts for more where most visits are to the node of restarts
    return (nu[:states, None] / share * rule).reshape(-1), (2 * lost / share if lost > 0 else 0.0)


def _chain(contest: Contest, rule: Array) -> Any:
    """States under the rule, sparse. A restart goes through one more node, whose visits are not counted afterwards."""
    P, e = contest.dynamics.matrix, contest.dynamics.restart
    n = contest.num_pairs
    mix = sp.csr_array((rule.reshape(-1), (np.arange(n) // contest.num_actions, np.arange(n))))
    chain = sp.csr_array(mix @ sp.csr_array(P))
    if e is not None:
        into, out = sp.csr_array((mix @ e)[:, None]), sp.csr_array(contest.start[None, :])
        chain = sp.csr_array(sp.block_array([[chain, into], [out, None]]))
    chain.eliminate_zeros()
    return chain


def _stationary(Q: Any) -> tuple[Array, float]:
    """Stationary law of an irreducible chain, and what may be lost of it; no numbers where rounding has eaten it."""
    size = Q.shape[0]
    if size <= ELIMINATION_STATES:
        return _eliminate(Q.toarray()), 0.0
    nu, lost = _sparse_stationary(Q)
    if lost > LOST and size <= ELIMINATION_LIMIT:
        return _eliminate(Q.toarray()), 0.0
    return nu, lost if lost > LOST else 0.0


def _eliminate(Q: Array) -> Array:
    """Stationary law of an irreducible chain by censoring state after state (Grassmann, Taksar and Heyman 1985).

    Only sums, products and quotients of nonnegative numbers occur, so every entry has full relative accuracy.
    """
    Q = Q.copy()
    for k in range(len(Q) - 1, 0, -1):
        Q[:k, k] /= Q[k, :k].sum()
        Q[:k, :k] += np.outer(Q[:k, k], Q[k, :k])
    nu = np.ones(len(Q))
    for k in range(1, len(Q)):
        nu[k] = nu[:k] @ Q[:k, k]
        if nu[k] > 1e100:  # only ratios count
            nu[: k + 1] /= nu[k]
    return nu / nu.sum()


def _sparse_stationary(Q: Any) -> tuple[Array, float]:
    """The same through sparse LU, and what may be lost.

    Where that may be felt, it is solved again relative to the state that is visited most, and then corrected: relative
    to one that is hardly ever visited, all others look as if they lost digits.
    """
    solved = _balanced(Q)
    if solved is None or 4 * EPS * solved[2] <= LOST:
        return (np.full(Q.shape[0], np.nan), np.inf) if solved is None else (solved[0], 0.0)
    most = int(np.argmax(solved[0]))
    order = np.append(np.delete(np.arange(Q.shape[0]), most), most)
    moves = sp.csr_array(Q[order][:, order])
    again = _balanced(moves)
    if again is None:
        return solved[0], 2.0
    law, lost = _corrected(moves, *again)
    nu = np.empty_like(law)
    nu[order] = law
    return nu, lost


def _balanced(Q: Any) -> tuple[Array, Any, float] | None:
    """ν from the balance equations A ν = b with the last one replaced by ν_last = 1; LU of A, and ‖A⁻¹‖₁ estimated.

    States that follow each other lie near each other in most contests, both ways; an ordering for such patterns fills
    the factors half as much as the usual one. None where A is singular in float64.
    """
    size = Q.shape[0]
    moves = Q - sp.diags_array(Q.diagonal())
    # What leaves a state is summed, not 1 − Q(s, s): an exit of probability 1e-17 counts as one.
    balance = sp.csc_array((sp.diags_array(np.asarray(moves.sum(axis=1)).reshape(-1)) - moves).T)[:-1]
    A = sp.csc_array(balance[:, :-1])
    try:
        factors = spla.splu(A, permc_spec="MMD_AT_PLUS_A")
    except RuntimeError:
        return None
    nu = np.append(factors.solve(-balance[:, [size - 1]].toarray().reshape(-1)), 1.0)
    inverse = spla.LinearOperator(
        A.shape, matvec=factors.solve, rmatvec=lambda right: factors.solve(right, "T"), dtype=float
    )
    return np.asarray(nu / nu.sum()), factors, float(spla.onenormest(inverse, t=1))


def _corrected(Q: Any, nu: Array, factors: Any, norm: float) -> tuple[Array, float]:
    """ν with A δ = r solved again for r = what balance lacks, summed with more digits, while δ at least halves."""
    long = sp.csr_array(Q).astype(np.longdouble)
    moves = sp.csr_array(long - sp.diags_array(long.diagonal()))
    leaving, into = moves.sum(axis=1), sp.csr_array(moves.T)
    law: Any = nu.astype(np.longdouble)
    size, floor = np.inf, max(SMALL, 4 * float(np.finfo(np.longdouble).eps) * norm)
    for _ in range(CORRECTIONS):
        lacks = (into @ law - leaving * law)[:-1].astype(float)
        change = np.append(factors.solve(lacks), 0.0)
        before, size = size, float(np.abs(change).sum())
        if not size <= before / 2:
            if before > floor:  # it leads nowhere
                return nu, 2.0
            size = before
            break
        law = law + change
        law = law / law.sum()
        if size <= EPS:
            break
    return np.maximum(law, 0).astype(float), min(2.0, 2 * size + floor)
