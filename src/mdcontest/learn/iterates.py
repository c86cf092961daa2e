"""Stored iterates and the policies made of them.

Hedge does not converge in its last iterate, its average does; and the average is of occupancies, not of decision rules.
A mixture draws one iterate at the start of each episode. Drawn uniformly, long episodes would count for more; with
probability inversely proportional to an iterate's mean episode length, the share of steps each gets is the same, and
the mixture's occupancy is the average (1/K) Σ_k x^{π_k}.
"""

from __future__ import annotations

import copy

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array
from mdcontest.learn.networks import Params
from mdcontest.learn.policy import Moments, Policy, Unchanged
from mdcontest.learn.rows import Rows

FILE = "iterates.f32"
UNKNOWN = 0.0
"""Stands for the mean episode length of an iterate that saw no episode end."""


class Iterates:
    """π_1 … π_K on disk: weights, observation statistics and mean episode length, one row each."""

    def __init__(self, actor: Params, moments: Moments, rows: Rows | None = None) -> None:
        self._shapes = {name: np.shape(value) for name, value in sorted(actor.items())}
        self._size, self._moments_kind = len(moments.mean), type(moments)
        width = sum(int(np.prod(shape)) for shape in self._shapes.values()) + 4 * self._size + 1
        self.rows = rows if rows is not None else Rows(width)

    def __len__(self) -> int:
        return self.rows.count

    def append(self, actor: Params, moments: Moments, episode_lengths: list[int]) -> None:
        """Store the iterate that has just been sampled from, with the episodes that ended meanwhile."""
        weights = [np.ravel(np.asarray(actor[name])) for name in self._shapes]
        mean_length = float(np.mean(episode_lengths)) if episode_lengths else UNKNOWN
        statistics = [*_split(moments.mean), *_split(moments.variance)]
        self.rows.append(np.concatenate([*weights, *statistics, [mean_length]]))

    def policy(self, index: int) -> Policy:
        """Iterate number `index`, from 0, ready to act."""
        row, actor, first = self.rows.read(index, index + 1)[0], {}, 0
        for name, shape in self._shapes.items():
            actor[name] = row[first : first + int(np.prod(shape))].reshape(shape)
            first += int(np.prod(shape))
        if self._moments_kind is Unchanged:
            return Policy(actor, Unchanged(self._size))
        parts = row[first:-1].astype(float).reshape(4, self._size)
        return Policy(actor, Moments.of(parts[0] + parts[1], parts[2] + parts[3]))

    def head(self, count: int) -> Iterates:
        """π_1 … π_count only, as they were stored then."""
        part = copy.copy(self)
        part.rows = self.rows.head(count)
        return part

    def mean_lengths(self) -> Array:
        """Mean episode length of each iterate, shape [K].

        Where no episode ended while an iterate was sampled, the length known last stands in, or the first one known
        after it; where none ever ended, all count the same.
        """
        step = max(1, (1 << 22) // self.rows.width)
        blocks = [self.rows.read(i, min(i + step, len(self)))[:, -1] for i in range(0, len(self), step)]
        return _filled(np.concatenate(blocks).astype(float))

    def draw_probabilities(self) -> Array:
        """With what probability an episode plays each iterate, shape [K]."""
        weights = 1.0 / self.mean_lengths()
        return weights / weights.sum()


class Mixture:
    """The returned policy made of iterates: draws one an episode, and keeps recently used ones in memory."""

    KEPT = 64

    def __init__(self, iterates: Iterates) -> None:
        self.iterates, self._probabilities = iterates, np.zeros(0)
        self._loaded: dict[int, Policy] = {}

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        """Which iterates the next episodes play, shape [size]."""
        if len(self._probabilities) != len(self.iterates):
            self._probabilities = self.iterates.draw_probabilities()
        return rng.choice(len(self.iterates), size=size, p=self._probabilities)

    def policy(self, index: int) -> Policy:
        """The iterate, from memory where it was used not long ago."""
        if index not in self._loaded:
            if len(self._loaded) >= self.KEPT:
                self._loaded.pop(next(iter(self._loaded)))
            self._loaded[index] = self.iterates.policy(index)
        return self._loaded[index]

    def __repr__(self) -> str:
        return f"Mixture({len(self.iterates)} iterates)"


def _split(values: Array) -> list[NDArray[np.float32]]:
    """float64 as the sum of two float32, so that large means with small deviations keep their digits."""
    largest = float(np.finfo(np.float32).max)  # variances of observations around 1e20 would be infinite
    kept = np.clip(values, -largest, largest)
    high = kept.astype(np.float32)
    return [high, (kept - high).astype(np.float32)]


def _filled(lengths: Array) -> Array:
    """Unknown lengths replaced by the nearest known one before, else after."""
    known = np.flatnonzero(lengths != UNKNOWN)
    if not len(known):
        return np.ones_like(lengths)
    before = np.searchsorted(known, np.arange(len(lengths)), side="right") - 1
    return lengths[known[np.maximum(before, 0)]]
