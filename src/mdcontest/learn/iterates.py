"""Stored iterates and the policies made of them.

Hedge does not converge in its last iterate, its average does; and the average is of occupancies, not of decision rules.
A mixture draws one iterate at the start of each episode. Drawn uniformly, long episodes would count for more; with
probability inversely proportional to an iterate's mean episode length, the share of steps each gets is the same, and
the mixture's occupancy is the average (1/K) Σ_k x^{π_k}.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array
from mdcontest.learn.networks import Params
from mdcontest.learn.policy import Moments, Policy, Unchanged
from mdcontest.learn.rows import Rows

FILE = "iterates.f32"


class Iterates:
    """π_1 … π_K on disk: weights, observation statistics and mean episode length, one row each."""

    def __init__(self, actor: Params, moments: Moments, rows: Rows | None = None) -> None:
        self._shapes = {name: np.shape(value) for name, value in sorted(actor.items())}
        self._size, self._moments_kind = len(moments.mean), type(moments)
        width = sum(int(np.prod(shape)) for shape in self._shapes.values()) + 2 * self._size + 1
        self.rows = rows if rows is not None else Rows(width)

    def __len__(self) -> int:
        return self.rows.count

    def append(self, actor: Params, moments: Moments, mean_length: float) -> None:
        """Store the iterate that has just been sampled from."""
        weights = [np.ravel(np.asarray(actor[name])) for name in self._shapes]
        self.rows.append(np.concatenate([*weights, moments.mean, moments.variance, [mean_length]]))

    def policy(self, index: int) -> Policy:
        """Iterate number `index`, from 0, ready to act."""
        row, actor, first = self.rows.read(index, index + 1)[0], {}, 0
        for name, shape in self._shapes.items():
            actor[name] = row[first : first + int(np.prod(shape))].reshape(shape)
            first += int(np.prod(shape))
        mean, variance = row[first : first + self._size], row[first + self._size : first + 2 * self._size]
        if self._moments_kind is Unchanged:
            return Policy(actor, Unchanged(self._size))
        return Policy(actor, Moments.of(mean.astype(float), variance.astype(float)))

    def mean_lengths(self) -> Array:
        """Mean episode length of each iterate, shape [K]."""
        step = max(1, (1 << 22) // self.rows.width)
        blocks = [self.rows.read(i, min(i + step, len(self)))[:, -1] for i in range(0, len(self), step)]
        return np.concatenate(blocks).astype(float)

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


class EpisodeLengths:
    """Mean episode length of an iterate, from the episodes that ended while it was sampled."""

    def __init__(self) -> None:
        self.last = 1.0

    def of(self, lengths: list[int], running: NDArray[Any]) -> float:
        """The mean of those lengths; if none ended, the last estimate or the running episodes, whichever is longer."""
        self.last = float(np.mean(lengths)) if lengths else max(self.last, float(np.max(running)))
        return self.last
