"""Sweeps from start to end: the lock, the place where jobs run, the table, and the index of what came of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mdcontest.errors import InputError
from mdcontest.experiments.engine import Entry, Executor, run_jobs
from mdcontest.experiments.jobs import Job, train_job
from mdcontest.experiments.processes import LocalProcesses
from mdcontest.experiments.ray_cluster import RayCluster
from mdcontest.experiments.store import Store
from mdcontest.experiments.table import last_progress, sweep_table
from mdcontest.learn.logs import Progress
from mdcontest.learn.runs import lock_folder, make_folder
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
        executor: Executor = LocalProcesses(workers or cores()) if ray is None else RayCluster(ray, workers)
        with sweep_table(show) as watch:
            entries = run_jobs(jobs, executor, retries, watch)
        Store(out).write_index()
        return entries
    finally:
        if lock is not None:
            lock.close()


def run_all(specs: list[RunSpec], jobs: int, show: bool = True) -> list[Result]:
    """Train all of them, at most `jobs` at a time; one that fails is not tried again and does not stop the others."""
    if jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {jobs}")
    with sweep_table(show) as watch:
        entries = run_jobs([train_job(spec) for spec in specs], LocalProcesses(jobs), 0, watch)
    return [
        Result(spec, last_progress(spec.folder), entry.error, tuple(entry.notes))
        for spec, entry in zip(specs, entries, strict=True)
    ]
