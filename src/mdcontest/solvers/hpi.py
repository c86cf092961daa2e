"""Algorithm 1, Hedged Policy Iteration: Hedge in every state at once, scored by the marginal values Q.

The average occupancy of the iterates converges to a solution (thm:hpi-convergence); the last iterate does not. Rules
are carried as logarithms, so that a probability that underflows can come back. Learning rates are in rates.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import log_softmax

from mdcontest.arrays import Array, Ints
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.occupancy import decision_rule
from mdcontest.solution import History, Status
from mdcontest.solvers.base import Progress, Proposal, Report
from mdcontest.solvers.rates import Eta, HedgeStep, make_rate
from mdcontest.values import Evaluation, evaluate, optimal_average_reward

HISTORY_GROWTH = 1.05
"""Gaps are measured at iterations that grow by this factor: each costs a policy iteration."""


class HedgeSettings(Protocol):
    """What Algorithms 1 and 2 have in common."""

    @property
    def iterations(self) -> int: ...
    @property
    def eta(self) -> Eta: ...


@dataclass(frozen=True)
class HPI:
    """Hedged Policy Iteration in tabular form."""

    iterations: int = 20_000
    """K, the iteration limit."""
    eta: Eta = "adaptive"
    """The learning rate: "adaptive", "theorem" or a number."""

    name: ClassVar[str] = "HPI"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        return hedged_policy_iteration(contest, self, gap, report, hedge_step, decision_rule)


UpdateRule = Callable[[HedgeStep, Evaluation, Array], Array]
"""(what to maximise, evaluation of d_k, log d_k) → log d_{k+1}."""


def hedge_step(step: HedgeStep, _policy: Evaluation | None = None, _log_d: Array | None = None) -> Array:
    """d(a|s) ∝ reference(a|s)·exp(η z(s, a)), in logarithms: the maximiser in closed form, from wherever one starts."""
    log_reference, scores, eta = step
    return np.asarray(log_softmax(log_reference + eta * scores, axis=1))


def hedged_policy_iteration(
    contest: Contest,
    settings: HedgeSettings,
    gap: float,
    report: Report,
    update: UpdateRule,
    return_rule: Callable[[Array], Array],
) -> Proposal:
    """The loop of Algorithms 1 and 2, which differ in how steps 3 and 4 are carried out."""
    K = require_iterations(settings.iterations)
    rate = make_rate(contest, K, settings.eta)
    log_d = np.full((contest.num_states, contest.num_actions), -math.log(contest.num_actions))
    x_bar = np.zeros_like(log_d)
    marks, policy = _Marks(contest), None
    status, k = Status.ITERATION_LIMIT, 0
    try:
        for k in range(1, K + 1):
            policy = evaluate(contest, np.exp(log_d), like=policy)
            # 1. Compute occupancy measure
            x_bar = x_bar + (policy.x - x_bar) / k
            if marks.due(k, K) and marks.measure(k, x_bar) <= gap * (1 - 1e-9):  # certified anew later, with rounding
                break
            report(Progress(k, K, marks.gaps[-1]))
            # 2. Evaluate
            advantage = policy.Q - policy.V[:, None]
            # 3. Update decision rule
            log_d = update(rate.step(log_d, advantage), policy, log_d)
    except KeyboardInterrupt:
        if k <= 1:
            raise
        status = Status.INTERRUPTED
    # 4. Compute decision rule of the return policy
    rule = return_rule(x_bar)
    return Proposal(rule, status, marks.history(), {"iterations": k, "eta": rate.used})


def require_iterations(iterations: int) -> int:
    """The iteration limit, or an error."""
    if not isinstance(iterations, int | np.integer) or iterations < 1:
        raise InputError(f"iterations must be a whole number, at least 1, got {iterations}")
    return int(iterations)


class _Marks:
    """Gaps of the average policy at growing iterations, each best response starting from the last."""

    def __init__(self, contest: Contest) -> None:
        self.contest = contest
        self.iterations: list[int] = []
        self.gaps: list[float] = []
        self._next = 1
        self._actions: Ints | None = None

    def due(self, k: int, last: int) -> bool:
        return k >= self._next or k == last

    def measure(self, k: int, x_bar: Array) -> float:
        """The optimality gap of the policy with occupancy x̄, an upper bound up to rounding."""
        best = optimal_average_reward(self.contest, self.contest.margin.apply(x_bar), self._actions)
        self._actions, self._next = best.actions, max(k + 1, int(k * HISTORY_GROWTH))
        self.iterations.append(k)
        self.gaps.append(max(0.0, best.excess))
        return self.gaps[-1]

    def history(self) -> History:
        return History(np.array(self.iterations, np.int64), np.array(self.gaps))
