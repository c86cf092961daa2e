"""A second look at tasks where we find other than the paper: its algorithms once more, on another code base.

on_sb3.py has the algorithms. Three seeds of 200 000 steps show large differences only; an arm whose policies fall apart
late goes on for a million. Needs pip install stable-baselines3.

python paper/independent.py [--tasks A,B] [--missing]     (some 10 minutes on two cores for a task; others stay)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import recorded
from study import guarded

from mdcontest.errors import InputError
from mdcontest.folders import make_folder
from mdcontest.report.statistics import curve_on_grid, step_grid
from mdcontest.tables import read_table, write_table

FORMAT = "mdcontest/paper-independent"
SCHEMA = {"task": "string", "algorithm": "string", "seed": "int64", "step": "int64", "return": "float64"}
ARMS: dict[str, tuple[str, dict[str, int]]] = {
    "hpi-clip": ("hpi-clip", {}),
    "hpi": ("hpi", {}),
    "sppo": ("sppo", {}),
    "hpi-clip, T_C = 64": ("hpi-clip", {"comparison_horizon": 64}),
    "hpi-clip without outcomes of the first policy": ("hpi-clip", {"first_iterate": 0}),
    "sppo without outcomes of the first policy": ("sppo", {"first_iterate": 0}),
}
"""Name in the table → algorithm, and settings that are not the preset's, named as in this library."""
CASES = {
    "Hopper-v5": ("hpi-clip", "hpi", "sppo"),
    "Walker2d-v5": ("hpi", "sppo"),
    "InvertedPendulum-v5": (
        "hpi",
        "sppo",
        "hpi-clip",
        "hpi-clip without outcomes of the first policy",
        "sppo without outcomes of the first policy",
    ),
    "InvertedDoublePendulum-v5": ("hpi-clip", "hpi", "sppo"),
    "Swimmer-v5": ("hpi-clip", "hpi-clip, T_C = 64"),
    "Ant-v5": ("hpi", "sppo"),
}
"""Task → those whom the paper has in another order than we."""
SEEDS = (0, 1, 2)
Job = tuple[str, str, int]
"""Task, name of an arm, seed."""
STEPS, POINTS = 100 * 2048, 20
LONGER = {"sppo without outcomes of the first policy": 488 * 2048}
"""As long as the runs of this library, where what is looked for comes late."""


def _rows(job: Job) -> list[dict[str, Any]]:
    from on_sb3 import train

    task, arm, seed = job
    algorithm, settings = ARMS[arm]
    steps = LONGER.get(arm, STEPS)
    grid = step_grid(steps, POINTS)
    curve = curve_on_grid(*train(task, algorithm, seed, steps, **settings), grid)
    head = {"task": task, "algorithm": arm, "seed": seed}
    return [head | {"step": int(step), "return": float(value)} for step, value in zip(grid, curve, strict=True)]


def _jobs(tasks: Sequence[str]) -> list[Job]:
    unknown = [task for task in tasks if task not in CASES]
    if unknown:
        raise InputError(f"there is no second look at {unknown[0]}; there is one at {', '.join(CASES)}")
    return [(task, algorithm, seed) for task in tasks for seed in SEEDS for algorithm in CASES[task]]


def _stored(path: Path) -> list[dict[str, Any]]:
    """Rows that are there."""
    if not path.is_file():
        return []
    table = read_table(path, FORMAT, SCHEMA)
    return [dict(zip(SCHEMA, row, strict=True)) for row in zip(*(table[name] for name in SCHEMA), strict=True)]


def _job(row: dict[str, Any]) -> Job:
    return row["task"], row["algorithm"], row["seed"]


def main() -> int:
    """Train all and write results/independent.parquet."""
    parser = argparse.ArgumentParser(description="The paper's algorithms on Stable-Baselines3, for a second look.")
    parser.add_argument("--tasks", metavar="A,B", help=f"some of {', '.join(CASES)} (default all)")
    parser.add_argument("--missing", action="store_true", help="only runs that the table does not have")
    parser.add_argument("--out", default=str(recorded.FOLDER), metavar="FOLDER", help="default paper/results")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time (default 2)")
    return guarded(_run, parser.parse_args())


def _run(options: argparse.Namespace) -> int:
    try:
        import stable_baselines3  # noqa: F401
    except ImportError:
        raise InputError("this needs another code base to compare with: pip install stable-baselines3") from None
    if options.jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {options.jobs}")
    tasks = list(CASES) if options.tasks is None else [name.strip() for name in options.tasks.split(",")]
    jobs, path = _jobs(tasks), Path(options.out) / "independent.parquet"
    make_folder(path.parent)
    stored = _stored(path)
    if options.missing:
        jobs = [job for job in jobs if job not in set(map(_job, stored))]
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = [row for found in pool.map(_rows, jobs) for row in found]
    kept = [row for row in stored if _job(row) not in set(jobs)]
    order = {job: place for place, job in enumerate(_jobs(list(CASES)))}
    everything = sorted(kept + rows, key=lambda row: order[_job(row)])
    write_table(path, FORMAT, SCHEMA, {name: [row[name] for row in everything] for name in SCHEMA})
    for job in jobs:
        last = [row["return"] for row in rows if _job(row) == job][-POINTS // 4 :]
        print(f"{job[0]:19} {job[1]:18} seed {job[2]}: return {np.mean(last):.0f} over the last quarter")
    return 0


if __name__ == "__main__":
    sys.exit(main())
