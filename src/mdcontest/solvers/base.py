"""What a solver is, and the one way in which every solver's answer is certified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array
from mdcontest.contest import Contest
from mdcontest.occupancy import occupancy
from mdcontest.solution import Certificate, History, Status
from mdcontest.values import optimal_average_reward


@dataclass(frozen=True)
class Progress:
    """A sign of life from a long solve."""

    iteration: int
    of: int | None = None
    """The iteration limit, where there is one."""
    gap: float | None = None
    """The newest gap, in the units of the margin."""


Report = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Proposal:
    """What a solver hands over: a rule, and how it got there. Its gap is certified by `certify`, not by it."""

    rule: Array
    status: Status = Status.INACCURATE
    """How the solve ended if the certified gap turns out above the tolerance."""
    history: History = field(default_factory=History)
    info: dict[str, Any] = field(default_factory=dict)


class Solver(Protocol):
    """A method with its settings. Implementations are frozen dataclasses, one a file."""

    name: ClassVar[str]

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        """A rule whose optimality gap is at most `gap` (absolute), or the best within the settings' limits."""


def certify(contest: Contest, rule: Array, actions: NDArray[np.intp] | None = None) -> Certificate:
    """(x, h, κ) for a rule: h are the relative values of a best response to it, κ = −max_sa[c + P h − h]."""
    x = occupancy(contest, rule)
    best = optimal_average_reward(contest, contest.margin.apply(x), actions)
    return Certificate(x, best.h, -best.excess)
