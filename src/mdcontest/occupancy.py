"""Occupancy measures and decision rules (sec. infinite, lem:unichain)."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from mdcontest.arrays import Array, read_numbers
from mdcontest.chain import Chain
from mdcontest.contest import Contest
from mdcontest.elimination import EPS, MOST_STATES, accurate_frequencies
from mdcontest.errors import InputError, NotUnichainError
from mdcontest.regenerative import Regenerative

FACTORED_STATES = 800
"""Up to here chains are factored whatever they look like; beyond, those that can restart anywhere are swept."""

DOUBTFUL = 1e-6
"""Occupancies that may be further off than this are handed out with a warning."""


def by_sweeps(contest: Contest) -> bool:
    """Whether chains of this contest are solved by sweeps: they are large, and every pair can restart."""
    return contest.num_states > FACTORED_STATES and Regenerative.serves(contest.dynamics)


def occupancy(contest: Contest, rule: ArrayLike) -> Array:
    """x^{π,μ}(s, a), the long-run share of time spent in (s, a) from the contest's start. Shape [S, A].

    x(s, a) = ν(s) d(a|s) with ν the limiting average state frequencies. Periodic chains and transient states are
    fine; under a rule with several recurrent classes each is weighted by its probability of being reached from μ.
    """
    x, off = occupancy_within(contest, rule)
    if off > DOUBTFUL:
        warnings.warn(
            f"this occupancy may be off by {off:.1g} in all: the rule leaves some states so rarely that rounding hides "
            "the rest; set tiny transition probabilities to zero, or use contest.with_restart(eps)",
            RuntimeWarning,
            stacklevel=2,
        )
    return x


def occupancy_within(contest: Contest, rule: ArrayLike) -> tuple[Array, float]:
    """x^{π,μ} and how far in ‖·‖₁ it may be off, where rounding can be felt."""
    d = contest.read_rule(rule)
    if by_sweeps(contest):
        nu, off = swept_frequencies(contest, d)
        if off <= DOUBTFUL or contest.num_states > MOST_STATES:
            return nu[:, None] * d, off
    nu, off = accurate_frequencies(Chain(contest.dynamics, d))
    return nu[:, None] * d, off


def swept_frequencies(contest: Contest, rule: Array, near: Array | None = None) -> tuple[Array, float]:
    """ν by sweeps, from frequencies that may be near, and how far in ‖·‖₁ it may be off."""
    chain = Regenerative(contest.dynamics).chain_of_rule(rule)
    nu, off = chain.frequencies(0.0, near)
    # A residual of zero is known up to rounding only, and a restart of ε makes 1/ε of that.
    return nu, min(2.0, off + EPS / chain.eps)


def decision_rule(x: ArrayLike) -> Array:
    """d(a|s) = x(s, a) / Σ_a' x(s, a'), uniform in states that x never visits (lem:unichain, part 4).

    Shape [S, A] → [S, A]. A flat x is refused: it does not say how many actions there are.
    """
    mass = read_numbers(x, "an occupancy")
    if mass.ndim != 2 or mass.size == 0:
        raise InputError(f"an occupancy has shape (S, A), got {mass.shape}; reshape a flat one first")
    if not np.isfinite(mass).all() or mass.min() < -1e-9:
        raise InputError(f"an occupancy is finite and nonnegative, this one has the entry {mass.min():.6g}")
    mass = np.maximum(mass, 0.0)
    with np.errstate(over="ignore"):
        per_state = mass.sum(axis=1, keepdims=True)
    if not np.isfinite(per_state).all():
        mass = mass / mass.max()
        per_state = mass.sum(axis=1, keepdims=True)
    visited = per_state > 0
    d = np.divide(mass, per_state, out=np.full_like(mass, 1 / mass.shape[1]), where=visited)
    # Dividing numbers near the smallest float leaves rows that do not quite sum to one.
    return d / d.sum(axis=1, keepdims=True)


def flow_residual(contest: Contest, x: ArrayLike) -> Array:
    """F x: what arrives in each state minus what is there, shape [S]; zero for occupancies (eq. flow)."""
    mass = np.asarray(x, float).reshape(contest.num_states, contest.num_actions)
    return contest.dynamics.flow(mass.reshape(-1)) - mass.sum(axis=1)


def require_unichain(contest: Contest, chain: Chain) -> Chain:
    """The chain, if it has a single recurrent class; else an error that names two of them."""
    if not chain.is_unichain:
        first, second = (tuple(int(s) for s in members) for members in chain.classes_of_states[:2])
        named = f"{contest.describe_states(first)} and in {contest.describe_states(second)}"
        raise NotUnichainError(first, second, named)
    return chain
