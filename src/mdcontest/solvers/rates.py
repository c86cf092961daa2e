"""Learning rates of Hedged Policy Iteration.

A rate turns the advantages of the current iterate into the next Hedge step: d ∝ reference·exp(η·scores).

"theorem"   η = √(log|A| / K) / (2 M_max τ), that of thm:hpi-convergence for K iterations. Its bound
            4 M_max τ √(log|A| / K) holds, but |Q| is often a hundred times below 2 M_max τ, and then it is very slow.
a number    that η. Like the theorem's it is constant: reference d_k, scores Q_k, as Algorithm 1 has it.
"adaptive"  η_k(s) = √(log|A| / Σ_{j≤k} max_a |Q_j − V_j|²), from the range of Q seen so far in each state. A rate that
            changes is applied to the sum of scores (dual averaging): reference d_1, scores Σ_{j≤k} Q_j. With a constant
            η that is the same; with a changing one, d_k·exp(η_k Q_k) is measurably worse.

The optimistic rates step with 2 Q_k − Q_{k−1}, a guess of Q_{k+1}. Over all steps that adds up to Σ_{j≤k} Q_j + Q_k. A
guess costs only what it misses, so the optimistic "adaptive" rate sums squares of Q_j − Q_{j−1}: where the iterates
settle the rate stops falling.

Softmax does not see what is added to all scores of a state, so Q − V serves for Q and keeps sums small.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol

import numpy as np

from mdcontest.arrays import Array, is_finite
from mdcontest.conditions import check_conditions
from mdcontest.contest import Contest
from mdcontest.errors import InputError

Eta = float | Literal["adaptive", "theorem"]
HedgeStep = tuple[Array, Array, Array]
"""(log of the reference rule [S, A], scores [S, A], η [S, 1] or [1, 1])."""


class Rate(Protocol):
    """A learning rate with what it has seen so far."""

    used: float | str
    """The number, or "adaptive"."""

    def step(self, log_d: Array, advantage: Array) -> HedgeStep:
        """The step that follows from log d_k and Q_k − V_k, each shape [S, A]."""


class ConstantRate:
    """The same η at every iteration and in every state."""

    def __init__(self, eta: float) -> None:
        self.used: float | str = eta
        self.eta = np.full((1, 1), eta)

    def step(self, log_d: Array, advantage: Array) -> HedgeStep:
        return log_d, advantage, self.eta


class AdaptiveRate:
    """A rate for each state from the largest advantages seen there."""

    def __init__(self, num_states: int, num_actions: int, unit: float) -> None:
        self.unit = unit  # squares of advantages must neither overflow nor underflow
        self.used: float | str = "adaptive"
        self.log_actions = math.log(num_actions)
        self.log_d_1 = np.full((num_states, num_actions), -self.log_actions)
        self.scores = np.zeros((num_states, num_actions))
        self.squares = np.zeros((num_states, 1))

    def step(self, log_d: Array, advantage: Array) -> HedgeStep:
        return self.step_by(advantage / self.unit, advantage / self.unit)

    def step_by(self, gradient: Array, surprise: Array) -> HedgeStep:
        """The step by a gradient, where η falls with the squares of another array; both in units of the bound."""
        self.scores = self.scores + gradient
        with np.errstate(over="ignore"):  # values beyond 1e150 margins: a rate of zero
            self.squares = self.squares + np.max(surprise**2, axis=1, keepdims=True)
        eta = np.divide(self.log_actions, self.squares, out=np.zeros_like(self.squares), where=self.squares > 0)
        return self.log_d_1, self.scores, np.sqrt(eta)


class OptimisticConstantRate(ConstantRate):
    """A constant rate on 2 Q_k − Q_{k−1}, with Q_0 = 0."""

    def __init__(self, eta: float) -> None:
        super().__init__(eta)
        self.before: Array | float = 0.0

    def step(self, log_d: Array, advantage: Array) -> HedgeStep:
        surprise, self.before = advantage - self.before, advantage
        return super().step(log_d, advantage + surprise)


class OptimisticAdaptiveRate(AdaptiveRate):
    """A rate for each state from the largest changes of advantages seen there, on 2 Q_k − Q_{k−1}."""

    def __init__(self, num_states: int, num_actions: int, unit: float) -> None:
        super().__init__(num_states, num_actions, unit)
        self.before = np.zeros((num_states, num_actions))

    def step(self, log_d: Array, advantage: Array) -> HedgeStep:
        advantage = advantage / self.unit
        surprise, self.before = advantage - self.before, advantage
        return self.step_by(advantage + surprise, surprise)


def make_rate(contest: Contest, iterations: int, eta: Eta) -> Rate:
    """The rate a setting asks for."""
    return _make(contest, iterations, eta, AdaptiveRate, ConstantRate)


def make_optimistic_rate(contest: Contest, iterations: int, eta: Eta) -> Rate:
    """The same on the optimistic gradient 2 Q_k − Q_{k−1}."""
    return _make(contest, iterations, eta, OptimisticAdaptiveRate, OptimisticConstantRate)


def _make(
    contest: Contest, iterations: int, eta: Eta, adaptive: type[AdaptiveRate], constant: type[ConstantRate]
) -> Rate:
    named = eta if isinstance(eta, str) else None  # an array compares with a text entry by entry
    if named == "adaptive":
        return adaptive(contest.num_states, contest.num_actions, contest.margin.bound or 1.0)
    number = theorem_rate(contest, iterations) if named == "theorem" else eta
    if named == "theorem" and number == math.inf:
        raise InputError(
            f"the theorem's learning rate overflows: no margin exceeds {contest.margin.bound:g}; multiply them by a "
            "common factor"
        )
    if not (is_finite(number) and number >= 0):
        raise InputError(f"eta must be 'adaptive', 'theorem' or a nonnegative number, got {eta!r}")
    return constant(float(number))


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


def scaled(scores: Array, eta: Array) -> Array:
    """η z, or an error where differences of it are no numbers."""
    with np.errstate(over="ignore"):
        moved = eta * scores
    if not np.abs(moved).max() < 1e300:
        raise InputError(
            f"eta = {eta.max():g} is too large: times values of {np.abs(scores).max():g} it overflows; lower it"
        )
    return moved
