"""`estimate_gap`: a bracket of a policy's optimality gap, from samples."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdcontest.arrays import is_number, is_whole
from mdcontest.errors import InputError
from mdcontest.gap.averages import average_margin, step_average, thinned
from mdcontest.gap.best_response import SETTINGS, can_continue_from, challenge, train_best_response
from mdcontest.gap.bracket import GapBracket
from mdcontest.gap.ceiling import ceiling
from mdcontest.learn.agent import Agent
from mdcontest.learn.margins import require_readable
from mdcontest.learn.past import PastPolicy
from mdcontest.learn.play import Player, Trajectories, sample_trajectories
from mdcontest.learn.policy import Policy
from mdcontest.learn.returned import ActingPolicy
from mdcontest.margins import Classes, LowRank, RewardDifference, Signs
from mdcontest.preferences.asked import AskedMargin
from mdcontest.preferences.learned import LearnedMargin
from mdcontest.settings import make_settings
from mdcontest.tasks import Task
from mdcontest.values import optimality_gap

FAST = (Classes, LearnedMargin, LowRank, RewardDifference, Signs)
"""Margins that compare a batch with many opponents without looking at every pair."""
MOST_FAST, MOST_PAIRS = 400_000, 4_000
"""Outcomes of each side in the final comparison, for those margins and for all others."""
TRAINING_FAST, TRAINING_PAIRS = 20_000, 2_000
"""Outcomes that a best response is trained against."""
VALIDATION = 10
"""Episodes on which the best of the trained responses is chosen."""


@dataclass(frozen=True)
class GapSettings:
    """How a gap is bracketed."""

    trajectories: int = 100
    """Episodes of the policy that a best response is trained against, more where they are short; as many fresh ones, at
    least, judge it."""
    steps: int = 200_000
    """Training steps of each best response."""
    restarts: int = 2
    """Best responses trained; the first from a new policy, the second from the policy's own last iterate, and so on."""
    evaluation_steps: int = 50_000
    """Steps that fresh episodes have at least; short episodes need more than `trajectories` of them."""
    confidence: float = 0.95
    """Of each interval."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the best responses, by name, where they should differ from the defaults."""

    def __post_init__(self) -> None:
        for name in ("trajectories", "steps", "restarts", "evaluation_steps"):
            value = getattr(self, name)
            if not (is_whole(value) and value >= 1):
                raise InputError(f"{name} must be a whole number, at least 1, got {value!r}")
            object.__setattr__(self, name, int(value))  # NumPy's whole numbers cannot be written to files
        if self.trajectories < 2:
            raise InputError("trajectories must be at least 2: one episode gives no idea of the error")
        if not (is_number(self.confidence) and 0 < self.confidence < 1):
            raise InputError(f"confidence must lie between 0 and 1, got {self.confidence!r}")
        object.__setattr__(self, "confidence", float(self.confidence))
        make_settings(self.settings)
        fixed = [name for name in self.settings if name in SETTINGS]
        if fixed:
            raise InputError(f"setting {fixed[0]} of a best response is {SETTINGS[fixed[0]]!r} and cannot be changed")


@dataclass
class _Samples:
    """Episodes of the policy, and a stream of seeds for more."""

    task: Task
    horizon: int | None
    seeds: np.random.Generator

    def play(self, player: Player, count: int, steps: int, deterministic: bool = False) -> Trajectories:
        seed = int(self.seeds.integers(2**31))
        return sample_trajectories(
            self.task, player, count, min_steps=steps, seed=seed, horizon=self.horizon, deterministic=deterministic
        )


def estimate_gap(
    task: Task, agent: Player, *, seed: int = 0, horizon: int | None = None, progress: bool = True, **how: Any
) -> GapBracket:
    """Bracket the optimality gap of a policy on a task: an Agent, or anything with its `predict`.

    From below, best responses are trained against fixed episodes of the policy, the best is chosen on others, and its
    average margin is measured on fresh ones of both. From above, no policy averages more than the best step could.
    `how` are the fields of GapSettings. The same seed gives the same answer, for a policy without `seed_predictions` if
    its own draws are the same.
    """
    if not isinstance(task, Task):
        raise InputError(f"task must be a Task, got {type(task).__name__}; tasks.make(name) makes a shipped one")
    if not callable(getattr(agent, "predict", None)):
        raise InputError(f"the policy must have a method predict, a {type(agent).__name__} has none")
    unknown = [name for name in how if name not in GapSettings.__dataclass_fields__]
    if unknown:
        raise InputError(
            f"estimate_gap takes no {unknown[0]!r}; it takes {', '.join(GapSettings.__dataclass_fields__)}"
        )
    for name, value, least in (("seed", seed, 0), ("horizon", horizon, 1)):
        whole = is_whole(value) and value >= least
        if not whole and (name, value) != ("horizon", None):
            raise InputError(f"{name} must be a whole number, at least {least}, got {value!r}")
    return measure(task, agent, GapSettings(**how), int(seed), _horizon(agent, horizon), progress)


