"""From margins to the number a critic learns from: averages over a comparison horizon, and one scale for all tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from mdcontest.arrays import Array, Ints
from mdcontest.settings import WHOLE


def comparison_windows(episode_step: Ints, starts: NDArray[np.bool_], horizon: int, across: bool) -> Ints:
    """The window each step's cumulant is averaged over, numbered through the batch; all arrays [T, N].

    Within episodes a window is T_C steps counted from the episode's start, or the whole episode for WHOLE; one that the
    rollout cuts is averaged over the part inside it. Across episodes windows are T_C steps of the rollout.
    """
    steps, envs = episode_step.shape
    rows = np.arange(steps)[:, None]
    if across:
        opens = np.broadcast_to(rows == 0 if horizon == WHOLE else rows % horizon == 0, (steps, envs))
    else:
        opens = (rows == 0) | starts
        if horizon != WHOLE:
            opens = opens | (episode_step % horizon == 0)
    number = np.cumsum(opens, axis=0) - 1
    return number + np.concatenate([[0], np.cumsum(number[-1] + 1)[:-1]])


def averaged_over(windows: Ints, cumulant: Array) -> Array:
    """Each entry replaced by the mean of its window; both [T, N]."""
    flat = windows.reshape(-1)
    means = np.bincount(flat, cumulant.reshape(-1)) / np.bincount(flat)
    return means[flat].reshape(cumulant.shape)


class CumulantScale:
    """Divides cumulants by the running deviation of their discounted sum, as reward normalisers do.

    No mean is subtracted: that would change what is preferred once episodes end. The deviation at a step uses all steps
    up to it, so a value never depends on later ones.
    """

    LIMIT = 10.0
    FLOOR = 1e-4
    """About the least deviation that is divided by, √1e-8: cumulants that vary less stay small."""
    TOO_SMALL = FLOOR / 10
    """Deviations below which less is learned; above it the normalised advantages make up for what the floor leaves."""
    ROUNDING = 1e-12
    """Deviations up to this are taken for rounding errors of cumulants that are all alike."""

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.gamma = gamma
        self.count, self.mean, self.square = 0.0, 0.0, 0.0
        """Steps seen, mean of the discounted sums, and the sum of squared differences from it."""
        self.running = np.zeros(num_envs)
        """The discounted sum of each environment's episode so far."""
        self.is_too_large = False
        """Whether the squares of the last cumulants were beyond all numbers: what is scaled by them means nothing."""

    @np.errstate(over="ignore", invalid="ignore")  # is_too_large says it
    def scale(self, cumulant: Array, ended: NDArray[np.bool_]) -> Array:
        """Scaled and clipped cumulants, shape [T, N]; remembers where it stopped."""
        sums = self._discounted_sums(cumulant, ended)
        steps, envs = sums.shape
        # Running moments at every step, relative to a fixed level so that squares lose no digits.
        level = self.mean if self.count else float(sums[0].mean())
        seen = self.count + envs * np.arange(1, steps + 1)
        first = np.cumsum((sums - level).sum(axis=1))
        second = self.square + np.cumsum(((sums - level) ** 2).sum(axis=1))
        self.is_too_large = not np.isfinite(first**2 + second).all()
        squares = np.maximum(second - first**2 / seen, 0.0)
        deviation = np.sqrt(squares / seen + 1e-8)
        self.count, self.mean, self.square = float(seen[-1]), level + first[-1] / seen[-1], float(squares[-1])
        return np.clip(cumulant / deviation[:, None], -self.LIMIT, self.LIMIT)

    def _discounted_sums(self, cumulant: Array, ended: NDArray[np.bool_]) -> Array:
        """G_t = γ G_{t−1} + c_t, from zero at the start of an episode."""
        sums = np.empty_like(cumulant)
        for env in range(cumulant.shape[1]):
            before, first = self.running[env], 0
            for stop in [*(np.flatnonzero(ended[:, env]) + 1), len(cumulant)]:
                part = cumulant[first:stop, env]
                if len(part):
                    sums[first:stop, env], _ = lfilter([1.0], [1.0, -self.gamma], part, zi=[self.gamma * before])
                    before = sums[stop - 1, env]
                if stop > first and ended[stop - 1, env]:
                    before = 0.0
                first = stop
            self.running[env] = before
        return sums

    @property
    def deviation(self) -> float:
        """Of all discounted sums so far."""
        return float(np.sqrt(self.square / self.count)) if self.count else 0.0

    @property
    def is_too_small(self) -> bool:
        """Whether cumulants differ, but by so little that the least deviation keeps them from being learned from."""
        return self.ROUNDING < self.deviation < self.TOO_SMALL

    def begin_episodes(self) -> None:
        """Every environment starts anew; what is known of the deviation stays."""
        self.running[:] = 0.0

    def record(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"count": self.count, "mean": self.mean, "square": self.square, "running": self.running.tolist()}

    def restore(self, record: dict[str, Any]) -> None:
        self.count, self.mean, self.square = record["count"], record["mean"], record["square"]
        self.running = np.array(record["running"], float)
