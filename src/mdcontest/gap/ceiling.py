"""From above: a policy's gap is at most sup_z c(z), because no average exceeds the largest term.

The supremum runs over every value the features can take, reached or not. Over the samples' error it is uniform: the
interval's end is above sup c with the stated confidence whichever feature value the supremum is at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.gap.averages import interval, step_average, unseen
from mdcontest.gap.bracket import Measured
from mdcontest.learn.play import Trajectories
from mdcontest.margins import Margin, RewardDifference
from mdcontest.tasks import Task

RESAMPLES = 1000
ROUNDING = 1e-9
"""Errors up to this share of the largest margin are none."""
GRID = 256
"""Feature values at which the samples' error is looked at."""


def ceiling(task: Task, theirs: Trajectories, confidence: float, rng: np.random.Generator) -> tuple[Any, str]:
    """sup c with its interval, and ""; or None, and why there is none."""
    margin: Any = task.margin
    if isinstance(margin, RewardDifference):
        return _reward_ceiling(task, margin, theirs, confidence)
    rows = margin.rows(theirs.outcomes)
    parts = [(part, own, part.extremes(own)) for part, own in margin.parts(rows)]
    if any(candidates is None for _, _, candidates in parts):
        kind = type(margin).__name__
        return (
            None,
            f"nothing is known: the values of a {kind} margin have no known limit, so a step could win anything",
        )
    lengths = theirs.lengths
    weights = rng.multinomial(len(lengths), np.full(len(lengths), 1 / len(lengths)), size=RESAMPLES).astype(float)
    value, limit, below, above = 0.0, 0.0, np.zeros(RESAMPLES), np.zeros(RESAMPLES)
    for part, own, candidates in parts:
        uniform = np.full(len(own), 1 / len(own))
        values = part.kernel_against(candidates, own, uniform)
        bound = part.rows_bound(candidates)
        value, limit = value + float(values.max()), limit + bound
        errors = _errors(part, own, candidates[_grid(values)], theirs, weights)
        above += errors.max(axis=1)
        below += (-errors).max(axis=1)
        if np.abs(errors).max() <= ROUNDING * bound:  # all alike, which does not prove that there are no others
            above += 2 * bound * unseen(len(lengths), confidence)
    tail = (1 + confidence) / 2
    high = min(value + float(np.quantile(above, tail)), max(limit, value))
    return Measured(value, value - float(np.quantile(below, tail)), high), ""


def _reward_ceiling(task: Task, margin: Margin, theirs: Trajectories, confidence: float) -> tuple[Any, str]:
    if task.largest_reward is None:
        return None, "nothing is known: the task declares no largest reward (Task(largest_reward=…))"
    rewards = margin.rows(theirs.outcomes)
    if rewards.max() > task.largest_reward + ROUNDING * max(1.0, abs(task.largest_reward)):
        raise InputError(
            f"{task.name} declares a largest reward of {task.largest_reward:g}, and a step was worth "
            f"{rewards.max():g}: no bound follows from it; correct Task(largest_reward=…) or leave it out"
        )
    average, variance = step_average(theirs, rewards)
    spread = float(max(np.abs(task.largest_reward - rewards).max(), np.abs(rewards).max()))
    found = interval(task.largest_reward - average, [(variance, len(theirs.lengths) - 1)], confidence, spread)
    return found, ""


def _grid(values: Array) -> Any:
    """Up to GRID of the candidates, in order, with the best among them."""
    if len(values) <= GRID:
        return np.arange(len(values))
    return np.unique(np.append(np.linspace(0, len(values) - 1, GRID).astype(int), values.argmax()))


def _errors(part: Margin, own: Any, grid: Any, theirs: Trajectories, weights: Array) -> Array:
    """ĉ(f) − ĉ*(f) on the grid for every bootstrap sample of episodes, shape [resamples, grid]."""
    sums = np.stack([theirs.sums(part.kernel(grid[j : j + 1], own)[0]) for j in range(len(grid))], axis=1)
    estimate = sums.sum(axis=0) / theirs.lengths.sum()
    return estimate - (weights @ sums) / (weights @ theirs.lengths)[:, None]
