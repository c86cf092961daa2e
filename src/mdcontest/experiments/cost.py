"""What a sweep will take: seconds a step on one core, from runs that are there or from a moment of training."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mdcontest.experiments.jobs import GAP, Job
from mdcontest.experiments.table import last_progress
from mdcontest.interrupts import stop_if_asked
from mdcontest.learn.algorithms import ALGORITHMS
from mdcontest.learn.spec import RunSpec, is_finished

START = 3.0
"""Seconds a worker takes to start and compile."""


@dataclass(frozen=True)
class Line:
    """Runs of one algorithm on one task."""

    task: str
    algorithm: str
    runs: int
    done: int
    steps: int
    """Left to train, over all runs."""
    seconds_a_step: float
    gap_steps: int
    """Steps that best responses and samples of them take."""

    @property
    def core_seconds(self) -> float:
        return self.seconds_a_step * (self.steps + self.gap_steps) + START * (self.runs - self.done)


def _stoppable(agent: Any, progress: Any) -> None:
    stop_if_asked()


def measure_speed(spec: RunSpec, iterations: int = 2) -> float:
    """Seconds a step of a run on this core: iterations after a first one, which compiles."""
    agent = spec.agent()
    try:
        agent.learn(agent.settings.batch_size, progress=False, callback=_stoppable)
        began, before = time.perf_counter(), agent.num_timesteps
        agent.learn(iterations * agent.settings.batch_size, progress=False, callback=_stoppable)
        return (time.perf_counter() - began) / (agent.num_timesteps - before)
    finally:
        agent.close()


def estimate_cost(jobs: Sequence[Job]) -> list[Line]:
    """One line a task and algorithm, of runs to be trained and the brackets that follow them.

    A task is timed once, with the first algorithm that has no finished run of it.
    """
    planned = [(RunSpec(**job.content), job) for job in jobs]
    measured, lines = dict[str, float](), []
    algorithms = dict.fromkeys(spec.algorithm for spec, _ in planned)
    for task in dict.fromkeys(spec.task for spec, _ in planned):
        for algorithm in algorithms:
            alike = [(spec, job) for spec, job in planned if (spec.task, spec.algorithm) == (task, algorithm)]
            if alike:
                lines.append(_line(alike, measured))
    return lines


def _line(alike: list[tuple[RunSpec, Job]], measured: dict[str, float]) -> Line:
    """`measured` are seconds a step of tasks that were timed, and of this one, if it has to be."""
    own, first = [spec for spec, _ in alike], alike[0][0]
    done = [spec for spec in own if is_finished(Path(spec.folder))]
    left = sum(spec.steps for spec in own) - sum(spec.steps for spec in done) - _begun(own)
    known = [seen.steps_per_second for spec in done if (seen := last_progress(spec.folder)) is not None]
    if known:
        speed = 1 / (sum(known) / len(known))
    else:
        if first.task not in measured:
            measured[first.task] = measure_speed(replace(first, folder=""))
        speed = measured[first.task]
    gap_steps = sum(_gap_steps(spec, job) for spec, job in alike)
    return Line(first.task, first.algorithm, len(own), len(done), max(0, left), speed, gap_steps)


def _begun(specs: list[RunSpec]) -> int:
    """Steps that interrupted runs have behind them."""
    unfinished = [spec for spec in specs if not is_finished(Path(spec.folder))]
    return sum(seen.steps for spec in unfinished if (seen := last_progress(spec.folder)) is not None)


def _gap_steps(spec: RunSpec, job: Job) -> int:
    """Steps of the brackets of a run that are not there yet: training responses, and about five samples of episodes."""
    asked = [after.content["how"] for after in job.then if after.kind == GAP and not after.is_done()]
    if not asked:
        return 0
    horizon = ALGORITHMS[spec.algorithm].choose_settings(spec.make_task(), spec.preset, spec.settings).horizon or 1000
    return sum(
        how["restarts"] * how["steps"] + 5 * max(how["evaluation_steps"], how["trajectories"] * horizon // 2)
        for how in asked
    )
