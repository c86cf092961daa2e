"""Sweeps from start to end: the lock, the place where jobs run, the table, and the index of what came of it."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

from mdcontest.errors import InputError
from mdcontest.experiments.engine import DONE, FAILED, FAILURES, Entry, Executor, run_jobs
from mdcontest.experiments.jobs import TRAIN, Job, train_job
from mdcontest.experiments.processes import LocalProcesses
from mdcontest.experiments.ray_cluster import RayCluster
from mdcontest.experiments.store import Store
from mdcontest.experiments.table import last_progress, sweep_table
from mdcontest.folders import lock_folder, make_folder
from mdcontest.gap.curve import BEHAVIOUR, GAPS
from mdcontest.learn.logs import Progress
from mdcontest.learn.runs import remove_leftovers
from mdcontest.learn.spec import RunSpec

RETRIES = 2


@dataclass(frozen=True)
class Result:
    """How a training run ended."""

    spec: RunSpec
    progress: Progress | None
    """After its last iteration; None where it never got that far or was done already."""
    error: str | None = None
    notes: tuple[str, ...] = ()
    """Warnings its process gave."""


def cores() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_sweep(
    jobs: list[Job],
    out: Path,
    *,
    workers: int | None = None,
    ray: str | None = None,
    retries: int = RETRIES,
    show: bool = True,
) -> list[Entry]:
    """Do all jobs on this machine or on a Ray cluster, and index the folder. Only one sweep at a time works in it."""
    if workers is not None and workers < 1:
        raise InputError(f"--jobs must be at least 1, got {workers}")
    make_folder(out)
    lock = lock_folder(out, ".sweep.lock", "running a sweep in")
    try:
        _tidy(jobs, out)
        executor: Executor = LocalProcesses(workers or cores()) if ray is None else RayCluster(ray, workers)
        with sweep_table(show) as watch:
            entries = run_jobs(jobs, executor, retries, watch)
        _index(out, entries)
        return entries
    finally:
        if lock is not None:
            lock.close()


def _index(out: Path, entries: list[Entry]) -> None:
    """Write the index; a run that was done but can no longer be read has failed after all."""
    try:
        store = Store(out)
        for problem in store.problems:
            own = [entry for entry in entries if problem.startswith(f"{entry.job.folder} ")]
            for entry in own:
                if entry.job.kind == TRAIN and entry.state == DONE:
                    entry.state, entry.error = FAILED, problem
            if not own:
                warnings.warn(problem, stacklevel=2)
        store.write_index()
    except InputError as error:  # what was trained and measured is there all the same
        warnings.warn(f"{out} has no new index: {error}", stacklevel=2)


def _tidy(jobs: list[Job], out: Path) -> None:
    """Remove what a sweep that was killed had half written; a run's own files are tidied when it is gone on with."""
    for name in ("runs.parquet", "gaps.parquet"):
        remove_leftovers(out, name)
    for folder in {Path(job.folder) for job in jobs}:
        remove_leftovers(folder, FAILURES)
        remove_leftovers(folder / GAPS)
        remove_leftovers(folder / BEHAVIOUR)


def run_all(specs: list[RunSpec], jobs: int, show: bool = True) -> list[Result]:
    """Train all of them, at most `jobs` at a time; one that fails is not tried again and does not stop the others."""
    if jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {jobs}")
    with sweep_table(show and sys.stderr.isatty()) as watch:  # elsewhere the results at the end say it all
        entries = run_jobs([train_job(spec) for spec in specs], LocalProcesses(jobs), 0, watch)
    return [
        Result(spec, last_progress(spec.folder), entry.error, tuple(entry.notes))
        for spec, entry in zip(specs, entries, strict=True)
    ]
