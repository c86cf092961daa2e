"""A run to be made: what to train on what, with which settings, seed and number of steps. Its folder is named by it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mdcontest import tasks
from mdcontest.errors import FileFormatError, InputError, did_you_mean
from mdcontest.learn.agent import Agent
from mdcontest.learn.algorithms import ALGORITHMS
from mdcontest.learn.loading import load_agent
from mdcontest.learn.margins import margin_entry
from mdcontest.learn.runs import DESCRIPTION, FINISHED, read_description
from mdcontest.preferences.asked import ASK, AskedMargin
from mdcontest.preferences.margin_files import load_margin
from mdcontest.settings import Settings
from mdcontest.tasks import Task
from mdcontest.tasks.records import plain


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
    margin: str | None = None
    """The folder of a learned margin that stands in place of the task's own; "ask": one learned while it trains."""
    digest: str | None = None
    """Which learned margin lay there when the run was planned: its folder's name tells it by that."""

    def record(self) -> dict[str, Any]:
        return asdict(self)

    def in_folder(self, out: Path) -> RunSpec:
        """The same run in its own folder within `out`. Wrong names and settings are found here, before it starts."""
        if self.algorithm not in ALGORITHMS:
            near = did_you_mean(self.algorithm, [*ALGORITHMS], "algorithms")
            raise InputError(f"there is no algorithm {self.algorithm!r}{near}")
        task = self.make_task()
        plain(task.settings)
        settings = ALGORITHMS[self.algorithm].choose_settings(task, self.preset, self.settings)
        name = run_name(task, self.algorithm, self.seed, settings, self.steps)
        return replace(self, folder=str(out / name), digest=margin_entry(task).get("margin"))

    def agent(self) -> Agent:
        """A new agent for this run."""
        return ALGORITHMS[self.algorithm](self.make_task(), self.seed, preset=self.preset, **self.settings)

    def make_task(self) -> Task:
        """Its task, with the learned margin where there is one."""
        task = tasks.make(self.task, **self.task_settings)
        if self.margin is None:
            return task
        task = task.with_margin(AskedMargin() if self.margin == ASK else load_margin(self.margin))
        found = margin_entry(task)["margin"]
        if self.digest not in (None, found):
            raise InputError(
                f"the margin in {self.margin} was replaced after this run was planned: it is {found}, and was "
                f"{self.digest}; give fits folders of their own, or begin the runs anew"
            )
        return task


def run_name(task: Task, algorithm: str, seed: int, settings: Settings, steps: int) -> str:
    """Task, algorithm, seed, and a hash of everything that decides the result: the same for the same run."""
    content = {"task": task.settings, "settings": settings.record(), "steps": steps} | margin_entry(task)
    name = re.sub(r"[^A-Za-z0-9._-]", "-", task.name)
    if name != task.name:  # others may look the same; where the name is shown whole, it has never been in the hash
        content["name"] = task.name
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:8]
    return f"{name}_{algorithm}_seed{seed}_{digest}"


def train(spec: RunSpec, progress: bool = False, callback: Any = None) -> Agent:
    """Run it, or finish it where it was interrupted, or only load it where it is done."""
    folder = Path(spec.folder)
    if (folder / DESCRIPTION).exists():
        agent = load_agent(folder)
        if agent.task.name != spec.task:
            raise InputError(
                f"{folder} holds a run of the task {agent.task.name!r}, not of {spec.task!r}; name another folder"
            )
        return agent.resume(progress, callback, tensorboard=spec.tensorboard or None)
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
    try:
        if (folder / DESCRIPTION).is_file():
            return [folder]
        found = sorted(entry for entry in folder.iterdir() if (entry / DESCRIPTION).is_file())
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the folder {folder}: {getattr(error, 'strerror', None) or error}") from None
    if not found:
        raise InputError(f"there is no run in {folder}: neither it nor a folder in it has a {DESCRIPTION}")
    return found


def spec_of_run(folder: Path) -> RunSpec:
    """A run in a folder, to be finished; task, settings and logs are read from there."""
    description = read_description(folder)
    try:
        task, algorithm = str(description["task"]["name"]), str(description["algorithm"])
        asks = ASK if description["task"].get("margin") == ASK else None
        seed, asked = int(description["seed"]), int(description["steps_asked"])
        return RunSpec(task, algorithm, seed, asked, str(folder), margin=asks)
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{folder / DESCRIPTION} is incomplete or of another version: {error!r}") from None


def is_started(folder: Path) -> bool:
    """Whether there is a run to go on with."""
    return (folder / DESCRIPTION).is_file()


def is_finished(folder: Path) -> bool:
    """Whether nothing is left to do in a run's folder."""
    return is_started(folder) and read_description(folder).get("status") == FINISHED
