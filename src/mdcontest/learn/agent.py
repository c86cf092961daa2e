"""Agents, what a researcher holds: `HPIClip(task).learn(1_000_000)`, then `predict` and `save`."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array, is_whole
from mdcontest.errors import InputError, RunError
from mdcontest.learn import cloning, iterates
from mdcontest.learn.bar import training_bars
from mdcontest.learn.iterates import Mixture
from mdcontest.learn.learner import Algorithm, Iteration, Learner
from mdcontest.learn.logs import Logs, Progress
from mdcontest.learn.margins import require_readable
from mdcontest.learn.places import make_place, place_of
from mdcontest.learn.policy import Policy
from mdcontest.learn.returned import ReturnedPolicy
from mdcontest.learn.runs import DESCRIPTION, FINISHED, KnownCheckpoint, RunFolder, describe, save_copy
from mdcontest.settings import LARGEST_SEED, Settings, make_settings, paper_settings
from mdcontest.tasks import Task

Callback = Callable[["Agent", Progress], Any]
NOT_EXACT = (
    "{} cannot save the state of a running episode, so training goes on with new episodes and will differ from an "
    "uninterrupted run; give it save_state and load_state (see the docs on resuming)"
)
FAR_ACTIONS = (
    "{}: a new policy acts around 0 with deviation 1, and its actions are clipped into {}, so it meets little of that; "
    "wrap the environment in gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)"
)
COPY = (
    "an agent holds environments and open files, so it can be neither copied nor pickled; agent.save(folder) and "
    "load_agent(folder) make another one"
)
RECENT = 100
"""Episodes over which returns are averaged in logs."""


class Agent:
    """What PPO, HPI, HPIClip and SPPO share. `settings` are those of `mdcontest.learn.Settings`, by keyword."""

    algorithm: ClassVar[Algorithm]
    defaults: ClassVar[dict[str, Any]] = {}
    """Settings in which the algorithm differs from the others."""

    def __init__(self, task: Task, seed: int = 0, *, preset: str | None = None, **settings: Any) -> None:
        if not isinstance(task, Task):
            raise InputError(f"task must be a Task, got {type(task).__name__}; tasks.make(name) makes a shipped one")
        if not (is_whole(seed) and 0 <= seed <= LARGEST_SEED):
            raise InputError(f"seed must be a whole number below 2^63, not negative, got {seed!r}")
        self.task, self.seed = task, int(seed)
        self.settings = self.choose_settings(task, preset, settings)
        require_readable(task)
        if task.spaces[1].is_far:
            warnings.warn(FAR_ACTIONS.format(task.name, task.spaces[1].space), stacklevel=2)
        self.learner = Learner(task, self.algorithm, self.settings, self.seed)
        self.recent: deque[tuple[float, int]] = deque(maxlen=RECENT)
        """Return and length of the last finished episodes."""
        self.call: tuple[int, int] = (0, 0)
        """Iterations done and asked for in the running call of learn."""
        self.resumed_exactly = True
        """False after a load whose environments could not continue their episodes."""
        self._folder: RunFolder | None = None
        self.known_checkpoints: dict[Path, KnownCheckpoint] = {}
        """The newest checkpoint this agent wrote or read, by full path: only its own run does it write to."""
        self.is_learning = False
        self.is_closed = False
        self._whole = True
        """False after an iteration that was broken off halfway."""
        self.returned = ReturnedPolicy(self.learner, self.seed)
        """The policy that predict uses."""

    @classmethod
    def choose_settings(cls, task: Task, preset: str | None, given: Mapping[str, Any]) -> Settings:
        """All settings of an agent for this task: what is given, before the preset, before the defaults."""
        if preset not in (None, "paper"):
            raise InputError(f"there is no preset {preset!r}; the preset is 'paper', and None is this library's own")
        if cls.algorithm.cumulant == "reward":
            task.require_reward()
        base = paper_settings(cls.algorithm.name, task.group) if preset else dict(task.recommended)
        settings = make_settings({**cls.defaults, **base, **given})
        if settings.returned != "auto":
            return settings
        transitive = task.is_reward_difference or cls.algorithm.cumulant == "reward"
        return settings.replace(returned="last" if transitive else "mixture")

    # --- learning -----------------------------------------------------------------------------------------

    @property
    def num_timesteps(self) -> int:
        """Steps learned from so far."""
        return self.learner.steps

    @property
    def folder(self) -> Path | None:
        """The folder of the run, where it has one."""
        return None if self._folder is None else self._folder.path

    def learn(
        self,
        total_timesteps: float,
        progress: bool = True,
        callback: Callback | None = None,
        *,
        folder: str | Path | None = None,
        checkpoint_every: int = 10,
        tensorboard: bool = False,
    ) -> Agent:
        """Learn for that many further steps, in whole iterations, at least one; the learning rate anneals over them.

        With a folder, logs and a checkpoint every `checkpoint_every` iterations go there, and
        `load_agent(folder).resume()` finishes a call that was interrupted. `callback(agent, progress)` is called after
        every iteration; if it returns False the call ends there.
        """
        if not (isinstance(total_timesteps, int | float | np.number) and 1 <= total_timesteps < float("inf")):
            raise InputError(f"total_timesteps must be a number of at least 1, got {total_timesteps!r}")
        if callback is not None and not callable(callback):
            raise InputError(f"callback must be a function of the agent and its progress, got {callback!r}")
        self._require_idle("learn")
        self._require_whole()
        self._require_placed()
        iterations = max(1, int(total_timesteps) // self.settings.batch_size)
        self.learner.require_enough_to_clone(iterations)
        self._attach(folder, tensorboard, checkpoint_every)
        self.call = (0, iterations)
        return self._run(progress, callback)

    def resume(
        self, progress: bool = True, callback: Callback | None = None, *, tensorboard: bool | None = None
    ) -> Agent:
        """Finish the call of learn that this agent was interrupted in; does nothing if it was not."""
        self._require_idle("resume")
        if self._folder is None:
            raise InputError("this agent was not loaded from a run's folder: there is no call of learn to finish")
        self._require_whole()
        unfinished = self.call[0] < self.call[1]
        if not unfinished and self._folder.description.get("status") == FINISHED:
            return self
        self._require_placed()
        if unfinished and not self.resumed_exactly:
            warnings.warn(NOT_EXACT.format(self.task.name), stacklevel=2)
        logs = self._folder.tensorboard if tensorboard is None else tensorboard
        self._attach(self._folder.path, logs, self._folder.checkpoint_every)
        return self._run(progress, callback)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(COPY)

    def _require_idle(self, method: str) -> None:
        """A call within a call of learn would end the outer one and take its folder, environments and files from it."""
        if self.is_learning:
            raise InputError(
                f"this agent is learning: a callback cannot call its {method}; return False to end the call, and "
                f"{method} after it"
            )

    def _require_open(self) -> None:
        if self.is_closed:
            raise InputError("this agent was closed; load_agent reads it again, if it was saved")

    def _require_whole(self) -> None:
        self._require_open()
        if not self._whole:
            where = f"load_agent({str(self.folder)!r})" if self.folder else "a new agent"
            raise InputError(f"this agent was stopped in the middle of an iteration; go on with {where}")

    def _require_placed(self) -> None:
        """Training, and a copy to train from, need the environments where they were; playing makes new ones."""
        if self.learner.misplaced is not None:
            raise RunError(
                f"{self.learner.misplaced}; mend the environment and load the run again; until then it can be played "
                "and evaluated, not trained"
            )

    def log_lengths(self, path: Path) -> dict[str, int] | None:
        """How long the logs in that folder are, for a checkpoint there; None where there are none."""
        return self._folder.log_lengths if self._folder is not None and self.is_run_of(path) else Logs.lengths_in(path)

    def is_run_of(self, path: Path) -> bool:
        """Whether this agent's run lies there; one that was removed does not, though its folder may be made anew."""
        return self.folder is not None and (self.folder / DESCRIPTION).exists() and path.samefile(self.folder)

    def _attach(self, folder: str | Path | None, tensorboard: bool, checkpoint_every: int) -> None:
        """Where rows, logs and checkpoints go from here on. A folder that is refused changes nothing."""
        if not (is_whole(checkpoint_every) and checkpoint_every >= 1):
            raise InputError(f"checkpoint_every must be at least 1 iteration and whole, got {checkpoint_every!r}")
        attached = None
        if folder is not None:
            path = make_place(folder)
            lengths = self.log_lengths(path) if (path / DESCRIPTION).exists() else None
            description = describe(self, int(checkpoint_every), tensorboard)
            attached = RunFolder(path, description, lengths, goes_on=self.is_run_of(path))
            attached.open(self)
        place = None if attached is None else attached.path
        try:
            self.learner.iterates.rows.continue_at(place and place / iterates.FILE)
            if self.learner.cloning_buffer is not None:
                self.learner.cloning_buffer.continue_at(place and place / cloning.FILE)
        except BaseException:
            if attached is not None:
                attached.close()
            raise
        self._folder = attached

    def _run(self, show: bool, callback: Callback | None) -> Agent:
        self.is_learning = True
        try:
            if self._folder is not None:
                self._folder.begin(self)
            self._iterate(show, callback)
            if self._folder is not None:
                self._folder.finished(self)
        except BaseException as error:
            if self._folder is not None:
                self._folder.failed(error)
            raise
        finally:
            self.is_learning = False
        return self

    def _iterate(self, show: bool, callback: Callback | None) -> None:
        """Iterations of the running call until it is done or a callback ends it; the average policy at the end."""
        began, steps_before = time.perf_counter(), self.num_timesteps
        with training_bars({"": f"{self.task.name} {self.algorithm.name} {self.seed}"}, show) as bar:
            while self.call[0] < self.call[1]:
                done, wanted = self.call
                self._whole = False
                seen = self.learner.iterate(self.settings.learning_rate * (1 - self.settings.anneal * done / wanted))
                if done + 1 == wanted:
                    self.learner.estimate_average_policy()
                self.call = (done + 1, wanted)
                report = self._report(seen, time.perf_counter() - began, self.num_timesteps - steps_before)
                if self._folder is not None:
                    self._folder.log(report, seen.episodes)
                self._whole = True  # and not before: rows that the logs did not take would be missing from then on
                bar("", report)
                answer = None if callback is None else callback(self, report)
                if isinstance(answer, bool | np.bool_) and not answer and done + 1 < wanted:
                    self.learner.estimate_average_policy()
                    self.call = (done + 1, done + 1)
                if self._folder is not None:
                    self._folder.checkpoint_if_due(self)

    def _report(self, seen: Iteration, seconds: float, steps: int) -> Progress:
        self.recent.extend((episode.total_reward, episode.length) for episode in seen.episodes)
        returns, lengths = zip(*self.recent, strict=True) if self.recent else ((), ())
        return Progress(
            self.learner.iteration,
            self.num_timesteps,
            self.num_timesteps + (self.call[1] - self.call[0]) * self.settings.batch_size,
            seconds,
            steps / seconds,
            float(np.mean(returns)) if returns else None,
            float(np.mean(lengths)) if lengths else None,
            seen.margin_vs_first,
            seen.mean_cumulant,
            seen.learning_rate,
            *(float(value) for value in seen.diagnostics),
        )

    # --- acting -------------------------------------------------------------------------------------------

    def predict(
        self,
        obs: Any,
        state: NDArray[np.int64] | None = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, NDArray[np.int64] | None]:
        """Actions of the returned policy for one raw observation or a batch of them, and the state for the next call.

        The state says which iterate of a mixture each episode plays; pass it back, with `episode_start` true where a
        new episode begins. Without it every call is taken as the start of an episode. Other policies have no state.
        """
        self._require_open()
        return self.returned.predict(obs, state, episode_start, deterministic)

    def draw_policy(self) -> tuple[Policy, np.random.Generator]:
        """The policy that the next episode plays, and the generator of its actions: `predict` for whole episodes."""
        self._require_open()
        return self.returned.draw_policy()

    def decision_rule(self, task: Task | None = None) -> Array:
        """d(a|s) of the returned policy over the states of the finite model of its task, or of another, shape [S, A].

        Of a mixture that is the rule whose occupancy is the exact average of the iterates' occupancies there.
        """
        return self.returned.decision_rule(task)

    def seed_predictions(self, seed: int) -> None:
        """Make the draws of `predict` start anew from a seed."""
        self.returned.seed_predictions(seed)

    @property
    def policy(self) -> Policy:
        """The last policy, or the cloned one where that is returned and ready."""
        return self.returned.policy

    @property
    def mixture(self) -> Mixture:
        """The mixture of the stored iterates."""
        return self.returned.mixture

    # --- files --------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write everything to a folder, as training with `folder=` does; `load_agent` reads it."""
        self._require_whole()
        self._require_placed()
        save_copy(self, place_of(folder))

    def checkpoint(self) -> None:
        """Write a checkpoint into the run's folder now, from within a callback; they are also written on schedule."""
        if self._folder is None or not self.is_learning:
            raise InputError("there is no running call of learn with a folder to write a checkpoint of")
        self._folder.checkpoint(self)

    def close(self) -> None:
        """Close the environments and files; the agent cannot learn or predict from here on."""
        self._require_idle("close")
        self.is_closed = True
        self.learner.collector.close()
        self.learner.iterates.rows.close()
        if self.learner.cloning_buffer is not None:
            self.learner.cloning_buffer.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task.name}, seed={self.seed}, {self.num_timesteps} steps)"
