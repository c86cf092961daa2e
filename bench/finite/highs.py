"""HiGHS as a peer: each kind of margin as the sparsest linear program it allows, passed straight to HiGHS.

thm:lp asks for x ≥ 0 in the flow polytope and h with c + P h − h ≤ −κ, c = M x, κ as large as it goes (it is 0).
Written out, M has n² entries. The same program stays sparse with a few more variables where M has structure:

    M = U J Uᵀ          y = Uᵀx                         d variables and rows, c = U J y
    classes             the same with U[z, k] = 1[class(z) = k], y the shares of the classes
    signs of f_k        y_k[i] = y_k[i−1] + x[i-th]     n variables and rows a feature, c sums 3 entries a feature
    r(z) − r(z')        maximise r·x over the polytope; h are the duals of the flow

A restart of equal probability ε everywhere never enters the matrix: the flow becomes Σ_a x − P₀ᵀx = ε μ, which also
says that x sums to one, and h may be shifted until κ = −ε μ·h. M is divided by its bound.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any, ClassVar

import highspy
import numpy as np
import scipy.sparse as sp

from mdcontest import Contest, margins
from mdcontest.arrays import Array, Ints
from mdcontest.errors import InputError
from mdcontest.occupancy import decision_rule
from mdcontest.solvers.base import Progress, Proposal, Report
from mdcontest.solvers.linear_program import build

METHODS = ("simplex", "ipx", "hipo", "pdlp")
TOLERANCE = 1e-9
INFINITY = highspy.kHighsInf


@dataclass(frozen=True)
class Program:
    """max or min cost·v subject to lower ≤ rows v ≤ upper, v ≥ 0 for the first n (x), the others free."""

    rows: Any
    lower: Array
    upper: Array
    cost: Array
    maximise: bool
    h: slice | None
    """Where h is among the variables; None where it is the duals of the first S rows."""


@dataclass(frozen=True)
class Highs:
    """A method of HiGHS at its defaults (presolve and crossover on), on the program that suits the margin."""

    method: str = "ipx"
    crossover: bool = True
    threads: int = 1

    name: ClassVar[str] = "HiGHS"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        """The rule of HiGHS's x, with HiGHS's own h."""
        if self.method not in METHODS:
            raise InputError(f"method must be one of {', '.join(METHODS)}, got {self.method!r}")
        report(Progress(0))
        if not _has_structure(contest):
            return self._dense(contest)
        program = sparse_program(contest)
        highs = self._run(_as_highs(program, contest.num_pairs))
        solution = highs.getSolution()
        values = np.array(solution.col_value)
        h = np.array(solution.row_dual)[: contest.num_states] if program.h is None else values[program.h]
        return self._answer(contest, highs, values, h)

    def _dense(self, contest: Contest) -> Proposal:
        highs = self._run(build(contest))
        values, n = np.array(highs.getSolution().col_value), contest.num_pairs
        return self._answer(contest, highs, values, -values[n : n + contest.num_states])

    def _run(self, program: Any) -> Any:
        highs = highspy.Highs()
        highs.silent()
        options = {
            "solver": self.method,
            "threads": self.threads,
            "run_crossover": "on" if self.crossover else "off",
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
            "ipm_optimality_tolerance": TOLERANCE,
            "pdlp_optimality_tolerance": TOLERANCE,
            "small_matrix_value": 1e-12,  # the default drops transition probabilities below 1e-9
        }
        for option, value in options.items():
            highs.setOptionValue(option, value)
        highs.passModel(program)
        highs.run()
        return highs

    def _answer(self, contest: Contest, highs: Any, values: Array, h: Array) -> Proposal:
        if not len(values) or not np.isfinite(values).all():
            raise InputError(f"HiGHS found no solution: {highs.modelStatusToString(highs.getModelStatus())}")
        x = np.maximum(values[: contest.num_pairs], 0.0).reshape(contest.num_states, contest.num_actions)
        x /= x.sum()
        found = highs.getInfo()
        info = {
            "iterations": int(max(found.simplex_iteration_count, found.ipm_iteration_count)),
            "highs_status": highs.modelStatusToString(highs.getModelStatus()),
        }
        return Proposal(decision_rule(x), info=info, x=x, h=h * (contest.margin.bound or 1.0))


def has_hipo() -> bool:
    """Whether HiGHS's newer interior point, an extra package, is installed."""
    return importlib.util.find_spec("highspy_extras") is not None


# --- programs ---------------------------------------------------------------------------------------------


def _has_structure(contest: Contest) -> bool:
    known = (margins.LowRank, margins.Classes, margins.RewardDifference, margins.Signs)
    straight = not isinstance(contest.margin, margins.Signs) or all(p is None for p in contest.margin.period)
    return isinstance(contest.margin, known) and straight and _same_restart(contest) is not None


def _same_restart(contest: Contest) -> float | None:
    """ε if it is the same for every pair, 0 without restarts; None if pairs differ."""
    e = contest.dynamics.restart
    if e is None:
        return 0.0
    return float(e[0]) if (e == e[0]).all() else None


