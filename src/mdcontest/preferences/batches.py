"""Comparisons as arrays a network can be fitted to: which inputs each side shows, how much each counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array, Ints
from mdcontest.preferences.comparisons import Comparisons, Segments

CROSS_PAIRS = 16
"""Cross pairs of two longer segments that the general model looks at; the others see the segments' means."""


STEPS = 8
"""Steps of a segment that one update looks at."""


class Side(NamedTuple):
    """One side of B comparisons: inputs [B, L, D], the weight of each step [B, L], and that of ⊥ [B, L]."""

    x: NDArray[np.float32]
    weight: NDArray[np.float32]
    ended: NDArray[np.float32]


@dataclass(frozen=True)
class Table:
    """All outcomes' inputs, and the two sides of every comparison as rows of it."""

    inputs: NDArray[np.float32]
    """Shape [N, D]."""
    first: Ints
    """Rows of every step, shape [n, L]; −1 is ⊥, −2 nothing."""
    second: Ints
    target: Array

    @classmethod
    def of_comparisons(cls, inputs: NDArray[np.float32], data: Comparisons, paired: bool, rng: Any) -> Table:
        """`paired`: step i of one side is compared with step i of the other only, so some cross pairs are drawn."""
        first, second = data.first.rows(), data.second.rows()
        if paired and max(first.shape[1], second.shape[1]) > 1:
            first, second = (_drawn(side, rng) for side in (data.first, data.second))
        return cls(inputs, first, second, data.target)

    def __len__(self) -> int:
        return len(self.first)

    def side(self, rows: Ints) -> Side:
        """The side of some comparisons: their inputs, every step with the weight 1/steps."""
        steps = (rows > -2).sum(axis=-1, keepdims=True)
        weight = ((rows >= 0) / steps).astype(np.float32)
        ended = ((rows == -1) / steps).astype(np.float32)
        return Side(self.inputs[np.maximum(rows, 0)], weight, ended)

    def batch(self, which: Ints, rng: np.random.Generator) -> tuple[Side, Side, NDArray[np.float32]]:
        """Both sides and the targets of some comparisons; of longer segments a few steps, drawn anew every time."""
        one, other = (_thinned(side[which], rng) for side in (self.first, self.second))
        return self.side(one), self.side(other), self.target[which].astype(np.float32)


def _thinned(rows: Ints, rng: np.random.Generator) -> Ints:
    """At most STEPS of each segment's steps [..., L], drawn with replacement: their mean is that of all on average."""
    if rows.shape[-1] <= STEPS:
        return rows
    steps = (rows > -2).sum(axis=-1, keepdims=True)
    return np.take_along_axis(rows, rng.integers(0, steps, (*rows.shape[:-1], STEPS)), axis=-1)


def _drawn(side: Segments, rng: np.random.Generator) -> Ints:
    """CROSS_PAIRS steps of each segment, uniformly: with those of the other side an unbiased sample of cross pairs."""
    step = rng.integers(0, side.steps[:, None], (len(side), CROSS_PAIRS))
    return np.where(step < side.length[:, None], side.start[:, None] + step, -1)
