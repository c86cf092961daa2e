"""What a worker does: train a run, bracket a gap, or trace what a policy does. Plain values that go through a pipe."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mdcontest.gap.curve import OWN, GapRequest, behaviour_file, measure_on_run, trace_run
from mdcontest.learn.spec import RunSpec, is_finished
from mdcontest.preferences.asked import ASK

TRAIN, GAP, TRACE = "train", "gap", "trace"


@dataclass(frozen=True)
class Job:
    """One piece of work on one run's folder. The same job gives the same files wherever and however often it runs."""

    kind: str
    folder: str
    """The run's folder."""
    content: dict[str, Any]
    label: str
    """What a person reads."""
    then: tuple[Job, ...] = ()
    """Jobs that can begin when this one is done."""

    @property
    def key(self) -> str:
        """Tells jobs of a sweep apart."""
        return json.dumps([self.kind, self.folder, self.content], sort_keys=True)

    def is_done(self) -> bool:
        """Whether its result is there already."""
        if self.kind == TRAIN:
            return is_finished(Path(self.folder))
        if self.kind == GAP:
            return GapRequest.of_record(self.content).file.is_file()
        files = [behaviour_file(self.folder, step, self.content["returned"]) for step in self.content["steps"]]
        return all(file.is_file() for file in files)

    def absolute(self) -> Job:
        """The same for a worker that starts in another folder: it finds the run, and the margin, from anywhere."""
        content, word = self.content, ASK if self.kind == TRAIN else OWN
        if (margin := content.get("margin")) not in (None, word):
            content = content | {"margin": os.path.abspath(margin)}
        return replace(self, folder=str(Path(self.folder).resolve()), content=content)

    def text(self) -> str:
        """One line, for a worker."""
        return json.dumps({"kind": self.kind, "folder": self.folder, "content": self.content})


@dataclass(frozen=True)
class Ending:
    """How a job ended."""

    error: str | None = None
    died: bool = False
    """Its process was killed rather than failing by itself."""
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    """Warnings its process gave."""

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Ending:
        record = json.loads(text)
        return cls(**(record | {"notes": tuple(record["notes"])}))


def train_job(spec: RunSpec, then: tuple[Job, ...] = ()) -> Job:
    """Train a run, or finish it."""
    return Job(TRAIN, spec.folder, spec.record(), f"{spec.task} {spec.algorithm} {spec.seed}", then)


def gap_job(request: GapRequest, label: str) -> Job:
    """Bracket a gap."""
    return Job(GAP, request.run, request.record(), f"{label} gap at {request.steps}")


def trace_job(folder: str, steps: list[int], returned: str, label: str) -> Job:
    """What the policy does at several steps, in one job: each takes less time than a process needs to start."""
    content = {"steps": steps, "returned": returned}
    return Job(TRACE, folder, content, f"{label} traces")


def do_other(kind: str, folder: str, content: dict[str, Any]) -> None:
    """Jobs that are not training."""
    if kind == GAP:
        measure_on_run(GapRequest.of_record(content | {"run": folder}))
    else:
        trace_run(folder, content["steps"], content["returned"])