def sparse_program(contest: Contest) -> Program:
    """The program of a margin with structure."""
    if isinstance(contest.margin, margins.RewardDifference):
        return _reward_program(contest)
    links, c = _prefix_sums(contest) if isinstance(contest.margin, margins.Signs) else _factors(contest)
    n, S, extra = contest.num_pairs, contest.num_states, links.shape[0]
    eps, bound = _same_restart(contest) or 0.0, contest.margin.bound or 1.0
    P, leaves = _chain(contest)
    flow, mass = _flow(contest)
    kappa = [] if eps else [sp.csr_array(np.ones((n, 1)))]
    nothing = [] if eps else [None]
    blocks = [
        [sp.csr_array((n, n)), P - leaves, c / bound, *kappa],
        [links[:, :n], None, links[:, n:], *nothing],
        [flow, None, None, *nothing],
    ]
    lower = np.concatenate([np.full(n, -INFINITY), np.zeros(extra), mass])
    upper = np.concatenate([np.zeros(n + extra), mass])
    # With a restart κ = −ε μ·h is to be large; without one it is a variable of its own.
    cost = np.concatenate([np.zeros(n), -eps * contest.start, np.zeros(extra), np.ones(len(kappa))])
    return Program(sp.csc_array(sp.block_array(blocks)), lower, upper, cost, True, slice(n, n + S))


def _reward_program(contest: Contest) -> Program:
    """The linear program of an average-reward Markov decision process, in the occupancies (Puterman 2014, sec. 8.8)."""
    flow, mass = _flow(contest)
    r = contest.margin.rows() / (contest.margin.bound or 1.0)
    return Program(sp.csc_array(flow), mass, mass, r - r.mean(), True, None)


def _chain(contest: Contest) -> tuple[Any, Any]:
    """P₀ and the matrix that repeats h(s) over the actions, both [n, S] and sparse."""
    n, A = contest.num_pairs, contest.num_actions
    leaves = sp.csr_array((np.ones(n), np.arange(n) // A, np.arange(n + 1)), shape=(n, contest.num_states))
    return sp.csr_array(contest.dynamics.matrix), leaves


def _flow(contest: Contest) -> tuple[Any, Array]:
    """Rows and right-hand side of: x is an occupancy."""
    P, leaves = _chain(contest)
    flow = sp.csr_array((leaves - P).T)
    eps = _same_restart(contest) or 0.0
    if eps:
        return flow, eps * contest.start
    total = sp.csr_array(np.ones((1, contest.num_pairs)))
    return sp.csr_array(sp.vstack([flow, total])), np.append(np.zeros(contest.num_states), 1.0)


def _factors(contest: Contest) -> tuple[Any, Any]:
    """[Uᵀ, −I], the rows that make y = Uᵀx, and U J, which makes c of y."""
    margin: Any = contest.margin
    n = contest.num_pairs
    if isinstance(margin, margins.Classes):
        J = margin.class_matrix
        U: Any = sp.csr_array((np.ones(n), margin.labels.astype(np.intp), np.arange(n + 1)), shape=(n, len(J)))
    else:
        J, U = margin.J, sp.csr_array(margin.features)
    return sp.csr_array(sp.hstack([U.T, -sp.eye_array(len(J))])), sp.csr_array(U @ J)


def _prefix_sums(contest: Contest) -> tuple[Any, Any]:
    """Rows y_k[i] − y_k[i−1] − x[order_k[i]] = 0, and the matrix that makes c of all y."""
    margin: Any = contest.margin
    n, links, parts = contest.num_pairs, [], []
    difference = sp.eye_array(n) - sp.eye_array(n, k=-1)
    for k, weight in enumerate(margin.weights):
        order: Ints = np.argsort(margin.rows()[:, k], kind="stable")
        links.append(sp.csr_array((-np.ones(n), order, np.arange(n + 1)), shape=(n, n)))
        parts.append(weight * _ranks(margin.rows()[:, k], order))
    steps = sp.block_diag([difference] * len(links))
    return sp.csr_array(sp.hstack([sp.vstack(links), steps])), sp.csr_array(sp.hstack(parts))


def _ranks(f: Array, order: Ints) -> Any:
    """R with (R y)(z) = (mass below f(z)) − (mass above it), y being the running mass in order of f."""
    n, values = len(f), f[order]
    below, up_to = np.searchsorted(values, f, "left"), np.searchsorted(values, f, "right")
    some = below > 0
    entries = np.concatenate([np.ones(int(some.sum())), np.ones(n), -np.ones(n)])
    rows = np.concatenate([np.flatnonzero(some), np.arange(n), np.arange(n)])
    columns = np.concatenate([below[some] - 1, up_to - 1, np.full(n, n - 1)])
    return sp.csr_array(sp.coo_array((entries, (rows, columns)), shape=(n, n)))


def _as_highs(program: Program, n: int) -> Any:
    """The program in HiGHS's own form."""
    count = program.rows.shape[1]
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = count, program.rows.shape[0]
    lp.sense_ = highspy.ObjSense.kMaximize if program.maximise else highspy.ObjSense.kMinimize
    lp.col_cost_, lp.row_lower_, lp.row_upper_ = program.cost, program.lower, program.upper
    lp.col_lower_ = np.append(np.zeros(n), np.full(count - n, -INFINITY))
    lp.col_upper_ = np.full(count, INFINITY)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = program.rows.indptr, program.rows.indices
    lp.a_matrix_.value_ = program.rows.data
    return lp
