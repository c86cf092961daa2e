"""Margins by the order of features: signs of differences, on a line or a circle, and voters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mdcontest.arrays import Array, is_finite
from mdcontest.errors import InputError
from mdcontest.margins.base import Features, Margin
from mdcontest.margins.orders import TURN, Order, masses, signed_terms, sums_from_below
from mdcontest.margins.reading import as_columns, as_scalars
from mdcontest.margins.sums import EPS, longest_sum


class Signs(Margin):
    """M(z, z') = Σ_k w_k sgn(f_k − f'_k), by sorting in O(n log n) and, over all pairs, O(n) after the first time.

    Where a period is given the sign is circular, sgn(sin(2π(f_k − f'_k)/period)): +1 when f_k is ahead of f'_k by
    less than half a turn, 0 at ties and at exactly half a turn. With an `arc` below half a turn, in the feature's own
    unit, only a lead of less than the arc counts, and beyond it neither is ahead.
    """

    kind = "signs"
    fields: ClassVar = {"features": "features", "weights": "weights", "period": "period", "arc": "arc"}

    def __init__(
        self,
        features: Features,
        weights: ArrayLike | None = None,
        period: float | Sequence[float | None] | None = None,
        arc: float | Sequence[float | None] | None = None,
    ) -> None:
        self._period_asked, self._arc_asked = period, arc
        self.weights: Array = np.zeros(0)
        if weights is not None:
            self._settle(as_scalars(weights, "weights"))
        self._hold(features)

    def _settle(self, weights: Array) -> None:
        """Fix weights and periods once the number of features is known."""
        weights.setflags(write=False)
        self.weights, self.period = weights, _each(self._period_asked, len(weights), "period")
        self.arc = _each(self._arc_asked, len(weights), "arc")
        for arc, period in zip(self.arc, self.period, strict=True):
            if arc is not None and (period is None or arc > period / 2 * (1 + 1e-12)):
                raise InputError(f"arc {arc} needs a period of at least twice that, the period is {period}")

    def read(self, values: Any) -> Array:
        columns = as_columns(values, "features")
        if len(self.weights) not in (0, columns.shape[1]):
            raise InputError(f"{columns.shape[1]} features need {columns.shape[1]} weights, got {len(self.weights)}")
        if len(self.weights) == 0:  # none were given: all features count the same
            self._settle(np.ones(columns.shape[1]))
        return columns

    def encode(self, features: Any) -> Array:
        if not any(self.period):
            return features
        columns = features.copy()
        for k, period in enumerate(self.period):
            if period is not None:
                with np.errstate(over="ignore"):
                    turns = columns[:, k] / period
                if not np.isfinite(turns).all():
                    largest = np.abs(columns[:, k]).max()
                    raise InputError(
                        f"a feature of {largest:g} is too many turns of a circle of {period:g}; rescale it"
                    )
                columns[:, k] = np.round(turns % 1.0 * TURN) % TURN
        return columns

    def kernel(self, f: Array, g: Array) -> Array:
        return self._signs(f[:, None, :], g[None, :, :])

    def kernel_between(self, f: Array, g: Array) -> Array:
        return self._signs(f, g)

    def _signs(self, f: Array, g: Array) -> Array:
        """Σ_k w_k sgn(f_k − g_k) over the last axis of two batches that broadcast."""
        total = np.zeros(np.broadcast_shapes(f.shape[:-1], g.shape[:-1]))
        for k, weight in enumerate(self.weights):
            with np.errstate(over="ignore"):  # of an infinite lead only the sign counts
                lead, arc = f[..., k] - g[..., k], self._arc_steps(k)
            if arc is None:
                total += weight * np.sign(lead)
            else:
                turned = lead % TURN
                total += weight * (((turned > 0) & (turned < arc)) * 1.0 - (turned > TURN - arc))
        return total

    def kernel_against(self, f: Array, g: Array, weights: Array) -> Array:
        total = np.zeros(len(f))
        for k, weight in enumerate(self.weights):
            order = np.argsort(g[:, k])
            below = sums_from_below(weights[order])
            total += weight * masses(*signed_terms(f[:, k], g[order, k], self._arc_steps(k)), below)
        return total

    def kernel_on_itself(self, f: Array, weights: Array) -> Array:
        orders = self._orders(f)
        total = np.zeros(len(f))
        for k, weight in enumerate(self.weights):
            orders[k].add_signs(total, weights, weight)
        return total

    def _orders(self, f: Array) -> list[Order]:
        """The order of each feature; that of all pairs is found once and remembered."""
        if self._sorted is not None and self._sorted[0] is f:
            return self._sorted[1]
        orders = [Order.of(np.ascontiguousarray(f[:, k]), self._arc_steps(k)) for k in range(len(self.weights))]
        if f is self._rows:
            self._sorted = f, orders
        return orders

    def rounding(self, weights: Array) -> float:
        # A mass is up to seven sums from below, each of at most so many additions in a row.
        terms = longest_sum(len(weights)) + len(self.weights) + 16
        return 4 * EPS * terms * self.bound * float(np.abs(weights).sum())

    def _arc_steps(self, k: int) -> float | None:
        """How many steps of a turn ahead still counts; None for a feature that is not circular."""
        period, arc = self.period[k], self.arc[k]
        if period is None:
            return None
        return TURN / 2 if arc is None else min(float(np.round(arc / period * TURN)), TURN / 2)

    def parts(self, g: Any) -> list[tuple[Margin, Any]]:
        return [(self._only(k), g[:, k : k + 1]) for k in range(len(self.weights))]

    def _only(self, k: int) -> Signs:
        """The margin on feature k alone; it reads rows that are encoded already."""
        return Signs(_as_they_are, self.weights[k : k + 1], [self.period[k]], [self.arc[k]])

    def extremes(self, g: Any) -> Any:
        """Of one feature: beyond all others, or, on a circle, at and between the places where the sum can change."""
        if len(self.weights) != 1:
            return None
        arc = self._arc_steps(0)
        if arc is None:
            return np.array([[np.copysign(np.inf, self.weights[0])]])
        places = np.unique(g[:, 0])
        changes = np.unique(np.concatenate([places, (places + arc) % TURN, (places - arc) % TURN]))
        return np.concatenate([changes, changes + 0.5])[:, None]  # steps of a turn are whole numbers: 0.5 is between

    def rows_bound(self, f: Array) -> float:
        varies = (f != f[0]).any(
            axis=0
        )  # where all are equal nobody is ahead, and sums of that are zero without rounding
        return float(np.abs(self.weights[varies]).sum())


def _as_they_are(rows: Any) -> Any:
    return rows


def _each(given: float | Sequence[float | None] | None, columns: int, name: str) -> list[float | None]:
    """One positive number or None a column."""
    several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    values: list[Any] = list(given) if several else [given] * columns  # type: ignore[arg-type]
    if len(values) != columns:
        raise InputError(f"{name} has {len(values)} entries for {columns} features")
    for value in values:
        if value is not None and not (is_finite(value) and value > 0):
            raise InputError(f"{name} {value!r} must be a positive number, or None for a feature that has none")
    return [None if value is None else float(value) for value in values]


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
