"""Exact and approximate solution of finite contests: thm:lp and thm:hpi-convergence, measured on random contests.

python paper/finite.py [--quick] [--out FOLDER]

Writes two tables; finite_figures.py draws and summarises them.

finite-sizes.parquet, one row a contest: the linear program of thm:lp against the matrix game over all |A|^|S|
deterministic policies. Transitions are dense and positive (so unichain), margins dense and normal.

    states, actions, contest      its size, and its number among those of that size
    policies                      |A|^|S|, as a float: it soon exceeds every integer type
    lp_variables, lp_constraints  counted in the program that HiGHS gets; bounds x ≥ 0 are constraints, κ a variable
    theorem_variables, theorem_constraints    |S||A| + |S| + 1 and 2|S||A| + |S| + 1
    lp_seconds, game_seconds      of processor time, certification included; other work on the machine does not count
    lp_gap, game_gap              certified, relative to the margin's bound
    lp_solved, game_solved        whether that is at most 1e-8
    game_run                      false where there are too many policies; the game's other columns are then missing

M is skew, so κ = 0 at every optimum and the program looks for a feasible point. Ours keeps κ, as the theorem has it:
what HiGHS's tolerances leave of it shows in the gap.

finite-rates.parquet, one row a contest, method and number of iterations K:

    contest, states, actions      its number and size
    restart                       the chance of a restart in each step; 0 without
    tau                           the certified bound on τ
    mixed_states                  states in which the exact solution takes several actions
    method, K                     see below
    gap                           certified, relative to the margin's bound; the last iterate's by a best response
    bound                         4 τ √(log|A| / K), on the same scale; proved for the theorem's rate only

"hpi theorem" and "hpi-pg theorem" are Algorithms 1 and 2 with the theorem's learning rate for that K, Algorithm 2 up to
K = 3000 as its ascents take long. "hpi adaptive" is Algorithm 1 with this library's rate, and "hpi last" the iterate
d_K of that same run in place of the average.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax
from study import measuring

import mdcontest as mdc
from mdcontest.arrays import Array
from mdcontest.conditions import refuse_if_not_unichain
from mdcontest.solvers import HPI, HPIPG, LinearProgram, PolicyGame, Solver
from mdcontest.solvers.linear_program import build
from mdcontest.solvers.rates import theorem_bound
from mdcontest.tables import write_table

SIZES_FORMAT, RATES_FORMAT = "mdcontest/paper-finite-sizes", "mdcontest/paper-finite-rates"
SIZES_SCHEMA = (
    dict.fromkeys(("states", "actions", "contest"), "int64")
    | {"policies": "float64"}
    | dict.fromkeys(("lp_variables", "lp_constraints", "theorem_variables", "theorem_constraints"), "int64")
    | {"lp_seconds": "float64", "lp_gap": "float64", "lp_solved": "bool"}
    | {"game_run": "bool", "game_seconds": "float64", "game_gap": "float64", "game_solved": "bool"}
)
RATES_SCHEMA = (
    dict.fromkeys(("contest", "states", "actions"), "int64")
    | {"restart": "float64", "tau": "float64", "mixed_states": "int64"}
    | {"method": "string", "K": "int64", "gap": "float64", "bound": "float64"}
)
MOST_POLICIES = 4096
"""The largest game that is run."""
SOLVED = 1e-8
"""A certified gap up to this, relative to the margin's bound, is a solution."""
TAKEN = 1e-6
"""Actions of a higher probability are counted as taken."""
MOST_GRADIENT_ITERATIONS = 3000
"""Beyond this K Algorithm 2 is left out: each iteration is an ascent."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    sizes: Mapping[int, Sequence[int]]
    """Actions → numbers of states."""
    contests_per_size: int
    rated: Sequence[tuple[int, int, float]]
    """(states, actions, restart) of the contests for the rates."""
    iterations: Sequence[int]
    """The numbers K."""


FULL = Plan(
    sizes={2: (*range(2, 13), 20, 30, 50, 70, 100, 140, 200), 3: (*range(2, 8), 10, 20, 30, 50, 70, 100, 140, 200)},
    contests_per_size=3,
    rated=(
        *((2, 2, 0.0), (3, 3, 0.0), (5, 4, 0.0), (8, 2, 0.0)),
        *((4, 5, 0.1), (6, 2, 0.1), (12, 3, 0.1), (20, 4, 0.1)),
        *((3, 2, 0.5), (10, 5, 0.5), (15, 3, 0.5), (30, 5, 0.5)),
    ),
    iterations=(100, 300, 1000, 3000, 10_000),
)
QUICK = Plan(
    sizes={2: (2, 4, 6, 8, 20), 3: (2, 3, 4, 5, 20)},
    contests_per_size=2,
    rated=((2, 2, 0.0), (5, 3, 0.1), (6, 2, 0.5)),
    iterations=(30, 100, 300),
)


def random_contest(seed: int, states: int, actions: int, restart: float = 0.0) -> mdc.Contest:
    """Every transition possible, and a margin without structure whose largest entry is 1."""
    rng = np.random.default_rng([seed, states, actions])
    P = rng.dirichlet(np.ones(states), size=(states, actions))
    G = rng.normal(size=(states * actions,) * 2)
    M = G - G.T
    contest = mdc.Contest(P, np.full(states, 1 / states), M / np.abs(M).max(), name=f"random, seed {seed}")
    return contest.with_restart(restart) if restart else contest


# --- sizes ------------------------------------------------------------------------------------------------


def measure_sizes(plan: Plan) -> Iterator[Row]:
    """One row a contest."""
    solve_timed(random_contest(0, 3, 2), LinearProgram())  # what only the first solve of a process takes
    solve_timed(random_contest(0, 3, 2), PolicyGame())
    for actions, sizes in plan.sizes.items():
        for states in sizes:
            for seed in range(plan.contests_per_size):
                yield _size_row(seed, states, actions)


def _size_row(seed: int, states: int, actions: int) -> Row:
    contest, n = random_contest(seed, states, actions), states * actions
    variables, constraints = count_program(contest)
    row: Row = {"states": states, "actions": actions, "contest": seed, "policies": float(actions) ** states}
    row |= {"lp_variables": variables, "lp_constraints": constraints}
    row |= {"theorem_variables": n + states + 1, "theorem_constraints": 2 * n + states + 1}
    row |= _outcome("lp", contest, LinearProgram())
    row["game_run"] = row["policies"] <= MOST_POLICIES
    missing = {f"game_{what}": None for what in ("seconds", "gap", "solved")}
    return row | (_outcome("game", contest, PolicyGame(MOST_POLICIES)) if row["game_run"] else missing)


def count_program(contest: mdc.Contest) -> tuple[int, int]:
    """Variables and constraints of the program as it is built: rows and finite bounds on variables."""
    program = build(contest)
    bounds = np.isfinite(program.col_lower_).sum() + np.isfinite(program.col_upper_).sum()
    return program.num_col_, program.num_row_ + int(bounds)


def _outcome(name: str, contest: mdc.Contest, solver: Solver) -> Row:
    solution, seconds = solve_timed(contest, solver)
    gap = solution.gap / contest.margin.bound
    return {f"{name}_seconds": seconds, f"{name}_gap": gap, f"{name}_solved": gap <= SOLVED}


def solve_timed(contest: mdc.Contest, solver: Solver) -> tuple[mdc.Solution, float]:
    """The solution and its processor seconds; the unichain check is remembered, so it comes before the clock."""
    refuse_if_not_unichain(contest)
    began = time.process_time()
    solution = mdc.solve(contest, solver)
    return solution, time.process_time() - began


# --- rates ------------------------------------------------------------------------------------------------


def measure_rates(plan: Plan) -> Iterator[Row]:
    """One row a contest, method and K."""
    for number, (states, actions, restart) in enumerate(plan.rated):
        contest = random_contest(100 + number, states, actions, restart)
        exact = mdc.solve(contest, LinearProgram()).rule
        about = {"contest": number, "states": states, "actions": actions, "restart": restart}
        about["tau"] = mdc.check_conditions(contest).tau
        about["mixed_states"] = int(((exact > TAKEN).sum(axis=1) > 1).sum())
        for method, K, gap in _gaps(contest, plan.iterations):
            scale = contest.margin.bound
            yield about | {"method": method, "K": K, "gap": gap / scale, "bound": theorem_bound(contest, K) / scale}


def _gaps(contest: mdc.Contest, iterations: Sequence[int]) -> Iterator[tuple[str, int, float]]:
    """(method, K, certified gap). The theorem's rate depends on K, so each K is a run of its own."""
    for K in iterations:
        yield "hpi theorem", K, mdc.solve(contest, HPI(K, eta="theorem"), tol=0).gap
        yield "hpi adaptive", K, mdc.solve(contest, HPI(K, eta="adaptive"), tol=0).gap
        if K <= MOST_GRADIENT_ITERATIONS:
            yield "hpi-pg theorem", K, mdc.solve(contest, HPIPG(K, eta="theorem"), tol=0).gap
    for k, rule, _ in hedge_by_hand(contest, max(iterations)):
        if k in iterations:
            yield "hpi last", k, mdc.optimality_gap(contest, rule)


