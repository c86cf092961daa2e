"""Values, advantages and occupancies straight from the paper's definitions: limits and sums of powers of a chain.

The library solves equations for them instead, so nothing here is shared with what it is compared to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import mdcontest as mdc
from mdcontest.arrays import Array
from mdcontest.errors import InputError

SETTLED, MOST_SQUARINGS = 1e-13, 50
"""When the powers of a chain have come to their limit, and how often they are squared at most."""


@dataclass(frozen=True)
class Values:
    """Of one rule; `swing` is by how much the partial sums of V move within a period, however far they go."""

    x: Array
    c: Array
    V: Array
    Q: Array
    swing: float


def values_by_definition(contest: mdc.Contest, rule: Array, period: int = 1) -> Values:
    """x from powers of the chain of pairs, c = M x, Q summed along that chain and V along the chain of states."""
    P, n = contest.transitions, contest.num_pairs
    pairs = (P[:, :, :, None] * rule).reshape(n, n)
    x = limiting_law(pairs, (contest.start[:, None] * rule).ravel(), period)
    c = contest.margin.matrix() @ x
    Q, _ = summed(pairs, c, period)
    c = c.reshape(rule.shape)
    V, swing = summed(np.einsum("sa,sat->st", rule, P), (rule * c).sum(axis=1), period)
    return Values(x.reshape(rule.shape), c, V, Q.reshape(rule.shape), swing)


def limiting_law(P: Array, start: Array, period: int) -> Array:
    """lim 1/T Σ_{t<T} μ P^t: from far powers, averaged over one period."""
    power = np.linalg.matrix_power(P, period)
    within = sum(np.linalg.matrix_power(P, j) for j in range(period)) / period
    for _ in range(MOST_SQUARINGS):
        settled = np.ptp(within @ power, axis=0).max() <= SETTLED
        power = _stochastic(power @ power)  # once more where it is: an error of x would add up in V
        if settled:
            return start @ within @ power
    raise InputError(f"powers of a chain differ after 2^{MOST_SQUARINGS} steps; is it unichain, of period {period}?")


def summed(P: Array, c: Array, period: int) -> tuple[Array, float]:
    """Σ_t P^t c, doubling the number of terms until they are nothing; and by how much a partial sum moves from there.

    Sums over whole periods converge. Partial sums go through one cycle between them, and its mean is the limit of
    their averages (Cesàro): for period 1 the sum itself.
    """
    total = sum(np.linalg.matrix_power(P, j) @ c for j in range(period))
    power = np.linalg.matrix_power(P, period)
    for _ in range(MOST_SQUARINGS):
        further = power @ total
        total, power = total + further, _stochastic(power @ power)
        if np.abs(further).max() <= SETTLED * (np.abs(c).max() + np.abs(total).max()):
            terms = [np.linalg.matrix_power(P, j) @ (power @ c) for j in range(period - 1)]
            cycle = total + np.cumsum([np.zeros_like(c), *terms], axis=0)
            return cycle.mean(axis=0), float(np.ptp(cycle, axis=0).max())
    raise InputError(f"sums along a chain move after 2^{MOST_SQUARINGS} steps; is it unichain, of period {period}?")


def _stochastic(P: Array) -> Array:
    """Without what rounding adds to the sums of rows, which squaring would double."""
    return P / P.sum(axis=1, keepdims=True)
