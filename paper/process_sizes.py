"""Contests beside decision processes: both are one linear program, on the same transitions, as they grow.

python paper/process_sizes.py [--quick] [--out FOLDER]

Writes finite-processes.parquet, one row a size and seed:

    states, actions, contest      its size, and its number among those of that size
    contest_seconds               the program of thm:lp for a margin without structure, as in finite.py
    process_seconds               the average-reward program over occupancies for a reward, by the same solver, HiGHS

Seconds are of processor time. The program of a contest has |S||A| dense rows besides, one for each pair's margins.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from finite import Row, measuring, random_contest, solve_timed, write_rows
from finite_figures import slope, slopes_by
from lemma_sets import flow_balance
from scipy.optimize import linprog

import mdcontest as mdc
from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.report.statistics import Interval
from mdcontest.solvers import LinearProgram

PROCESSES_FORMAT = "mdcontest/paper-finite-processes"
PROCESSES_SCHEMA = dict.fromkeys(("states", "actions", "contest"), "int64") | dict.fromkeys(
    ("contest_seconds", "process_seconds"), "float64"
)
ACTIONS, SEEDS = 2, 3
FITTED_FROM = 50
"""States from which seconds are those of the method, not of its start."""


def process_timed(contest: mdc.Contest, reward: Array) -> tuple[float, float]:
    """The largest Σ x r over occupancies, and the processor seconds it took."""
    equations = np.vstack([flow_balance(contest), np.ones(contest.num_pairs)])
    totals = [*np.zeros(contest.num_states), 1.0]
    began = time.process_time()
    found = linprog(-reward, A_eq=equations, b_eq=totals, bounds=(0, None), method="highs")
    if found.status != 0:
        raise InputError(f"the program of a process of {contest.num_states} states was not solved: {found.message}")
    return -float(found.fun), time.process_time() - began


def random_reward(contest: mdc.Contest, seed: int) -> Array:
    """One number a pair."""
    return np.random.default_rng([seed, 7]).normal(size=contest.num_pairs)


def measure(quick: bool) -> Iterator[Row]:
    """One row a size and seed."""
    sizes = (10, 20) if quick else (10, 20, 30, 50, 70, 100, 140, 200)
    solve_timed(random_contest(0, 3, ACTIONS), LinearProgram())  # what only the first solve of a process takes
    process_timed(random_contest(0, 3, ACTIONS), np.ones(3 * ACTIONS))
    for states in sizes:
        for seed in range(SEEDS):
            contest = random_contest(seed, states, ACTIONS)
            row = {"states": states, "actions": ACTIONS, "contest": seed}
            yield row | {
                "contest_seconds": solve_timed(contest, LinearProgram())[1],
                "process_seconds": process_timed(contest, random_reward(contest, seed))[1],
            }


def summarise_processes(table: Mapping[str, Any]) -> dict[str, Any]:
    """Exponents of seconds in |S||A|, and seconds at the largest size, medians over seeds; exponents by contest."""
    states, found = np.array(table["states"]), dict[str, Any]()
    sizes = sorted(set(table["states"]))
    fitted = [size for size in sizes if size >= FITTED_FROM] or sizes
    for name in ("contest", "process"):
        seconds = np.array(table[f"{name}_seconds"])
        medians = {size: float(np.median(seconds[states == size])) for size in sizes}
        found[f"{name}_exponent"] = slope(np.log(fitted), np.log([medians[size] for size in fitted]))
        rows = states >= fitted[0]
        alike = np.array(table["contest"])[rows]
        found[f"{name}_exponents"] = slopes_by(alike, np.log(states[rows]), np.log(seconds[rows]))
        found[f"{name}_largest"] = medians[sizes[-1]]
    return found | {"pairs": float(ACTIONS * sizes[-1]), "fitted_from": float(fitted[0])}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the table."""
    return measuring("Finite contests beside decision processes of the same size.", _run, arguments)


def _run(quick: bool, folder: Path) -> None:
    rows = list(measure(quick))
    write_rows(folder / "finite-processes.parquet", PROCESSES_FORMAT, PROCESSES_SCHEMA, iter(rows))
    for name, value in summarise_processes({key: [row[key] for row in rows] for key in PROCESSES_SCHEMA}).items():
        print(f"{name}: {value.mean if isinstance(value, Interval) else value:.4g}")


if __name__ == "__main__":
    sys.exit(main())
