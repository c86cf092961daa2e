"""The margin between two segments: the mean of M(zᵢ, z'ⱼ) over all pairs of a step of one and a step of the other.

Steps after an end are ⊥: M(z, ⊥) is what the task says, M(⊥, ⊥) = 0. With a discount γ below 1 the steps of a segment
of L steps count γ^(L−1−t), the last ones most, as for somebody who remembers the end best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdcontest.arrays import Array, Ints
from mdcontest.errors import InputError
from mdcontest.margins import Margin
from mdcontest.margins.pairwise import SymmetricBlocks
from mdcontest.margins.sums import blocks
from mdcontest.preferences.comparisons import Segments
from mdcontest.tasks import Task
from mdcontest.tasks.faults import guarded_margin

ROUNDING = 1e-12
"""Means of margins that are smaller, as a share of the mean of their sizes, are 0."""
DOUBTFUL = 1e-6
"""Means that are smaller, as a share of the largest of some of their margins, are computed again, with care."""
LONG_PAIR = 64
"""Pairs of segments with more pairs of steps than this are summed one by one, the others many at a time."""


@dataclass(frozen=True, eq=False)
class SegmentMargin:
    """A margin on outcomes, what it says about ⊥, and how the steps of a segment count."""

    margin: Margin
    over_ended: Callable[[Any], Array]
    """M(z, ⊥) of a batch of outcomes."""
    discount: float = 1.0
    name: str = "comparing segments"
    """Whose margin it is, for errors."""

    def __post_init__(self) -> None:
        if not 0 < self.discount <= 1:
            raise InputError(f"the discount of a myopic teacher must lie in (0, 1], got {self.discount}")

    @classmethod
    def of_task(cls, task: Task) -> SegmentMargin:
        """The task's own."""
        margin: Any = task.margin
        return cls(margin, task.over_ended, name=task.name)

    @classmethod
    def of_margin(cls, margin: Margin) -> SegmentMargin:
        """Any margin with what it says itself about ⊥."""
        return cls(margin, margin.over_ended)

    def between(self, outcomes: Any, first: Segments, second: Segments) -> Array:
        """M of n pairs of segments of a table of outcomes, shape [n]."""
        with guarded_margin(self.name):
            found, sizes = self._between(outcomes, self.margin.rows(outcomes), first, second)
            # A tie of several steps whose mean is rounding would be a preference, always the same.
            averaged = first.steps * second.steps > 1
            found[averaged & (np.abs(found) <= ROUNDING * sizes)] = 0.0
            return found

    def _between(self, outcomes: Any, rows: Any, first: Segments, second: Segments) -> tuple[Array, Array]:
        """Σ u·v·M over the pairs of steps of each pair of segments, and Σ u·v·|M|, or less where M is no tie."""
        won = self._over_ended(outcomes, first, second.ended, second.steps)
        lost = self._over_ended(outcomes, second, first.ended, first.steps)
        out, sizes = won[0] - lost[0], won[1] + lost[1]
        pairs = first.length * second.length
        for i in np.flatnonzero(pairs > LONG_PAIR):
            value, size = self._one_pair(rows, first[i : i + 1], second[i : i + 1])
            out[i], sizes[i] = out[i] + value, sizes[i] + size
        short = np.flatnonzero((pairs > 0) & (pairs <= LONG_PAIR))
        step = max(1, self.margin.block_pairs(rows) // LONG_PAIR)
        for block in (short[i : i + step] for i in range(0, len(short), step)):
            values, some_sizes = self._many_pairs(rows, first[block], second[block])
            out[block], sizes[block] = out[block] + values, sizes[block] + some_sizes
        return out, sizes

    def _one_pair(self, rows: Any, first: Segments, second: Segments) -> tuple[float, float]:
        """By the margin's fast way, or where that may be nothing but rounding by the slow one."""
        (f, u), (g, v) = (
            (rows[slice(int(side.start[0]), int(side.start[0] + side.length[0]))], self._weights(side)[1])
            for side in (first, second)
        )
        value = float(u @ self.margin.kernel_against(f, g, v))
        few = np.arange(LONG_PAIR)
        some = np.abs(self.margin.kernel_between(f[few * 31 % len(u)], g[few * 17 % len(v)])).max()
        if some > 0 and abs(value) > DOUBTFUL * some:
            return value, abs(value)
        found = np.zeros(2)
        for block in blocks(len(u), len(v), self.margin.block_pairs(rows)):
            M = self.margin.kernel(f[block], g)
            found += u[block] @ M @ v, u[block] @ np.abs(M) @ v
        return float(found[0]), float(found[1])

    def _many_pairs(self, rows: Any, first: Segments, second: Segments) -> tuple[Array, Array]:
        """All pairs of steps of short segments in one call."""
        pair, step = _counted(first.length * second.length)
        i, j = np.divmod(step, second.length[pair])
        values = self.margin.kernel_between(rows[first.start[pair] + i], rows[second.start[pair] + j])
        weight = self._weight(first.steps[pair], i) * self._weight(second.steps[pair], j)
        return _sums(pair, values * weight, len(first))

    def _over_ended(self, outcomes: Any, side: Segments, other_ended: Ints, other_steps: Ints) -> tuple[Array, Array]:
        """Σ over the steps of one side and the steps of ⊥ of the other of u·v·M(z, ⊥), and of its size, [n] each."""
        facing = np.flatnonzero((other_ended > 0) & (side.length > 0))
        if not len(facing):
            return np.zeros(len(side)), np.zeros(len(side))
        pair, weights, taken = self._weights_and_rows(side[facing])
        wanted, place = np.unique(taken, return_inverse=True)
        values = self.over_ended(outcomes[wanted])[place]
        total, sizes = _sums(facing[pair], values * weights, len(side))
        ended = self._ended_weight(other_ended, other_steps)
        return total * ended, sizes * ended

    def _weights_and_rows(self, side: Segments) -> tuple[Ints, Array, Ints]:
        """The segment, the weight and the row of the table of every step that is not ⊥."""
        pair, weights = self._weights(side)
        return pair, weights, side.start[pair] + _counted(side.length)[1]

    def _weights(self, side: Segments) -> tuple[Ints, Array]:
        pair, step = _counted(side.length)
        return pair, self._weight(side.steps[pair], step)

    def _weight(self, steps: Ints, t: Ints) -> Array:
        """What step t of a segment counts; the weights of all its steps sum to one."""
        if self.discount == 1:
            return 1.0 / steps
        return self.discount ** (steps - 1 - t) * (1 - self.discount) / (1 - self.discount**steps)

    def _ended_weight(self, ended: Ints, steps: Ints) -> Array:
        """What the steps of ⊥ at a segment's end count together."""
        if self.discount == 1:
            return ended / steps
        return (1 - self.discount**ended) / (1 - self.discount**steps)

    def scale(self, outcomes: Any, margins: Array) -> float:
        """By what margins are divided to lie in [−1, 1]: the margin's bound, or what was met where that is larger."""
        met = float(np.abs(margins).max(initial=0.0))  # M(z, ⊥) is in no bound
        if np.isfinite(self.margin.bound):
            return max(self.margin.bound, met)
        if isinstance(self.margin, SymmetricBlocks):  # nothing is known about a function without trying all pairs
            return met
        return max(self.margin.rows_bound(self.margin.rows(outcomes)), met)


def _sums(owner: Ints, values: Array, count: int) -> tuple[Array, Array]:
    """Σ of the values of each of `count` owners, and of their sizes."""
    total, sizes = (np.bincount(owner, some, minlength=count) for some in (values, np.abs(values)))
    return total.astype(float), sizes.astype(float)


def _counted(counts: Ints) -> tuple[Ints, Ints]:
    """For counts c: the indices 0 … n−1, each c times, and the numbers 0 … c−1 beside them."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
