"""Best responses and occupancies for policy generation: by sweeps where every step can restart, else exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from mdcontest.arrays import Array, Ints
from mdcontest.chain import Chain
from mdcontest.contest import Contest
from mdcontest.occupancy import require_unichain
from mdcontest.regenerative import Regenerative
from mdcontest.values import one_hot, optimal_average_reward


@dataclass
class Found:
    """A policy that answers a reward well, and the values that bound all answers."""

    actions: Ints
    h: Array
    high: float
    """No policy earns more."""
    low: float
    """This one earns at least so much."""
    nu: Array = field(default_factory=lambda: np.zeros(0))
    """Frequencies of states, shape [S], once they are known."""
    error: float = 0.0
    """A bound on ‖ν − ν*‖₁."""
    rough: float = 0.0
    """What that probably is."""

    def add_to(self, x: Array, weight: float) -> None:
        """x += weight·x_π, shape [S, A]."""
        from mdcontest import sweeps

        sweeps.add_policy(x, weight, self.nu, self.actions)

    def earns(self, c: Array) -> float:
        """Σ x_π c."""
        from mdcontest import sweeps

        return float(sweeps.earned(self.nu, self.actions, c))


class Responder(Protocol):
    """Best responses in one contest, each search starting from the last."""

    def respond(self, reward: Array, goal: float, exact: bool = False) -> Found:
        """As `Regenerative.respond`; frequencies are not known yet."""

    def settle(self, found: Found, error: float) -> None:
        """Find the frequencies of a policy with roughly this error in ‖·‖₁, and store it small."""

    def refine(self, found: Found, error: float) -> bool:
        """Bring the error of a policy's frequencies to this; False where rounding stands in the way."""

    def info(self) -> dict[str, Any]:
        """Numbers for the solution's record."""


def make_responder(contest: Contest) -> Responder:
    """By sweeps on sparse transitions with a restart on every pair, else by factoring chains."""
    return BySweeps(contest) if Regenerative.serves(contest.dynamics) else ByFactors(contest)


class BySweeps:
    """For sparse transitions in which every pair restarts with some probability."""

    def __init__(self, contest: Contest) -> None:
        self.world = Regenerative(contest.dynamics)
        self.h: Array | None = None
        self.actions: Ints | None = None
        self.sweeps = 0

    def respond(self, reward: Array, goal: float, exact: bool = False) -> Found:
        answer = self.world.respond(reward, goal, self.h, self.actions, exact)
        self.h, self.actions = answer.h, answer.actions
        self.sweeps += answer.sweeps
        return Found(answer.actions, answer.h, answer.high, answer.low)

    def settle(self, found: Found, error: float) -> None:
        self._sweep(found, error, rough=True)
        if self.world.num_actions <= 256:
            found.actions = found.actions.astype(np.uint8)
        found.h = np.zeros(0)  # only those of the best mixture are kept

    def refine(self, found: Found, error: float) -> bool:
        before = found.error
        self._sweep(found, error, rough=False)
        return found.error < 0.5 * before

    def _sweep(self, found: Found, error: float, rough: bool) -> None:
        found.nu, found.error = self.world.chain(found.actions).frequencies(
            error, found.nu if len(found.nu) else None, rough
        )
        found.rough = min(error, found.error) if rough else found.error

    def info(self) -> dict[str, Any]:
        return {"sweeps": self.sweeps, "values": self.world.method}


class ByFactors:
    """For all other transitions: one factorisation a policy."""

    def __init__(self, contest: Contest) -> None:
        self.contest = contest
        self.actions: Any = None

    def respond(self, reward: Array, goal: float, exact: bool = False) -> Found:
        best = optimal_average_reward(self.contest, reward, self.actions)
        self.actions = best.actions
        return Found(best.actions, best.h, best.excess, best.gain)

    def settle(self, found: Found, error: float) -> None:
        chain = Chain(self.contest.dynamics, one_hot(found.actions, self.contest.num_actions))
        found.nu = require_unichain(self.contest, chain).frequencies

    def refine(self, found: Found, error: float) -> bool:
        return False

    def info(self) -> dict[str, Any]:
        return {"values": "policy iteration"}
