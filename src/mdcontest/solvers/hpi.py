"""Algorithm 1, Hedged Policy Iteration: Hedge in every state at once, scored by the marginal values Q.

The average occupancy of the iterates converges to a solution (thm:hpi-convergence); the last iterate does not.
Learning rates:

"theorem"   η = √(log|A| / K) / (2 M_max τ), the theorem's, for K = iterations. Its bound 4 M_max τ √(log|A| / K)
            holds, but |Q| is often a hundred times below 2 M_max τ, and then it is very slow.
"adaptive"  η_k(s) = √(log|A| / Σ_{j≤k} max_a |Q_j − V_j|²), from the range of Q seen so far in each state. A rate
            that changes is applied to the sum of scores, d_{k+1} ∝ exp(η_k Σ_{j≤k} Q_j) (dual averaging): with a
            constant η the two forms agree, with a changing one d_k·exp(η_k Q_k) is measurably worse.
a number    that η.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.special import log_softmax

from mdcontest.conditions import check_conditions
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.occupancy import decision_rule
from mdcontest.solution import History, Status
from mdcontest.solvers.base import Array, Progress, Proposal, Report
from mdcontest.values import Evaluation, evaluate, optimal_average_reward

Eta = float | Literal["adaptive", "theorem"]
HISTORY_GROWTH = 1.05
"""Gaps are measured at iterations that grow by this factor: each costs a policy iteration."""


@dataclass(frozen=True)
class HPI:
    """Hedged Policy Iteration in tabular form."""

    iterations: int = 20_000
    """K, the iteration limit."""
    eta: Eta = "adaptive"
    """The learning rate: "adaptive", "theorem" or a number."""

    name: ClassVar[str] = "HPI"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        return hedged_policy_iteration(contest, self.iterations, self.eta, gap, report, hedge_step, decision_rule)


UpdateRule = Callable[[Array, Array, Array, Evaluation], Array]
"""(log of the reference rule, scores z [S, A], η [S, 1], evaluation of d_k) → log of the next rule."""


def hedge_step(log_reference: Array, scores: Array, eta: Array, _: Evaluation) -> Array:
    """d(a|s) ∝ reference(a|s)·exp(η z(s, a)), in logarithms: a probability that underflows can come back."""
    return np.asarray(log_softmax(log_reference + eta * scores, axis=1))


def hedged_policy_iteration(
    contest: Contest,
    iterations: int,
    eta: Eta,
    gap: float,
    report: Report,
    update: UpdateRule,
    return_rule: Callable[[Array], Array],
) -> Proposal:
    """The loop of Algorithms 1 and 2, which differ in how steps 3 and 4 are carried out."""
    used, rate = learning_rate(contest, iterations, eta)
    shape = (contest.num_states, contest.num_actions)
    log_d_1 = np.full(shape, -math.log(contest.num_actions))
    log_d, x_bar, scores = log_d_1, np.zeros(shape), np.zeros(shape)
    marks = _Marks(contest)
    found: Evaluation | None = None
    status, k = Status.ITERATION_LIMIT, 0
    try:
        for k in range(1, iterations + 1):
            # 1. Compute occupancy measure
            # 2. Evaluate
            found = evaluate(contest, np.exp(log_d), found)
            x_bar = x_bar + (found.x - x_bar) / k
            if marks.due(k, iterations) and marks.measure(k, x_bar) <= gap:
                break
            report(Progress(k, iterations, marks.gaps[-1]))
            # 3. Update decision rule: softmax ignores V, which only keeps the sums small.
            advantage = found.Q - found.V[:, None]
            if eta == "adaptive":
                scores = scores + advantage
                log_d = update(log_d_1, scores, rate(advantage), found)
            else:
                log_d = update(log_d, advantage, rate(advantage), found)
    except KeyboardInterrupt:
        if k <= 1:
            raise
        status = Status.INTERRUPTED
    # 4. Compute decision rule of the return policy
    info = {"iterations": k, "eta": used}
    return Proposal(return_rule(x_bar), status, History(np.array(marks.iterations), np.array(marks.gaps)), info)


def learning_rate(contest: Contest, iterations: int, eta: Eta) -> tuple[float | str, Callable[[Array], Array]]:
    """The rate's number (or "adaptive"), and a function from the advantages of d_k [S, A] to η [S, 1] or [1, 1]."""
    if not isinstance(iterations, int | np.integer) or iterations < 1:
        raise InputError(f"iterations must be a whole number, at least 1, got {iterations}")
    log_actions = math.log(contest.num_actions)
    if eta == "adaptive":
        squares = np.zeros((contest.num_states, 1))

        def adaptive(advantage: Array) -> Array:
            squares[:] += np.max(advantage**2, axis=1, keepdims=True)
            return np.sqrt(np.divide(log_actions, squares, out=np.zeros_like(squares), where=squares > 0))

        return "adaptive", adaptive
    constant = theorem_rate(contest, iterations) if eta == "theorem" else eta
    if not isinstance(constant, int | float | np.number) or not (math.isfinite(constant) and constant >= 0):
        raise InputError(f"eta must be 'adaptive', 'theorem' or a nonnegative number, got {eta!r}")
    return float(constant), lambda advantage: np.full((1, 1), float(constant))


def theorem_rate(contest: Contest, iterations: int) -> float:
    """η of thm:hpi-convergence, √(log|A| / K) / (2 M_max τ)."""
    scale = 2 * contest.margin.bound * _tau(contest)
    return math.sqrt(math.log(contest.num_actions) / iterations) / scale if scale > 0 else 0.0


def theorem_bound(contest: Contest, iterations: int) -> float:
    """4 M_max τ √(log|A| / K), the theorem's bound on the gap after K ≥ log|A| iterations with its η."""
    return 4 * contest.margin.bound * _tau(contest) * math.sqrt(math.log(contest.num_actions) / iterations)


def _tau(contest: Contest) -> float:
    tau = check_conditions(contest).tau
    if not math.isfinite(tau):
        raise InputError(
            "the theorem's learning rate needs a bound on τ, and none was found for this contest; "
            "use eta='adaptive', or contest.with_restart(eps), for which τ ≤ 2/eps"
        )
    return tau


class _Marks:
    """Gaps of the average policy at growing iterations, each best response starting from the last."""

    def __init__(self, contest: Contest) -> None:
        self.contest = contest
        self.iterations: list[int] = []
        self.gaps: list[float] = []
        self._next = 1
        self._actions: np.ndarray | None = None

    def due(self, k: int, last: int) -> bool:
        return k >= self._next or k == last

    def measure(self, k: int, x_bar: Array) -> float:
        """The optimality gap of the policy with occupancy x̄, an upper bound up to rounding."""
        best = optimal_average_reward(self.contest, self.contest.margin.apply(x_bar), self._actions)
        self._actions, self._next = best.actions, max(k + 1, int(k * HISTORY_GROWTH))
        self.iterations.append(k)
        self.gaps.append(max(0.0, best.excess))
        return self.gaps[-1]
