"""Agents from the folders they were trained in. Reading runs no code: the caller or the registry has the task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mdcontest import tasks
from mdcontest.errors import FileFormatError, InputError
from mdcontest.learn.agent import Agent
from mdcontest.learn.algorithms import ALGORITHMS
from mdcontest.learn.persist import restore_learner
from mdcontest.learn.runs import RunFolder, newest_checkpoint, read_description
from mdcontest.tasks import Task


def load_agent(folder: str | Path, task: Task | None = None) -> Agent:
    """The agent as its newest checkpoint has it; `.resume()` finishes an interrupted call of learn.

    A task of your own that is not registered must be passed again: a file never brings code with it.
    """
    path = Path(folder)
    description = read_description(path)
    try:
        kind = ALGORITHMS[description["algorithm"]]
        task = task or _task_of(description["task"], path)
        agent = kind(task, description["seed"], **description["settings"])
    except (KeyError, TypeError) as error:
        raise FileFormatError(f"{path}/run.json is incomplete or of another version: {error!r}") from None
    record = newest_checkpoint(path)
    agent.resumed_exactly = restore_learner(agent.learner, record["learner"], path)
    agent.call = (int(record["call"][0]), int(record["call"][1]))
    agent.recent.extend((float(total), int(length)) for total, length in record["recent"])
    agent._folder = RunFolder(path, description, record["logs"])
    return agent


def _task_of(entry: dict[str, Any], path: Path) -> Task:
    if not entry["registered"]:
        raise InputError(
            f"the run in {path} was trained on a task of its own ({entry['name']}); pass it: load_agent(folder, task=…)"
        )
    return tasks.make(entry["name"], **(entry["settings"] or {}))


def same_parameters(one: Agent, other: Agent) -> bool:
    """Whether two agents have the same parameters, bit for bit."""
    pairs = zip(_leaves(one.learner.params), _leaves(other.learner.params), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def _leaves(tree: dict[str, Any]) -> list[Any]:
    return [tree[part][name] for part in sorted(tree) for name in sorted(tree[part])]
