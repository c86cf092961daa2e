"""Samples from π_k (line 6 of Algorithms 3 and 4): environments stepped by a NumPy policy, raw outcomes kept.

An environment that raises, returns something that is not finite, or changes shape stops the run with the step's number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array, Ints
from mdcontest.errors import InputError, RunError
from mdcontest.learn.policy import Moments, Policy
from mdcontest.learn.steps import fault, read_info, read_step, require_finite
from mdcontest.outcomes import Outcomes
from mdcontest.settings import Settings
from mdcontest.tasks import Task, load_environment, save_environment
from mdcontest.tasks.faults import RAISED, told
from mdcontest.tasks.state import reset


@dataclass(frozen=True)
class Episode:
    """A finished episode."""

    step: int
    """Steps of the run when it ended."""
    total_reward: float
    length: int


@dataclass
class Rollout:
    """T steps of N environments, time first in every array."""

    obs: Array
    """Raw observations as flat vectors, [T, N, d]."""
    next_obs: Array
    x: NDArray[np.float32]
    """Observations as the policy saw them: normalised by the statistics of that moment, [T, N, d]."""
    next_x: NDArray[np.float32]
    action: NDArray[Any]
    """As drawn, not clipped, [T, N, a]; indices [T, N] for a Discrete space."""
    reward: Array
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    episode_step: Ints
    """Steps since the episode's start, 0 at its first."""
    info: dict[str, NDArray[Any]] = field(default_factory=dict)
    following_x: NDArray[np.float32] | None = None
    """What the policy sees after the last step, in a new episode where the old one has ended, [N, d]."""
    episodes: list[Episode] = field(default_factory=list)

    @property
    def ended(self) -> NDArray[np.bool_]:
        return self.terminated | self.truncated

    def outcomes(self, task: Task) -> Outcomes:
        """The batch as a margin sees it, T·N rows, time first."""
        observations, actions = task.spaces
        flat = len(self.reward) * self.reward.shape[1]
        try:
            obs, next_obs = (observations.raw(vectors.reshape(flat, -1)) for vectors in (self.obs, self.next_obs))
        except InputError as error:
            raise RunError(f"{task.name}: {error}") from None
        return Outcomes(
            obs,
            actions.raw(self.action.reshape(flat, *self.action.shape[2:])),
            self.reward.reshape(flat),
            next_obs,
            {key: values.reshape(flat, *values.shape[2:]) for key, values in self.info.items()},
        )


