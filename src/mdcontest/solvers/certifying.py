"""From what a solver proposes to a solution with a certified gap: the same bound for every method.

    gap(d) ≤ max_sa[c + P h − h] + bound·‖x^d − x‖₁,     c = M x.

The last term is at most ‖F x‖₁ / ε where every pair has a common part ε of its transitions, such as a restart; without
one x^d itself is solved for, and it is what rounding can have done to that, mostly nothing. Values as large as those of
a restart of 1e-10 lose digits in P h − h, and large terms that cancel lose them in M x. What rounding can have done to
either is part of the bound, too.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from mdcontest.arrays import Array
from mdcontest.contest import Contest
from mdcontest.elimination import FEW_STATES, MOST_STATES, eliminated_occupancy
from mdcontest.errors import InputError
from mdcontest.occupancy import by_sweeps, decision_rule, flow_residual, occupancy_within
from mdcontest.solution import Certificate
from mdcontest.solvers.base import Proposal
from mdcontest.solvers.bounding import common_part
from mdcontest.values import optimal_average_reward

ACCURATE = 1e-9
"""An x this close to the rule's occupancy is taken for it; others are solved for."""
RESPONSE_STATES = 2000
"""Up to here a best response is computed anew where the solver's own values do not prove enough."""
RARE = 1e-5
"""Where pairs have less in common than this, linear solves may lose digits of frequencies that verify asks for."""
LARGE_VALUES = 1e5
"""Values h that differ by so many times the margin's bound tell of states that are hardly ever left."""
EPS = float(np.finfo(float).eps)
BLOCK_ENTRIES = 1 << 22
"""Transitions looked at together."""


def certified(contest: Contest, proposal: Proposal, gap: float) -> tuple[Certificate, float]:
    """A certificate for the proposed rule and the gap it proves, from the solver's x and h or without them."""
    x, off = _settled(contest, proposal.rule, proposal.x, proposal.h)
    c = contest.margin.apply(x)
    above = c + hidden(contest, x)
    proved = [] if proposal.h is None else [_bounded(contest, x, off, above, proposal.h)]
    if not proved or (proved[0][1] > gap and contest.num_states <= RESPONSE_STATES):
        try:
            proved.append(_bounded(contest, x, off, above, optimal_average_reward(contest, c).h))
        except InputError:  # lost in rounding: what the solver's own values prove stands all the same
            if not proved:
                raise
    if proved and min(found[1] for found in proved) > contest.margin.bound:  # nobody wins more than the largest margin
        proved.append(_bounded(contest, x, off, above, np.zeros(contest.num_states)))
    return min(proved, key=lambda found: found[1])


def _at_least_zero(gap: float) -> float:
    """A bound below zero proves a gap of zero; one that is no number proves nothing."""
    return np.inf if np.isnan(gap) else max(0.0, gap)


def _bounded(contest: Contest, x: Array, off: float, above: Array, h: Array) -> tuple[Certificate, float]:
    """The certificate of values for an x that is off by so much, and the gap it proves; `above` is at least M x."""
    most = excess(contest, above, h)
    return Certificate(x, h, -most), _at_least_zero(most + contest.margin.bound * off)


def excess(contest: Contest, above: Array, h: Array) -> float:
    """max_sa[c + P h − h] with what rounding can have done to P h − h; `above` is c or more."""
    change, rounding = gained(contest, h)
    return float((above.reshape(-1) + change + rounding).max())


def hidden(contest: Contest, x: Array) -> float:
    """What rounding may hide of M x: once here, and once where the product is made again to verify it."""
    return 2 * contest.margin.rounding(x.reshape(-1))


def _settled(contest: Contest, rule: Array, near: Array | None, h: Array | None) -> tuple[Array, float]:
    """The rule's occupancy, shape [S, A], from one that may be near, and a bound on its distance in ‖·‖₁."""
    common = common_part(contest.dynamics)
    if not by_sweeps(contest):
        slow = common > 0 or (
            h is not None and np.isfinite(h).all() and np.ptp(h) > LARGE_VALUES * contest.margin.bound
        )
        rare = common < RARE and contest.num_states <= (MOST_STATES if slow else FEW_STATES)
        return (eliminated_occupancy(contest, rule), 0.0) if rare else occupancy_within(contest, rule)
    x, off = near, np.inf
    if x is not None:
        nu = np.maximum(x, 0.0).sum(axis=1)
        x = (nu / nu.sum())[:, None] * rule  # the rule's own actions, whatever x was
        off = _distance(contest, x)
    if x is None or not off <= ACCURATE:
        x, within = occupancy_within(contest, rule)
        off = min(within, _distance(contest, x))
    if off > ACCURATE and common < RARE and contest.num_states <= MOST_STATES:
        return eliminated_occupancy(contest, rule), 0.0
    return x, off


def _distance(contest: Contest, x: Array) -> float:
    """A bound on ‖x^d − x‖₁ for the rule d of x, from one step of its chain."""
    return float(np.abs(flow_residual(contest, x)).sum()) / common_part(contest.dynamics)


def gained(contest: Contest, h: Array) -> tuple[Array, Array]:
    """P h − h, shape [n], and how far rounding can have moved it.

    Summed as Σ P(s'|s, a) (h(s') − h(s)): what is common to all of h would only cost digits.
    """
    dynamics, actions = contest.dynamics, contest.num_actions
    change, rounding = np.empty(contest.num_pairs), np.empty(contest.num_pairs)
    entries = dynamics.matrix.nnz if dynamics.is_sparse else dynamics.matrix.size
    step = max(1, BLOCK_ENTRIES * contest.num_pairs // max(entries, 1))
    for first in range(0, contest.num_pairs, step):
        rows = slice(first, min(first + step, contest.num_pairs))
        moves = sp.csr_array(dynamics.matrix[rows], copy=True)
        terms = np.diff(moves.indptr)
        moves.data = moves.data * (h[moves.indices] - np.repeat(h[np.arange(rows.start, rows.stop) // actions], terms))
        change[rows] = moves.sum(axis=1)
        moves.data = np.abs(moves.data)
        rounding[rows] = EPS * (terms + 4) * moves.sum(axis=1)
    if dynamics.restart is not None:
        centred = h - (h.max() + h.min()) / 2
        jump = math.fsum(contest.start * centred) - centred
        size = float(contest.start @ np.abs(centred)) + np.abs(centred)
        change += dynamics.restart * np.repeat(jump, actions)
        rounding += 8 * EPS * dynamics.restart * np.repeat(size, actions)
    return change, rounding


def uniform_proposal(contest: Contest) -> Proposal:
    """The rule that takes every action alike: what there is before any method has found better."""
    return Proposal(decision_rule(np.ones((contest.num_states, contest.num_actions))))
