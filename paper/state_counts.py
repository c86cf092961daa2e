"""Does HPI's rate depend on the number of states? Contests of very different sizes that mix equally fast.

A restart of one half gives them all the same bound τ ≤ 4, so thm:hpi-convergence promises all of them the same gap.
finite-states.parquet has a row a contest: states, contest, K, and certified gaps relative to the margin's bound, of the
uniform rule and of HPI's. Contests with more states are easier, even for the uniform rule, so what counts is the ratio.

python paper/state_counts.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from finite import Row, measuring, random_contest, write_rows
from finite_figures import column, medians, slope, slopes_by

import mdcontest as mdc
from mdcontest.solvers import HPI

STATES_FORMAT = "mdcontest/paper-finite-states"
STATES_SCHEMA = {"states": "int64", "contest": "int64", "K": "int64", "start": "float64", "gap": "float64"}
SIZES, QUICK = (3, 6, 12, 25, 50, 100, 200), (3, 6)
ACTIONS, RESTART, ITERATIONS, CONTESTS = 3, 0.5, 1000, 10


def measure(sizes: Sequence[int], K: int = ITERATIONS) -> Iterator[Row]:
    """The gap of the uniform rule, with which HPI starts, and after K iterations with the adaptive rate."""
    for states in sizes:
        for number in range(CONTESTS):
            contest = random_contest(500 + number, states, ACTIONS, RESTART)
            uniform = np.full((states, ACTIONS), 1 / ACTIONS)
            gaps = mdc.optimality_gap(contest, uniform), mdc.solve(contest, HPI(K, eta="adaptive"), tol=0).gap
            start, gap = (one / contest.margin.bound for one in gaps)
            yield {"states": states, "contest": number, "K": K, "start": start, "gap": gap}


def summarise_states(table: Mapping[str, Any]) -> dict[str, Any]:
    """Medians for the smallest and the largest contests, and the power of |S| with which what is left of gaps grows."""
    start, gap = column(table, "start"), column(table, "gap")
    states, left = medians(column(table, "states"), gap / start)
    gaps = medians(column(table, "states"), gap)[1]
    by_contest = slopes_by(column(table, "contest"), np.log(column(table, "states")), np.log(gap / start))
    return {
        "fewest": int(states[0]),
        "most": int(states[-1]),
        "K": int(table["K"][0]),
        "gap_fewest": float(gaps[0]),
        "gap_most": float(gaps[-1]),
        "left_fewest": float(left[0]),
        "left_most": float(left[-1]),
        "exponent": slope(np.log(states), np.log(left)),
        "exponents": by_contest,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the table."""
    return measuring("HPI's gap on contests of 3 to 200 states that mix equally fast.", _run, arguments)


def _run(quick: bool, folder: Path) -> None:
    rows = measure(QUICK, 10) if quick else measure(SIZES)
    write_rows(folder / "finite-states.parquet", STATES_FORMAT, STATES_SCHEMA, rows)


if __name__ == "__main__":
    sys.exit(main())
