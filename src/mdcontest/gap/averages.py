"""Averages a step over whole episodes, with intervals.

An environment that starts anew when an episode ends spends, in the long run, E[Σ c]/E[length] a step (renewal reward).
Its estimate is the ratio of two sums over episodes, which are independent of each other though their steps are not, so
the error is that of a ratio estimator: residuals e_i = (S_i − ρ L_i)/mean(L) of E episodes.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import t as student

from mdcontest.arrays import Array
from mdcontest.gap.bracket import Measured
from mdcontest.learn.play import Trajectories
from mdcontest.margins import Margin


def step_average(trajectories: Trajectories, values: Array) -> tuple[float, float]:
    """The average of values [B] a step, and the variance of that estimate."""
    sums, lengths = trajectories.sums(values), trajectories.lengths
    average = float(sums.sum() / lengths.sum())
    residuals = (sums - average * lengths) / lengths.mean()
    count = len(lengths)
    return average, float((residuals**2).sum() / max(count - 1, 1) / count) if count > 1 else np.inf


def average_margin(margin: Margin, ours: Trajectories, theirs: Trajectories, confidence: float) -> Measured:
    """M̄(π', π) from episodes of both, with an interval for the error of both samples."""
    wins, losses = margin.against(ours.outcomes, theirs.outcomes), margin.against(theirs.outcomes, ours.outcomes)
    value, variance = step_average(ours, wins)
    _, variance_theirs = step_average(theirs, losses)
    parts = [(variance, len(ours.lengths) - 1), (variance_theirs, len(theirs.lengths) - 1)]
    return interval(value, parts, confidence, spread=2 * float(max(np.abs(wins).max(), np.abs(losses).max())))


def interval(value: float, parts: list[tuple[float, int]], confidence: float, spread: float) -> Measured:
    """Student's interval for a sum of independent errors, each a variance and its degrees of freedom (Welch).

    A sample whose episodes are all alike does not prove that no other kind exists; see `unseen`.
    """
    total = sum(variance for variance, _ in parts)
    if not np.isfinite(total):
        return Measured(value, -np.inf, np.inf)
    alike = (1e-9 * spread) ** 2
    reach = sum(spread * unseen(count + 1, confidence) for variance, count in parts if variance <= alike)
    if total > 0:
        freedom = total**2 / sum(variance**2 / max(count, 1) for variance, count in parts)
        reach += float(student.ppf((1 + confidence) / 2, freedom)) * float(np.sqrt(total))
    return Measured(value, value - reach, value + reach)


def unseen(episodes: int, confidence: float) -> float:
    """How frequent a kind of episode may be that none of so many was: (1 − p)^E = α/2, the rule of three."""
    return min(1.0, math.log(2 / (1 - confidence)) / episodes)


def thinned(trajectories: Trajectories, most: int, rng: np.random.Generator) -> Trajectories:
    """Every so many steps of each episode from a random one on, so that about `most` are left; averages stay the same.

    Steps of one episode are alike, and margins that compare pair by pair could not afford them all.
    """
    every = -(-len(trajectories.outcomes) // most)
    if every <= 1:
        return trajectories
    offsets = rng.integers(every, size=len(trajectories.lengths))
    rows = [
        np.arange(start + offset, start + length, every)
        for start, length, offset in zip(trajectories.starts, trajectories.lengths, offsets, strict=True)
    ]
    counts = np.array([len(part) for part in rows])
    if not counts.any():
        return trajectories
    return Trajectories(trajectories.outcomes[np.concatenate(rows)], counts[counts > 0])
