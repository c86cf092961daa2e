"""Agents from the folders they were trained in. Reading runs no code: the caller or the registry has the task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mdcontest import tasks
from mdcontest.errors import FileFormatError, InputError
from mdcontest.learn.agent import Agent
from mdcontest.learn.algorithms import ALGORITHMS
from mdcontest.learn.checkpoint import identity, list_checkpoints, read_checkpoint
from mdcontest.learn.margins import run_task_record, with_kept_margin
from mdcontest.learn.persist import restore_learner
from mdcontest.learn.places import place_of
from mdcontest.learn.runs import DESCRIPTION, KnownCheckpoint, RunFolder, read_description
from mdcontest.tasks import Task


def load_agent(folder: str | Path, task: Task | None = None) -> Agent:
    """The agent as its newest checkpoint has it; `.resume()` finishes an interrupted call of learn.

    A task of your own that is not registered must be passed again: a file never brings code with it.
    """
    path = place_of(folder)
    description = read_description(path)
    newest, record = _read_newest(path)
    try:
        _require_same_run(description, record["run"], path)
        kind = ALGORITHMS[description["algorithm"]]
        entry = description["task"]
        task = task_of(entry, path) if task is None else _given_task(task, entry, path)
        agent = kind(task, description["seed"], **description["settings"])
        agent.resumed_exactly = restore_learner(agent.learner, record["learner"], path)
        agent.call = (int(record["call"][0]), int(record["call"][1]))
        agent.recent.extend((float(total), int(length)) for total, length in record["recent"])
        agent._folder = RunFolder(path, _checked(description, path), record["logs"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise FileFormatError(f"{path} is incomplete or of another version: {error!r}") from None
    agent.known_checkpoints[path] = KnownCheckpoint(newest, agent.learner.iteration, agent.call)
    return agent


def _read_newest(path: Path) -> tuple[str, dict[str, Any]]:
    """Which the newest checkpoint is, and what it holds.

    Another process may be training here still, such as a worker that has not yet noticed that its sweep is gone: then
    what was the newest can be removed while it is read, and there is a newer one.
    """
    while True:
        newest = _newest(path)
        try:
            return identity(newest), read_checkpoint(newest)
        except FileFormatError:
            if _newest(path) == newest:
                raise


def _newest(path: Path) -> Path:
    found = list_checkpoints(path)
    if not found:
        raise FileFormatError(f"{path} holds no checkpoint")
    return found[-1]


def _require_same_run(description: dict[str, Any], run: dict[str, Any], path: Path) -> None:
    """run.json has no checksum of its own, but the checkpoint says the same things under one."""
    for key, value in run.items():
        if description.get(key) != value:
            raise FileFormatError(
                f"{path / DESCRIPTION} was changed or damaged: its {key} is not that of the checkpoint"
            )


def _checked(description: dict[str, Any], path: Path) -> dict[str, Any]:
    """The parts of run.json that the checkpoint does not vouch for."""
    every, logs = description.get("checkpoint_every"), description.get("tensorboard")
    if type(every) is not int or every < 1 or type(logs) is not bool:
        raise FileFormatError(f"{path / DESCRIPTION} was changed or damaged: checkpoint_every is {every!r}")
    return description


def task_of(entry: dict[str, Any], path: Path) -> Task:
    """The task of a run, by the `task` entry of its run.json."""
    if not isinstance(entry, dict) or not {"registered", "name", "settings"} <= set(entry):
        raise FileFormatError(f"{path / DESCRIPTION} is incomplete: it does not say which task it is")
    if not entry["registered"]:
        own = f"a task of its own ({entry['name']})"
        if _is_changed(entry):
            own = f"{entry['name']} with something changed, such as its margin, which no file holds"
        raise InputError(f"the run in {path} was trained on {own}; pass it: load_agent(folder, task=…)")
    return with_kept_margin(tasks.make(entry["name"], **(entry["settings"] or {})), entry, path)


def _given_task(task: Task, entry: dict[str, Any], path: Path) -> Task:
    """The task that was passed for a run, with the margin the run keeps; an error if it is not that run's."""
    if not isinstance(task, Task):
        raise InputError(f"task must be a Task, got {type(task).__name__}; tasks.make(name) makes a shipped one")
    given = run_task_record(task)
    if entry["registered"] and not given["registered"] and entry["name"] == given["name"]:
        # Its functions cannot be compared with the registered ones, and what goes on with it would not be registered.
        raise _another_task(path, entry, "it was as the registry makes it, and this one is not")
    for key in ("name", "settings"):
        if entry[key] != given[key] and None not in (entry[key], given[key]):
            raise _another_task(path, entry, f"{key} {entry[key]!r}, not {given[key]!r}")
    told = given.get("parts", {})
    for key, value in entry.get("parts", {}).items():  # older runs have none
        if key in told and told[key] != value:
            raise _another_task(path, entry, f"{key} {value!r}, not {told[key]!r}")
    if _is_changed(entry) and given["registered"]:
        raise _another_task(path, entry, "something of it was changed, such as its margin, and this is as registered")
    if "margin" in given and "margin" not in entry:
        raise _another_task(path, entry, "its margin is the task's own, and this one is learned")
    return with_kept_margin(task, entry, path)


def _is_changed(entry: dict[str, Any]) -> bool:
    """Whether a task was made by the registry and something of it replaced afterwards."""
    return not entry["registered"] and entry["settings"] is not None


def _another_task(path: Path, entry: dict[str, Any], difference: str) -> InputError:
    way_out = "leave task= out, the run knows its own" if entry["registered"] else "pass the one it was trained on"
    return InputError(f"the run in {path} was trained on another task: {difference}; {way_out}")


def same_parameters(one: Agent, other: Agent) -> bool:
    """Whether two agents have the same parameters, bit for bit."""
    pairs = zip(_leaves(one.learner.params), _leaves(other.learner.params), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def _leaves(tree: dict[str, Any]) -> list[Any]:
    return [tree[part][name] for part in sorted(tree) for name in sorted(tree[part])]
