"""A run to be made: what to train on what, with which settings, seed and number of steps. Its folder is named by it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.learn.agent import Agent
from mdcontest.learn.algorithms import ALGORITHMS
from mdcontest.learn.loading import load_agent
from mdcontest.learn.runs import DESCRIPTION, FINISHED, read_description


@dataclass(frozen=True)
class RunSpec:
    """One training run, as plain values that go through a pipe or a file."""

    task: str
    algorithm: str
    seed: int
    steps: int
    folder: str
    """The run's own folder."""
    preset: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    task_settings: dict[str, Any] = field(default_factory=dict)
    checkpoint_every: int = 10
    tensorboard: bool = False

    def record(self) -> dict[str, Any]:
        return asdict(self)

    def agent(self) -> Agent:
        """A new agent for this run."""
        task = tasks.make(self.task, **self.task_settings)
        return ALGORITHMS[self.algorithm](task, self.seed, preset=self.preset, **self.settings)


def run_name(agent: Agent, steps: int) -> str:
    """Task, algorithm, seed, and a hash of everything that decides the result: the same for the same run."""
    content = {"task": agent.task.settings, "settings": agent.settings.record(), "steps": steps}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:8]
    task = re.sub(r"[^A-Za-z0-9._-]", "-", agent.task.name)
    return f"{task}_{agent.algorithm.name}_seed{agent.seed}_{digest}"


def train(spec: RunSpec, progress: bool = False, callback: Any = None) -> Agent:
    """Run it, or finish it where it was interrupted, or only load it where it is done."""
    folder = Path(spec.folder)
    if (folder / DESCRIPTION).exists():
        return load_agent(folder).resume(progress, callback, tensorboard=spec.tensorboard)
    agent = spec.agent()
    return agent.learn(
        spec.steps,
        progress,
        callback,
        folder=folder,
        checkpoint_every=spec.checkpoint_every,
        tensorboard=spec.tensorboard,
    )


def find_runs(folder: Path) -> list[Path]:
    """The run in a folder, or all runs in a folder of runs."""
    if (folder / DESCRIPTION).is_file():
        return [folder]
    try:
        found = sorted(entry for entry in folder.iterdir() if (entry / DESCRIPTION).is_file())
    except OSError as error:
        raise InputError(f"cannot read the folder {folder}: {error.strerror}") from None
    if not found:
        raise InputError(f"there is no run in {folder}: neither it nor a folder in it has a {DESCRIPTION}")
    return found


def spec_of_run(folder: Path, tensorboard: bool = False) -> RunSpec:
    """What a run in a folder is, so that it can be finished."""
    description = read_description(folder)
    return RunSpec(
        description["task"]["name"],
        description["algorithm"],
        description["seed"],
        description["steps_asked"],
        str(folder),
        settings=description["settings"],
        task_settings=description["task"]["settings"] or {},
        tensorboard=tensorboard,
    )


def is_finished(folder: Path) -> bool:
    """Whether nothing is left to do in a run's folder."""
    return (folder / DESCRIPTION).is_file() and read_description(folder).get("status") == FINISHED
