"""thm:hpi-convergence: the bound holds with the theorem's η, and the adaptive η converges at least as 1/√K."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest.solvers import HPI
from mdcontest.solvers.certifying import hidden
from mdcontest.solvers.rates import theorem_bound, theorem_rate
from mdcontest.values import evaluate
from random_contests import random_contest
from strategies import contests


@given(contests(), st.sampled_from([2, 3, 5, 10, 30, 100]))
def test_bound_holds_with_the_theorems_rate(contest, K):
    """gap ≤ 4 M_max τ √(log|A| / K) for K ≥ log|A|, η = √(log|A| / K) / (2 M_max τ)."""
    solution = mdc.solve(contest, HPI(K, eta="theorem"), tol=0)
    assert math.log(contest.num_actions) <= K
    # The theorem is about exact numbers; a certified gap counts what rounding may have hidden of M x, too.
    rounding = hidden(contest, solution.occupancy) + 1e-12 * contest.margin.bound
    assert solution.gap <= theorem_bound(contest, K) + rounding


@pytest.mark.parametrize("example", ["corridor", "marriage", "condorcet", "machine-repair", "finite-horizon"])
def test_bound_holds_at_every_k(example, count):
    """The theorem's η depends on K, so each K is a run of its own."""
    contest = mdc.examples.make(example)
    for K in range(2, count(40, 300)):
        solution = mdc.solve(contest, HPI(K, eta="theorem"), tol=0)
        assert solution.gap <= theorem_bound(contest, K)


@given(contests(), st.integers(1, 60))
def test_mean_advantage_certifies_the_average_policy(contest, K):
    """The heart of the proof: gap(x̄) ≤ max_sa mean_k (Q_k − V_k), for any sequence of rules, here Hedge's by hand."""
    eta = theorem_rate(contest, K)
    d = np.full((contest.num_states, contest.num_actions), 1 / contest.num_actions)
    x_bar, advantage = np.zeros_like(d), np.zeros_like(d)
    for _ in range(K):
        found = evaluate(contest, d)
        x_bar += found.x / K
        advantage += (found.Q - found.V[:, None]) / K
        d = d * np.exp(eta * found.Q)
        d /= d.sum(axis=1, keepdims=True)
    gap = mdc.optimality_gap(contest, mdc.decision_rule(x_bar))
    assert gap <= advantage.max() + 1e-10 * (1 + contest.margin.bound)
    # Algorithm 1 in the library is this loop.
    solution = mdc.solve(contest, HPI(K, eta=eta), tol=0)
    if solution.info["iterations"] == K:
        np.testing.assert_allclose(solution.occupancy, x_bar, atol=1e-9)


def test_adaptive_rate_slope_is_one_half_or_steeper():
    """20 fixed contests whose optimum is not uniform: median slope of log gap against log K on K = 100 … 3000 ≤ −½."""
    slopes = []
    seed = 0
    while len(slopes) < 20:
        seed += 1
        contest = random_contest(seed, states=3 + seed % 8, actions=2 + seed % 3, shape="restart", margin="dense")
        uniform = np.full((contest.num_states, contest.num_actions), 1 / contest.num_actions)
        if mdc.optimality_gap(contest, uniform) < 1e-3 * contest.margin.bound:
            continue
        history = mdc.solve(contest, HPI(3000), tol=0).history
        late = (history.iterations >= 100) & (history.gaps > 0)
        assert late.sum() > 20
        slopes.append(np.polyfit(np.log(history.iterations[late]), np.log(history.gaps[late]), 1)[0])
    assert np.median(slopes) <= -0.5, np.sort(slopes)


def test_theorem_rate_needs_a_bound_on_tau():
    """Three states, no two policies' classes disjoint but no common state: unichain by search, τ not bounded.

    Action a in state s leads to one of the two other states: policies can circle in {0, 1}, {1, 2} or {0, 2}.
    """
    P = np.zeros((3, 2, 3))
    for s in range(3):
        for a, later in enumerate(t for t in range(3) if t != s):
            P[s, a, later] = 1
    contest = mdc.Contest(P, np.ones(3) / 3, np.zeros((6, 6)))
    conditions = mdc.check_conditions(contest)
    assert conditions.unichain == "yes"
    assert conditions.tau == np.inf
    with pytest.raises(mdc.InputError, match="needs a bound on τ"):
        mdc.solve(contest, HPI(10, eta="theorem"))
    assert mdc.solve(contest, HPI(10)).status == "solved"


def test_stops_at_tol_or_at_the_limit_and_says_which():
    contest = mdc.examples.make("condorcet")
    loose = mdc.solve(contest, HPI(5000), tol=1e-2)
    assert loose.status == "solved"
    assert loose.info["iterations"] < 5000
    assert loose.gap <= 1e-2 * contest.margin.bound
    tight = mdc.solve(contest, HPI(50), tol=1e-6)
    assert tight.status == "iteration_limit"
    assert tight.info["iterations"] == 50
    assert "raise iterations" in tight.status.advice
