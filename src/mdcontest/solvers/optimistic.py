"""Algorithm 1 with optimism: Hedge in every state, scored by 2 Q_k − Q_{k−1} in place of Q_k.

If values change slowly, 2 Q_k − Q_{k−1} is a good guess of the next ones, and Hedge against a good guess does not go
round in circles. Nothing is proved for it: proofs for optimistic mirror descent need gradients of one monotone operator
in one metric, and here each state has its own Q and its own rate. Measured (docs/first-order.md): the average is about
ten times better than that of Algorithm 1 and falls like 1/K; the last iterate converges linearly on some contests and
lags behind the average on others. So both are measured, and the one with the smaller certified gap is returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from mdcontest.contest import Contest
from mdcontest.occupancy import decision_rule
from mdcontest.solvers.base import Proposal, Report, require_choice
from mdcontest.solvers.hpi import hedge_step, hedged_policy_iteration
from mdcontest.solvers.rates import Eta, make_optimistic_rate

Iterate = Literal["best", "average", "last"]


@dataclass(frozen=True)
class OptimisticHPI:
    """Hedged Policy Iteration with the optimistic gradient."""

    iterations: int = 20_000
    """K, the iteration limit."""
    eta: Eta = "adaptive"
    """The learning rate: "adaptive" (from changes of Q), "theorem" or a number."""
    iterate: Iterate = "best"
    """What is returned: the average of the iterates, the last one, or whichever has the smaller certified gap."""

    name: ClassVar[str] = "OptimisticHPI"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        iterates = require_iterate(self.iterate)
        return hedged_policy_iteration(
            contest, self, gap, report, hedge_step, decision_rule, make_optimistic_rate, iterates
        )


def require_iterate(iterate: str) -> tuple[str, ...]:
    """The iterates that a setting allows to be returned, or an error."""
    require_choice(iterate, "iterate", ("best", "average", "last"))
    return ("average", "last") if iterate == "best" else (iterate,)
