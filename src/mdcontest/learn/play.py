"""Playing whole episodes of any policy: of this library's agents, or of anything else that has `predict`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mdcontest.arrays import Array, Ints, is_whole
from mdcontest.errors import InputError, RunError
from mdcontest.learn.steps import fault, read_info, read_step, require_finite
from mdcontest.outcomes import Outcomes, concatenate
from mdcontest.tasks import Task
from mdcontest.tasks.environments import step_limit
from mdcontest.tasks.faults import RAISED
from mdcontest.tasks.spaces import ActionReader
from mdcontest.tasks.state import reset

MOST_STEPS = 10_000
"""Episodes of an environment that never ends are cut off here, unless it has a limit of its own that is longer."""


class Player(Protocol):
    """What can be played: an Agent, a model of Stable-Baselines3, or your own class with this method."""

    def predict(self, obs: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False) -> Any:
        """(action, state) for one raw observation; the state goes into the next call of the episode."""


@dataclass(frozen=True)
class Played:
    """One episode of a policy."""

    outcomes: Outcomes
    total_reward: float
    length: int
    terminated: bool
    """Whether it ended by itself rather than by being cut off."""


@dataclass(frozen=True)
class Trajectories:
    """Several whole episodes of one policy."""

    outcomes: Outcomes
    """Their steps one after the other."""
    lengths: Ints
    """Steps of each, shape [E]."""
    cut_off: int = 0
    """How many did not end by themselves."""

    @property
    def starts(self) -> Ints:
        """The row at which each episode begins, shape [E]."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]])

    def sums(self, values: Array) -> Array:
        """Σ over the steps of each episode of values [B, …], shape [E, …]."""
        return np.add.reduceat(values, self.starts, axis=0)

    def __add__(self, other: Trajectories) -> Trajectories:
        outcomes = concatenate([self.outcomes, other.outcomes])
        return Trajectories(outcomes, np.concatenate([self.lengths, other.lengths]), self.cut_off + other.cut_off)


def play_episode(
    task: Task,
    player: Player,
    env: Any,
    seed: int | None,
    deterministic: bool = False,
    watch: Callable[[], Any] | None = None,
    max_steps: int | None = None,
) -> Played:
    """One episode, cut off after `max_steps` if given; `watch` is called before every step."""
    reader, actions = task.spaces
    most = max(MOST_STEPS, step_limit(env) or 0) if max_steps is None else max_steps
    rows: list[tuple[Any, ...]] = []
    act, terminated, truncated = _actor(task, player, deterministic), False, False
    try:
        obs = reset(env, seed)
        before = _copied(task, reader.flatten(obs), 0.0, 0)
    except RAISED as error:
        raise fault(task, 0, error, "reset before ") from error
    while not (terminated or truncated) and len(rows) < most:
        if watch is not None:
            watch()
        action, step = act(obs, before), len(rows) + 1
        try:
            answer = env.step(int(action) if actions.discrete else np.array(action))
            obs, reward, terminated, truncated, info = read_step(answer)
            after = _copied(task, reader.flatten(obs), reward, step)
            kept = [read_info(task, info, key, step) for key in task.info_keys]
        except RAISED as error:
            raise fault(task, step, error) from error
        rows.append((before, action, reward, after, kept))
        before = after
    flat, taken, rewards, following, infos = zip(*rows, strict=True)
    info_arrays = {key: _stacked(task, key, [entry[i] for entry in infos]) for i, key in enumerate(task.info_keys)}
    outcomes = Outcomes(
        reader.raw(np.array(flat)), np.array(taken), np.array(rewards), reader.raw(np.array(following)), info_arrays
    )
    return Played(outcomes, float(np.sum(rewards)), len(rows), bool(terminated))


def _action(actions: ActionReader, given: Any) -> Any:
    """What a policy answered as the environment gets it: an index of the space, or a vector clipped into its box."""
    try:
        array = np.asarray(given, float).reshape(-1)
    except (TypeError, ValueError):
        array = np.zeros(0)
    size = 1 if actions.discrete else actions.size
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(f"{given!r} is no action, {size} finite number{'s' * (size > 1)}")
    if not actions.discrete:
        return actions.raw(array[None])[0]
    if not actions.space.contains(int(array[0])) or array[0] != int(array[0]):
        raise InputError(f"{given!r} is no action of {actions.space}")
    return np.asarray(int(array[0]))


