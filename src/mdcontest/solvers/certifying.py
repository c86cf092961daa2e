"""From what a solver proposes to a solution with a certified gap: the same bound for every method.

    gap(d) ≤ max_sa[c + P h − h] + bound·‖x^d − x‖₁,     c = M x.

The last term is at most ‖F x‖₁ / ε where every pair has a common part ε of its transitions, such as a restart; without
one x^d itself is solved for, and it is zero.
"""

from __future__ import annotations

import numpy as np

from mdcontest.arrays import Array
from mdcontest.contest import Contest
from mdcontest.occupancy import by_sweeps, decision_rule, flow_residual, occupancy
from mdcontest.solution import Certificate
from mdcontest.solvers.base import Proposal, certify
from mdcontest.solvers.bounding import common_part

ACCURATE = 1e-9
"""An x this close to the rule's occupancy is taken for it; others are solved for."""
RESPONSE_STATES = 2000
"""Up to here a best response is computed anew where the solver's own values do not prove enough."""


def certified(contest: Contest, proposal: Proposal, gap: float) -> tuple[Certificate, float]:
    """A certificate for the proposed rule and the gap it proves, from the solver's x and h or without them."""
    if proposal.x is None or proposal.h is None:
        return _with_gap(certify(contest, proposal.rule))
    proof, proved = _from_values(contest, proposal.rule, proposal.x, proposal.h)
    if proved > gap and contest.num_states <= RESPONSE_STATES:
        return min((proof, proved), _with_gap(certify(contest, proposal.rule)), key=lambda found: found[1])
    return proof, proved


def _with_gap(proof: Certificate) -> tuple[Certificate, float]:
    return proof, _at_least_zero(-proof.kappa)


def _at_least_zero(gap: float) -> float:
    """A bound below zero proves a gap of zero; one that is no number proves nothing."""
    return np.inf if np.isnan(gap) else max(0.0, gap)


def _from_values(contest: Contest, rule: Array, x: Array, h: Array) -> tuple[Certificate, float]:
    nu = np.maximum(x, 0.0).sum(axis=1)
    x = (nu / nu.sum())[:, None] * rule  # the rule's own actions, whatever x was
    off = _distance(contest, x) if by_sweeps(contest) else np.inf
    if off > ACCURATE:
        x = occupancy(contest, rule)
        off = _distance(contest, x) if by_sweeps(contest) else 0.0
    excess = float((contest.margin.apply(x) + gained(contest, h)).max())
    return Certificate(x, h, -excess), _at_least_zero(excess + contest.margin.bound * off)


def _distance(contest: Contest, x: Array) -> float:
    """A bound on ‖x^d − x‖₁ for the rule d of x, from one step of its chain."""
    return float(np.abs(flow_residual(contest, x)).sum()) / common_part(contest.dynamics)


def gained(contest: Contest, h: Array) -> Array:
    """P h − h, shape [S, A], for h with its level taken out: what is common to all of h would only cost digits."""
    centred = h - (h.max() + h.min()) / 2
    later = contest.dynamics.expect(centred).reshape(contest.num_states, contest.num_actions)
    return np.asarray(later - centred[:, None])


def uniform_proposal(contest: Contest) -> Proposal:
    """The rule that takes every action alike: what there is before any method has found better."""
    return Proposal(decision_rule(np.ones((contest.num_states, contest.num_actions))))
