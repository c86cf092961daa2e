"""Online mirror descent over all deterministic policies: the standard method of app. challenges (eq. omd-update).

It keeps a probability for each of the |A|^|S| policies and updates it by Hedge. For tiny contests only, to compare.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import softmax

from mdcontest.arrays import is_finite
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.occupancy import decision_rule
from mdcontest.solution import Status
from mdcontest.solvers.base import STOPPED, Progress, Proposal, Report, require_iterations, status_when_stopped
from mdcontest.solvers.marks import Marks
from mdcontest.solvers.policies import deterministic_occupancies
from mdcontest.solvers.rates import scaled


@dataclass(frozen=True)
class MirrorDescent:
    """Online mirror descent on the distribution over deterministic policies."""

    iterations: int = 10_000
    """K, the iteration limit."""
    eta: float | None = None
    """The learning rate; by default √(log N / K) / M_max for N policies."""
    max_policies: int = 4096
    """Refuse contests with more deterministic policies than this."""

    name: ClassVar[str] = "MirrorDescent"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        marks, status = Marks(), Status.ITERATION_LIMIT
        K = require_iterations(self.iterations)
        X = deterministic_occupancies(contest, self.max_policies)
        eta = self._rate(len(X), contest.margin.bound)
        log_p, p_bar = np.zeros(len(X)), np.zeros(len(X))
        try:
            for k in range(1, K + 1):
                p = softmax(log_p)
                p_bar += (p - p_bar) / k
                # p_{k+1} ∝ p_k exp(η X M Xᵀ p_k): the maximiser of eq. omd-update, by the linearity of M̄ in occupancies
                log_p += scaled(X @ contest.margin.apply(p @ X).reshape(-1), np.array(eta))
                if k & (k - 1) == 0 or k % 100 == 0 or k == K:
                    found = float((X @ contest.margin.apply(p_bar @ X).reshape(-1)).max())
                    if marks.record(k, found) <= gap:
                        status = Status.INACCURATE  # if it is: the gap is certified anew, with rounding
                        break
                report(Progress(k, K, marks.newest))
        except STOPPED as reason:
            if not p_bar.any():
                raise
            status = status_when_stopped(reason)
        x = (p_bar @ X).reshape(contest.num_states, contest.num_actions)
        return Proposal(decision_rule(x), status, marks.history(), {"policies": len(X), "eta": eta})

    def _rate(self, policies: int, bound: float) -> float:
        if self.eta is None:
            return math.sqrt(math.log(policies) / self.iterations) / (bound or 1.0)
        if not (is_finite(self.eta) and self.eta >= 0):
            raise InputError(f"eta must be a nonnegative number, got {self.eta!r}")
        return float(self.eta)
