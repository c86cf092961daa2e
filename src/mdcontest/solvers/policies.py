"""What the paper argues against: games over all |A|^|S| deterministic policies (sec. exact, app. challenges).

Only for tiny contests. `PolicyGame` solves the matrix game between those policies by the textbook linear program;
`MirrorDescent` keeps a distribution over them and updates it by Hedge (eq. omd-update). Both are right and both drown
in the number of policies; they are here as independent answers to compare with. The policy of a mixture p has the
occupancy Σ p(i) x^i: occupancies average, decision rules do not.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.special import softmax

from mdcontest.contest import Contest
from mdcontest.errors import InputError, SizeError
from mdcontest.occupancy import decision_rule
from mdcontest.solution import History, Status
from mdcontest.solvers.base import Array, Progress, Proposal, Report


@dataclass(frozen=True)
class PolicyGame:
    """The matrix game over all deterministic policies, solved as a linear program."""

    max_policies: int = 4096
    """Refuse contests with more deterministic policies than this."""

    name: ClassVar[str] = "PolicyGame"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        X = deterministic_occupancies(contest, self.max_policies)
        report(Progress(0))
        p = solve_skew_game(X, X @ contest.margin.matrix().T)
        x = (p @ X).reshape(contest.num_states, contest.num_actions)
        return Proposal(decision_rule(x), info={"policies": len(X), "support": int((p > 1e-9).sum())})


@dataclass(frozen=True)
class MirrorDescent:
    """Online mirror descent on the distribution over deterministic policies."""

    iterations: int = 10_000
    """K, the iteration limit."""
    eta: float | None = None
    """The learning rate; by default √(log N / K) / max |G| for N policies with payoffs G."""
    max_policies: int = 4096
    """Refuse contests with more deterministic policies than this."""

    name: ClassVar[str] = "MirrorDescent"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        if self.iterations < 1:
            raise InputError(f"iterations must be at least 1, got {self.iterations}")
        X = deterministic_occupancies(contest, self.max_policies)
        G = X @ contest.margin.matrix() @ X.T
        default = math.sqrt(math.log(len(X)) / self.iterations) / (np.abs(G).max() or 1.0)
        eta = default if self.eta is None else self.eta
        log_p, p_bar = np.zeros(len(X)), np.zeros(len(X))
        iterations: list[int] = []
        gaps: list[float] = []
        for k in range(1, self.iterations + 1):
            p = softmax(log_p)
            p_bar += (p - p_bar) / k
            # p_{k+1} ∝ p_k exp(η G p_k): the maximiser of eq. omd-update
            log_p += eta * (G @ p)
            if k & (k - 1) == 0 or k % 100 == 0 or k == self.iterations:
                iterations.append(k)
                gaps.append(float((G @ p_bar).max()))
                report(Progress(k, self.iterations, gaps[-1]))
                if gaps[-1] <= gap:
                    break
        x = (p_bar @ X).reshape(contest.num_states, contest.num_actions)
        history = History(np.array(iterations), np.array(gaps))
        return Proposal(decision_rule(x), Status.ITERATION_LIMIT, history, {"policies": len(X), "eta": float(eta)})


def deterministic_occupancies(contest: Contest, max_policies: int) -> Array:
    """Occupancies of all |A|^|S| deterministic policies, shape [|A|^|S|, n]."""
    states, actions = contest.num_states, contest.num_actions
    number = actions**states
    if number > max_policies:
        raise SizeError(
            f"{actions}^{states} = {number:.3g} deterministic policies are over the limit of {max_policies}: "
            f"this is why solvers.LinearProgram() exists"
        )
    P: Any = contest.dynamics.full()
    P = (P.toarray() if sp.issparse(P) else P).reshape(states, actions, states)
    policies = np.array(list(itertools.product(range(actions), repeat=states)))
    chains = P[np.arange(states), policies]
    # νᵀ(I − P_π + 1 1ᵀ/S) = 1ᵀ/S has the stationary law as its only solution (unichain).
    systems = np.eye(states) - chains + 1 / states
    nu = np.linalg.solve(np.swapaxes(systems, 1, 2), np.full((number, states, 1), 1 / states))[..., 0]
    X = np.zeros((number, states, actions))
    X[np.arange(number)[:, None], np.arange(states), policies] = np.maximum(nu, 0.0)
    return X.reshape(number, -1) / X.reshape(number, -1).sum(axis=1, keepdims=True)


def solve_skew_game(X: Array, scores: Array) -> Array:
    """p maximising min_j Σ_i p_i G_ij, where G = X M Xᵀ and row j of `scores` is (Mᵀ x_j)... as a linear program.

    Variables (p, y, κ) with y = Xᵀp the occupancy of the mixture, so that G itself (N² numbers) is never needed:
    maximise κ subject to scores·y ≥ κ, y = Xᵀp, Σp = 1, p ≥ 0, where scores[j] = M x_j and yᵀ M x_j is the payoff
    against j.
    """
    N, n = X.shape
    cost = np.append(np.zeros(N + n), -1.0)
    payoff = sp.hstack([sp.csr_array((N, N)), sp.csr_array(-scores), sp.csr_array(np.ones((N, 1)))])
    mixture = sp.hstack([sp.csr_array(X.T), -sp.eye_array(n), sp.csr_array((n, 1))])
    total = sp.hstack([sp.csr_array(np.ones((1, N))), sp.csr_array((1, n + 1))])
    bounds = [(0, None)] * N + [(None, None)] * (n + 1)
    found = linprog(
        cost,
        A_ub=sp.csr_array(payoff),
        b_ub=np.zeros(N),
        A_eq=sp.csr_array(sp.vstack([mixture, total])),
        b_eq=np.append(np.zeros(n), 1.0),
        bounds=bounds,
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.x is None:
        raise SizeError(f"HiGHS did not solve the game of {N} policies: {found.message}")
    p = np.maximum(found.x[:N], 0.0)
    return np.asarray(p / p.sum())