def measure(task: Task, player: Player, how: GapSettings, seed: int, horizon: int | None, progress: bool) -> GapBracket:
    """The bracket, with settings that were checked."""
    require_readable(task)
    sampling, thinning, *streams = [
        np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3 + how.restarts)
    ]
    samples = _Samples(task, horizon, sampling)
    fast = isinstance(task.margin.current if isinstance(task.margin, AskedMargin) else task.margin, FAST)
    training, most = (TRAINING_FAST, MOST_FAST) if fast else (TRAINING_PAIRS, MOST_PAIRS)
    # 1. Fixed episodes of the policy, and fresh ones that judge; of short episodes more, or a response learns chance
    fixed = samples.play(player, how.trajectories, min(training, how.evaluation_steps))
    fresh = samples.play(player, how.trajectories, how.evaluation_steps)
    # 2. From above
    above, why = ceiling(task, fixed + fresh, how.confidence, streams[0])
    # 3. From below: train, choose, measure
    process = challenge(task, thinned(fixed, training, thinning))
    limit = np.inf if above is None else above.value
    with _closing(_train(process, player, how, horizon, limit, streams[1:], progress)) as candidates:
        scores = [_validate(process, samples, candidate) for candidate in candidates]
        best, deterministic = candidates[int(np.argmax([score for score, _ in scores]))]
        theirs = samples.play(best, how.trajectories, how.evaluation_steps, deterministic)
    margin: Any = task.margin
    below = average_margin(margin, thinned(theirs, most, thinning), thinned(fresh, most, thinning), how.confidence)
    details = {
        "seed": seed,
        "horizon": horizon,
        "policy_episodes": len(fixed.lengths) + len(fresh.lengths),
        "policy_steps": len(fixed.outcomes) + len(fresh.outcomes),
        "response_episodes": len(theirs.lengths),
        "response_steps": len(theirs.outcomes),
        "candidates": [described for _, described in scores],
        "effort": how.restarts * how.steps,
        "trained": how.restarts * whole_iterations(how.steps, how.settings),
    }
    exact = None if fixed.cut_off or fresh.cut_off else _exact(task, player)  # the model's episodes end by themselves
    return GapBracket(below, above, how.confidence, exact, why, details)


@contextlib.contextmanager
def _closing(candidates: list[tuple[Agent, bool]]) -> Iterator[list[tuple[Agent, bool]]]:
    """Each of the agents is closed once; what an environment says to that does not cost the measurement."""
    try:
        yield candidates
    finally:
        for agent in {id(agent): agent for agent, _ in candidates}.values():
            with contextlib.suppress(InputError):
                agent.close()


def _train(
    process: Task,
    player: Player,
    how: GapSettings,
    horizon: int | None,
    limit: float,
    streams: list[np.random.Generator],
    progress: bool,
) -> list[tuple[Agent, bool]]:
    """All best responses, each as it draws actions and as it would without noise."""
    settings = {"horizon": horizon} | how.settings
    own = _last_iterate(player)
    found: list[tuple[Agent, bool]] = []
    for number, stream in enumerate(streams):
        warm = number % 2 == 1 and own is not None and can_continue_from(own, settings)
        seed = int(stream.integers(2**31))
        trained = train_best_response(process, how.steps, seed, settings, own if warm else None, limit, progress)
        found += [(trained, False), (trained, True)]
    return found


def _validate(process: Task, samples: _Samples, candidate: tuple[Agent, bool]) -> tuple[float, dict[str, Any]]:
    """How a trained response does against the fixed episodes, on new episodes of its own."""
    trained, deterministic = candidate
    margin: Any = process.margin
    played = samples.play(trained, VALIDATION, 5_000, deterministic)
    score, variance = step_average(played, margin.rows(played.outcomes))
    error = float(np.sqrt(variance)) if np.isfinite(variance) else None
    return score, {
        "steps": trained.num_timesteps,
        "deterministic": deterministic,
        "average": score,
        "standard_error": error,
    }


def whole_iterations(steps: int, settings: dict[str, Any]) -> int:
    """How long a best response is trained that does not reach the ceiling, if so many steps are asked for."""
    batch = make_settings({**settings, **SETTINGS}).batch_size
    return max(1, steps // batch) * batch


def _last_iterate(player: Player) -> Policy | None:
    """The policy's own last iterate, a good place to begin: it has learned to move, and beats the average of Hedge."""
    if isinstance(player, PastPolicy):
        return player.last
    return player.learner.policy if isinstance(player, Agent) else None


def _horizon(player: Player, horizon: int | None) -> int | None:
    """Episodes are cut off where the policy's own training cut them, unless told otherwise."""
    if horizon is not None:
        return horizon
    return player.settings.horizon if isinstance(player, Agent) else getattr(player, "horizon", None)


def _exact(task: Task, player: Player) -> float | None:
    """In the finite contest of the task that judges; a policy may have been trained on another margin, or world.

    The lengths of episodes by which a mixture draws its iterates are those of the world it was trained in. In another
    one it is not their average that is played.
    """
    acting: Any = player.returned if isinstance(player, Agent) else player
    if task.model is None or not callable(getattr(acting, "decision_rule", None)):
        return None
    if not isinstance(acting, ActingPolicy):
        rule = acting.decision_rule()
    elif acting.is_mixture and not acting.task.is_same_world(task):
        return None
    else:
        rule = acting.decision_rule(task)
    return float(optimality_gap(task.contest(), rule))
