"""From a point of the interior point to a rule, its occupancy, and values that prove its gap.

A point (x, y, z) satisfies its equations up to rounding, but x in states that are hardly ever visited is little else
than rounding, or the last of the centring: the rule read off it there may well lead to a far corner and stay for ages,
so that its own occupancy has nothing to do with x. Where that shows, such states take the action with the least z, the
best reply to x.

States that no rule visits, being transient under all, are no part of the points. Their values must make

    c + P h − h ≤ g

hold all the same: h(s) = max_a[c − g + P h] there, the most that can be collected before they are left for good.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from mdcontest.arrays import Array, Ints
from mdcontest.chain import Chain
from mdcontest.contest import Contest
from mdcontest.errors import InputError, NotUnichainError
from mdcontest.occupancy import by_sweeps, decision_rule, occupancy, require_unichain
from mdcontest.solvers.newton_step import Point
from mdcontest.solvers.newton_system import Layout, NewtonSystem, dense_rows
from mdcontest.transitions import Transitions

RARE = (1e-10, 1e-7)
"""States visited less often than this take the best reply, if the rule as it is proves less than its point."""
FAITHFUL = 3.0
"""A rule proves as much as its point if its gap is at most so many times the point's bound."""
MOST_REPLIES = 100
"""Policy iterations for the values of states that no rule visits; there is hardly ever need of ten."""


class Certified(NamedTuple):
    """A rule and what proves its gap."""

    gap: float
    rule: Array
    x: Array
    h: Array


def certified(layout: Layout, system: NewtonSystem, at: Point, bound: float) -> Certified:
    """The rule of a point with the least gap that the point's values prove; `bound` is the point's own.

    An InputError if the frequencies of every rule tried are lost in rounding.
    """
    x, z = layout.every(at.x, 0.0), layout.every(at.z, np.inf)
    rule, h = decision_rule(x), _values(layout, system, at)
    proofs, lost = [], None
    for candidate in _candidates(rule, x, z):
        try:
            proofs.append(_proved(layout, system, candidate, h))
        except NotUnichainError:
            raise
        except InputError as error:  # lost in rounding; the next one may not be
            lost = error
        if proofs and proofs[-1].gap <= FAITHFUL * bound:
            break
    if lost is not None and not proofs:
        raise lost
    return min(proofs, key=lambda proof: proof.gap)


def _candidates(rule: Array, x: Array, z: Array) -> Iterator[Array]:
    """The rule as it is, then with the least z chosen in more and more of the states that are rarely visited."""
    yield rule
    replies, visits = np.eye(x.shape[1])[np.argmin(z, axis=1)], x.sum(axis=1, keepdims=True)
    changed = 0
    for rare in RARE:
        chosen = (visits > 0) & (visits < rare)
        if chosen.sum() > changed:
            changed = int(chosen.sum())
            yield np.where(chosen, replies, rule)


def _values(layout: Layout, system: NewtonSystem, at: Point) -> Array:
    """h of the states in the system, in units of the margin, shape [S]; zero at the pin and elsewhere."""
    h = np.zeros(layout.contest.num_states)
    h[layout.states] = system.balance.solve(at.y, transposed=True) * layout.scale
    h[layout.states[layout.pin]] = 0.0
    return h


def _proved(layout: Layout, system: NewtonSystem, rule: Array, h: Array) -> Certified:
    """max_sa[c + P h − h] for the rule's own occupancy."""
    contest, pairs = layout.contest, layout.pairs
    x = frequencies(contest, rule)[:, None] * rule
    visits = np.concatenate([x.reshape(-1)[pairs], np.zeros(len(layout.states))])
    c = -system.apply(visits)[: len(pairs)] * layout.scale
    excess = float((c + _gained(contest, h)[pairs]).max())
    if len(pairs) < contest.num_pairs:
        c = contest.margin.apply(x).reshape(-1)
        h = values_elsewhere(contest, layout.states, c - excess, h)
        excess = float((c + _gained(contest, h)).max())
    return Certified(max(0.0, excess), rule, x, h)


def _gained(contest: Contest, h: Array) -> Array:
    """P h − h, shape [n]."""
    return contest.dynamics.expect(h).reshape(-1) - np.repeat(h, contest.num_actions)


def values_elsewhere(contest: Contest, states: Ints, reward: Array, h: Array) -> Array:
    """h, with h(s) = max_a[reward + P h] in all states but these; the others are transient under every rule.

    Policy iteration: every policy leaves the others for good, so its equations have a solution. Shapes [n] and [S].
    """
    actions, elsewhere = contest.num_actions, np.setdiff1d(np.arange(contest.num_states), states)
    pairs = elsewhere[:, None] * actions + np.arange(actions)
    P = dense_rows(contest, pairs.reshape(-1))
    inside = P[:, elsewhere].reshape(len(elsewhere), actions, -1)
    known = (reward[pairs.reshape(-1)] + P[:, states] @ h[states]).reshape(pairs.shape)
    every, chosen = np.arange(len(elsewhere)), np.argmax(known, axis=1)
    v = np.zeros(len(elsewhere))
    for _ in range(MOST_REPLIES):
        try:
            v = np.linalg.solve(np.eye(len(elsewhere)) - inside[every, chosen], known[every, chosen])
        except np.linalg.LinAlgError:  # so rarely left that rounding says never: these values prove little
            break
        q = known + inside @ v
        better = q.max(axis=1) > q[every, chosen] + 1e-13 * (np.abs(known).max() + np.abs(v).max())
        if not better.any():
            break
        chosen = np.where(better, np.argmax(q, axis=1), chosen)
    h = h.copy()
    h[elsewhere] = v
    return h


def frequencies(contest: Contest, rule: Array) -> Array:
    """ν of a rule by sweeps where it can restart anywhere, else by a dense solve.

    Random sparse chains fill in, and the interior point holds larger matrices than a dense chain.
    """
    if by_sweeps(contest):
        return occupancy(contest, rule).sum(axis=1)
    inner, restart = contest.dynamics.under(rule)
    P = inner.toarray() if sp.issparse(inner) else inner
    if restart is not None:
        P += np.outer(restart, contest.start)
    chain = Chain(Transitions(P, None, contest.start), np.ones((contest.num_states, 1)))
    with np.errstate(all="ignore"):  # what is lost in rounding is an error below
        return require_unichain(contest, chain).frequencies
