"""thm:lp: one linear program solves a finite contest.

    maximise    κ
    subject to  Mᵀx + Fᵀh ≥ κ 1        |S||A| rows
                F x = 0                 |S| rows      F[s', (s, a)] = P(s'|s, a) − 1[s = s']
                1ᵀx = 1                 1 row
                x ≥ 0                   |S||A| bounds

in |S||A| + |S| + 1 variables (x, h, κ). M is skew, so κ = 0 at the optimum: the program looks for a feasible point.
Here h has the sign of the program; a certificate's h has the opposite one.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import highspy
import numpy as np
import scipy.sparse as sp

from mdcontest.arrays import Array
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.occupancy import decision_rule
from mdcontest.solution import Status
from mdcontest.solvers.base import STOPPED, Progress, Proposal, Report, certify, require_choice, status_when_stopped
from mdcontest.solvers.memory import require_memory

ATTEMPTS = ((1e-8, True), (1e-10, True), (1e-7, True), (1e-10, False))
"""(feasibility tolerance, crossover to a vertex) in the order tried, until a rule's gap is small enough.

A vertex is exact up to rounding however loose the tolerance was, if its basis is the right one; a tight tolerance makes
the right basis likelier but lets HiGHS cycle on degenerate programs (margins of signs are). On 42 random contests the
first attempt left no gap above 1e-9, the second alone two.
"""
BYTES_PER_ENTRY = 250
"""Peak memory that an entry of M costs, HiGHS's copies and factors included (231 at 800 pairs, 242 at 1500)."""


@dataclass(frozen=True)
class LinearProgram:
    """Exact solution by the linear program of thm:lp on HiGHS."""

    method: Literal["ipm", "simplex"] = "ipm"
    """Interior point with crossover to a vertex, or the simplex method throughout."""

    name: ClassVar[str] = "LinearProgram"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        require_choice(self.method, "method", ("ipm", "simplex"))
        n = contest.num_pairs
        require_memory(BYTES_PER_ENTRY * n * n, f"the linear program of {n} pairs holds {n}² margins, which")
        report(Progress(0))  # building takes a while, and a time limit may be over already
        program = build(contest)
        best: tuple[float, Array] | None = None
        stopped, attempts = None, 0
        for tolerance, crossover in ATTEMPTS:
            attempts += 1
            stopped, values = _run(program, self.method, tolerance, crossover, report)
            if len(values):
                x = np.maximum(values[: contest.num_pairs], 0.0).reshape(contest.num_states, contest.num_actions)
                rule = decision_rule(x)
                found = -certify(contest, rule).kappa
                best = min(best or (found, rule), (found, rule), key=lambda pair: pair[0])
            if stopped or (best is not None and best[0] <= gap):
                break
        if best is None:
            raise stopped or InputError("HiGHS found no solution of the linear program")
        info = {
            "variables": program.num_col_,
            "constraints": program.num_row_ + contest.num_pairs,
            "method": self.method,
            "attempts": attempts,
        }
        return Proposal(best[1], status_when_stopped(stopped) if stopped else Status.INACCURATE, info=info)


def build(contest: Contest) -> Any:
    """The program of thm:lp as a HighsLp; M is divided by its bound, so that tolerances mean the same everywhere."""
    n, states = contest.num_pairs, contest.num_states
    M = contest.margin.matrix() / (contest.margin.bound or 1.0)
    F = flow_matrix(contest)
    kappa = -np.ones((n, 1))
    rows = sp.csc_array(
        sp.block_array(
            [
                [sp.csr_array(M.T), F.T, sp.csr_array(kappa)],
                [F, None, None],
                [sp.csr_array(np.ones((1, n))), None, None],
            ]
        )
    )
    infinity = highspy.kHighsInf
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = n + states + 1, n + states + 1
    program.sense_ = highspy.ObjSense.kMaximize
    program.col_cost_ = np.append(np.zeros(n + states), 1.0)
    program.col_lower_ = np.append(np.zeros(n), np.full(states + 1, -infinity))
    program.col_upper_ = np.full(n + states + 1, infinity)
    program.row_lower_ = np.append(np.zeros(n + states), 1.0)
    program.row_upper_ = np.concatenate([np.full(n, infinity), np.zeros(states), [1.0]])
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_, program.a_matrix_.index_ = rows.indptr, rows.indices
    program.a_matrix_.value_ = rows.data
    return program


def flow_matrix(contest: Contest) -> Any:
    """F[s', (s, a)] = P(s'|s, a) − 1[s = s'], sparse, shape [S, n]."""
    n = contest.num_pairs
    P = sp.csr_array(contest.dynamics.full())
    leaves = sp.csr_array((np.ones(n), (np.arange(n) // contest.num_actions, np.arange(n))))
    return sp.csr_array(P.T - leaves)


def _run(
    program: Any, method: str, tolerance: float, crossover: bool, report: Report
) -> tuple[BaseException | None, Array]:
    """What stopped HiGHS early, if anything did, and the values of the variables (none if it had none yet)."""
    highs = highspy.Highs()
    highs.silent()
    for option, value in {
        "solver": method,
        "primal_feasibility_tolerance": tolerance,
        "dual_feasibility_tolerance": tolerance,
        "run_crossover": "on" if crossover else "off",
        "simplex_iteration_limit": 1000 + 50 * program.num_row_,
        "threads": 1,
        "small_matrix_value": 1e-12,  # the default drops transition probabilities below 1e-9
    }.items():
        highs.setOptionValue(option, value)
    highs.passModel(program)

    with _catch_interrupt() as interrupted:
        raised: list[BaseException] = []  # kept until HiGHS has returned

        def alive(event: Any) -> None:
            out = event.data_out
            try:
                if not raised:
                    report(Progress(int(max(out.simplex_iteration_count, out.ipm_iteration_count))))
            except BaseException as error:
                raised.append(error)
            if interrupted.is_set() or raised:
                event.interrupt()

        highs.cbSimplexInterrupt.subscribe(alive)
        highs.cbIpmInterrupt.subscribe(alive)
        highs.run()
        if interrupted.is_set():
            raised.append(KeyboardInterrupt())
        if raised and not isinstance(raised[0], STOPPED):
            raise raised[0]
        return (raised[0] if raised else None), np.array(highs.getSolution().col_value)


@contextmanager
def _catch_interrupt() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets: an exception must not travel through HiGHS's frames."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGINT, lambda *_: asked.set())
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
