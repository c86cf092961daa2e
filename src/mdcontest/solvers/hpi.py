"""Algorithm 1, Hedged Policy Iteration: Hedge in every state at once, scored by the marginal values Q.

The average occupancy of the iterates converges to a solution (thm:hpi-convergence); the last iterate does not. Rules
are carried as logarithms, so that a probability that underflows can come back. Learning rates are in rates.py, the
variant that falls faster in optimistic.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import log_softmax

from mdcontest.arrays import Array
from mdcontest.contest import Contest
from mdcontest.occupancy import decision_rule
from mdcontest.solution import Status
from mdcontest.solvers.base import STOPPED, Progress, Proposal, Report, require_iterations, status_when_stopped
from mdcontest.solvers.marks import GapMarks
from mdcontest.solvers.rates import Eta, HedgeStep, Rate, make_rate, scaled
from mdcontest.values import Evaluation, evaluate


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
    return np.asarray(log_softmax(log_reference + scaled(scores, eta), axis=1))


def hedged_policy_iteration(
    contest: Contest,
    settings: HedgeSettings,
    gap: float,
    report: Report,
    update: UpdateRule,
    return_rule: Callable[[Array], Array],
    rate_of: Callable[[Contest, int, Eta], Rate] = make_rate,
    iterates: tuple[str, ...] = ("average",),
) -> Proposal:
    """The loop of Algorithms 1 and 2, which differ in how steps 3 and 4 are carried out.

    `rate_of` makes the learning rate. `iterates` are those that may be returned, the one with the least gap where there
    are several: "average", as in the algorithms, or "last".
    """
    marks, policy = GapMarks(contest), None
    K = require_iterations(settings.iterations)
    rate = rate_of(contest, K, settings.eta)
    log_d = np.full((contest.num_states, contest.num_actions), -math.log(contest.num_actions))
    x_bar = np.zeros_like(log_d)
    found: dict[str, Array] = {}
    status, k = Status.ITERATION_LIMIT, 0
    try:
        for k in range(1, K + 1):
            policy = evaluate(contest, np.exp(log_d), like=policy)
            # 1. Compute occupancy measure
            x_bar = x_bar + (policy.x - x_bar) / k
            found = {name: x for name, x in (("average", x_bar), ("last", policy.x)) if name in iterates}
            if marks.due(k, K) and marks.measure(k, found) <= gap * (1 - 1e-9):
                status = Status.INACCURATE  # if it is: the gap is certified anew, with rounding
                break
            report(Progress(k, K, marks.newest))
            # 2. Evaluate
            advantage = policy.Q - policy.V[:, None]
            # 3. Update decision rule
            log_d = update(rate.step(log_d, advantage), policy, log_d)
    except STOPPED as reason:
        if k <= 1:
            raise
        status = status_when_stopped(reason)
    # 4. Compute decision rule of the return policy
    rule = return_rule(found[marks.best])
    info = {"iterations": k, "eta": rate.used} | ({"iterate": marks.best} if len(iterates) > 1 else {})
    return Proposal(rule, status, marks.history(), info)
