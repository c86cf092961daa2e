"""Comparisons as arrays a network can be fitted to: which inputs each side shows, how much each counts.

Segments may be of any length, so they stay stretches of one table of outcomes. An update looks at a few steps of each,
drawn anew every time; what a model says about whole segments comes from running sums over the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array, Ints
from mdcontest.preferences.comparisons import Comparisons, Segments

STEPS = 8
"""Steps of a segment that one update looks at."""
CROSS_PAIRS = 16
"""Cross pairs of two longer segments that the general model looks at; the others see the segments' means."""


class Side(NamedTuple):
    """One side of B comparisons: inputs [B, L, D], the weight of each step [B, L], and that of ⊥ [B, L]."""

    x: NDArray[np.float32]
    weight: NDArray[np.float32]
    ended: NDArray[np.float32]


@dataclass(frozen=True)
class Table:
    """All outcomes' inputs, and the two sides of every comparison as stretches of it."""

    inputs: NDArray[np.float32]
    """Shape [N, D]."""
    first: Segments
    second: Segments
    target: Array
    paired: bool
    """Step i of one side is compared with step i of the other only, so that cross pairs have to be drawn."""

    @classmethod
    def of_comparisons(cls, inputs: NDArray[np.float32], data: Comparisons, paired: bool) -> Table:
        """Comparisons over the inputs of their outcomes."""
        return cls(inputs, data.first, data.second, data.target, paired)

    def __len__(self) -> int:
        return len(self.first)

    @property
    def longest(self) -> int:
        """Most steps of any segment."""
        return int(max(self.first.steps.max(), self.second.steps.max()))

    def compact(self) -> tuple[NDArray[np.float32], Segments, Segments]:
        """Only the inputs that some comparison is about, and both sides as stretches of those."""
        count = len(self.inputs)
        used = self.first.covered(count) | self.second.covered(count)
        place = np.concatenate([[0], np.cumsum(used)])  # a segment's rows are all used, so they stay together
        sides = (Segments(place[side.start], side.length, side.ended) for side in (self.first, self.second))
        return self.inputs[used], *sides  # type: ignore[return-value]

    def batch(self, which: Ints, rng: np.random.Generator) -> tuple[Side, Side, NDArray[np.float32]]:
        """Both sides and the targets of some comparisons, an array of their numbers of any shape."""
        first, second = self.rows(which.reshape(-1), rng)
        sides = (self.side(rows.reshape(*which.shape, -1)) for rows in (first, second))
        return *sides, self.target[which].astype(np.float32)  # type: ignore[return-value]

    def rows(self, which: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Rows of the table that stand for the segments of some comparisons; −1 is ⊥, −2 nothing."""
        draws = CROSS_PAIRS if self.paired else STEPS
        if self.longest <= (1 if self.paired else STEPS):
            return self.first[which].rows(self.longest), self.second[which].rows(self.longest)
        return drawn(self.first[which], draws, rng), drawn(self.second[which], draws, rng)

    def side(self, rows: Ints) -> Side:
        """One side as inputs, every step with the weight 1/steps."""
        steps = (rows > -2).sum(axis=-1, keepdims=True)
        weight = ((rows >= 0) / steps).astype(np.float32)
        ended = ((rows == -1) / steps).astype(np.float32)
        return Side(self.inputs[np.maximum(rows, 0)], weight, ended)


def drawn(side: Segments, count: int, rng: np.random.Generator) -> Ints:
    """`count` steps of each segment, with replacement, shape [n, count]; their mean is the segment's on average."""
    step = rng.integers(0, side.steps[:, None], (len(side), count))
    return np.where(step < side.length[:, None], side.start[:, None] + step, -1)


def segment_means(side: Segments, h: Array, ended: Array) -> Array:
    """The mean over the steps of each segment of values h [N, d] of the table's outcomes, ⊥ included, shape [n, d]."""
    sums = np.concatenate([np.zeros((1, h.shape[1])), np.cumsum(h, axis=0, dtype=float)])
    total = sums[side.start + side.length] - sums[side.start]
    return (total + side.ended[:, None] * ended) / side.steps[:, None]
