"""Margins whose structure makes M @ x cheap: O(n) or O(n·d) instead of O(n²). Signs are in signs.py."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mdcontest.arrays import Array
from mdcontest.margins.base import (
    BLOCK_PAIRS,
    EPS,
    Features,
    Margin,
    as_columns,
    as_finite,
    as_labels,
    as_scalars,
    blocks,
    longest_sum,
    require_skew,
    summed,
)


class RewardDifference(Margin):
    """M(z, z') = r(z) − r(z'): a Markov decision process as a contest (eq. reward-express). O(n)."""

    kind = "reward_difference"
    fields: ClassVar = {"reward": "reward"}

    def __init__(self, reward: Features) -> None:
        self._hold(reward)

    @property
    def reward(self) -> Array:
        """r over all pairs, shape [n]."""
        return self.rows()

    def read(self, values: Any) -> Array:
        return as_scalars(values, "reward")

    def kernel(self, f: Array, g: Array) -> Array:
        return f[:, None] - g[None, :]

    def kernel_between(self, f: Array, g: Array) -> Array:
        return f - g

    def kernel_against(self, f: Array, g: Array, weights: Array) -> Array:
        # Differences to a common level keep large offsets of r from eating digits.
        level = g.mean()
        return (f - level) * weights.sum() - summed(weights, g - level)

    def rounding(self, weights: Array) -> float:
        return EPS * (longest_sum(len(weights)) + 64) * self.bound * float(np.abs(weights).sum())

    def over_ended(self, z: Any) -> Array:
        """M(z, ⊥) = r(z) − 0: an episode that has ended earns nothing any more."""
        return self.rows(z)

    def against_beyond_ended(self, z: Any, opponents: Any, weights: ArrayLike | None = None) -> Array:
        """Σ_j w_j [r(z) − r(z_j) + r(z_j)] is r(z) Σ w, whatever the opponents: in one step, without rounding."""
        reward = self.rows(z)
        return reward if weights is None else reward * np.sum(weights)

    def rows_bound(self, f: Array) -> float:
        return float(f.max() - f.min())


class LowRank(Margin):
    """M(z, z') = φ(z)ᵀ J φ(z') with J skew: O(n·d)."""

    kind = "low_rank"
    fields: ClassVar = {"features": "features", "J": "J"}

    def __init__(self, features: Features, J: ArrayLike) -> None:
        self.J = require_skew(as_finite(J, "J"), "J")
        self._hold(features)

    def read(self, values: Any) -> Array:
        return as_columns(values, "features", columns=len(self.J))

    def kernel(self, f: Array, g: Array) -> Array:
        return f @ self.J @ g.T

    def kernel_between(self, f: Array, g: Array) -> Array:
        return np.einsum("nd,nd->n", f @ self.J, g)

    def kernel_against(self, f: Array, g: Array, weights: Array) -> Array:
        return f @ (self.J @ summed(weights, g))

    @property
    def noise(self) -> float:
        # Term by term: a large feature that J weights by little, or by nothing, makes no noise.
        largest = np.maximum(self.rows().max(axis=0), -self.rows().min(axis=0))
        return 1e-14 * float(largest @ (np.abs(self.J) @ largest))

    def rounding(self, weights: Array) -> float:
        # φᵀJφ' can be small because large terms cancel; their rounding does not cancel.
        f, some = self.rows(), list(blocks(len(self.rows()), len(self.J), BLOCK_PAIRS))
        terms = np.abs(self.J) @ sum(np.abs(weights[rows]) @ np.abs(f[rows]) for rows in some)
        size = max(float((np.abs(f[rows]) @ terms).max()) for rows in some)
        return EPS * (longest_sum(len(f)) + 2 * len(self.J) + 4) * size

    def rows_bound(self, f: Array) -> float:
        """max |M|, exactly where few pairs can attain it.

        |φᵀJφ'| ≤ √(q q') with q = φᵀ|J|φ and |J| = √(JᵀJ), by Cauchy and Schwarz in the form |J|. So the pairs with the
        largest q are compared one by one, and for a pair outside those the largest and the next q are a bound.
        """
        if len(f) > EXACT_BOUND_PAIRS:
            turned, strengths, _ = np.linalg.svd(self.J)
            size = _squared_norms(f, turned * np.sqrt(strengths))
            size += 1e-13 * strengths[0] * _squared_norms(f)  # what rounding can have taken away
            order = np.argpartition(-size, EXACT_BOUND_PAIRS)
            outside = float(np.sqrt(size.max() * size[order[EXACT_BOUND_PAIRS]])) * (1 + 1e-13)
            return max(outside, self.rows_bound(f[order[:EXACT_BOUND_PAIRS]]))
        return max(float(np.abs(self.kernel(f[rows], f)).max()) for rows in blocks(len(f), len(f), BLOCK_PAIRS))


EXACT_BOUND_PAIRS = 4096
"""So many outcomes are compared with each other for the largest margin, in a fraction of a second."""


def _squared_norms(f: Array, turn: Array | None = None) -> Array:
    """Squared norms of the rows of f, or of f·turn, by blocks that need little memory."""
    out = np.empty(len(f))
    for rows in blocks(len(f), f.shape[1], BLOCK_PAIRS):
        part = f[rows] if turn is None else f[rows] @ turn
        out[rows] = np.einsum("nd,nd->n", part, part)
    return out


CLASS_TERMS = 1 << 16
"""Weights of one class added one after the other; then the blocks are added."""


class Classes(Margin):
    """M(z, z') = K[class(z), class(z')] with K skew: rock-paper-scissors. O(n)."""

    kind = "classes"
    fields: ClassVar = {"labels": "labels", "matrix": "class_matrix"}

    def __init__(self, labels: Features, matrix: ArrayLike) -> None:
        self.class_matrix = require_skew(as_finite(matrix, "matrix"), "matrix")
        self._hold(labels)

    @property
    def labels(self) -> Array:
        """The class of every pair, shape [n]."""
        return self.rows()

    def read(self, values: Any) -> Any:
        return as_labels(values, "labels", len(self.class_matrix), "classes")

    def kernel(self, f: Any, g: Any) -> Array:
        return self.class_matrix[np.ix_(f, g)]

    def kernel_between(self, f: Any, g: Any) -> Array:
        return self.class_matrix[f, g]

    def kernel_against(self, f: Any, g: Any, weights: Array) -> Array:
        shares = np.zeros(len(self.class_matrix))
        for part in blocks(len(g), 1, CLASS_TERMS):
            shares += np.bincount(g[part], weights[part], minlength=len(shares))
        return (self.class_matrix @ shares)[f]

    def rounding(self, weights: Array) -> float:
        n = len(weights)
        terms = min(n, CLASS_TERMS + n // CLASS_TERMS) + len(self.class_matrix) + 4
        return EPS * terms * float(np.abs(self.class_matrix).max()) * float(np.abs(weights).sum())

    def extremes(self, g: Any) -> Any:
        return np.arange(len(self.class_matrix))

    def rows_bound(self, f: Any) -> float:
        present = np.unique(f)
        return float(np.abs(self.class_matrix[np.ix_(present, present)]).max())
