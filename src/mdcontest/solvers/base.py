"""What a solver is, and the one way in which every solver's answer is certified.

For a rule d with occupancy x^d, any x and any h,

    gap(d) ≤ max_sa[c + P h − h] + bound·‖x^d − x‖₁,     c = M x,

because c + P h − h bounds what any policy earns against x, and M x^d differs from M x by at most bound·‖x^d − x‖₁.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array, is_whole
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.occupancy import occupancy_within
from mdcontest.solution import Certificate, History, Status
from mdcontest.values import optimal_average_reward


@dataclass(frozen=True)
class Progress:
    """A sign of life from a long solve."""

    iteration: int
    of: int | None = None
    """The iteration limit, where there is one."""
    gap: float | None = None
    """The newest certified gap, in the units of the margin."""
    seconds: float = 0.0
    """Time since the solve began; filled in by `solve`."""
    left: float | None = None
    """Estimated seconds until the gap is small enough, from how it has fallen so far; filled in by `solve`."""


Report = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Report nothing."""


class OutOfTime(Exception):  # noqa: N818 (nothing went wrong)
    """Raised by `report` once the time limit has passed; solvers treat it like Ctrl-C."""


STOPPED = (KeyboardInterrupt, OutOfTime)
"""What `report` may raise to end a solve early: the solver hands over the best it has."""


def status_when_stopped(reason: BaseException) -> Status:
    """The status of a solution that was cut short."""
    return Status.TIME_LIMIT if isinstance(reason, OutOfTime) else Status.INTERRUPTED


@dataclass(frozen=True)
class Proposal:
    """What a solver hands over: a rule, and how it got there. Its gap is certified by `certify`, not by it."""

    rule: Array
    status: Status = Status.INACCURATE
    """How the solve ended if the certified gap turns out above the tolerance."""
    history: History = field(default_factory=History)
    info: dict[str, Any] = field(default_factory=dict)
    x: Array | None = None
    """The rule's occupancy up to a small flow residual, shape [S, A], where the solver has it; else it is solved."""
    h: Array | None = None
    """Values that bound every reply to x, shape [S], where the solver has them; else a best response is computed."""


class Solver(Protocol):
    """A method with its settings. Implementations are frozen dataclasses, one a file."""

    name: ClassVar[str]

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        """A rule whose optimality gap is at most `gap` (absolute), or the best within the settings' limits.

        `report` may raise one of `STOPPED`; the best so far is then the answer, and if there is none yet the
        exception goes on.
        """


def require_iterations(iterations: int) -> int:
    """The iteration limit, or an error."""
    return require_count(iterations, "iterations")


def require_count(value: int, name: str) -> int:
    """A whole number of something, at least one, or an error."""
    if not (is_whole(value) and value >= 1):
        raise InputError(f"{name} must be a whole number, at least 1, got {value!r}")
    return int(value)


def require_choice(value: str, name: str, choices: tuple[str, ...]) -> None:
    """One of these texts, or an error."""
    if not (isinstance(value, str) and value in choices):
        *others, last = map(repr, choices)
        raise InputError(f"{name} must be {', '.join(others)} or {last}, got {value!r}")


def certify(contest: Contest, rule: Array, actions: NDArray[np.intp] | None = None) -> Certificate:
    """(x, h, κ) for a rule: h are the relative values of a best response to it, κ = −max_sa[c + P h − h]."""
    x, _ = occupancy_within(contest, rule)
    best = optimal_average_reward(contest, contest.margin.apply(x), actions)
    return Certificate(x, best.h, -best.excess)
