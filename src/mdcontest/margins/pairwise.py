"""Margins compared pair by pair: a matrix, and best two out of three (fast beyond 2000)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mdcontest.arrays import Array, tolerance_of
from mdcontest.errors import InputError
from mdcontest.margins.base import Features, Margin
from mdcontest.margins.reading import as_columns, as_finite, as_labels, require_skew
from mdcontest.margins.sums import EPS, blocks, longest_share, longest_sum, shares_of


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
        return (self.M @ shares_of(g, weights, len(self.M)))[f]

    def rounding(self, weights: Array) -> float:
        terms = longest_share(len(weights)) + len(self.M) + 4
        return EPS * terms * self.bound * float(np.abs(weights).sum())

    def rows_bound(self, f: Any) -> float:
        used = np.unique(f)
        return float(np.abs(self.M if len(used) == len(self.M) else self.M[np.ix_(used, used)]).max())


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
