"""Compiled passes over sparse transitions, one core, each reading every entry once.

Transitions come as CSR arrays (indptr, indices, data) of P₀, one row a pair or, for the chain of one policy, one row a
state. A restart is split in two: `eps`, the part that all pairs have, and `more` ≥ 0, what a pair has beyond it (an
empty array where there is nothing): P = P₀ + (eps + more) μᵀ. P h − h is summed as Σ P(s'|·) (h(s') − h(s)), so that
what is common to all of h cancels before it is multiplied.
"""

from __future__ import annotations

import numpy as np

from mdcontest.arrays import Array, Ints
from mdcontest.compiling import compiled


@compiled
def improve(
    indptr: Ints,
    indices: Ints,
    data: Array,
    eps: float,
    more: Array,
    mu_h: float,
    reward: Array,
    h: Array,
    actions: Ints,
    gain: Array,
) -> tuple[float, float]:
    """gain(s) = max_a [r + P h − h](s, a), the actions that attain it, and the largest and smallest gain.

    An action is replaced only by one that is better beyond rounding; among equals a policy could cycle.
    """
    states = len(h)
    num_actions = (len(indptr) - 1) // states
    high, low = -np.inf, np.inf
    for s in range(states):
        here, kept, best, arg, size = h[s], -np.inf, -np.inf, 0, 0.0
        for a in range(num_actions):
            z = s * num_actions + a
            restart = eps + more[z] if len(more) else eps
            value = reward[z] + restart * (mu_h - here)
            for k in range(indptr[z], indptr[z + 1]):
                value += data[k] * (h[indices[k]] - here)
            if a == actions[s]:
                kept = value
            if value > best:
                best, arg = value, a
            size = max(size, abs(value))
        if best > kept + 1e-14 * size:
            actions[s] = arg
        gain[s] = best
        high, low = max(high, best), min(low, best)
    return high, low


@compiled
def relax_best(
    indptr: Ints,
    indices: Ints,
    data: Array,
    more: Array,
    mu_h: float,
    reward: Array,
    h: Array,
    actions: Ints,
    backward: bool,
) -> None:
    """One Gauss–Seidel sweep of h = max_a [r + more μ·h + P₀ h] over the states in order, or in reverse.

    A pair's way back to its own state is solved for, not iterated: staying somewhere for 1/eps steps costs one sweep.
    """
    states = len(h)
    num_actions = (len(indptr) - 1) // states
    for i in range(states):
        s = states - 1 - i if backward else i
        best, arg = -np.inf, 0
        for a in range(num_actions):
            z = s * num_actions + a
            value, stays = reward[z], 0.0
            if len(more):
                value += more[z] * mu_h
            for k in range(indptr[z], indptr[z + 1]):
                if indices[k] == s:
                    stays += data[k]
                else:
                    value += data[k] * h[indices[k]]
            value /= 1.0 - stays
            if value > best:
                best, arg = value, a
        h[s] = best
        actions[s] = arg


@compiled
def relax(indptr: Ints, indices: Ints, data: Array, right: Array, h: Array, backward: bool) -> None:
    """One Gauss–Seidel sweep of h = right + P₀ h for a chain, given by its rows."""
    states = len(h)
    for i in range(states):
        s = states - 1 - i if backward else i
        value, stays = right[s], 0.0
        for k in range(indptr[s], indptr[s + 1]):
            if indices[k] == s:
                stays += data[k]
            else:
                value += data[k] * h[indices[k]]
        h[s] = value / (1.0 - stays)


@compiled
def policy_rows(
    indptr: Ints, indices: Ints, data: Array, actions: Ints, into: Ints, targets: Ints, chances: Array
) -> int:
    """The rows of the chosen actions, one after the other, as the CSR arrays of a chain; how many entries they have."""
    states = len(actions)
    num_actions = (len(indptr) - 1) // states
    filled = 0
    into[0] = 0
    for s in range(states):
        z = s * num_actions + actions[s]
        for k in range(indptr[z], indptr[z + 1]):
            targets[filled] = indices[k]
            chances[filled] = data[k]
            filled += 1
        into[s + 1] = filled
    return filled


@compiled
def pull(indptr: Ints, indices: Ints, data: Array, h: Array, right: Array, out: Array) -> None:
    """out = right + P₀ h for a chain."""
    for s in range(len(indptr) - 1):
        value = right[s]
        for k in range(indptr[s], indptr[s + 1]):
            value += data[k] * h[indices[k]]
        out[s] = value


@compiled
def add_policy(x: Array, weight: float, nu: Array, actions: Ints) -> None:
    """x(s, actions(s)) += weight·ν(s)."""
    for s in range(len(nu)):
        x[s, actions[s]] += weight * nu[s]


@compiled
def earned(nu: Array, actions: Ints, cumulant: Array) -> float:
    """Σ_s ν(s) c(s, actions(s)), with compensation: payoffs between nearly optimal policies are tiny differences."""
    total, lost = 0.0, 0.0
    for s in range(len(nu)):
        term = nu[s] * cumulant[s, actions[s]] - lost
        larger = total + term
        lost = (larger - total) - term
        total = larger
    return total
