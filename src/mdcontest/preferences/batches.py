"""Comparisons as arrays a network can be fitted to: which inputs each side shows, how much each counts.

Segments may be of any length, so they stay stretches of one table of outcomes. An update looks at all steps of each, or
at STEPS of them that are spread over it and drawn anew every time: fewer would make noise of whatever varies from step
to step, and a fit then trusts that less than it should. What a model says about whole segments comes from running sums
over the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array, Ints
from mdcontest.preferences.comparisons import Comparisons, Segments

STEPS = 64
"""Steps of a segment that one update looks at."""
CROSS_PAIRS = 16
"""Cross pairs of two longer segments that an update of the general model looks at; the others see their means."""
CROSSED = 16
"""Steps of a segment that are compared with as many of another where the general model is evaluated."""
GOLDEN = (5**0.5 - 1) / 2


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

    @property
    def shown(self) -> int:
        """Steps of a segment that an update looks at."""
        if self.paired:
            return 1 if self.longest == 1 else CROSS_PAIRS
        return min(self.longest, STEPS)

    @property
    def crossed(self) -> int:
        """Cross pairs of two segments that are evaluated, at most."""
        return (min(self.longest, CROSSED) + 1) ** 2

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
        first, second = self.first[which], self.second[which]
        if self.longest == 1 or (self.longest <= STEPS and not self.paired):
            return first.rows(self.longest), second.rows(self.longest)
        draw = drawn if self.paired else spread
        return draw(first, self.shown, rng), draw(second, self.shown, rng)

    def side(self, rows: Ints) -> Side:
        """One side as inputs, every step with the weight 1/steps."""
        steps = (rows > -2).sum(axis=-1, keepdims=True)
        weight = ((rows >= 0) / steps).astype(np.float32)
        ended = ((rows == -1) / steps).astype(np.float32)
        return Side(self.inputs[np.maximum(rows, 0)], weight, ended)


def drawn(side: Segments, count: int, rng: np.random.Generator) -> Ints:
    """`count` steps of each segment, with replacement, shape [n, count]; their mean is the segment's on average."""
    return _at(side, rng.integers(0, side.steps[:, None], (len(side), count)))


def spread(side: Segments, count: int, rng: np.random.Generator) -> Ints:
    """One step of each of `count` equal parts of a segment, drawn, shape [n, count]."""
    place = np.arange(count) + rng.random((len(side), count))
    return _at(side, (place * side.steps[:, None] / count).astype(int))


def points(side: Segments) -> tuple[Ints, Array]:
    """Rows that stand for segments where the general model is evaluated, and what each counts, shape [n, k].

    All steps, or one of each of CROSSED equal parts of them; and ⊥ once, for as many steps as it lasts (−2 fills up).
    They depend on a segment alone, so M of a pair is −M of it the other way round. Where in its part a step lies varies
    from part to part: a comb would see but one phase of what is periodic.
    """
    parts = np.minimum(side.length, CROSSED)[:, None]
    part = np.arange(parts.max())
    place = (part + (0.5 + GOLDEN * part) % 1) * side.length[:, None] / np.maximum(parts, 1)
    step = np.where(side.length[:, None] > CROSSED, place.astype(int), part)
    rows = np.where(part < parts, side.start[:, None] + step, -2)
    weight = (part < parts) * side.length[:, None] / np.maximum(parts, 1)
    if (side.ended > 0).any():
        rows = np.column_stack([rows, np.where(side.ended > 0, -1, -2)])
        weight = np.column_stack([weight, side.ended])
    return rows, weight / side.steps[:, None]


def _at(side: Segments, step: Ints) -> Ints:
    """Steps of segments as rows of the table; −1 is ⊥."""
    return np.where(step < side.length[:, None], side.start[:, None] + step, -1)


def segment_means(side: Segments, h: Array, ended: Array) -> Array:
    """The mean over the steps of each segment of values h [N, d] of the table's outcomes, ⊥ included, shape [n, d]."""
    sums = np.concatenate([np.zeros((1, h.shape[1])), np.cumsum(h, axis=0, dtype=float)])
    total = sums[side.start + side.length] - sums[side.start]
    return (total + side.ended[:, None] * ended) / side.steps[:, None]
