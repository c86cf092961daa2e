"""Optimistic HPI: its update written out, its theorem in one state, and its last iterate."""

import math

import numpy as np
import pytest

import mdcontest as mdc
from mdcontest.occupancy import decision_rule
from mdcontest.solvers import OptimisticHPI
from mdcontest.solvers.base import silent
from mdcontest.values import evaluate
from random_contests import random_contest

HEAVY_ROCK = np.array([[0.0, -1.0, 3.0], [1.0, 0.0, -1.0], [-3.0, 1.0, 0.0]])


def one_state(M):
    """A contest that is a matrix game."""
    return mdc.Contest(np.ones((1, len(M), 1)), [1.0], M)


@pytest.mark.parametrize("seed", [1, 4, 9])
@pytest.mark.parametrize("eta", [0.5, "adaptive"])
def test_optimistic_hpi_is_hedge_that_counts_the_last_values_twice(seed, eta):
    """log d_{k+1} = η (Σ_{j≤k} A_j + A_k) up to a constant a state, A = Q − V; the adaptive η from A_j − A_{j−1}."""
    contest, K = random_contest(seed, states=6, actions=3), 25
    unit = contest.margin.bound if eta == "adaptive" else 1.0
    d = np.full((6, 3), 1 / 3)
    total, before, squares, x_bar = np.zeros((6, 3)), np.zeros((6, 3)), np.zeros((6, 1)), np.zeros((6, 3))
    for _ in range(K):
        policy = evaluate(contest, d)
        x_bar += policy.x / K
        advantage = (policy.Q - policy.V[:, None]) / unit
        total += advantage
        squares += ((advantage - before) ** 2).max(axis=1, keepdims=True)
        rate = np.sqrt(math.log(3) / squares) if eta == "adaptive" else eta
        scores, before, last = rate * (total + advantage), advantage, policy.x
        d = np.exp(scores - scores.max(axis=1, keepdims=True))
        d /= d.sum(axis=1, keepdims=True)
    for iterate, x in (("average", x_bar), ("last", last)):
        proposal = OptimisticHPI(K, eta=eta, iterate=iterate).propose(contest, -1.0, silent)
        np.testing.assert_allclose(proposal.rule, decision_rule(x), atol=1e-9)
    best = OptimisticHPI(K, eta=eta).propose(contest, -1.0, silent)
    gaps = {name: mdc.optimality_gap(contest, decision_rule(x)) for name, x in (("average", x_bar), ("last", last))}
    assert best.info["iterate"] == min(gaps, key=gaps.get)


@pytest.mark.parametrize("seed", range(4))
def test_in_one_state_the_average_is_of_order_one_over_k(seed):
    """A theorem where there is one state (Syrgkanis et al. 2015): the regret of optimistic Hedge is at most

        log A/η + η Σ ‖g_k − g_{k−1}‖²_∞ − (1/4η) Σ ‖x_k − x_{k−1}‖₁²,

    and g = M x, |M| ≤ L: for η ≤ 1/(2L) all but the first term of the first sum cancels. So the gap of the average, the
    regret over K because x_k·M x_k = 0, is at most (log A/η + η L²)/K.
    """
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(5, 5))
    contest, K = one_state(G - G.T), 200
    L = contest.margin.bound
    for eta in (0.5 / L, 0.1 / L):
        solution = mdc.solve(contest, OptimisticHPI(K, eta=eta, iterate="average"), tol=0)
        for k, gap in solution.history:
            assert gap <= (math.log(5) / eta + eta * L**2) / k + 1e-12


def test_optimism_stops_the_circling():
    """Hedge's last iterate spirals out of rock-paper-scissors; the optimistic one converges (Wei et al. 2021)."""
    contest = one_state(HEAVY_ROCK)
    last = mdc.solve(contest, OptimisticHPI(4000, eta=0.15, iterate="last"), tol=0)
    assert last.gap < 1e-9
    assert mdc.solve(contest, OptimisticHPI(4000, eta=0.15), tol=1e-9).info["iterate"] == "last"
    d = np.full(3, 1 / 3)
    for _ in range(4000):
        d = d * np.exp(0.15 * HEAVY_ROCK @ d)
        d /= d.sum()
    assert (HEAVY_ROCK @ d).max() > 0.5
