"""Gaps and behaviour along a run: measured at any of its steps, once, into small files of the run's folder.

RUN/gaps/step0000200704_mixture_1a2b3c4d.json     a bracket; the hash is of how it was measured
RUN/behaviour/step0000200704_mixture.parquet      what the policy does: positions or class shares
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdcontest.errors import FileFormatError, InputError, what_helps
from mdcontest.files import read_record, write_record
from mdcontest.folders import make_folder
from mdcontest.gap.averages import thinned
from mdcontest.gap.estimate import GapSettings, measure
from mdcontest.learn.agent import Agent
from mdcontest.learn.export import IDENTITY, identity_columns
from mdcontest.learn.loading import load_agent
from mdcontest.learn.past import PastPolicy, past_policy
from mdcontest.learn.play import Trajectories, sample_trajectories
from mdcontest.learn.runs import read_description
from mdcontest.margins import Classes
from mdcontest.preferences.margin_files import load_margin
from mdcontest.tables import write_table
from mdcontest.tasks import Task

GAPS, GAP_FORMAT = "gaps", "mdcontest/gap"
BEHAVIOUR, BEHAVIOUR_FORMAT = "behaviour", "mdcontest/behaviour"
BEHAVIOUR_COLUMNS = {
    **IDENTITY,
    "step": "int64",
    "returned": "string",
    "kind": "string",
    "label": "string",
    "x": "float64",
    "y": "float64",
    "share": "float64",
}
"""kind "position": x and y of one step; kind "class": label, and the share of steps in it."""
OWN = "own"
"""The name of a task's own margin, where a learned one could be meant."""
POSITIONS = 2000
"""Positions kept of a policy."""
TRACED = 10
"""Episodes in which it is looked at what a policy does; more where they are short."""
MAX_BYTES = 1 << 22


@dataclass(frozen=True)
class GapRequest:
    """A bracket to be measured."""

    run: str
    steps: int
    returned: str
    seed: int
    how: GapSettings
    margin: str | None = None
    """By what it is judged: "own" is the task's own margin, a folder a learned one, None what it was trained on."""

    @property
    def file(self) -> Path:
        """Where the answer is, or will be: the same whether the margin that the run was trained on is named or not."""
        named = self._named()
        if named is None:
            return self._file()
        file = self._file(named)
        return file if named != self._trained_on() or file.is_file() else self._file()  # older versions told them apart

    def _file(self, *judge: str) -> Path:
        asked = [self.seed, asdict(self.how), *judge]
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]
        return Path(self.run) / GAPS / f"step{self.steps:010d}_{self.returned}_{digest}.json"

    def _named(self) -> str | None:
        """The judge that was asked for: "own", or a learned margin's digest."""
        return self.margin if self.margin in (None, OWN) else load_margin(str(self.margin)).digest

    def _trained_on(self) -> str | None:
        """The same of the margin that the run was trained on; None where there is no run yet."""
        with contextlib.suppress(InputError):  # whoever loads the run says what is wrong with it
            task = read_description(Path(self.run)).get("task")
            return str(task.get("margin", OWN)) if isinstance(task, dict) else None
        return None

    def judged(self) -> dict[str, str]:
        """What the answer says of its judge: nothing where it is what the run was trained on."""
        named = self._named()
        if self.margin is None or named is None or named == self._trained_on():
            return {}
        return {"margin": self.margin} | ({} if named == OWN else {"digest": named})

    def task(self, trained_on: Task) -> Task:
        """The task with the margin that judges."""
        if self.margin in (None, OWN):
            return trained_on if self.margin is None else trained_on.true
        return trained_on.with_margin(load_margin(str(self.margin)))

    def record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> GapRequest:
        return cls(**(record | {"how": GapSettings(**record["how"])}))


def requests(
    run: Path, every: int | None, returned: list[str | None], seed: int, how: GapSettings, margin: str | None = None
) -> list[GapRequest]:
    """What to measure on a run: every so many steps and at its end, or only there."""
    if margin not in (None, OWN):
        load_margin(str(margin))  # a judge that is not there is found before anything starts
    description = read_description(run)
    try:
        settings, total = description["settings"], int(description.get("steps") or 0)
        batch, own = int(settings["num_steps"]) * int(settings["num_envs"]), str(settings["returned"])
        if batch < 1:
            raise ValueError(f"an iteration of {batch} steps")
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{run}/run.json is incomplete: {error!r}") from None
    if total < batch:
        raise InputError(f"the run in {run} is not finished; mdcontest train --resume {run} finishes it")
    steps = points(total, batch, every)
    return [GapRequest(str(run), at, kind or own, seed, how, margin) for at in steps for kind in returned]


