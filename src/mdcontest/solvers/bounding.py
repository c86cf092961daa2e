"""A certified gap from an x that is nearly an occupancy and an h that nearly bounds every reply.

In small contests the rule of x is solved for exactly: its occupancy, and a best response to that. Factorising the chain
of a large one can cost more than solving the contest. If every pair has a common part of its transitions,
P = (1 − ε) P̃ + ε 1 μ̃ᵀ, nothing needs to be solved: the occupancy x^d of the rule d of x has

    ‖x^d − x‖₁ ≤ ‖F x‖₁ / ε,     so     gap(d) ≤ max_sa[M x + P h − h] + bound·‖F x‖₁ / ε,

because F x is what one step of the chain of d changes, and two distributions come closer by 1 − ε a step. Sweeps of
that chain and of h ← max_a[M x + P h] make both terms smaller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdcontest.arrays import Array, Ints
from mdcontest.contest import Contest
from mdcontest.occupancy import decision_rule, occupancy_within
from mdcontest.transitions import Transitions
from mdcontest.values import optimal_average_reward, state_action_values

EXACT_STATES = 1000
"""Up to here chains are always solved (0.1 s each at worst, where the factors fill up)."""
SWEEPS = 100
"""At most so many sweeps of either kind; each costs about as much as an iteration of the methods that ask."""
WORTH_A_SWEEP = 0.9
"""Sweeps end once one of them leaves more than this part: where chains mix slowly the methods themselves are faster."""


@dataclass(frozen=True)
class Bounded:
    """A rule with what proves its gap."""

    gap: float
    """gap(rule) ≤ max_sa[M x + P h − h] + bound·‖x^rule − x‖₁ ≤ this."""
    rule: Array
    x: Array
    """The rule's occupancy, or nearly so, shape [S, A]."""
    h: Array
    """Values, shape [S], in the units of the margin."""


class Bounding:
    """Certified gaps in one contest, exact ones each starting from the last best response."""

    def __init__(self, contest: Contest) -> None:
        self.contest = contest
        self.eps = common_part(contest.dynamics)
        self._actions: Ints | None = None

    def bound(self, x: Array, h: Array, gap: float) -> Bounded:
        """The rule of x with its certified gap; the work ends once that is at most `gap`. Shapes [S, A] and [S]."""
        rule = decision_rule(x)
        if self.contest.num_states <= EXACT_STATES or self.eps == 0:
            return self._exact(rule)
        return self._by_sweeps(rule, x.sum(axis=1), h, gap)

    def _exact(self, rule: Array) -> Bounded:
        x, off = occupancy_within(self.contest, rule)
        best = optimal_average_reward(self.contest, self.contest.margin.apply(x), self._actions)
        self._actions = best.actions
        return Bounded(max(0.0, best.excess) + self.contest.margin.bound * off, rule, x, best.h)

    def _by_sweeps(self, rule: Array, nu: Array, h: Array, gap: float) -> Bounded:
        unit = self.contest.margin.bound
        nu, distance = self._settle(rule, nu / nu.sum(), gap / (4 * unit) if unit > 0 else np.inf)
        x = nu[:, None] * rule
        h, excess = self._improve(self.contest.margin.apply(x), h, gap - unit * distance)
        return Bounded(max(0.0, excess) + unit * distance, rule, x, h)

    def _settle(self, rule: Array, nu: Array, small: float) -> tuple[Array, float]:
        """State frequencies after some steps of the rule's chain, and how far they can be from its own in ‖·‖₁."""
        chain, restart = self.contest.dynamics.under(rule)
        backward, settled, distance = chain.T, nu, np.inf
        for _ in range(SWEEPS):
            later = backward @ nu
            if restart is not None:
                later += self.contest.start * float(restart @ nu)
            before, found = distance, float(np.abs(later - nu).sum()) / self.eps
            if found < distance:
                settled, distance = nu, found
            if distance <= small or found > WORTH_A_SWEEP * before:
                break
            nu = later / later.sum()
        return settled, distance

    def _improve(self, c: Array, h: Array, small: float) -> tuple[Array, float]:
        """Values after some sweeps, and max_sa[c + P h − h], which no sweep makes larger except by rounding."""
        improved, excess = h, np.inf
        for _ in range(SWEEPS):
            q = state_action_values(self.contest, c, h).max(axis=1)
            before, found = excess, float((q - h).max())
            if found < excess:
                improved, excess = h, found
            if excess <= small or found > WORTH_A_SWEEP * before:
                break
            h = q - q.mean()
        return improved, excess


def common_part(transitions: Transitions) -> float:
    """ε ≤ Σ_s' min_sa P(s'|s, a): the restart of sparse transitions, all of it for dense ones."""
    restart = 0.0 if transitions.restart is None else float(transitions.restart.min())
    return restart if transitions.is_sparse else restart + float(transitions.matrix.min(axis=0).sum())
