"""A second look at tasks where we find other than the paper: its algorithms once more, on another code base.

on_sb3.py has the algorithms. Three seeds of 200 000 steps show large differences only. Needs pip install
stable-baselines3.

python paper/independent.py [--tasks A,B]     (some 10 minutes on two cores for a task; others stay as they are)
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
CASES = {"Hopper-v5": ("hpi-clip", "sppo"), "InvertedPendulum-v5": ("hpi", "sppo")}
"""Task → whom the paper has ahead of SPPO, or level with it, and we have behind."""
SEEDS = (0, 1, 2)
Job = tuple[str, str, int]
"""Task, algorithm, seed."""
STEPS, POINTS = 100 * 2048, 20


def _rows(job: Job) -> list[dict[str, Any]]:
    from on_sb3 import train

    grid = step_grid(STEPS, POINTS)
    curve = curve_on_grid(*train(*job, STEPS), grid)
    head = dict(zip(("task", "algorithm", "seed"), job, strict=True))
    return [head | {"step": int(step), "return": float(value)} for step, value in zip(grid, curve, strict=True)]


def _jobs(tasks: Sequence[str]) -> list[Job]:
    unknown = [task for task in tasks if task not in CASES]
    if unknown:
        raise InputError(f"there is no second look at {unknown[0]}; there is one at {', '.join(CASES)}")
    return [(task, algorithm, seed) for task in tasks for seed in SEEDS for algorithm in CASES[task]]


def _others(path: Path, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """Rows that are there of other tasks."""
    if not path.is_file():
        return []
    table = read_table(path, FORMAT, SCHEMA)
    rows = [dict(zip(SCHEMA, row, strict=True)) for row in zip(*(table[name] for name in SCHEMA), strict=True)]
    return [row for row in rows if row["task"] not in tasks]


def main() -> int:
    """Train all and write results/independent.parquet."""
    parser = argparse.ArgumentParser(description="The paper's algorithms on Stable-Baselines3, for a second look.")
    parser.add_argument("--tasks", metavar="A,B", help=f"some of {', '.join(CASES)} (default all)")
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
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = [row for found in pool.map(_rows, jobs) for row in found]
    everything = sorted(_others(path, tasks) + rows, key=lambda row: list(CASES).index(row["task"]))
    write_table(path, FORMAT, SCHEMA, {name: [row[name] for row in everything] for name in SCHEMA})
    for job in jobs:
        last = [r["return"] for r in rows if (r["task"], r["algorithm"], r["seed"]) == job][-POINTS // 4 :]
        print(f"{job[0]:16} {job[1]:9} seed {job[2]}: return {np.mean(last):.0f} over the last quarter")
    return 0


if __name__ == "__main__":
    sys.exit(main())
