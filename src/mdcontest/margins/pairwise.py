"""Margins compared pair by pair: a matrix, a function of two outcomes, best two out of three (fast beyond 2000)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mdcontest.arrays import SINGLE_TOLERANCE, TOLERANCE, Array, is_number, tolerance_of
from mdcontest.errors import InputError, SizeError
from mdcontest.margins.base import EPS, Features, Margin, blocks, longest_sum
from mdcontest.margins.reading import as_columns, as_finite, as_labels, require_skew
from mdcontest.outcomes import Outcomes, finite_outcomes


class Dense(Margin):
    """A margin given by its matrix, [n, n] or [S, A, S, A]. The features of a pair are its row in M.

    `index` says which row that is; without it the pairs are the rows of M in order.
    """

    kind = "dense"
    fields: ClassVar = {"M": "M", "index": "features"}

    def __init__(self, M: ArrayLike, index: ArrayLike | None = None) -> None:
        matrix = as_finite(M, "M")
        given, actions = matrix.shape, None
        if len(given) == 4:
            if given[:2] != given[2:]:
                raise InputError(f"M must have shape (n, n) or (S, A, S, A), got {given}")
            actions, matrix = given[1], matrix.reshape(given[0] * given[1], -1)
        self.M = require_skew(
            matrix, "M", lambda i: f"({i // actions},{i % actions})" if actions else str(i), tolerance_of(M)
        )
        self.M.setflags(write=False)
        self._hold(np.arange(len(self.M)) if index is None else index)
        if len(given) == 4 and index is None:
            self._given_shape = given

    def read(self, values: Any) -> Any:
        return as_labels(values, "index", len(self.M), "rows of M")

    def kernel(self, f: Any, g: Any) -> Array:
        return self.M[np.ix_(f, g)]

    def kernel_between(self, f: Any, g: Any) -> Array:
        return self.M[f, g]

    def kernel_against(self, f: Any, g: Any, weights: Array) -> Array:
        # Pairs that share a row of M share their weight, so the product costs len(M)² however many pairs there are.
        return (self.M @ np.bincount(g, weights, minlength=len(self.M)))[f]

    def rows_bound(self, f: Any) -> float:
        return float(np.abs(self.M).max())


BLOCK_BYTES = 1 << 25
"""Bytes of outcomes copied at once, a side, when a Python function compares them."""


class SymmetricBlocks(Margin):
    """Margins evaluated pair by pair: M @ x visits each block above the diagonal once and uses it twice."""

    def kernel_on_itself(self, f: Any, weights: Array) -> Array:
        out = np.zeros(len(f))
        for block in blocks(len(f), len(f), self.block_pairs(f)):
            later = slice(block.start, len(f))
            K = self.kernel(f[block], f[later])
            out[block] += K @ weights[later]
            out[block.stop :] -= weights[block] @ K[:, block.stop - block.start :]
        return out


FEW_COMPARISONS = 1 << 22
"""Up to this many comparisons one by one take less time than loading the compiled code of the fast product."""


def _majority(features: Array) -> Any:
    from mdcontest.margins.majority import Majority  # compiled code, loaded only for contests large enough to need it

    return Majority(features)


class BestTwoOfThree(SymmetricBlocks):
    """M(z, z') = sgn Σ_k sgn(f_k − f'_k) over three features (ex:b2o3, May 1954).

    Ties: a feature on which two outcomes are equal counts for neither, so one win and two ties win, and one win
    against one loss with a tie is indifference. O(n log² n) by divide and conquer (majority.py).
    """

    kind = "best_two_of_three"
    fields: ClassVar = {"features": "features"}

    def __init__(self, features: Features) -> None:
        self._hold(features)

    def read(self, values: Any) -> Array:
        return as_columns(values, "features", columns=3)

    def kernel(self, f: Array, g: Array) -> Array:
        wins = np.zeros((len(f), len(g)), dtype=np.int8)
        for k in range(3):
            wins += f[:, k, None] > g[None, :, k]
            wins -= f[:, k, None] < g[None, :, k]
        return np.sign(wins).astype(float)

    def kernel_between(self, f: Array, g: Array) -> Array:
        return np.sign((f > g).sum(axis=1) - (f < g).sum(axis=1)).astype(float)

    def kernel_on_itself(self, f: Array, weights: Array) -> Array:
        if len(f) ** 2 <= FEW_COMPARISONS:
            return super().kernel_on_itself(f, weights)
        if self._sorted is None or self._sorted[0] is not f:
            self._sorted = f, _majority(f)
        return self._sorted[1].product(weights)

    def kernel_against(self, f: Array, g: Array, weights: Array) -> Array:
        if len(f) * len(g) <= FEW_COMPARISONS * (1 + len(f) // max(len(g), 1)):
            return super().kernel_against(f, g, weights)
        both = np.concatenate([f, g])  # outcomes that nobody meets have no weight
        return _majority(both).product(np.concatenate([np.zeros(len(f)), weights]))[: len(f)]

    def rounding(self, weights: Array) -> float:
        # Each outcome meets each other in one halving only, and is in a plain sum once and in a tree twice there;
        # ties are up to four orders.
        n = len(weights)
        return EPS * (2 * n + 8 * longest_sum(n) + 512) * float(np.abs(weights).sum())

    def extremes(self, g: Any) -> Any:
        return np.full((1, 3), np.inf)  # ahead of everybody in all three

    def rows_bound(self, f: Array) -> float:
        return 1.0


CANCELLATION = {TOLERANCE: 1e-12, SINGLE_TOLERANCE: 1e-5}
"""What is left of terms that cancel, of the largest margin that was seen, by the precision of a function."""


class Pairwise(SymmetricBlocks):
    """A margin given by a Python function over outcomes, evaluated by blocks.

    `fn(z, w)` is elementwise over two equally long batches and returns one number a pair. `outcomes` holds one row a
    pair of the contest, as an array or `Outcomes`; without it z.obs is the state's index and z.action the action's.
    Every evaluation is compared with fn(w, z), and a pair on which fn is not skew is an error that shows it.
    """

    kind = "pairwise"

    def __init__(self, fn: Callable[[Any, Any], Any], outcomes: Any = None, *, bound: float | None = None) -> None:
        if not callable(fn):
            raise InputError(f"fn must be a function of two batches of outcomes, got {type(fn).__name__}")
        if bound is not None and not (is_number(bound) and np.isfinite(bound) and bound >= 0):
            raise InputError(f"bound must be a nonnegative number, got {bound!r}")
        self.fn, self.declared_bound, self._largest = fn, bound, 0.0
        self.features = outcomes if outcomes is None or isinstance(outcomes, Outcomes) else np.array(outcomes)
        self._rows = self.features

    def block_pairs(self, f: Any) -> int:
        # A function sees whole outcomes, so both sides of every pair are copied out in full.
        row = f.row_bytes() if isinstance(f, Outcomes) else f[:1].nbytes
        return max(1, min(super().block_pairs(f), BLOCK_BYTES // max(row, 1)))

    def _fit_rows(self, n: int) -> None:
        if self.features is None and self.shape is not None:
            self.features = finite_outcomes(*self.shape)
        elif isinstance(self.features, np.ndarray):
            given = self.features.shape
            if given[:2] == self.shape and given != (n, 1):  # with one action, that is a row a pair, of one number
                self.features = self.features.reshape(n, *given[2:])
        self._rows = self.features

    def kernel(self, f: Any, g: Any) -> Array:
        i, j = np.divmod(np.arange(len(f) * len(g)), len(g))
        return self.kernel_between(f[i], g[j]).reshape(len(f), len(g))

    def kernel_between(self, f: Any, g: Any) -> Array:
        (forth, precision), (back, _) = self._evaluate(f, g), self._evaluate(g, f)
        sizes = np.maximum(np.abs(forth), np.abs(back))
        self._largest = max(self._largest, float(sizes.max(initial=0.0)))
        # Of terms that cancel, as those of equal outcomes do, rounding is left that is large beside the rest of them.
        allowed = precision * sizes + CANCELLATION[precision] * self._largest
        wrong = 2 * np.abs(forth / 2 + back / 2) / np.where(allowed > 0, allowed, 1.0)
        worst = int(np.argmax(wrong)) if len(wrong) else 0
        if len(wrong) and wrong[worst] > 1:
            raise InputError(
                f"margin is not skew-symmetric: fn(z, w) = {forth[worst]:.6g} but fn(w, z) = {back[worst]:.6g}, which "
                f"sum to {forth[worst] + back[worst]:.6g}, for z = {f[worst]} and w = {g[worst]}; "
                "return (fn(z, w) - fn(w, z)) / 2 if you mean its skew part"
            )
        margins = forth / 2 - back / 2  # halves first: a difference of large numbers could overflow
        largest = float(np.abs(margins).max(initial=0.0))
        if self.declared_bound is not None and largest > self.declared_bound * (1 + 1e-12):
            raise InputError(f"fn reaches {largest:.6g}, above the bound of {self.declared_bound:.6g} given for it")
        return margins

    def _evaluate(self, z: Any, w: Any) -> tuple[Array, float]:
        """fn's values, and how far rounding may put them off."""
        given = self.fn(z, w)
        values = as_finite(given, "the margin's values fn(z, w)")
        if values.shape != (len(z),):
            raise InputError(
                f"fn must return one number a pair, shape ({len(z)},), got {values.shape}; it is called with whole "
                "batches, so use np.where instead of if, or wrap a function of single outcomes in np.vectorize"
            )
        return values, tolerance_of(given)

    @property
    def bound(self) -> float:
        if self.declared_bound is None and self._rows is not None:
            self.declared_bound = self.rows_bound(self._rows)
        return np.inf if self.declared_bound is None else self.declared_bound

    def known_bound(self) -> float:
        return 0.0 if self.declared_bound is None else self.declared_bound

    def rows_bound(self, f: Any) -> float:
        return max(float(np.abs(self.kernel(f[rows], f)).max()) for rows in blocks(len(f), len(f), self.block_pairs(f)))

    def tabulated(self, max_pairs: int) -> Dense:
        """The same margin as a matrix, for files: a function itself is never written."""
        if len(self.rows()) > max_pairs:
            raise SizeError(
                f"a margin given by a Python function is stored as its matrix, and {len(self.rows())} pairs are "
                f"over the limit of {max_pairs}; express it as Classes, Signs, LowRank or RewardDifference"
            )
        return Dense(self.matrix())
