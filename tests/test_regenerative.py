"""Chains and best responses by sweeps against factorisations, on chains that mix fast, slowly and hardly at all."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

import mdcontest as mdc
from mdcontest import restart_chain
from mdcontest.chain import Chain
from mdcontest.occupancy import by_sweeps
from mdcontest.regenerative import Regenerative
from mdcontest.values import evaluate, one_hot, optimal_average_reward
from random_contests import random_rule
from strategies import seeds


def grid(side, restart):
    """Four moves with slips to the sides, and staying; restart anywhere."""
    S = side * side
    y, x = np.divmod(np.arange(S), side)
    to = [
        np.clip(y + dy, 0, side - 1) * side + np.clip(x + dx, 0, side - 1)
        for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0))
    ]
    P = np.zeros((S, 5, S))
    for a in range(4):
        for b, p in ((a, 0.8), ((a + 1) % 4, 0.1), ((a - 1) % 4, 0.1)):
            np.add.at(P, (np.arange(S), a, to[b]), p)
    P[np.arange(S), 4, np.arange(S)] = 1
    return contest_of(P, restart)


def graph(states, restart):
    P = np.zeros((states, 4, states))
    rng = np.random.default_rng(1)
    for s, a in np.ndindex(states, 4):
        P[s, a, rng.choice(states, 5, replace=False)] = rng.dirichlet(np.ones(5))
    return contest_of(P, restart)


def line(states, restart):
    """Always a step to the left or to the right: policies go to and fro, which no sweep gets over quickly."""
    P = np.zeros((states, 2, states))
    s = np.arange(states)
    P[s, 0, np.maximum(s - 1, 0)] = P[s, 1, np.minimum(s + 1, states - 1)] = 1
    return contest_of(P, restart)


def layers(states, restart):
    """A horizon, after whose last layer the restart is certain: restarts that differ from pair to pair."""
    return graph(states, restart).finite_horizon(4).with_restart(restart)


def contest_of(P, restart):
    S, A, _ = P.shape
    reward = mdc.margins.RewardDifference(np.random.default_rng(0).normal(size=(S, A)))
    base = mdc.Contest(sp.csr_array(P.reshape(S * A, S)), np.full(S, 1 / S), reward)
    return base.with_restart(restart) if restart < 1 else base


def best_on_a_line(contest, reward, eps):
    """Value iteration of the discounted process that a restart makes of it."""
    S = contest.num_states
    left, right = np.maximum(np.arange(S) - 1, 0), np.minimum(np.arange(S) + 1, S - 1)
    v = np.zeros(S)
    for _ in range(int(40 / eps)):
        v = np.maximum(reward[:, 0] + (1 - eps) * v[left], reward[:, 1] + (1 - eps) * v[right])
    return eps * contest.start @ v


@pytest.mark.parametrize("seed", range(4))
def test_improvements_travel_along_a_line(seed):
    """A place worth going to is found from the other end; greedy steps alone move its fame one state at a time."""
    S, eps = 900, 1e-3
    s = np.arange(S)
    P = sp.csr_array(
        (np.ones(2 * S), (np.arange(2 * S), np.stack([np.maximum(s - 1, 0), np.minimum(s + 1, S - 1)], 1).ravel()))
    )
    reward = np.random.default_rng(seed).normal(size=(S, 2))
    contest = mdc.Contest.from_mdp(P, np.eye(S)[0], reward).with_restart(eps)
    assert by_sweeps(contest)
    uniform = np.full((S, 2), 0.5)
    best = best_on_a_line(contest, mdc.cumulant(contest, uniform), eps)
    assert mdc.optimality_gap(contest, uniform) == pytest.approx(best, abs=1e-9)
    assert mdc.solve(contest, mdc.solvers.PolicyGeneration()).status == "solved"


def any_graph(rng):
    """A few random successors, a line, a ring that is left rarely, or traps; restarts down to 1e-10."""
    S, A, kind = int(rng.integers(2, 60)), int(rng.integers(1, 4)), rng.choice(["random", "line", "ring", "traps"])
    P = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        if kind == "random":
            P[s, a, rng.choice(S, min(S, 3), replace=False)] = rng.dirichlet(np.ones(min(S, 3)))
        elif kind == "line":
            P[s, a, np.clip(s + a - A // 2 + (A == 1), 0, S - 1)] = 1
        elif kind == "ring":
            P[s, a, (s + a + 1) % S] = 1 - 1e-3
            P[s, a, s] += 1e-3
        else:
            P[s, a, s] = 0.9
            P[s, a, rng.integers(S)] += 0.1
    base = mdc.Contest.from_mdp(sp.csr_array(P.reshape(S * A, S)), rng.dirichlet(np.ones(S)), np.zeros((S, A)))
    eps = 10.0 ** -rng.integers(1, 11)
    layered = rng.random() < 0.3 and S < 50
    return (base.finite_horizon(3) if layered else base).with_restart(eps), eps


@given(seeds)
def test_sweeps_and_factors_find_policies_that_earn_the_same(seed):
    rng = np.random.default_rng(seed)
    contest, eps = any_graph(rng)
    reward = rng.normal(size=(contest.num_states, contest.num_actions))
    factored = optimal_average_reward(contest, reward)
    swept = Regenerative(contest.dynamics).respond(reward, 1e-12 * np.abs(reward).max(), exact=True)
    rounding = 1e-9 + 1e-14 / eps
    assert swept.low == pytest.approx(factored.gain, abs=rounding)
    assert swept.high == pytest.approx(swept.low, abs=10 * rounding)


WORLDS = [
    pytest.param(make, size, restart, id=f"{make.__name__} {restart:g}")
    for make, size in ((grid, 9), (graph, 70), (line, 80))
    for restart in (0.1, 1e-3, 1e-6)
] + [pytest.param(layers, 12, 1e-3, id="layers")]


@pytest.fixture(params=[False, True], ids=["small", "as if large"])
def as_if_large(request, monkeypatch):
    """The methods for large chains on small ones: Krylov before LU."""
    if request.param:
        monkeypatch.setattr(restart_chain, "LU_STATES", 0)
    return request.param


@pytest.mark.parametrize(("make", "size", "restart"), WORLDS)
def test_frequencies(make, size, restart, as_if_large):
    """Against LU with the restart written in, for policies and for rules; the error stated is never too small."""
    contest = make(size, restart)
    world = Regenerative(contest.dynamics)
    rng = np.random.default_rng(3)
    actions = rng.integers(contest.num_actions, size=contest.num_states).astype(np.int32)
    rules = [one_hot(actions, contest.num_actions), random_rule(rng, contest)]
    for rule, chain in zip(rules, (world.chain(actions), world.chain_of_rule(rules[1])), strict=True):
        exact = Chain(contest.dynamics, rule).frequencies
        for wanted, rough in ((1e-3, True), (1e-6, False), (0.0, False)):
            nu, error = chain.frequencies(wanted, rough=rough)
            assert np.abs(nu - exact).sum() <= error + 1e-14 / world.eps
            assert rough or error <= max(wanted, 4e-15 / world.eps)
            np.testing.assert_allclose(nu.sum(), 1, atol=1e-13)


@pytest.mark.parametrize(("make", "size", "restart"), WORLDS)
def test_best_responses(make, size, restart, as_if_large):
    """Against policy iteration by factors: the same average reward, within what both ends say."""
    contest = make(size, restart)
    r = contest.margin.reward.reshape(contest.num_states, -1)
    exact = optimal_average_reward(contest, r)
    world = Regenerative(contest.dynamics)
    for goal in (1e-2, 1e-9):
        found = world.respond(r, goal, exact=True)
        rounding = 1e-14 * (np.abs(found.h).max() + 1)
        assert found.low - rounding <= exact.gain <= found.high + rounding
        assert found.high - found.low <= goal + 100 * rounding
        nu = Chain(contest.dynamics, one_hot(found.actions, contest.num_actions)).frequencies
        assert nu @ r[np.arange(len(r)), found.actions] >= exact.gain - goal - 100 * rounding


def test_an_early_answer_earns_what_it_says():
    """Without `exact` a search may stop at the first good policy: it earns at least `low`, and nobody above `high`."""
    contest = grid(9, 1e-3)
    r = contest.margin.reward.reshape(contest.num_states, -1)
    exact = optimal_average_reward(contest, r).gain
    found = Regenerative(contest.dynamics).respond(r, 1e-9)
    nu = Chain(contest.dynamics, one_hot(found.actions, 5)).frequencies
    assert found.low <= nu @ r[np.arange(len(r)), found.actions] + 1e-12
    assert found.low <= exact <= found.high + 1e-12


@pytest.mark.parametrize(("make", "size", "restart"), WORLDS)
def test_occupancies_and_values_of_large_contests(make, size, restart, monkeypatch):
    """`occupancy`, `evaluate` and best responses by sweeps equal those by factors."""
    contest = make(size, restart)
    rule = random_rule(np.random.default_rng(5), contest)
    r = np.random.default_rng(6).normal(size=rule.shape)
    small = mdc.occupancy(contest, rule), evaluate(contest, rule), optimal_average_reward(contest, r)
    # The module, which the function of the same name hides.
    monkeypatch.setattr(sys.modules["mdcontest.occupancy"], "FACTORED_STATES", 0)
    assert by_sweeps(contest)
    large = mdc.occupancy(contest, rule), evaluate(contest, rule), optimal_average_reward(contest, r)
    slack = 1e-14 / restart
    np.testing.assert_allclose(large[0], small[0], atol=1e-12 + slack)
    size_of_h = np.abs(small[1].V).max() + 1
    np.testing.assert_allclose(large[1].V, small[1].V, atol=(1e-9 + 1e2 * slack) * size_of_h)
    np.testing.assert_allclose(large[1].Q, small[1].Q, atol=(1e-9 + 1e2 * slack) * size_of_h)
    assert large[2].excess == pytest.approx(small[2].excess, abs=1e-10 + 1e2 * slack)


def test_long_graphs_are_told_from_random_ones():
    assert Regenerative(grid(20, 0.1).dynamics).is_thin()
    assert Regenerative(line(400, 0.1).dynamics).is_thin()
    assert not Regenerative(graph(400, 0.1).dynamics).is_thin()


def test_without_a_restart_it_does_not_apply():
    contest = graph(30, 0.1)
    assert Regenerative.serves(contest.dynamics)
    for other in (graph(30, 1).dynamics, contest.finite_horizon(2).dynamics):
        assert not Regenerative.serves(other)
        with pytest.raises(ValueError, match="restart"):
            Regenerative(other)
