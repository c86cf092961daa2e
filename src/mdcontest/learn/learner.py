"""One iteration of Algorithms 3 and 4 (alg:hpi-deep, alg:hpi-clip), for all algorithms.

PPO, HPI, HPI-Clip and SPPO differ in two values: what a step is worth (its reward, or its margin against opponents,
averaged over T_C steps) and the surrogate that the update maximises.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from mdcontest.arrays import Array
from mdcontest.errors import InputError, RunError
from mdcontest.learn import cloning
from mdcontest.learn.cumulants import CumulantScale, averaged_over, comparison_windows
from mdcontest.learn.iterates import Iterates
from mdcontest.learn.networks import initial_params
from mdcontest.learn.opponents import Opponents
from mdcontest.learn.policy import Moments, Policy, Unchanged
from mdcontest.learn.rollout import Collector, Episode, Rollout
from mdcontest.learn.update import Averages, Batch, Diagnostics, initial_optimiser_state, make_update, permutations
from mdcontest.outcomes import Outcomes
from mdcontest.settings import Settings
from mdcontest.tasks import Task
from mdcontest.tasks.faults import RAISED, told

SETTLED = 10
"""Iterations after which the scale of the cumulant is looked at, once: a first policy may make little difference."""
TOO_SMALL = (
    "{}: discounted sums of the cumulant deviate by {:.1g}, and it is divided by {:.0e} at least, so little is "
    "learned, or nothing; multiply the margin (or the reward), and what is declared with it, by a common factor"
)
LARGEST = float(np.sqrt(np.finfo(np.float32).max))
"""The largest cumulant whose square, which the critic learns from, is a number in single precision."""
TOO_LARGE = (
    "{}: the cumulant reaches {:.1g} in iteration {}, too large to be squared; divide the margin (or the reward), and "
    "what is declared with it, by a common factor"
)


@dataclass(frozen=True)
class Algorithm:
    """A pair of a cumulant and a surrogate."""

    name: str
    cumulant: str
    """"reward", or "margin" against the opponents."""
    surrogate: str
    """"clip" or "hedge"."""


@dataclass(frozen=True)
class Iteration:
    """What one iteration saw."""

    episodes: list[Episode]
    margin_vs_first: float
    mean_cumulant: float
    learning_rate: float
    diagnostics: Diagnostics


class Learner:
    """Everything that changes while a policy is trained."""

    def __init__(self, task: Task, algorithm: Algorithm, settings: Settings, seed: int) -> None:
        self.task, self.algorithm, self.settings = task, algorithm, settings
        # One stream of random numbers a purpose: what one algorithm draws never shifts what another does.
        init, envs, *streams = np.random.SeedSequence(seed).spawn(6)
        self.collector = Collector(task, settings, envs)
        names = ("actions", "minibatches", "opponents", "cloning")
        self.rngs = {name: np.random.default_rng(stream) for name, stream in zip(names, streams, strict=True)}
        observations, actions = task.spaces
        self.params = initial_params(observations.size, actions.size, settings.hidden, actions.discrete, init)
        self.optimiser_state: Any = initial_optimiser_state(settings, self.params)
        self.averages = Averages(np.float32(0), np.float32(0), np.float32(0))
        moments = (Moments if settings.normalise_observations else Unchanged)(observations.size)
        self.policy = Policy(self.params["actor"], moments)
        self.scale = CumulantScale(settings.num_envs, settings.gamma)
        self.opponents = Opponents(settings, self.rngs["opponents"])
        self.iterates = Iterates(self.params["actor"], moments)
        self.cloning_buffer: cloning.CloningBuffer | None = None
        if settings.returned == "cloned":
            self.cloning_buffer = cloning.CloningBuffer(observations.size + (1 if actions.discrete else actions.size))
        self.cloned: Any = None
        self.cloned_moments: Moments | None = None
        """The statistics it was cloned with; None where an older version stored a clone without them."""
        self.iteration, self.steps = 0, 0
        self.started = False
        """Whether the environments are in their episodes; not so after a load that could not put them there."""
        self.misplaced: RunError | None = None
        """What a load met that should have put them there; the policy can be played all the same."""

    def iterate(self, learning_rate: float) -> Iteration:
        """Steps 1 to 3 of the algorithms."""
        if not self.started:
            self.collector.start(self.policy.moments, self.iteration, self.steps)
            self.scale.begin_episodes()  # after a load, it still has the sums of those that could not go on
            self.started = True
        # 1. Estimate occupancy measure
        rollout = self.collector.collect(self.policy, self.rngs["actions"], self.steps)
        lengths = [episode.length for episode in rollout.episodes]
        self.iterates.append(self.params["actor"], self.policy.moments, lengths)
        if self.cloning_buffer is not None:
            self.cloning_buffer.add(rollout, self.policy.moments)
        # 2. Evaluate (approximately)
        batch = rollout.outcomes(self.task)
        cumulant = self._cumulant(rollout, batch)
        # 3. Update decision rule
        learning_rate = 0.0 if self._is_silent else learning_rate  # nothing is learned, and the log says so
        diagnostics = self._update(rollout, cumulant, learning_rate)
        # Judged by the task's own margin, also where a learned one is trained on: that may change, or be wrong.
        margin = float(self._guarded(self.task.true.cumulant, batch, self.opponents.first).mean())
        self.iteration += 1
        self.steps += self.settings.batch_size
        return Iteration(rollout.episodes, margin, float(cumulant.mean()), learning_rate, diagnostics)

    @property
    def _is_silent(self) -> bool:
        """Whether nobody has said anything yet: advantages, normalised, would be nothing but the critic's errors."""
        return self.algorithm.cumulant != "reward" and getattr(self.task.margin, "is_silent", False)

    def _cumulant(self, rollout: Rollout, batch: Outcomes) -> Array:
        """ĉ of every step, [T, N]: against opponents, beyond having ended unless told, averaged over T_C steps."""
        opponents = self.opponents.meet(batch)
        if self.algorithm.cumulant == "reward":
            return self._guarded(lambda z, _: self.task.reward(z), batch, opponents).reshape(rollout.reward.shape)
        compare = self.task.cumulant_beyond_ended if self.settings.termination == "ended" else self.task.cumulant
        cumulant = self._guarded(compare, batch, opponents).reshape(rollout.reward.shape)
        horizon, across = self.settings.comparison_horizon, self.settings.across_episodes
        if horizon == 1:
            return cumulant
        windows = comparison_windows(rollout.episode_step, rollout.episode_step == 0, horizon, across)
        return averaged_over(windows, cumulant)

    def _guarded(self, compare: Any, batch: Outcomes, opponents: Any) -> Array:
        """The margin's answer; if it fails, an error that names the step whose outcome it fails on."""
        try:
            cumulant = _one_a_row(compare, batch, opponents)
        except RAISED as error:
            raise self._margin_fault(compare, batch, opponents, error) from error
        bad = np.flatnonzero(~np.isfinite(cumulant))
        if len(bad):
            raise RunError(f"{self.task.name}: the margin of step {self.steps + bad[0] + 1} is {cumulant[bad[0]]}")
        return cumulant

    def _margin_fault(self, compare: Any, batch: Outcomes, opponents: Outcomes, error: BaseException) -> RunError:
        for alone in (True, False):  # an outcome that fails against itself is the culprit, whoever met it first
            for row in range(len(batch)):
                outcome = batch[row : row + 1]
                try:
                    _one_a_row(compare, outcome, outcome if alone else opponents)
                except RAISED as found:
                    return RunError(f"{self.task.name}: at step {self.steps + row + 1}: {_said(found)}")
        first, last = self.steps + 1, self.steps + len(batch)
        return RunError(f"{self.task.name}: in steps {first} to {last}: {_said(error)}")

    def _update(self, rollout: Rollout, cumulant: Array, learning_rate: float) -> Diagnostics:
        settings = self.settings
        counts = settings.normalise_cumulant and not self._is_silent  # a scale learned from zeros would be none
        scaled = self.scale.scale(cumulant, rollout.ended) if counts else cumulant
        if (counts and self.scale.is_too_large) or np.abs(scaled).max() > LARGEST:
            raise RunError(TOO_LARGE.format(self.task.name, np.abs(cumulant).max(), self.iteration + 1))
        if counts and self.scale.count == SETTLED * self.settings.batch_size and self.scale.is_too_small:
            warnings.warn(TOO_SMALL.format(self.task.name, self.scale.deviation, self.scale.FLOOR), stacklevel=2)
        batch = Batch(
            rollout.x,
            self._next_x(rollout),
            rollout.action if not self.policy.discrete else rollout.action.astype(np.int32),
            scaled.astype(np.float32),
            rollout.ended,
            rollout.ended if settings.truncation == "zero" else rollout.terminated,
        )
        orders = permutations(settings, self.rngs["minibatches"])
        with jax.default_device(jax.devices("cpu")[0]):  # networks this small lose more on the way to a GPU
            update = make_update(settings, self.algorithm.surrogate)
            found = update(self.params, self.optimiser_state, self.averages, batch, orders, np.float32(learning_rate))
        *learned, diagnostics = jax.device_get(found)
        if not self._is_silent:
            self.params, self.optimiser_state, self.averages = learned
        if not all(np.isfinite(value) for value in diagnostics[:-1]):
            raise RunError(
                f"{self.task.name}: training diverged in iteration {self.iteration + 1}, its losses are no longer "
                "finite; lower learning_rate, eta or max_grad_norm"
            )
        self.policy.update(self.params["actor"])
        return diagnostics

    def _next_x(self, rollout: Rollout) -> Any:
        """The state after each step. For the average critic a terminated episode goes on in the next one."""
        if self.settings.critic == "discounted":
            return rollout.next_x
        following = np.concatenate([rollout.x[1:], rollout.following_x[None]])  # type: ignore[index]
        goes_on = rollout.ended if self.settings.truncation == "zero" else rollout.terminated
        return np.where(goes_on[..., None], following, rollout.next_x)

    def require_enough_to_clone(self, iterations: int) -> None:
        """Found before training rather than after it."""
        if self.cloning_buffer is not None:
            outcomes = self.cloning_buffer.count + iterations * self.settings.batch_size
            if outcomes < self.settings.cloning_minibatches:
                asked = self.settings.cloning_minibatches
                raise InputError(
                    f"setting cloning_minibatches = {asked} is more than the {outcomes} outcomes to clone from"
                )

    def estimate_average_policy(self) -> None:
        """Step 4: clone the average policy, where that is what is to be returned."""
        if self.cloning_buffer is not None:
            actor, moments = self.params["actor"], self.policy.moments
            with jax.default_device(jax.devices("cpu")[0]):
                cloned = cloning.clone(self.cloning_buffer, actor, moments, self.settings, self.rngs["cloning"])
            self.cloned, self.cloned_moments = jax.device_get(cloned), copy.deepcopy(moments)

    @property
    def clone(self) -> Policy | None:
        """The cloned policy, once there is one; the same however long training goes on after it."""
        return None if self.cloned is None else Policy(self.cloned, self.cloned_moments or self.policy.moments)


def _one_a_row(compare: Any, batch: Outcomes, opponents: Outcomes) -> Array:
    """The cumulant, checked to have one number an outcome."""
    cumulant = np.asarray(compare(batch, opponents), float)
    if cumulant.shape != (len(batch),):
        raise InputError(
            f"the margin gives {cumulant.shape} numbers for {len(batch)} outcomes; its features must be one row each"
        )
    return cumulant


def _said(error: BaseException) -> str:
    return told(error) if isinstance(error, InputError) else f"the margin raised {told(error)}"