def hedge_by_hand(contest: mdc.Contest, K: int, eta: float | None = None) -> Iterator[tuple[int, Array, Array]]:
    """(k, d_k, x̄_k) of Algorithm 1, written once more without the solver, which does not show its last iterate.

    d_k(a|s) ∝ exp(η(s) Σ_{j<k} (Q_j − V_j)(s, a)),     η(s) = √(log|A| / Σ_{j<k} max_a |Q_j − V_j|²) unless given.
    """
    scores = np.zeros((contest.num_states, contest.num_actions))
    squares, x_bar = np.zeros((contest.num_states, 1)), np.zeros_like(scores)
    for k in range(1, K + 1):
        rate = np.sqrt(np.log(contest.num_actions) / np.where(squares > 0, squares, np.inf)) if eta is None else eta
        rule = softmax(rate * scores, axis=1)
        x_bar = x_bar + (mdc.occupancy(contest, rule) - x_bar) / k
        yield k, rule, x_bar
        V, Q = mdc.marginal_values(contest, rule)
        scores = scores + (Q - V[:, None])
        squares = squares + ((Q - V[:, None]) ** 2).max(axis=1, keepdims=True)


# --- the command ------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write both tables."""
    return measuring("Finite contests: sizes of exact programs, rates of HPI.", _run, arguments)


def _run(quick: bool, folder: Path) -> None:
    plan = QUICK if quick else FULL
    write_rows(folder / "finite-sizes.parquet", SIZES_FORMAT, SIZES_SCHEMA, measure_sizes(plan))
    write_rows(folder / "finite-rates.parquet", RATES_FORMAT, RATES_SCHEMA, measure_rates(plan))


def write_rows(path: Path, format: str, schema: Mapping[str, str], rows: Iterator[Row]) -> None:
    """A table of rows."""
    found = list(rows)
    write_table(path, format, schema, {name: [row[name] for row in found] for name in schema})


if __name__ == "__main__":
    sys.exit(main())
