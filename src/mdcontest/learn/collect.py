"""Collecting trajectories to compare: what the last iterate did, evenly over the training of one or several runs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.errors import InputError, RunError
from mdcontest.learn.agent import Agent
from mdcontest.learn.loading import load_agent
from mdcontest.learn.past import past_policy
from mdcontest.learn.play import play_episode, require_counts, seed_player
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.trajectories import Trajectory
from mdcontest.progress import counting_bar
from mdcontest.tasks import Task
from mdcontest.tasks.faults import told

PART_STEPS = 50_000
"""Steps after which what was played is written to disk, so that an interruption loses little."""
PLAYED_AGAIN, FIRST_STEPS = 3, 20
"""Known episodes, the latest, that are played again to see whether they are of the same run, and steps looked at."""


@dataclass(frozen=True)
class Collected:
    """What `collect` did."""

    dataset: Dataset
    new: int
    """Trajectories played and stored."""
    known: int
    """Trajectories that were there from an earlier call."""


@dataclass(frozen=True)
class Episode:
    """One episode to play: which policy of which run, and the seed of its environment and its draws."""

    agent: Agent
    source: str
    steps: int
    seed: int

    @property
    def key(self) -> tuple[str, int, int]:
        """What it is known by."""
        return self.source, self.steps, self.seed


def collect(
    runs: str | Path | Sequence[str | Path],
    dataset: str | Path,
    trajectories: int = 500,
    seed: int = 0,
    *,
    max_steps: int | None = None,
    task: Task | None = None,
    progress: bool = True,
) -> Collected:
    """Play episodes of the last iterates of runs and add them to a dataset, made if it is not there.

    `trajectories` is for all runs together. Those of a run are spread evenly over its training, the untrained policy
    and the last one included, or over its first `max_steps` steps. The same call again plays only what is missing.
    """
    trajectories, seed = require_counts(trajectories, seed)
    folders = [Path(run) for run in ([runs] if isinstance(runs, str | Path) else runs)]
    if not folders:
        raise InputError("there are no runs to collect trajectories of")
    if len({folder.resolve().name for folder in folders}) < len(folders):
        raise InputError("two of the runs have the same name; a trajectory's source could not be told")
    agents = [load_agent(folder, task) for folder in folders]
    try:
        return _collect(agents, folders, Path(dataset), trajectories, seed, max_steps, progress)
    finally:
        for agent in agents:
            agent.close()


def _collect(
    agents: list[Agent],
    folders: list[Path],
    path: Path,
    trajectories: int,
    seed: int,
    max_steps: int | None,
    progress: bool,
) -> Collected:
    planned: list[Episode] = []
    for number, (agent, folder) in enumerate(zip(agents, folders, strict=True)):
        share = len(range(number, trajectories, len(agents)))
        planned += plan(agent, folder.resolve().name, share, seed, max_steps)
    dataset = Dataset.at(path, agents[0].task, agents[0].settings.horizon)
    for agent in agents[1:]:
        Dataset.at(path, agent.task, agent.settings.horizon)  # an error for another task, before anything is played
    known = {(info.source, info.steps, info.seed): info.id for info in dataset.index().values()}
    there = [episode for episode in planned if episode.key in known]
    missing = [episode for episode in planned if episode.key not in known]
    for folder in folders:
        own = [episode for episode in there if episode.source == folder.resolve().name]
        for episode in sorted(own, key=lambda episode: -episode.steps)[:PLAYED_AGAIN]:
            _require_own_episode(episode, dataset.trajectory(known[episode.key]), folder, path)
    with counting_bar("collecting", len(missing), progress) as advance:
        _play_all(dataset, missing, advance)
    return Collected(dataset, len(missing), len(planned) - len(missing))


def _require_own_episode(episode: Episode, stored: Trajectory, folder: Path, dataset: Path) -> None:
    """An error where the stored episode is of another run of that name: its policy does something else from the start.

    Only the first steps are looked at, and only as long as the observations are the same: on another machine rounding
    adds up, and an environment need not repeat itself.
    """
    (again,) = play([episode])
    one, other = (outcomes[:FIRST_STEPS] for outcomes in (again.outcomes, stored.outcomes))
    if one.action is None or other.action is None or len(one) != len(other):
        return
    seen, done = _same_rows(one.obs, other.obs), _same_rows(one.action, other.action)
    differs = np.flatnonzero(~done)
    if len(differs) and seen[: differs[0] + 1].all():
        raise InputError(
            f"{dataset} holds episodes of another run called {episode.source}, not of {folder}; rename that folder, so "
            "that the two can be told apart"
        )


def _same_rows(one: Any, other: Any) -> NDArray[np.bool_]:
    """Which rows are the same, up to rounding; observations may be in parts."""
    if isinstance(one, Mapping):
        return np.logical_and.reduce([_same_rows(one[key], other[key]) for key in one])
    near = np.isclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)
    return np.asarray(near.reshape(len(near), -1).all(axis=1))


def plan(agent: Agent, source: str, count: int, seed: int, max_steps: int | None = None) -> list[Episode]:
    """`count` episodes of a run, at whole iterations spread evenly from none to the last, each with its own seed."""
    batch, done = agent.settings.batch_size, len(agent.learner.iterates)
    if max_steps is not None and max_steps < 1:
        raise InputError(f"max_steps must be at least 1, got {max_steps}")
    last = done if max_steps is None else min(done, max_steps // batch)
    iterations = np.round(np.linspace(0, last, count)).astype(int) if count > 1 else np.full(count, last)
    # A run's name is part of the seed, so that two runs do not begin their episodes in the same states.
    streams = np.random.SeedSequence([seed, zlib.crc32(source.encode())]).generate_state(count)
    return [Episode(agent, source, int(k) * batch, int(s)) for k, s in zip(iterations, streams, strict=True)]


def _play_all(dataset: Dataset, episodes: list[Episode], advance: Callable[[int], None]) -> None:
    """Play and store; what was played before an error or an interruption is stored, too."""
    played: list[Trajectory] = []
    try:
        for trajectory in play(episodes):
            played.append(trajectory)
            if sum(map(len, played)) >= PART_STEPS:
                dataset.add_trajectories(played)
                played = []
            advance(1)
    finally:
        if played:
            dataset.add_trajectories(played)


def play(episodes: Sequence[Episode]) -> Iterator[Trajectory]:
    """Each as it can be played again from its seed; all are of runs on the same task with the same horizon."""
    if not episodes:
        return
    task, horizon = episodes[0].agent.task, episodes[0].agent.settings.horizon
    with task.closing(task.make_env(horizon)) as env:
        policy, of = None, None
        for episode in episodes:
            if policy is None or of != (episode.source, episode.steps):
                policy, of = past_policy(episode.agent, episode.steps, "last"), (episode.source, episode.steps)
            seed_player(policy, episode.seed)
            try:
                played = play_episode(task, policy, env, episode.seed)
            except Exception as error:
                reason = told(error).removeprefix(f"{task.name}: ")
                raise RunError(
                    f"{task.name}: the episode with seed {episode.seed} failed: {reason}; those before it are stored"
                ) from error
            yield Trajectory(played.outcomes, played.terminated, episode.seed, episode.source, episode.steps)