class Collector:
    """The environments of one learner. They keep running from one rollout to the next."""

    def __init__(self, task: Task, settings: Settings, seed: np.random.SeedSequence) -> None:
        self.task, self.settings = task, settings
        self.observations, self.actions = task.spaces
        self.envs = [task.make_env(settings.horizon) for _ in range(settings.num_envs)]
        self.seeds = [int(child.generate_state(1)[0]) for child in seed.spawn(settings.num_envs)]
        self.obs = np.zeros((settings.num_envs, self.observations.size))
        self.x = np.zeros((settings.num_envs, self.observations.size), np.float32)
        """The same, normalised when it was seen."""
        self.length = np.zeros(settings.num_envs, np.int64)
        self.total_reward = np.zeros(settings.num_envs)

    def start(self, moments: Moments, iteration: int = 0, steps_before: int = 0) -> None:
        """Reset every environment with a seed of its own, which differs with the iteration it starts at."""
        for i, env in enumerate(self.envs):
            self._begin(i, moments, self._reset(env, steps_before, (self.seeds[i] + iteration) % 2**32))

    def _begin(self, i: int, moments: Moments, obs: NDArray[Any]) -> None:
        """The first observation of an episode."""
        self.obs[i] = obs
        self.length[i], self.total_reward[i] = 0, 0.0
        moments.add(self.obs[i])
        self.x[i] = moments.normalise(self.obs[i])

    def collect(self, policy: Policy, rng: np.random.Generator, steps_before: int) -> Rollout:
        """num_steps steps of every environment."""
        moments, steps, count = policy.moments, self.settings.num_steps, len(self.envs)
        noise = policy.noise(rng, steps, count)
        batch = self._empty()
        for t in range(steps):
            batch.x[t], batch.obs[t], batch.episode_step[t] = self.x, self.obs, self.length
            action = policy.act(self.x, noise[t])
            batch.action[t] = action
            for i in range(count):
                self._step(batch, t, i, action[i], moments, steps_before + t * count + i + 1)
        batch.following_x = self.x.copy()
        return batch

    def _step(self, batch: Rollout, t: int, i: int, action: Any, moments: Moments, step: int) -> None:
        """Step one environment, store what came of it, and start a new episode where this one has ended."""
        env = self.envs[i]
        try:
            observation, reward, terminated, truncated, info = read_step(env.step(self.actions.to_env(action)))
            obs = self.observations.flatten(observation)
        except RAISED as error:
            raise fault(self.task, step, error) from error
        # A sum of squares is finite only if each term is; one that overflows is looked at again, entry by entry.
        if not math.isfinite(obs.dot(obs) + reward):
            require_finite(self.task, obs, reward, step)
        batch.next_obs[t, i] = obs
        batch.reward[t, i] = reward
        moments.add(batch.next_obs[t, i])
        batch.next_x[t, i] = moments.normalise(batch.next_obs[t, i])
        self.length[i] += 1
        total = float(self.total_reward[i]) + reward
        if not math.isfinite(total):
            raise RunError(
                f"{self.task.name}: the rewards of an episode add up to {total} at step {step}; divide them by a "
                "common factor"
            )
        self.total_reward[i] = total
        for key in self.task.info_keys:
            try:
                self._keep_info(batch, t, i, key, info, step)
            except (TypeError, ValueError, AttributeError) as error:
                raise fault(self.task, step, error) from error
        if terminated or truncated:
            batch.terminated[t, i], batch.truncated[t, i] = terminated, truncated and not terminated
            batch.episodes.append(Episode(step, float(self.total_reward[i]), int(self.length[i])))
            self._begin(i, moments, self._reset(env, step))
        else:
            self.obs[i], self.x[i] = obs, batch.next_x[t, i]

    def _reset(self, env: Any, step: int, seed: int | None = None) -> NDArray[Any]:
        try:
            obs = self.observations.flatten(reset(env, seed))
        except RAISED as error:
            raise fault(self.task, step, error, "reset after ") from error
        require_finite(self.task, obs, 0.0, step)
        return obs

    def _keep_info(self, batch: Rollout, t: int, i: int, key: str, info: Any, step: int) -> None:
        value = read_info(self.task, info, key, step)
        if key not in batch.info:
            batch.info[key] = np.zeros((*batch.reward.shape, *value.shape))
        if value.shape != batch.info[key].shape[2:]:
            raise RunError(
                f"{self.task.name}: info[{key!r}] is {value} at step {step}; it must be of shape "
                f"{batch.info[key].shape[2:]} at every step"
            )
        batch.info[key][t, i] = value

    def _empty(self) -> Rollout:
        steps, count, size = self.settings.num_steps, len(self.envs), self.observations.size
        shape = (steps, count)
        action = (
            np.zeros(shape, np.int64) if self.actions.discrete else np.zeros((*shape, self.actions.size), np.float32)
        )
        return Rollout(
            np.zeros((*shape, size)),
            np.zeros((*shape, size)),
            np.zeros((*shape, size), np.float32),
            np.zeros((*shape, size), np.float32),
            action,
            np.zeros(shape),
            np.zeros(shape, bool),
            np.zeros(shape, bool),
            np.zeros(shape, np.int64),
        )

    def close(self) -> None:
        for env in self.envs:
            self.task.close_env(env)

    # --- checkpoints --------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """Where every environment is; "environments" is None where they cannot tell."""
        states = [self._state_of(env) for env in self.envs]
        return {
            "environments": None if any(state is None for state in states) else states,
            "obs": self.obs.copy(),
            "x": self.x.copy(),
            "length": self.length.copy(),
            "total_reward": self.total_reward.copy(),
        }

    def _state_of(self, env: Any) -> Any:
        try:
            return save_environment(env)
        except RAISED as error:
            raise RunError(f"{self.task.name}: the state of the environment cannot be saved: {told(error)}") from error

    def restore(self, record: dict[str, Any]) -> bool:
        """Go on from a record; False, with nothing done, if the environments can only `start` new episodes."""
        if record["environments"] is None:
            return False
        for env, states in zip(self.envs, record["environments"], strict=True):
            try:
                reset(env, 0)
                load_environment(env, states)
            except RAISED as error:
                raise RunError(
                    f"{self.task.name}: the environment cannot go on from its saved state: {told(error)}"
                ) from error
        self.obs[:], self.x[:] = record["obs"], record["x"]
        self.length[:] = record["length"]
        self.total_reward[:] = record["total_reward"]
        return True
