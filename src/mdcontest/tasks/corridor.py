"""Two small tasks without MuJoCo: a corridor of three rooms, rock, paper and scissors, that one has to walk along.

RPSCorridor is discrete and *is* a finite contest: one starts in the rock room, walks left, stays or walks right, a walk
slips to staying with probability 0.1, and an episode ends with probability 0.1 after each step. That end is the
restart of the contest, so `task.contest()` is its exact model. RPSContinuous is the same idea on an interval with a
floor between the rooms that loses to all three.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mdcontest.arrays import Array, Ints
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.examples import ROCK_PAPER_SCISSORS
from mdcontest.margins import Classes
from mdcontest.outcomes import Outcomes
from mdcontest.tasks.checks import require_probability
from mdcontest.tasks.task import FiniteModel, Task

ROOMS, MOVES = ("rock", "paper", "scissors"), ("left", "stay", "right")
COLOURS = np.array([[86, 86, 86], [230, 159, 0], [86, 180, 233], [225, 225, 225]], np.uint8)
"""Rock, paper, scissors, floor."""
SMALL_STEPS = {
    "clip": 0.05,
    "eta": 0.1,
    "entropy": 0.05,
    "learning_rate": 1e-4,
    "anneal": False,
    "normalise_observations": False,
    "normalise_advantages": False,
}
"""With the paper's settings for MuJoCo a policy over three actions is certain of one of them after a few iterations and
stays there. Hedge converges on average when its steps are small, and as small as the advantages near a solution."""


class Corridor(gymnasium.Env[Any, Any], ABC):
    """What both corridors share: the clock that ends episodes, pictures, and saving the state of a running episode."""

    position: Any

    def __init__(self, end: float, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise InputError(f"the corridor is drawn as rgb_array only, not {render_mode}; film it with --video")
        self.end, self.render_mode = end, render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 20}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = self.start()
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.position = self.move(action)
        return self.observe(), 0.0, bool(self.np_random.random() < self.end), False, {}

    def save_state(self) -> dict[str, Any]:
        """What `load_state` needs to go on from here; the random generator is saved for every environment."""
        return {"position": self.position}

    def load_state(self, state: dict[str, Any]) -> None:
        self.position = state["position"]

    @abstractmethod
    def start(self) -> Any:
        """Where an episode begins."""

    @abstractmethod
    def move(self, action: Any) -> Any:
        """Where one is after an action."""

    @abstractmethod
    def observe(self) -> Any:
        """What the environment returns as observation."""

    @abstractmethod
    def floor_plan(self) -> Ints:
        """The classes of equal stretches of the corridor, for pictures."""

    @abstractmethod
    def place(self) -> float:
        """Where the walker is, from 0 to 1."""

    def render(self) -> NDArray[np.uint8]:
        """The corridor from above, shape [60, 420, 3], the walker a red square."""
        cells = self.floor_plan()
        picture = np.repeat(np.repeat(COLOURS[cells][None], 60, axis=0), 420 // len(cells), axis=1)
        centre = int(self.place() * picture.shape[1])
        picture[20:40, max(centre - 10, 0) : centre + 10] = (213, 94, 0)
        return picture


# --- discrete ---------------------------------------------------------------------------------------------


def corridor_contest(slip: float = 0.1, end: float = 0.1) -> Contest:
    """The three rooms as a finite contest; `end` is the probability of starting anew after a step."""
    require_probability(slip, "slip")
    require_probability(end, "end")
    P = np.zeros((3, 3, 3))
    for s in range(3):
        for a, move in enumerate((-1, 0, 1)):
            P[s, a, min(max(s + move, 0), 2)] += 1 - slip
            P[s, a, s] += slip
    margin = Classes(np.repeat([0, 1, 2], 3), ROCK_PAPER_SCISSORS)
    start = np.array([1.0, 0.0, 0.0])
    contest = Contest(P, start, margin, name="three rooms", state_names=list(ROOMS), action_names=list(MOVES))
    return contest.with_restart(end) if end else contest


class DiscreteCorridor(Corridor):
    """Rooms 0, 1, 2; actions left, stay, right."""

    def __init__(self, slip: float = 0.1, end: float = 0.1, render_mode: str | None = None) -> None:
        super().__init__(end, render_mode)
        self.slip = slip
        self.observation_space = spaces.Discrete(len(ROOMS))
        self.action_space = spaces.Discrete(len(MOVES))

    def start(self) -> int:
        return 0

    def move(self, action: Any) -> int:
        slipped = self.np_random.random() < self.slip
        return int(self.position) if slipped else min(max(int(self.position) + int(action) - 1, 0), 2)

    def observe(self) -> int:
        return int(self.position)

    def floor_plan(self) -> Ints:
        return np.arange(3)

    def place(self) -> float:
        return (self.position + 0.5) / 3


def _room(z: Outcomes) -> Any:
    return z.obs


def _model(slip: float, end: float) -> FiniteModel:
    return FiniteModel(corridor_contest(slip, end), np.eye(3))


def rps_corridor(slip: float = 0.1, end: float = 0.1) -> Task:
    """The discrete task; `task.contest()` is its exact model."""
    corridor_contest(slip, end)  # refuses what is no probability
    return Task(
        functools.partial(DiscreteCorridor, slip, end),
        Classes(_room, ROCK_PAPER_SCISSORS),
        name="RPSCorridor",
        model=functools.partial(_model, slip, end),
        recommended=SMALL_STEPS,
        class_names=ROOMS,
    )


# --- continuous -------------------------------------------------------------------------------------------

FLOOR_LOSES = np.array([[0.0, -1, 1, 1], [1, 0, -1, 1], [-1, 1, 0, 1], [-1, -1, -1, 0]])
"""Rock, paper, scissors and the floor between them."""


class ContinuousCorridor(Corridor):
    """The interval [−1, 1]: one walks at most STEP a step, with a little noise."""

    STEP, NOISE = 0.2, 0.02

    def __init__(self, end: float = 0.05, render_mode: str | None = None) -> None:
        super().__init__(end, render_mode)
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float64)

    def start(self) -> float:
        return float(self.np_random.uniform(-1.0, 1.0))

    def move(self, action: Any) -> float:
        velocity = float(np.clip(np.asarray(action).reshape(-1)[0], -1.0, 1.0))
        drift = self.NOISE * float(self.np_random.standard_normal())
        return float(np.clip(self.position + self.STEP * velocity + drift, -1.0, 1.0))

    def observe(self) -> Array:
        return np.array([self.position])

    def floor_plan(self) -> Ints:
        return class_of_place(np.linspace(-1, 1, 42))

    def place(self) -> float:
        return (self.position + 1) / 2


def class_of_place(x: Array) -> Ints:
    """Rock left of −0.6, paper within 0.2 of the middle, scissors right of 0.6, floor between (0 … 3)."""
    return np.select([x <= -0.6, np.abs(x) <= 0.2, x >= 0.6], [0, 1, 2], default=3)


def _class_of_position(z: Outcomes) -> Ints:
    return class_of_place(z.obs[:, 0])


def rps_continuous(end: float = 0.05) -> Task:
    """The continuous task."""
    require_probability(end, "end")
    margin = Classes(_class_of_position, FLOOR_LOSES)
    return Task(functools.partial(ContinuousCorridor, end), margin, name="RPSContinuous", class_names=(*ROOMS, "floor"))
