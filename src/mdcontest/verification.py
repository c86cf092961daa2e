"""`verify`: check a solution's certificate from the contest alone, sharing no code with the solvers.

For a rule d with occupancy x^d, any x and any h,

    gap(d) ≤ max_sa[c + P h − h] + bound·‖x^d − x‖₁,     c = M x.

The occupancy is found again by another method (stationary.py), M x is summed from the matrix itself and not by the
margin's fast product where that is affordable, and the inequality is evaluated from there. What rounding can have
done to it is added, so the bound holds for the numbers as they are. `exact=True` computes over the rationals
(rational.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from mdcontest.arrays import Array, is_finite
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.margins import Margin
from mdcontest.rational import exact_gap_bound
from mdcontest.solution import Certificate, Solution, Status, require_tolerance
from mdcontest.stationary import occupancy_again

SLOW_PRODUCT_PAIRS = 6000
"""Up to here M x is summed from the matrix itself; beyond, the fast product is used and compared on some rows."""
REAL_KINDS = "fiub"
"""Types of entries that are real numbers: floats, whole numbers, truth values. Of complex ones a part would be lost."""
EPS = float(np.finfo(float).eps)
MAX_DIFFERENCES = 20_000_000
"""Differences of h that are formed one by one for a restart."""
NOISE = 1e-12
"""Of the unit: what rounding makes of margins that are all rounding."""
SPOT_CHECKS = 64
"""How many rows are compared there."""
PAIRWISE = 64
"""numpy adds long arrays in pairs of pairs: rounding is that of fewer than this many additions in a row."""
BLOCK_ENTRIES = 1 << 22
"""Entries of P, or of M, looked at together (32 MB a copy)."""


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

    def __repr__(self) -> str:
        # An exact gap can have more digits than Python turns into a text, and more than anybody wants to read.
        gap = f"about {_float(self.gap):.6g}, exactly known" if isinstance(self.gap, Fraction) else repr(self.gap)
        return f"Verification(holds={self.holds}, gap={gap}, tol={self.tol!r}, faults={self.faults!r})"

    def __str__(self) -> str:
        lines = ["the certificate holds" if self.holds else "the certificate does NOT hold"]
        lines += [
            f"  gap at most {_float(self.gap):.6g}" + (" (exact rational)" if isinstance(self.gap, Fraction) else "")
        ]
        lines += [f"  {name}: {value:.3g}" for name, value in self.residuals.items()]
        return "\n".join(lines + [f"  fault: {fault}" for fault in self.faults])


@np.errstate(invalid="ignore", over="ignore")  # ∞ − ∞ in a forged certificate is NaN, and NaN is a fault below
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
    require_tolerance(tol)
    for given, kind in ((contest, Contest), (solution, Solution)):
        if not isinstance(given, kind):
            got, wanted = type(given).__name__, kind.__name__
            raise InputError(f"verify takes a contest and then a solution, got a {got} in place of the {wanted}")
    solution = _in_doubles(contest, solution)
    scale = _scale(contest.margin)
    proof = solution.certificate
    residuals = {"rule": _distance_from_rule(solution.rule)}
    x = proof.x.reshape(-1)
    found = occupancy_again(contest, solution.rule, proof.x, tol) if residuals["rule"] <= tol else None
    if found is None:
        residuals["occupancy"] = np.inf
        fault = "the rule has several recurrent classes" if residuals["rule"] <= tol else "the rule is no decision rule"
        return Verification(False, np.inf, residuals, tol, (fault,))
    x_rule, within = found
    gained, rounding = _gained(contest, proof.h)
    rounding += contest.margin.rounding(x)
    excess = float((_product(contest, x) + gained + rounding).max())
    off = float(np.abs(x_rule - x).sum()) + within
    gap: float | Fraction = excess + contest.margin.bound * off
    if in_rationals := exact and bool(np.isfinite(proof.h).all()):  # no rounding is left to let pass
        gap = exact_gap_bound(contest, solution.rule, proof.h)
    residuals |= {
        "flow": float(np.abs(_arrives(contest, x) - proof.x.sum(axis=1)).sum()),
        "negative mass": float(np.maximum(-x, 0).sum()),
        "mass": float(abs(x.sum() - 1)),
        "occupancy": float(np.maximum(off, np.abs(x_rule - solution.occupancy.reshape(-1)).sum() + within)),
        "inequality": _above(excess + proof.kappa) / scale,
        "claimed gap": _above(_float(gap) - solution.gap) / (contest.margin.bound or 1.0 if in_rationals else scale),
    }
    # Written so that NaN is a fault: it is not at most anything.
    faults = [f"{name} is off by {value:.3g}" for name, value in residuals.items() if not value <= tol]
    if solution.status == Status.SOLVED and not _is_solved(contest.margin, solution):
        faults.append(f"the status is solved, and the claimed gap {solution.gap:.3g} is over the tolerance asked for")
    return Verification(not faults, gap, residuals, tol, tuple(faults))


def _is_solved(margin: Margin, solution: Solution) -> bool:
    """Whether the gap it claims is within the tolerance it says; where M is all rounding, every rule is a solution."""
    return solution.gap <= solution.tol * margin.bound or margin.bound <= margin.noise


def _scale(margin: Margin) -> float:
    """The unit in which margins count; where rounding is all there is of M, large enough to let it pass."""
    return (margin.bound if margin.bound > margin.noise else margin.noise / NOISE) or 1.0


def _float(value: float | Fraction) -> float:
    """A rational number beyond the floats is infinite."""
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _above(value: float) -> float:
    """By how much a number is above zero; NaN stays NaN, which max(0, value) would lose."""
    return 0.0 if value <= 0 else value


def _in_doubles(contest: Contest, solution: Solution) -> Solution:
    """The same solution in double precision, or an error unless it is of real numbers, in arrays that fit the contest.

    Differences of whole numbers wrap around in their own type, and those of single precision round coarsely: either
    could make a wrong certificate look right.
    """
    pairs, states = (contest.num_states, contest.num_actions), (contest.num_states,)
    proof = solution.certificate
    if not isinstance(proof, Certificate):
        raise InputError(f"the solution's certificate must be a Certificate, got a {type(proof).__name__}")
    for name, number in (("gap", solution.gap), ("tol", solution.tol), ("certificate.kappa", proof.kappa)):
        if not (is_finite(number) or isinstance(number, float | np.floating)):  # NaN and infinities are faults
            raise InputError(f"the solution's {name} must be a number, got {number!r}")
    plain: list[Array] = []
    for name, array, shape in (
        ("rule", solution.rule, pairs),
        ("occupancy", solution.occupancy, pairs),
        ("certificate.x", proof.x, pairs),
        ("certificate.h", proof.h, states),
    ):
        if not isinstance(array, np.ndarray):
            raise InputError(f"the solution's {name} must be an array, got a {type(array).__name__}")
        if array.shape != shape:
            raise InputError(f"the solution's {name} has shape {array.shape}, this contest needs {shape}")
        if array.dtype.kind not in REAL_KINDS:
            raise InputError(f"the solution's {name} must hold real numbers, got {array.dtype} values")
        if isinstance(array, np.ma.MaskedArray):
            raise InputError(f"the solution's {name} is a masked array, and every entry counts")
        plain.append(np.array(array, dtype=float, subok=False))
    rule, occupancy, x, h = plain
    certificate = Certificate(x, h, float(proof.kappa))
    gap, tol = float(solution.gap), float(solution.tol)
    return replace(solution, rule=rule, occupancy=occupancy, certificate=certificate, gap=gap, tol=tol)


def _gained(contest: Contest, h: Array) -> tuple[Array, Array]:
    """P h − h, shape [n], and how far rounding can have moved it.

    Summed as Σ P(s'|s, a) (h(s') − h(s)): what is common to all of h cancels before it is multiplied, so that neither a
    large constant in h nor rare transitions to distant values can hide the cumulant.
    """
    P, e = sp.csr_array(contest.dynamics.matrix), contest.dynamics.restart
    gained, size = np.empty(contest.num_pairs), np.empty(contest.num_pairs)
    step = max(1, BLOCK_ENTRIES * contest.num_pairs // max(P.nnz, 1))
    for first in range(0, contest.num_pairs, step):
        rows = slice(first, min(first + step, contest.num_pairs))
        gained[rows], size[rows] = _moved(P, h, rows, contest.num_actions)
    rounding = EPS * (np.diff(P.indptr) + 4) * size
    if e is not None:
        jump, jump_size, additions = _jumps(contest.start, h)
        gained += e * np.repeat(jump, contest.num_actions)
        # Apart from the above: jumps are long and many numbers are added, but e is small.
        rounding += EPS * (additions + 4) * e * np.repeat(jump_size, contest.num_actions) + EPS * np.abs(gained)
    return gained, rounding


def _moved(P: Any, h: Array, rows: slice, actions: int) -> tuple[Array, Array]:
    """Σ P(s'|s, a) (h(s') − h(s)) and the same of absolute values, over some rows of P."""
    inside = slice(P.indptr[rows.start], P.indptr[rows.stop])
    number = rows.stop - rows.start
    owner = np.repeat(np.arange(number), np.diff(P.indptr[rows.start : rows.stop + 1]))
    steps = P.data[inside] * (h[P.indices[inside]] - h[(rows.start + owner) // actions])
    total: Array = np.bincount(owner, steps, number).astype(float)
    size: Array = np.bincount(owner, np.abs(steps), number).astype(float)
    return total, size


def _jumps(start: Array, h: Array) -> tuple[Array, Array, int]:
    """Σ μ(s') (h(s') − h(s)), Σ μ(s') |h(s') − h(s)|, each shape [S], and how many numbers were added in a row."""
    reached = np.flatnonzero(start)
    if len(reached) * len(h) <= MAX_DIFFERENCES:
        differences = h[None, reached] - h[:, None]
        return differences @ start[reached], np.abs(differences) @ start[reached], len(reached)
    centred = h - h.mean()
    return (start * centred).sum() - centred, (start * np.abs(centred)).sum() + np.abs(centred), PAIRWISE


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
    slow = np.zeros(SPOT_CHECKS)
    for i in range(0, n, BLOCK_ENTRIES // SPOT_CHECKS):
        columns = slice(i, i + BLOCK_ENTRIES // SPOT_CHECKS)
        slow += margin.matrix(some, columns) @ x[columns]
    worst = float(np.abs(slow - fast[some]).max())
    if not worst <= 1e-9 * (margin.bound or 1.0):
        raise InputError(
            f"the margin's fast product differs from its matrix by {worst:.3g}; this is a bug in the margin"
        )
    return fast
