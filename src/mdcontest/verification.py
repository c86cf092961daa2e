"""`verify`: check a solution's certificate from the contest alone, sharing no code with the solvers.

For a rule d with occupancy x^d, any x and any h,

    gap(d) ≤ max_sa[c + P h − h] + bound·‖x^d − x‖₁,     c = M x.

The occupancy is solved again by another method (elimination without subtractions), M x is summed from the matrix
itself and not by the margin's fast product, and the inequality is evaluated from there. `exact=True` does it over the
rationals (rational.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse.csgraph import breadth_first_order, connected_components

from mdcontest.arrays import Array
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.rational import exact_gap_bound
from mdcontest.solution import Solution

SLOW_PRODUCT_PAIRS = 6000
"""Up to here M x is summed from the matrix itself; beyond, the fast product is used and compared on some rows."""
EPS = float(np.finfo(float).eps)
MAX_DIFFERENCES = 20_000_000
"""Differences of h that are formed one by one for a restart."""
SPOT_CHECKS = 64
"""How many rows are compared there."""
ELIMINATION_STATES = 600
"""Up to here occupancies are solved by elimination; beyond, by sparse LU."""


@dataclass(frozen=True)
class Verification:
    """What `verify` found. True exactly if the certificate holds."""

    holds: bool
    gap: float | Fraction
    """Upper bound on the optimality gap of the rule, recomputed; a rational number with exact=True."""
    residuals: dict[str, float]
    """How far each part of the claim is off; each must be at most `tol`."""
    tol: float
    faults: tuple[str, ...]
    """What is wrong, in words; empty if the certificate holds."""

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        lines = ["the certificate holds" if self.holds else "the certificate does NOT hold"]
        lines += [
            f"  gap at most {_float(self.gap):.6g}" + (" (exact rational)" if isinstance(self.gap, Fraction) else "")
        ]
        lines += [f"  {name}: {value:.3g}" for name, value in self.residuals.items()]
        return "\n".join(lines + [f"  fault: {fault}" for fault in self.faults])


def verify(contest: Contest, solution: Solution, tol: float = 1e-8, exact: bool = False) -> Verification:
    """Recompute what a solution claims.

    Args:
        contest: the contest.
        solution: the solution; its shapes must fit the contest.
        tol: how far each residual may be off. Margins count relative to `contest.margin.bound`.
        exact: bound the gap over the rationals: rows of P and of the rule are renormalised, M replaced by its skew
            part, and the occupancy solved again from the rule, so that no rounding can have spoiled the bound. Small
            contests only.

    Returns:
        A report that is true exactly if the rule is one, x is its occupancy, c + P h − h ≤ −κ, and the claimed gap is
        no smaller than what was found, all within `tol`. A large gap honestly claimed is a certificate that holds.
    """
    if not (np.isfinite(tol) and tol >= 0):
        raise InputError(f"tol must be a nonnegative number, got {tol}")
    _require_shapes(contest, solution)
    scale = contest.margin.bound or 1.0
    proof = solution.certificate
    residuals = {"rule": _distance_from_rule(solution.rule)}
    x_rule = _occupancy(contest, np.asarray(solution.rule)) if residuals["rule"] <= tol else None
    if x_rule is None:
        residuals["occupancy"] = np.inf
        fault = "the rule has several recurrent classes" if residuals["rule"] <= tol else "the rule is no decision rule"
        return Verification(False, np.inf, residuals, tol, (fault,))
    x = proof.x.reshape(-1)
    with np.errstate(invalid="ignore", over="ignore"):  # ∞ − ∞ in a forged certificate is NaN, and NaN is a fault below
        gained, rounding = _gained(contest, proof.h)
        rounding += EPS * (contest.num_pairs + 4) * contest.margin.bound
        excess = float((_product(contest, x) + gained + rounding).max())
    off = float(np.abs(x_rule - x).sum())
    gap: float | Fraction = excess + contest.margin.bound * off
    if exact and np.isfinite(proof.h).all():
        gap = exact_gap_bound(contest, solution.rule, proof.h)
    residuals |= {
        "flow": float(np.abs(_arrives(contest, x) - proof.x.sum(axis=1)).sum()),
        "negative mass": float(np.maximum(-x, 0).sum()),
        "mass": float(abs(x.sum() - 1)),
        "occupancy": float(np.maximum(off, np.abs(x_rule - solution.occupancy.reshape(-1)).sum())),
        "inequality": _above(excess + proof.kappa) / scale,
        "claimed gap": _above(_float(gap) - solution.gap) / scale,
    }
    # Written so that NaN is a fault: it is not at most anything.
    faults = tuple(f"{name} is off by {value:.3g}" for name, value in residuals.items() if not value <= tol)
    return Verification(not faults, gap, residuals, tol, faults)


def _float(value: float | Fraction) -> float:
    """A rational number beyond the floats is infinite."""
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _above(value: float) -> float:
    """By how much a number is above zero; NaN stays NaN, which max(0, value) would lose."""
    return 0.0 if value <= 0 else value


def _require_shapes(contest: Contest, solution: Solution) -> None:
    pairs, states = (contest.num_states, contest.num_actions), (contest.num_states,)
    proof = solution.certificate
    for name, array, shape in (
        ("rule", solution.rule, pairs),
        ("occupancy", solution.occupancy, pairs),
        ("certificate.x", proof.x, pairs),
        ("certificate.h", proof.h, states),
    ):
        if np.shape(array) != shape:
            raise InputError(f"the solution's {name} has shape {np.shape(array)}, this contest needs {shape}")


def _gained(contest: Contest, h: Array) -> tuple[Array, Array]:
    """P h − h, shape [n], and how far rounding can have moved it.

    Summed as Σ P(s'|s, a) (h(s') − h(s)): what is common to all of h cancels before it is multiplied, so that neither a
    large constant in h nor rare transitions to distant values can hide the cumulant.
    """
    P, e = sp.csr_array(contest.dynamics.matrix), contest.dynamics.restart
    entries = np.diff(P.indptr)
    owner = np.repeat(np.arange(contest.num_pairs), entries)
    steps = P.data * (h[P.indices] - h[owner // contest.num_actions])
    gained: Array = np.bincount(owner, steps, minlength=contest.num_pairs).astype(float)
    size: Array = np.bincount(owner, np.abs(steps), minlength=contest.num_pairs).astype(float)
    if e is not None:
        jump, jump_size = _jumps(contest.start, h)
        gained += e * np.repeat(jump, contest.num_actions)
        size += e * np.repeat(jump_size, contest.num_actions)
        entries = entries + np.count_nonzero(contest.start)
    return gained, EPS * (entries + 4) * size


def _jumps(start: Array, h: Array) -> tuple[Array, Array]:
    """Σ μ(s') (h(s') − h(s)) and Σ μ(s') |h(s') − h(s)|, each shape [S]."""
    reached = np.flatnonzero(start)
    if len(reached) * len(h) <= MAX_DIFFERENCES:
        differences = h[None, reached] - h[:, None]
        return differences @ start[reached], np.abs(differences) @ start[reached]
    centred = h - h.mean()
    return start @ centred - centred, start @ np.abs(centred) + np.abs(centred)


def _arrives(contest: Contest, x: Array) -> Array:
    """Pᵀ x, shape [S]."""
    P, e = contest.dynamics.matrix, contest.dynamics.restart
    return P.T @ x if e is None else P.T @ x + contest.start * float(e @ x)


def _distance_from_rule(rule: Array) -> float:
    negative = np.maximum(-rule, 0).max()
    return float(max(negative, np.abs(rule.sum(axis=1) - 1).max()))


def _product(contest: Contest, x: Array) -> Array:
    """M x: from the matrix, row block by row block, where that is affordable."""
    margin, n = contest.margin, contest.num_pairs
    if n <= SLOW_PRODUCT_PAIRS:
        step = max(1, (1 << 20) // n)
        parts = [margin.matrix(np.arange(i, min(i + step, n)), np.arange(n)) @ x for i in range(0, n, step)]
        return np.concatenate(parts)
    fast = margin.apply(x).reshape(-1)
    some = np.random.default_rng(0).choice(n, SPOT_CHECKS, replace=False)
    slow = margin.matrix(some, np.arange(n)) @ x
    worst = float(np.abs(slow - fast[some]).max())
    if not worst <= 1e-9 * (margin.bound or 1.0):
        raise InputError(
            f"the margin's fast product differs from its matrix by {worst:.3g}; this is a bug in the margin"
        )
    return fast


def _occupancy(contest: Contest, rule: Array) -> Array | None:
    """x^{d,μ}, shape [n]; None if several recurrent classes can be reached from the start."""
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
    nu[members] = _eliminate(inner.toarray()) if len(members) <= ELIMINATION_STATES else _sparse_stationary(inner)
    return (nu[:states, None] / nu[:states].sum() * rule).reshape(-1)


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


def _sparse_stationary(Q: Any) -> Array:
    """The same through sparse LU of the balance equations with the last one replaced by ν_last = 1."""
    size = Q.shape[0]
    balance = sp.csc_array((sp.eye_array(size) - Q).T)[:-1]
    A = sp.csc_array(balance[:, :-1])
    head = spla.spsolve(A, -balance[:, [size - 1]].toarray().reshape(-1))
    nu = np.append(head, 1.0)
    return np.asarray(nu / nu.sum())
