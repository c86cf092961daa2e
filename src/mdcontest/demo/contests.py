"""The finite half of the demo: the shipped contests, solved exactly and by HPI."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mdcontest import examples
from mdcontest.conditions import check_conditions
from mdcontest.contest import Contest
from mdcontest.report.page import InlineFigure, Section, Table
from mdcontest.report.plots import BLUE, ORANGE, Curve, as_svg, gap_figure, heat_map
from mdcontest.solution import Solution, Status
from mdcontest.solvers import HPI, LinearProgram, solve
from mdcontest.solvers.rates import theorem_bound
from mdcontest.verification import Verification, verify

COLUMNS = ["contest", "S", "A", "LP gap", "verified", "HPI gap", "theorem η", "bound"]


@dataclass(frozen=True)
class Solved:
    """One contest with its solutions."""

    name: str
    contest: Contest
    exact: Solution
    check: Verification
    adaptive: Solution
    theorem: Solution

    @property
    def ok(self) -> bool:
        return self.exact.status == Status.SOLVED and bool(self.check)


def solve_example(name: str, iterations: int) -> Solved:
    """The linear program with its exact check, and HPI with both learning rates to the last iteration."""
    contest = examples.make(name)
    exact = solve(contest, LinearProgram())
    return Solved(
        name,
        contest,
        exact,
        verify(contest, exact, exact=True),
        solve(contest, HPI(iterations), tol=0),
        solve(contest, HPI(iterations, eta="theorem"), tol=0),
    )


def table_row(one: Solved, iterations: int) -> list[str]:
    """The numbers of the table, as text."""
    return [
        one.name,
        str(one.contest.num_states),
        str(one.contest.num_actions),
        f"{one.exact.gap:.0e}",
        "yes" if one.check else "NO",
        f"{one.adaptive.gap:.0e}",
        f"{one.theorem.gap:.0e}",
        f"{theorem_bound(one.contest, iterations):.0e}",
    ]


def overview(rows: list[list[str]]) -> Section:
    """All contests in one table."""
    about = (
        "Gaps are optimality gaps: what the best reply wins against the policy on average, zero at a solution. S and A "
        "count states and actions. “Verified”: the linear program's certificate was checked over the rationals by code "
        "that shares nothing with the solvers. “HPI gap” is with the adaptive learning rate; the last two columns are "
        "the gap with the theorem's learning rate and the theorem's bound on it."
    )
    return Section("All contests", "", about, tables=[Table(COLUMNS, rows, sortable=True)])


def draw(one: Solved, iterations: int, folder: Path) -> Section:
    """The figures of one contest, as files and for the page."""
    counts = np.unique(np.geomspace(2, iterations, 60).astype(np.int64))
    bound = np.array([theorem_bound(one.contest, int(k)) for k in counts])
    curves = [
        Curve("HPI, adaptive η", one.adaptive.history, BLUE, "o"),
        Curve("HPI, the theorem's η", one.theorem.history, ORANGE, "s"),
    ]
    figures = {
        "gap": gap_figure(curves, (counts, bound)),
        "occupancy": heat_map(one.exact.occupancy, one.contest, "share of time x(s, a)", "Blues"),
        "policy": heat_map(one.exact.rule, one.contest, "decision rule d(a|s)", "Purples"),
    }
    inline = {}
    for kind, figure in figures.items():
        figure.savefig(folder / f"{one.name}-{kind}.png", dpi=160)
        inline[kind] = InlineFigure(f"{kind} of {one.contest.name}", as_svg(figure))
    found = check_conditions(one.contest)
    conditions = (
        f"{one.contest.num_states} states, {one.contest.num_actions} actions. Unichain: {found.unichain}, "
        f"{found.unichain.witness}. Aperiodic: {found.aperiodic}. τ is at most {found.tau:.3g}. "
        f"Exact gap over the rationals: at most {float(one.check.gap):.2e}."
    )
    return Section(
        one.contest.name,
        examples.about(one.name),
        conditions,
        [[inline["gap"]], [inline["occupancy"], inline["policy"]]],
    )
