"""The interior point where states are hardly ever visited, or never: queues, stores, transient states."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import mdcontest as mdc
from mdcontest.solvers import InteriorPoint, interior_point, newton_rule
from mdcontest.solvers.base import silent
from mdcontest.solvers.interior_point import _visited
from mdcontest.solvers.newton_rule import values_elsewhere
from random_contests import random_contest, random_margin

LOST = mdc.InputError("frequencies are lost in rounding")


def queue(capacity, arrival, services, margin, seed):
    """0 … capacity customers; the action is 2·admit + fast. Only the empty queue is sure to be seen again."""
    S, total = capacity + 1, arrival + max(services)
    length, action = np.repeat(np.arange(S), 4), np.tile(np.arange(4), S)
    served = np.where(length > 0, np.array(services)[action % 2], 0) / total
    joins = np.where((action >= 2) & (length < capacity), arrival / total, 0)
    P = np.zeros((4 * S, S))
    for step, probability in ((-1, served), (0, 1 - served - joins), (1, joins)):
        np.add.at(P, (np.arange(4 * S), np.clip(length + step, 0, capacity)), np.maximum(probability, 0))
    rng = np.random.default_rng(seed)
    return mdc.Contest(sp.csr_array(P), np.eye(S)[0], random_margin(rng, S, 4, margin))


def store(capacity, margin, seed):
    """A stock, orders of 0, 4, 8 or 12, and a demand of 0 … 16: every rule runs out now and then."""
    S = capacity + 1
    P = np.zeros((S, 4, S))
    for s, a in np.ndindex(S, 4):
        np.add.at(P[s, a], np.maximum(min(s + 4 * a, capacity) - np.arange(17), 0), 1 / 17)
    return mdc.Contest(P, np.eye(S)[0], random_margin(np.random.default_rng(seed), S, 4, margin))


def solved(contest, tol=1e-9):
    solution = mdc.solve(contest, InteriorPoint(), tol=tol)
    report = mdc.verify(contest, solution)
    assert solution.status == "solved", solution
    assert report, report
    return solution


RATES = [
    (49, 0.5, (0.4, 0.8)),  # the uniform rule's frequencies fall to 1e-17, and were rounded below zero
    (30, 0.02, (0.1, 1.2)),  # almost always empty: points that are far from every occupancy at first
    (40, 3.0, (0.2, 0.3)),  # almost always full
    (60, 1.9, (0.1, 0.4)),  # either, as the rule pleases, and for ages
]
STUCK = [
    (71, 0.05, (0.31, 0.31), "classes", 1),
    (68, 0.05, (0.38, 0.41), "reward", 3),
    (86, 0.04, (0.88, 0.98), "reward", 1),
]
"""Almost always empty under every rule: from x = 1/n, steps lead nowhere for longer than patience lasts."""


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("margin", ["dense", "low rank", "classes", "reward"])
def test_queues(rates, margin, count):
    for seed in range(count(2, 40)):
        solved(queue(*rates, margin, seed))


@pytest.mark.parametrize("case", STUCK)
def test_starts_that_are_far_from_every_occupancy(case):
    assert solved(queue(*case)).info["steps"] <= 15


def test_points_that_are_not_feasible_do_not_count_as_good():
    """On the way, c + P h − h ≤ −0.05 everywhere, for an x that is no occupancy: that proves nothing."""
    for seed in (661, 662):
        rng = np.random.default_rng(seed)
        labels, beats = rng.integers(5, size=24), np.array([0, 1, 1, -1, -1])
        K = beats[(np.arange(5)[None, :] - np.arange(5)[:, None]) % 5]
        base = queue(5, 0.012, (0.124, 1.752), "dense", 0)
        solved(mdc.Contest(base.dynamics.matrix, base.start, mdc.margins.Classes(labels, K)))


@pytest.mark.parametrize("margin", ["dense", "low rank", "classes", "reward"])
def test_stores(margin, count):
    for seed in range(count(1, 20)):
        solved(store(80, margin, seed))


def test_which_states_are_visited_is_read_off_the_arcs():
    """Every length of a queue is reached from every other, however rarely: 0.05/9 to the power of 60 is 1e-135."""
    contest = queue(60, 0.05, (9.0, 9.0), "dense", 0)
    layout = _visited(contest, np.full((61, 4), 0.25))
    np.testing.assert_array_equal(layout.states, np.arange(61))
    solved(contest)


def test_a_rule_read_off_rounding_is_not_followed(monkeypatch):
    """Slow servers and many arrivals: once the queue is long it stays so for ages, and the best rules keep it short.

    As it is, the rule of a point admits now and then in states with frequencies of 1e-13, which are only rounding, and
    proves less than its point; with the best replies there it proves as much.
    """
    contest = queue(69, 1.25, (0.07, 0.07), "reward", 3)
    assert solved(contest).occupancy[35:].sum() <= 1e-8
    monkeypatch.setattr(newton_rule, "RARE", ())
    as_it_is = InteriorPoint().propose(contest, 1e-9 * contest.margin.bound, silent)
    assert as_it_is.history.gaps[-1] > 1e-9 * contest.margin.bound


# --- states that no rule visits ----------------------------------------------------------------------------


def leading_in(seed, transient=4):
    """Four states that are left for good, three that are not; three actions."""
    rng = np.random.default_rng(seed)
    S = transient + 3
    P = np.zeros((S, 3, S))
    P[:transient] = rng.dirichlet(np.full(S, 0.5), size=(transient, 3))
    P[transient:, :, transient:] = rng.dirichlet(np.ones(3), size=(3, 3))
    given = sp.csr_array(P.reshape(-1, S)) if seed % 2 else P
    return mdc.Contest(given, rng.dirichlet(np.ones(S)), random_margin(rng, S, 3, "dense"))


@pytest.mark.parametrize("seed", range(6))
def test_values_of_states_never_visited_against_every_policy(seed):
    """The most that any of the 3⁴ policies collects before the four states are left, h of the others added."""
    contest, rng = leading_in(seed), np.random.default_rng(100 + seed)
    reward, h = rng.normal(size=21), np.concatenate([np.zeros(4), rng.normal(size=3)])
    found = values_elsewhere(contest, np.arange(4, 7), reward, h)
    P = np.asarray(contest.transitions.toarray() if seed % 2 else contest.transitions).reshape(7, 3, 7)
    every = []
    for policy in itertools.product(range(3), repeat=4):
        Q = P[np.arange(4), policy]
        every.append(np.linalg.solve(np.eye(4) - Q[:, :4], reward.reshape(7, 3)[np.arange(4), policy] + Q @ h))
    np.testing.assert_allclose(found[:4], np.max(every, axis=0), atol=1e-12)
    np.testing.assert_array_equal(found[4:], h[4:])


@pytest.mark.parametrize("seed", range(4))
def test_the_certificate_holds_in_states_never_visited(seed):
    contest = leading_in(seed)
    proposal = InteriorPoint().propose(contest, 1e-11 * contest.margin.bound, silent)
    assert (proposal.x[:4] == 0).all()
    gained = contest.dynamics.expect(proposal.h).reshape(7, 3) - proposal.h[:, None]
    assert (contest.margin.apply(proposal.x) + gained).max() <= 1e-11 * contest.margin.bound
    solved(contest, tol=1e-11)


def test_states_never_visited_that_are_hardly_ever_left():
    """Left with probability 1e-17, which is no probability next to 1: the values prove little, but nothing breaks."""
    P = np.zeros((3, 2, 3))
    P[0, :, 0], P[0, :, 1] = 1, 1e-17
    P[1:, :, 1:] = 0.5
    h = values_elsewhere(mdc.Contest(P, np.eye(3)[1], np.zeros((6, 6))), np.array([1, 2]), np.ones(6), np.zeros(3))
    assert np.isfinite(h).all()


# --- what is lost in rounding ------------------------------------------------------------------------------


def test_rules_whose_frequencies_are_lost_are_passed_over(monkeypatch):
    """The first rule tried of every point is lost: where another one is tried, it counts."""
    contest = queue(40, 0.05, (0.8, 0.9), "reward", 0)
    original, lost = newton_rule.frequencies, []

    def losing(contest, rule):
        lost.append(bool((rule.max(axis=1) < 1).all()))  # as it is: no action has all the weight
        if lost[-1]:
            raise LOST
        return original(contest, rule)

    monkeypatch.setattr(newton_rule, "frequencies", losing)
    proposal = InteriorPoint().propose(contest, 1e-9 * contest.margin.bound, silent)
    assert mdc.optimality_gap(contest, proposal.rule) <= 1e-8 * contest.margin.bound
    assert {True, False} <= set(lost)
    assert np.isfinite(proposal.history.gaps).all()


def test_where_every_rule_is_lost_the_error_says_so(monkeypatch):
    def losing(contest, rule):
        raise LOST

    monkeypatch.setattr(newton_rule, "frequencies", losing)
    with pytest.raises(mdc.InputError, match="lost in rounding"):
        InteriorPoint().propose(random_contest(3, states=5, actions=2, shape="dense", margin="dense"), 0.0, silent)


def test_a_later_point_with_a_worse_rule_does_not_replace_a_better_one(monkeypatch):
    contest = random_contest(1, states=10, actions=3, shape="dense", margin="dense")
    original, calls = interior_point.certified, []

    def spoiling(layout, system, at, bound):
        proof = original(layout, system, at, bound)
        calls.append(proof.gap)
        return proof._replace(gap=1e3, rule=np.eye(3)[np.zeros(10, int)]) if len(calls) > 3 else proof

    monkeypatch.setattr(interior_point, "certified", spoiling)
    proposal = InteriorPoint().propose(contest, 0.0, silent)
    assert len(calls) > 4
    assert (np.diff(proposal.history.gaps) <= 0).all()
    assert mdc.optimality_gap(contest, proposal.rule) <= calls[2] + 1e-12


def test_what_cannot_be_solved_for_is_no_error():
    """Queues that take 1e100 steps to empty: no best response can be computed, and the point's own values stand."""
    for case in ((128, 3.309, (0.242, 0.965), "dense", 480), (64, 4.103, (0.066, 0.069), "dense", 438)):
        contest = queue(*case)
        solution = mdc.solve(contest, InteriorPoint())
        assert solution.gap <= 1e-7 * contest.margin.bound
        assert mdc.verify(contest, solution)
