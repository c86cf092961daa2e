"""The matrix game over all deterministic policies: what the paper's linear program makes unnecessary (sec. exact).

For tiny contests only, as an independent answer. Its size grows as |A|^|S|. A mixture p of policies is turned into one
policy through its occupancy Σ p(i) x^i: occupancies average, decision rules do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from mdcontest.arrays import Array
from mdcontest.contest import Contest
from mdcontest.occupancy import decision_rule
from mdcontest.solution import Status
from mdcontest.solvers.base import STOPPED, Progress, Proposal, Report, status_when_stopped
from mdcontest.solvers.policies import deterministic_occupancies

TOLERANCES = (1e-8, 1e-10, 1e-7)
"""Tried in turn: degenerate games make HiGHS cycle at one or the other."""


@dataclass(frozen=True)
class PolicyGame:
    """The matrix game over all deterministic policies, solved as a linear program."""

    max_policies: int = 4096
    """Refuse contests with more deterministic policies than this."""

    name: ClassVar[str] = "PolicyGame"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        X = deterministic_occupancies(contest, self.max_policies)
        report(Progress(0))
        bound = contest.margin.bound or 1.0  # HiGHS's tolerances are absolute
        p, loss, status = np.full(len(X), 1 / len(X)), np.inf, Status.INACCURATE
        try:
            for attempt, tolerance in enumerate(TOLERANCES, start=1):
                q, worst = solve_skew_game(X, contest.margin.matrix() / bound, tolerance)
                if worst < loss:
                    p, loss = q, worst
                report(Progress(attempt, len(TOLERANCES), loss * bound))
                if loss <= gap / bound:
                    break
        except STOPPED as reason:
            if loss == np.inf:
                raise
            status = status_when_stopped(reason)
        x = (p @ X).reshape(contest.num_states, contest.num_actions)
        return Proposal(decision_rule(x), status, info={"policies": len(X), "support": int((p > 1e-9).sum())})


def solve_skew_game(X: Array, M: Array, tolerance: float) -> tuple[Array, float]:
    """p that maximises min_j yᵀ M x_j, where y = Σ p_i x_i and x_j is row j of X; and −min_j, which is ∞ without a p.

    As a linear program in (p, y, κ): maximise κ subject to yᵀ M x_j ≥ κ for all j, y = Xᵀ p, Σ p = 1, p ≥ 0. With y as
    a variable the N² payoffs between policies are never needed.
    """
    N, n = X.shape
    against = X @ M.T  # row j is M x_j
    payoff = sp.hstack([sp.csr_array((N, N)), sp.csr_array(-against), sp.csr_array(np.ones((N, 1)))])
    mixture = sp.hstack([sp.csr_array(X.T), -sp.eye_array(n), sp.csr_array((n, 1))])
    total = sp.hstack([sp.csr_array(np.ones((1, N))), sp.csr_array((1, n + 1))])
    found = linprog(
        np.append(np.zeros(N + n), -1.0),
        A_ub=sp.csr_array(payoff),
        b_ub=np.zeros(N),
        A_eq=sp.csr_array(sp.vstack([mixture, total])),
        b_eq=np.append(np.zeros(n), 1.0),
        bounds=[(0, None)] * N + [(None, None)] * (n + 1),
        options={"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance},
    )
    if found.x is None:
        return np.full(N, 1 / N), np.inf
    p = np.maximum(found.x[:N], 0.0)
    p /= p.sum()
    return p, float(-(against @ (p @ X)).min())