def _copied(task: Task, observation: Any, reward: float, step: int) -> Array:
    """A copy, because an environment may hand out the same array every time; NaN and infinity are errors."""
    vector = np.array(observation, float)
    require_finite(task, vector, reward, step)
    return vector


def _stacked(task: Task, key: str, values: list[Array]) -> Array:
    wrong = next((i for i, value in enumerate(values) if value.shape != values[0].shape), None)
    if wrong is not None:
        raise RunError(
            f"{task.name}: info[{key!r}] is {values[wrong]} at step {wrong + 1}; it must be of shape {values[0].shape} "
            "at every step"
        )
    return np.array(values)


def _actor(task: Task, player: Player, deterministic: bool) -> Callable[[Any, Array], Any]:
    """A function of the raw and the flat observation for one episode.

    This library's policies are drawn once an episode and then act without the checks of `predict`, at a third of its
    time and with the same random numbers.
    """
    draw, own = getattr(player, "draw_policy", None), getattr(player, "task", None)
    if isinstance(own, Task) and not own.has_spaces_of(task):
        raise InputError(
            f"the policy was trained on {own.name}, whose observations or actions are of another kind than those of "
            f"{task.name}: {own.describe_spaces()}, and {task.describe_spaces()}"
        )
    if draw is None:
        return _foreign_actor(task, player, deterministic)
    (policy, rng), actions = draw(), task.spaces[1]

    def act(obs: Any, vector: Array) -> Any:
        noise = None if deterministic else policy.noise(rng, 1)
        return actions.raw(policy.act(policy.moments.normalise(vector)[None], noise))[0]

    return act


def _foreign_actor(task: Task, player: Player, deterministic: bool) -> Callable[[Any, Array], Any]:
    actions, state, first = task.spaces[1], None, True

    def act(obs: Any, vector: Array) -> Any:
        nonlocal state, first
        start = np.array([True]) if first else np.array([False])
        try:
            answer = player.predict(obs, state, start, deterministic)
        except TypeError as error:
            wanted = "predict(obs, state, episode_start, deterministic)"
            raise InputError(f"{wanted} of {type(player).__name__} raised TypeError: {error}") from error
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise InputError(f"predict of {type(player).__name__} must return (action, state)")
        (action, state), first = answer, False
        try:
            return _action(actions, action)
        except InputError as error:
            raise InputError(f"predict of {type(player).__name__}: {error}") from None

    return act


def sample_trajectories(
    task: Task,
    player: Player,
    trajectories: int,
    *,
    min_steps: int = 0,
    seed: int = 0,
    horizon: int | None = None,
    deterministic: bool = False,
) -> Trajectories:
    """At least that many episodes, and as many more as it takes to have `min_steps` steps; seeds seed, seed + 1, …"""
    trajectories, seed = require_counts(trajectories, seed)
    seed_player(player, seed)
    env, played, steps = task.make_env(horizon), list[Played](), 0
    with task.closing(env):
        while len(played) < trajectories or steps < min_steps:
            reset = (seed + len(played)) % 2**32
            episode = play_episode(task, player, env, reset, deterministic)
            steps += episode.length
            played.append(episode)
    outcomes = concatenate([episode.outcomes for episode in played])
    lengths = np.array([episode.length for episode in played])
    return Trajectories(outcomes, lengths, sum(not episode.terminated for episode in played))


def seed_player(player: Player, seed: int) -> None:
    """Make a policy's draws start anew, where it can.

    Not from the seed itself: the first episode's environment makes its random numbers of that, in the same way.
    """
    if hasattr(player, "seed_predictions"):
        player.seed_predictions(int(np.random.SeedSequence([seed, 1]).generate_state(1)[0]))


def require_counts(episodes: int, seed: int) -> tuple[int, int]:
    """Both as Python's own numbers, which environments ask for; errors for what is no number of episodes or no seed."""
    if not (is_whole(episodes) and episodes >= 1):
        raise InputError(f"episodes must be at least 1 and whole, got {episodes!r}")
    if not (is_whole(seed) and seed >= 0):
        raise InputError(f"seed must be a whole number, not negative, got {seed!r}")
    return int(episodes), int(seed)
