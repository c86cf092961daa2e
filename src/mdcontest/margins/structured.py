"""Margins whose structure makes M @ x cheap: O(n), O(n·d) or O(n log n) instead of O(n²)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.margins.base import (
    BLOCK_PAIRS,
    Features,
    Margin,
    as_columns,
    as_finite,
    as_labels,
    as_scalars,
    blocks,
    require_skew,
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

    def kernel_against(self, f: Array, g: Array, weights: Array) -> Array:
        # Differences to a common level keep large offsets of r from eating digits.
        level = g.mean()
        return (f - level) * weights.sum() - weights @ (g - level)

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

    def kernel_against(self, f: Array, g: Array, weights: Array) -> Array:
        return f @ (self.J @ (weights @ g))

    @property
    def noise(self) -> float:
        return 1e-14 * self._cauchy_schwarz(self.rows())

    def _cauchy_schwarz(self, f: Array) -> float:
        """|φᵀJφ'| ≤ ‖Jᵀφ‖·‖φ'‖."""
        return float(np.linalg.norm(f @ self.J, axis=1).max() * np.linalg.norm(f, axis=1).max())

    def rows_bound(self, f: Array) -> float:
        # Exact while that costs under a second.
        if len(f) ** 2 > 64 * BLOCK_PAIRS:
            return self._cauchy_schwarz(f)
        return max(float(np.abs(self.kernel(f[rows], f)).max()) for rows in blocks(len(f), len(f)))


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

    def kernel_against(self, f: Any, g: Any, weights: Array) -> Array:
        shares = np.bincount(g, weights, minlength=len(self.class_matrix))
        return (self.class_matrix @ shares)[f]

    def rows_bound(self, f: Any) -> float:
        present = np.unique(f)
        return float(np.abs(self.class_matrix[np.ix_(present, present)]).max())


TURN = 2.0**40
"""A circular feature is rounded to this many steps a turn, so that ties and half turns are exact."""


class Signs(Margin):
    """M(z, z') = Σ_k w_k sgn(f_k − f'_k), by sorting in O(n log n).

    Where a period is given the sign is circular, sgn(sin(2π(f_k − f'_k)/period)): +1 when f_k is ahead of f'_k by
    less than half a turn, 0 at ties and at exactly half a turn.
    """

    kind = "signs"
    fields: ClassVar = {"features": "features", "weights": "weights", "period": "period"}

    def __init__(
        self,
        features: Features,
        weights: ArrayLike | None = None,
        period: float | Sequence[float | None] | None = None,
    ) -> None:
        self._period_asked = period
        self.weights: Array = np.zeros(0)
        if weights is not None:
            self._settle(as_scalars(weights, "weights"))
        self._hold(features)

    def _settle(self, weights: Array) -> None:
        """Fix weights and periods once the number of features is known."""
        self.weights, self.period = weights, _periods(self._period_asked, len(weights))

    def read(self, values: Any) -> Array:
        columns = as_columns(values, "features", columns=len(self.weights) or None)
        if len(self.weights) == 0:  # none were given: all features count the same
            self._settle(np.ones(columns.shape[1]))
        return columns

    def encode(self, features: Any) -> Array:
        columns = features.copy()
        for k, period in enumerate(self.period):
            if period is not None:
                columns[:, k] = np.round((columns[:, k] / period) % 1.0 * TURN) % TURN
        return columns

    def kernel(self, f: Array, g: Array) -> Array:
        total = np.zeros((len(f), len(g)))
        for k, (weight, period) in enumerate(zip(self.weights, self.period, strict=True)):
            ahead = f[:, k, None] - g[None, :, k]
            sign = np.sign(ahead) if period is None else np.sign(ahead) * np.sign(TURN / 2 - np.abs(ahead))
            total += weight * sign
        return total

    def kernel_against(self, f: Array, g: Array, weights: Array) -> Array:
        total = np.zeros(len(f))
        for k, (weight, period) in enumerate(zip(self.weights, self.period, strict=True)):
            order = np.argsort(g[:, k])
            values = g[order, k]
            below = np.concatenate([[0.0], np.cumsum(weights[order])])
            total += weight * _signed_mass(f[:, k], values, below, circular=period is not None)
        return total

    def rows_bound(self, f: Array) -> float:
        return float(np.abs(self.weights).sum())


def _signed_mass(f: Array, values: Array, below: Array, circular: bool) -> Array:
    """Mass of the sorted `values` that f is ahead of, minus the mass that is ahead of f."""

    def less(level: Array) -> Array:
        return below[np.searchsorted(values, level, side="left")]

    def at_most(level: Array) -> Array:
        return below[np.searchsorted(values, level, side="right")]

    if not circular:
        return less(f) - (below[-1] - at_most(f))
    half = TURN / 2
    ahead = less(f) - at_most(f - half) + below[-1] - at_most(f + half)
    behind = less(f + half) - at_most(f) + less(f - half)
    return ahead - behind


def _periods(period: float | Sequence[float | None] | None, columns: int) -> list[float | None]:
    """One period or None a column."""
    given = list(period) if isinstance(period, Sequence | np.ndarray) else [period] * columns
    if len(given) != columns:
        raise InputError(f"period has {len(given)} entries for {columns} features")
    for value in given:
        if value is not None and not (np.isfinite(value) and value > 0):
            raise InputError(f"period {value} must be a positive number, or None for a feature that is not circular")
    return [None if value is None else float(value) for value in given]


class Aggregated(Signs):
    """Share of individuals preferring z to z' minus the share preferring z' (Condorcet voters).

    M(z, z') = Σ_v w_v sgn(u_v(z) − u_v(z')), the weights normalised to one. O(n log n) a voter.
    """

    kind = "aggregated"
    fields: ClassVar = {"utilities": "utilities", "weights": "weights"}

    def __init__(self, utilities: Features, weights: ArrayLike | None = None) -> None:
        if weights is not None:
            weights = as_scalars(weights, "weights")
            if weights.min() < 0 or weights.max() == 0:
                raise InputError(f"weights of individuals must be nonnegative and not all zero, got {weights.tolist()}")
            weights = weights if weights.sum() < np.inf else weights / weights.max()
        super().__init__(utilities, weights)

    def _settle(self, weights: Array) -> None:
        total = weights.sum()
        # Weights that sum to one are left alone, or a file read and written again would change.
        super()._settle(weights if abs(total - 1) <= 4 * np.finfo(float).eps else weights / total)

    @property
    def utilities(self) -> Array:
        """u_v over all pairs, shape [n, V]."""
        return self.rows()
