"""prop:pg-form: the iterates of Algorithm 2 are those of Algorithm 1 where it matters, so it converges alike."""

import numpy as np
import pytest
from hypothesis import given, settings

import mdcontest as mdc
from mdcontest.solvers import HPI, HPIPG
from mdcontest.solvers.hpi import hedge_step
from mdcontest.solvers.hpi_pg import hedge_objective
from mdcontest.solvers.rates import theorem_bound
from mdcontest.values import evaluate
from strategies import contests, contests_with_rules, count_of


@given(contests(max_states=5, max_actions=3))
@settings(max_examples=count_of(15, 100))
def test_iterates_agree(contest):
    """(P) of the proof: after each step the two rules agree wherever ν > 0."""
    eta = 0.3 / (contest.margin.bound or 1)
    maximiser = HPIPG(eta=eta)
    log_d = log_pg = np.full((contest.num_states, contest.num_actions), -np.log(contest.num_actions))
    for _ in range(6):
        found, found_pg = evaluate(contest, np.exp(log_d)), evaluate(contest, np.exp(log_pg))
        np.testing.assert_allclose(found_pg.x, found.x, atol=1e-6)
        visited = found.x.sum(axis=1) > 0
        np.testing.assert_allclose(np.exp(log_pg[visited]), np.exp(log_d[visited]), atol=1e-6)
        rate = np.full((1, 1), eta)
        log_d = hedge_step((log_d, found.Q, rate))
        log_pg = maximiser._ascend_hedge((log_pg, found_pg.Q, rate), found_pg, log_pg)


@given(contests_with_rules())
def test_updates_are_the_same_with_advantages_for_values(case):
    """ap:hpi-clip: what Q and Q − V differ by is one number a state, which no update sees."""
    contest, rule = case
    log_d, rate = np.log(0.9 * rule + 0.1 / contest.num_actions), np.full((1, 1), 0.3 / (contest.margin.bound or 1))
    found, maximiser = evaluate(contest, np.exp(log_d)), HPIPG(eta=0.3)
    values, advantages = found.Q, found.Q - found.V[:, None]
    by_values, by_advantages = (hedge_step((log_d, scores, rate)) for scores in (values, advantages))
    np.testing.assert_allclose(np.exp(by_values), np.exp(by_advantages), atol=1e-12)
    ascents = (maximiser._ascend_hedge((log_d, scores, rate), found, log_d) for scores in (values, advantages))
    np.testing.assert_allclose(*map(np.exp, ascents), atol=1e-6)


@given(contests(max_states=5, max_actions=3))
@settings(max_examples=count_of(10, 60))
def test_return_policies_agree(contest):
    """Same average occupancy after K iterations, with each kind of learning rate."""
    for eta in ("adaptive", "theorem", 0.1 / (contest.margin.bound or 1)):
        tabular = mdc.solve(contest, HPI(15, eta=eta), tol=0)
        by_gradient = mdc.solve(contest, HPIPG(15, eta=eta), tol=0)
        closed = mdc.solve(contest, HPIPG(15, eta=eta, maximiser="closed form"), tol=0)
        np.testing.assert_allclose(closed.occupancy, tabular.occupancy, atol=1e-12)
        np.testing.assert_allclose(by_gradient.occupancy, tabular.occupancy, atol=1e-5)


@pytest.mark.parametrize("example", ["marriage", "condorcet", "corridor"])
def test_bound_of_the_theorem_holds_for_the_gradient_form(example):
    contest = mdc.examples.make(example)
    for K in (2, 10, 40):
        assert mdc.solve(contest, HPIPG(K, eta="theorem"), tol=0).gap <= theorem_bound(contest, K)


@given(contests_with_rules())
def test_gradient_of_the_hedge_objective(case):
    """Step 3's gradient against central differences, and its maximiser d_k exp(ηQ) normalised (g of the proof)."""
    contest, rule = case
    rng = np.random.default_rng(2)
    rule = 0.9 * rule + 0.1 / contest.num_actions
    scores, weight = rng.normal(size=rule.shape), np.ones((contest.num_states, 1))
    objective = hedge_objective(np.log(rule), scores, weight)
    theta, direction, step = rng.normal(size=rule.shape), rng.normal(size=rule.shape), 1e-6
    _, gradient = objective(theta)
    slope = (objective(theta + step * direction)[0] - objective(theta - step * direction)[0]) / (2 * step)
    assert abs(slope - (gradient * direction).sum()) < 1e-6 * (1 + abs(slope))
    best = rule * np.exp(scores)
    best /= best.sum(axis=1, keepdims=True)
    value, gradient = objective(np.log(best))
    assert np.abs(gradient).max() < 1e-12
    assert value >= objective(theta)[0]