def points(total: int, batch: int, every: int | None, said: str = "--every {}") -> list[int]:
    """The steps to look at, in whole iterations, the last step always among them; `said` is how `every` was asked."""
    if every is None:
        return [total]
    if every < batch:
        raise InputError(f"{said.format(every)} is less than one iteration of {batch} steps; ask for {batch} or more")
    return sorted({at // batch * batch for at in range(every, total + 1, every)} | {total})


def measure_on_run(request: GapRequest, progress: bool = False) -> dict[str, Any]:
    """The bracket, measured now unless its file is there, and what the policy does beside it."""
    if request.file.is_file():
        return read_gap(request.file)
    agent = load_agent(request.run)
    try:
        policy = past_policy(agent, request.steps, request.returned)
        bracket = measure(request.task(agent.task), policy, request.how, request.seed, agent.settings.horizon, progress)
        trace_policy(agent, policy)
        record = {"step": policy.steps, "returned": policy.returned} | request.judged() | bracket.record()
        make_folder(request.file.parent)
        write_record(request.file, GAP_FORMAT, record)
    finally:
        agent.close()
    return record


def trace_run(run: str, steps: list[int], returned: str) -> None:
    """Only what the policy does at those steps, without its gap."""
    agent = load_agent(run)
    try:
        for step in steps:
            trace_policy(agent, past_policy(agent, step, returned))
    finally:
        agent.close()


def trace_policy(agent: Agent, policy: PastPolicy) -> None:
    """Sample what a policy does, unless that is there; always the same episodes, whoever asks."""
    if agent.folder is None or not has_behaviour(agent.task):
        return
    if not behaviour_file(agent.folder, policy.steps, policy.returned).is_file():
        horizon = agent.settings.horizon
        played = sample_trajectories(agent.task, policy, TRACED, min_steps=POSITIONS, seed=agent.seed, horizon=horizon)
        write_behaviour(agent, policy.steps, policy.returned, played)


def has_behaviour(task: Task) -> bool:
    """Whether there is something to draw of a policy on this task."""
    return task.positions is not None or isinstance(task.true.margin, Classes)


def behaviour_file(run: str | Path, steps: int, returned: str) -> Path:
    """Where it is kept what a run's policy did."""
    return Path(run) / BEHAVIOUR / f"step{steps:010d}_{returned}.parquet"


def write_behaviour(agent: Agent, steps: int, returned: str, played: Trajectories) -> None:
    """Positions or class shares of these episodes, where the task has either."""
    task, folder = agent.task, agent.folder
    if folder is None or not has_behaviour(task):
        return
    rows: list[tuple[str, str | None, float | None, float | None, float | None]] = []
    if task.positions is not None:
        kept = thinned(played, POSITIONS, np.random.default_rng(steps)).outcomes
        rows += [("position", None, float(x), float(y), None) for x, y in _positions(task.positions, kept)]
    if isinstance(classes := task.true.margin, Classes):
        labels = classes.rows(played.outcomes)
        names = task.class_names or [str(k) for k in range(len(classes.class_matrix))]
        shares = np.bincount(labels, minlength=len(names)) / len(labels)
        rows += [("class", name, None, None, float(share)) for name, share in zip(names, shares, strict=True)]
    make_folder(folder / BEHAVIOUR)
    columns = identity_columns(folder, read_description(folder), len(rows))
    values: dict[str, list[Any]] = {"step": [steps] * len(rows), "returned": [returned] * len(rows)}
    values |= dict(zip(("kind", "label", "x", "y", "share"), map(list, zip(*rows, strict=True)), strict=True))
    write_table(behaviour_file(folder, steps, returned), BEHAVIOUR_FORMAT, BEHAVIOUR_COLUMNS, columns | values)


def _positions(where: Callable[[Any], Any], outcomes: Any) -> Any:
    found = np.asarray(where(outcomes), float)
    if found.shape != (len(outcomes), 2):
        raise InputError(f"positions must have shape ({len(outcomes)}, 2), got {found.shape}")
    return found


def read_gap(path: Path) -> dict[str, Any]:
    """One bracket's file."""
    with what_helps("without that file mdcontest gap, or the sweep, measures it anew"):
        record = read_record(path, GAP_FORMAT, max_bytes=MAX_BYTES)
    return {name: value for name, value in record.items() if name not in ("format", "version")}
