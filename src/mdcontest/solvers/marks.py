"""When an iterative solver measures how far it has come, and what it found: the history of a solution.

A certified gap costs a best response, often as much as many iterations, so it is measured at iterations that grow by a
factor.
"""

from __future__ import annotations

import time

import numpy as np

from mdcontest.arrays import Array, Ints
from mdcontest.contest import Contest
from mdcontest.solution import History
from mdcontest.solvers.certifying import excess
from mdcontest.values import optimal_average_reward

GROWTH = 1.05
"""Gaps are measured at iterations that grow by this factor."""


class Marks:
    """Certified gaps against iterations and seconds since the marks were made."""

    def __init__(self, growth: float = GROWTH) -> None:
        self.growth = growth
        self.iterations: list[int] = []
        self.gaps: list[float] = []
        self.seconds: list[float] = []
        self._began = time.perf_counter()
        self._next = 1

    @property
    def newest(self) -> float | None:
        """The gap recorded last."""
        return self.gaps[-1] if self.gaps else None

    def due(self, k: int, last: int) -> bool:
        """Whether iteration k, of at most `last`, is one at which to measure."""
        return k >= self._next or k == last

    def record(self, k: int, gap: float) -> float:
        """Keep the gap of the policy that would be returned after k iterations, and give it back."""
        self._next = max(k + 1, int(k * self.growth))
        self.iterations.append(k)
        self.gaps.append(gap)
        self.seconds.append(time.perf_counter() - self._began)
        return gap

    def history(self) -> History:
        """All that was recorded."""
        return History(np.array(self.iterations, np.int64), np.array(self.gaps), np.array(self.seconds))


class GapMarks(Marks):
    """Gaps of occupancies, each best response starting from the last one of its kind."""

    def __init__(self, contest: Contest) -> None:
        super().__init__()
        self.contest = contest
        self.best = ""
        """The name of the occupancy that had the least gap when they were measured last."""
        self._actions: dict[str, Ints] = {}

    def measure(self, k: int, occupancies: dict[str, Array]) -> float:
        """The least optimality gap among the policies with these occupancies: a bound, but for the rounding of M x."""
        found = {name: self._gap(name, x) for name, x in occupancies.items()}
        self.best = min(found, key=lambda name: found[name])
        return self.record(k, found[self.best])

    def _gap(self, name: str, x: Array) -> float:
        c = self.contest.margin.apply(x)
        best = optimal_average_reward(self.contest, c, self._actions.get(name))
        self._actions[name] = best.actions
        return max(0.0, excess(self.contest, c, best.h))
