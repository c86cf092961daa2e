"""Algorithm 2, the policy-gradient form of HPI: steps 3 and 4 as maximisations over parameters θ.

Step 3   max_θ Σ_sa x_k(s,a) d_θ(a|s)/d_k(a|s) (Q_k(s,a) − (1/η) log d_θ(a|s)/d_k(a|s))
Step 4   max_θ Σ_sa x̄(s,a) log d_θ(a|s)

with d_θ(a|s) ∝ exp θ(s,a). With the adaptive rate d_1 stands for d_k and Σ_{j≤k} Q_j for Q_k (rates.py). Both separate
over states (lem:max-basic), so each state's part is divided by its weight ν(s): same maximiser, and rare states are
learned as fast as frequent ones. States of weight zero have no part; they keep their parameters, and the returned rule
is uniform there as in Algorithm 1. The ascent is L-BFGS, which uses nothing but values and gradients. The maximisers in
closed form, d_k exp(ηQ) normalised and x̄/Σx̄, are the check: prop:pg-form says the iterates agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from mdcontest.arrays import Array, is_number
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.occupancy import decision_rule
from mdcontest.solvers.base import Proposal, Report, require_choice, require_count
from mdcontest.solvers.hpi import hedge_step, hedged_policy_iteration
from mdcontest.solvers.rates import Eta, HedgeStep, scaled
from mdcontest.values import Evaluation

Objective = Callable[[Array], tuple[float, Array]]
"""θ [S, A] → (value, gradient [S, A])."""


@dataclass(frozen=True)
class HPIPG:
    """Hedged Policy Iteration in policy-gradient form."""

    iterations: int = 1000
    """K, the iteration limit."""
    eta: Eta = "adaptive"
    """The learning rate: "adaptive", "theorem" or a number."""
    maximiser: Literal["gradient", "closed form"] = "gradient"
    """How steps 3 and 4 are maximised."""
    ascent_steps: int = 500
    """Gradient steps a maximisation may take (L-BFGS)."""
    ascent_tol: float = 1e-10
    """It stops once no entry of the gradient exceeds this."""

    name: ClassVar[str] = "HPIPG"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        require_choice(self.maximiser, "maximiser", ("gradient", "closed form"))
        require_count(self.ascent_steps, "ascent_steps")
        if not (is_number(self.ascent_tol) and 0 <= self.ascent_tol < np.inf):
            raise InputError(f"ascent_tol must be a nonnegative number, got {self.ascent_tol!r}")
        by_gradient = self.maximiser == "gradient"
        update = self._ascend_hedge if by_gradient else hedge_step
        return_rule = self._ascend_likelihood if by_gradient else decision_rule
        return hedged_policy_iteration(contest, self, gap, report, update, return_rule)

    def _ascend_hedge(self, step: HedgeStep, policy: Evaluation, log_d: Array) -> Array:
        """Step 3 from θ = log d_k."""
        log_reference, scores, eta = step
        weight = (policy.x.sum(axis=1, keepdims=True) > 0).astype(float)
        theta = self._ascend(hedge_objective(log_reference, scaled(scores, eta), weight), log_d)
        return np.asarray(log_softmax(theta, axis=1))

    def _ascend_likelihood(self, x_bar: Array) -> Array:
        """Step 4 from θ = 0."""
        return np.asarray(softmax(self._ascend(likelihood_objective(x_bar), np.zeros_like(x_bar)), axis=1))

    def _ascend(self, objective: Objective, theta: Array) -> Array:
        """Maximise from θ with nothing but values and gradients."""

        def descend(flat: Array) -> tuple[float, Array]:
            value, gradient = objective(flat.reshape(theta.shape))
            return -value, -gradient.reshape(-1)

        options = {"maxiter": self.ascent_steps, "gtol": self.ascent_tol, "ftol": 0.0, "maxcor": 20}
        found = minimize(descend, theta.reshape(-1), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(found.x).reshape(theta.shape)


def hedge_objective(log_reference: Array, scores: Array, weight: Array) -> Objective:
    """Step 3 times η, as a function of θ: Σ_s w(s) Σ_a d_θ (η z − log d_θ/d_ref)."""

    def value_and_gradient(theta: Array) -> tuple[float, Array]:
        log_d = log_softmax(theta, axis=1)
        d = np.exp(log_d)
        inner = scores - (log_d - log_reference)
        per_state = (d * inner).sum(axis=1, keepdims=True)
        return float((weight * per_state).sum()), weight * d * (inner - per_state)

    return value_and_gradient


def likelihood_objective(x_bar: Array) -> Objective:
    """Step 4 as a function of θ, each visited state with weight one: Σ_s Σ_a x̄(a|s) log d_θ(a|s)."""
    visited = x_bar.sum(axis=1, keepdims=True) > 0
    target = np.where(visited, decision_rule(x_bar), 0.0)

    def value_and_gradient(theta: Array) -> tuple[float, Array]:
        log_d = log_softmax(theta, axis=1)
        return float((target * log_d).sum()), target - visited * np.exp(log_d)

    return value_and_gradient
