"""A margin given by a Python function of two outcomes: called in blocks, checked pair by pair, its values kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mdcontest.arrays import SINGLE_TOLERANCE, TOLERANCE, Array, is_finite, tolerance_of
from mdcontest.errors import InputError, SizeError
from mdcontest.margins.base import Margin
from mdcontest.margins.pairwise import Dense, SymmetricBlocks
from mdcontest.margins.reading import as_finite, chosen_rows
from mdcontest.margins.sums import blocks
from mdcontest.outcomes import Outcomes

BLOCK_BYTES = 1 << 25
"""Bytes of outcomes copied at once, a side, when a Python function compares them."""
CANCELLATION = {TOLERANCE: 1e-12, SINGLE_TOLERANCE: 1e-5}
"""What is left of terms that cancel, of the largest margin that was seen, by the precision of a function."""
TABLE_PAIRS = 5000
"""Up to so many pairs of a contest a function is asked about each two of them once, and M is kept (200 MB)."""


def _themselves(z: Outcomes) -> Outcomes:
    """The outcomes of a contest, where no others are given."""
    return z


class Pairwise(SymmetricBlocks):
    """A margin given by a Python function over outcomes, evaluated by blocks.

    `fn(z, w)` is elementwise over two equally long batches and returns one number a pair. `outcomes` holds one row a
    pair of the contest, as an array or `Outcomes`; without it z.obs is the state's index and z.action the action's.
    Every evaluation is compared with fn(w, z), and a pair on which fn is not skew is an error that shows it.
    """

    kind = "pairwise"
    _table: Array | None = None
    """M over all pairs, once it is known and not too large."""

    def __init__(self, fn: Callable[[Any, Any], Any], outcomes: Any = None, *, bound: float | None = None) -> None:
        if not callable(fn):
            raise InputError(f"fn must be a function of two batches of outcomes, got {type(fn).__name__}")
        if bound is not None and not (is_finite(bound) and bound >= 0):
            raise InputError(f"bound must be a nonnegative number, got {bound!r}")
        self.fn, self.declared_bound, self._largest = fn, bound, 0.0
        self._hold(outcomes if outcomes is None or isinstance(outcomes, Outcomes) else np.array(outcomes))
        self._function = _themselves if outcomes is None else None

    @property
    def compares_outcomes(self) -> bool:
        return True  # its function does, whichever outcomes it was given for a contest

    def _hold(self, features: Any) -> None:
        self.features = self._rows = features
        self._bound = self._table = None
        self._given_shape = features.shape if isinstance(features, np.ndarray) else ()

    def block_pairs(self, f: Any) -> int:
        # A function sees whole outcomes, so both sides of every pair are copied out in full.
        row = f.row_bytes() if isinstance(f, Outcomes) else f[:1].nbytes
        return max(1, min(super().block_pairs(f), BLOCK_BYTES // max(row, 1)))

    def _fit_rows(self, n: int) -> None:
        if isinstance(self.features, np.ndarray):
            given = self.features.shape
            if given[:2] == self.shape and given != (n, 1):  # with one action, that is a row a pair, of one number
                self.features = self._rows = self.features.reshape(n, *given[2:])
                self._bound = self._table = None

    def kernel(self, f: Any, g: Any) -> Array:
        i, j = np.divmod(np.arange(len(f) * len(g)), len(g))
        return self.kernel_between(f[i], g[j]).reshape(len(f), len(g))

    def kernel_between(self, f: Any, g: Any) -> Array:
        if not len(f):
            return np.zeros(0)
        (forth, precision), (back, _) = self._evaluate(f, g), self._evaluate(g, f)
        sizes = np.maximum(np.abs(forth), np.abs(back))
        self._largest = max(self._largest, float(sizes.max()))
        # Of terms that cancel, as those of equal outcomes do, rounding is left that is large beside the rest of them.
        allowed = precision * sizes + CANCELLATION[precision] * self._largest
        wrong = 2 * np.abs(forth / 2 + back / 2) / np.where(allowed > 0, allowed, 1.0)
        worst = int(np.argmax(wrong))
        if wrong[worst] > 1:
            raise InputError(
                f"margin is not skew-symmetric: fn(z, w) = {forth[worst]:.6g} but fn(w, z) = {back[worst]:.6g}, which "
                f"sum to {forth[worst] + back[worst]:.6g}, for z = {f[worst]} and w = {g[worst]}; "
                "return (fn(z, w) - fn(w, z)) / 2 if you mean its skew part"
            )
        margins = forth / 2 - back / 2  # halves first: a difference of large numbers could overflow
        largest = float(np.abs(margins).max())
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
        if self.declared_bound is not None or self._rows is None:
            return np.inf if self.declared_bound is None else self.declared_bound
        if self._bound is None:
            self._bound = self.rows_bound(self._rows)
        return self._bound

    def known_bound(self) -> float:
        return 0.0 if self.declared_bound is None else self.declared_bound

    def rows_bound(self, f: Any) -> float:
        table = self._known() if f is self._rows else None
        above = (K for _, _, K in self._above(f)) if table is None else [table]
        return max(max(float(K.max()), -float(K.min())) for K in above)

    def _above(self, f: Any) -> Iterator[tuple[slice, slice, Array]]:
        """M in blocks on and above the diagonal: rows, columns, entries."""
        for rows in blocks(len(f), len(f), self.block_pairs(f)):
            later = slice(rows.start, len(f))
            yield rows, later, self.kernel(f[rows], f[later])

    def _known(self) -> Array | None:
        """M over all pairs, from one evaluation of each two of them; None where it would be large."""
        if self._table is None and self._rows is not None and len(self._rows) <= TABLE_PAIRS:
            table = np.zeros((len(self._rows),) * 2)
            for rows, later, K in self._above(self._rows):
                table[later, rows] = 0.0 - K.T  # not −K: zeros have no sign here
                table[rows, later] = K
            self._table = table
        return self._table

    def kernel_on_itself(self, f: Any, weights: Array) -> Array:
        table = self._known() if f is self._rows else None
        return super().kernel_on_itself(f, weights) if table is None else table @ weights

    def matrix(self, z: Any = None, w: Any = None) -> Array:
        table = self._known() if z is None and w is None else self._table
        if table is None or isinstance(z, Outcomes) or isinstance(w, Outcomes):
            return super().matrix(z, w)
        rows, columns = (slice(None) if chosen is None else chosen_rows(chosen, len(table)) for chosen in (z, w))
        return table[rows][:, columns].copy()

    def tiled(self, times: int) -> Margin:
        """Copies of a pair share its row of M where M is kept, so that fn is not asked about them again."""
        table = self._known()
        if table is None:
            return super().tiled(times)
        once = Dense(table)
        once.shape, once._function, once._bound = self.shape, self._function, self.bound
        return once.tiled(times)

    def tabulated(self, max_pairs: int) -> Dense:
        """The same margin as a matrix, for files: a function itself is never written."""
        if len(self.rows()) > max_pairs:
            raise SizeError(
                f"a margin given by a Python function is stored as its matrix, and {len(self.rows())} pairs are "
                f"over the limit of {max_pairs}; express it as Classes, Signs, LowRank or RewardDifference"
            )
        return Dense(self.matrix())
