"""Episodes of Minari datasets that are on this machine, as trajectories to compare. Nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.errors import InputError
from mdcontest.outcomes import Outcomes
from mdcontest.preferences.trajectories import Trajectory
from mdcontest.tasks import Task


def minari_trajectories(dataset_id: str, task: Task) -> Iterator[Trajectory]:
    """The episodes of a local Minari dataset, whose spaces must be those of the task's environment."""
    stored = _load(dataset_id)
    seeds = [about.get("seed") for about in stored.storage.get_episode_metadata(stored.episode_indices)]
    for episode, seed in zip(stored.iterate_episodes(), seeds, strict=True):
        try:
            yield _trajectory(episode, task, None if seed is None else int(seed), f"minari:{dataset_id}")
        except InputError as error:
            raise InputError(f"episode {int(episode.id)} of {dataset_id} does not fit {task.name}: {error}") from None


def _load(dataset_id: str) -> Any:
    try:
        import minari
    except ImportError:
        raise InputError("Minari datasets need minari, not installed here: pip install 'mdcontest[minari]'") from None
    try:
        return minari.load_dataset(dataset_id, download=False)
    except ImportError as error:
        raise InputError(
            f"the Minari dataset {dataset_id} needs {error.name}: pip install 'mdcontest[minari]'"
        ) from None
    except Exception as error:  # a missing or damaged dataset makes it raise almost anything
        known = ", ".join(sorted(minari.list_local_datasets())) or "none"
        raise InputError(
            f"cannot read the Minari dataset {dataset_id}: {error} (on this machine: {known}; minari download "
            f"{dataset_id} fetches it)"
        ) from None


def _trajectory(episode: Any, task: Task, seed: int | None, source: str) -> Trajectory:
    reader = task.spaces[0]
    vectors, _ = reader.batch(episode.observations)
    steps = len(episode.rewards)
    if len(vectors) != steps + 1:
        raise InputError(f"{len(vectors)} observations for {steps} steps; there has to be one more than steps")
    if not np.isfinite(vectors).all():
        raise InputError("an observation is not finite")
    obs = reader.raw(vectors)
    info = {key: _info(episode.infos, key, steps) for key in task.info_keys}
    outcomes = Outcomes(
        _rows(obs, slice(None, -1)),
        _actions(episode.actions, task, steps),
        np.asarray(episode.rewards, float),
        _rows(obs, slice(1, None)),
        info,
    )
    return Trajectory(outcomes, bool(episode.terminations[-1]), seed, source)


def _rows(values: Any, rows: slice) -> Any:
    return {key: part[rows] for key, part in values.items()} if isinstance(values, Mapping) else values[rows]


def _actions(actions: Any, task: Task, steps: int) -> NDArray[Any]:
    space = task.spaces[1].space
    found = np.asarray(actions)
    wanted = (steps, *(space.shape or ()))
    if found.dtype.kind not in "fiub" or found.shape != wanted:
        raise InputError(f"its actions have shape {found.shape} of {found.dtype}, expected {wanted} of {space.dtype}")
    return found.astype(np.int64 if task.spaces[1].discrete else space.dtype)


def _info(infos: Any, key: str, steps: int) -> NDArray[Any]:
    """The entry of every step; Minari has one more, of the reset, in front."""
    if not isinstance(infos, Mapping) or key not in infos:
        raise InputError(f"its info has no entry {key!r}, which the task's margin reads")
    values = np.asarray(infos[key])
    if len(values) not in (steps, steps + 1):
        raise InputError(f"its info {key!r} has {len(values)} entries for {steps} steps")
    return values[len(values) - steps :]
