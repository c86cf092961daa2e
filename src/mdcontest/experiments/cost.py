"""What a sweep will take: seconds a step on one core, from runs that are there or from a moment of training."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from mdcontest.experiments.jobs import GAP
from mdcontest.experiments.sweep import Sweep
from mdcontest.experiments.table import last_progress
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


def measure_speed(spec: RunSpec, iterations: int = 2) -> float:
    """Seconds a step of a run on this core: iterations after a first one, which compiles."""
    agent = spec.agent()
    try:
        agent.learn(agent.settings.batch_size, progress=False)
        began, before = time.perf_counter(), agent.num_timesteps
        agent.learn(iterations * agent.settings.batch_size, progress=False)
        return (time.perf_counter() - began) / (agent.num_timesteps - before)
    finally:
        agent.close()


def estimate_cost(sweep: Sweep, out: Path) -> list[Line]:
    """One line a task and algorithm. A task is timed once, with the first algorithm that has no finished run of it."""
    runs, measured, lines = sweep.runs(out), dict[str, float](), []
    for task in sweep.tasks:
        for algorithm in sweep.algorithms:
            own = [spec for spec in runs if (spec.task, spec.algorithm) == (task, algorithm)]
            done = [spec for spec in own if is_finished(Path(spec.folder))]
            left = sum(spec.steps for spec in own) - sum(spec.steps for spec in done) - _begun(own)
            known = [seen.steps_per_second for spec in done if (seen := last_progress(spec.folder)) is not None]
            if known:
                speed = 1 / (sum(known) / len(known))
            else:
                if task not in measured:
                    measured[task] = measure_speed(replace(own[0], folder=""))
                speed = measured[task]
            gap_steps = sum(_gap_steps(sweep, spec) for spec in own)
            lines.append(Line(task, algorithm, len(own), len(done), max(0, left), speed, gap_steps))
    return lines


def _begun(specs: list[RunSpec]) -> int:
    """Steps that interrupted runs have behind them."""
    unfinished = [spec for spec in specs if not is_finished(Path(spec.folder))]
    return sum(seen.steps for spec in unfinished if (seen := last_progress(spec.folder)) is not None)


def _gap_steps(sweep: Sweep, spec: RunSpec) -> int:
    """Steps of the brackets of a run that are not there yet: training responses, and about five samples of episodes."""
    jobs = [job for job in sweep.after(spec) if job.kind == GAP and not job.is_done()]
    if not jobs:
        return 0
    how = jobs[0].content["how"]
    task = spec.make_task()
    horizon = ALGORITHMS[spec.algorithm].choose_settings(task, spec.preset, spec.settings).horizon or 1000
    sampled = 5 * max(how["evaluation_steps"], how["trajectories"] * horizon // 2)
    return len(jobs) * (how["restarts"] * how["steps"] + sampled)
