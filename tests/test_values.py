"""Quantities: hand-computed answers, residuals at 1e-12, extreme rules, independent solvers for reward differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import mdcontest as mdc
from mdcontest.occupancy import flow_residual
from mdcontest.values import one_hot, optimal_average_reward
from strategies import chain_of, contests, contests_with_rules, dense_transitions, deterministic_rules, seeds


def test_two_states_by_hand():
    """From 0 one leaves with probability p = 1/4 (action 0) or 1/2 (action 1), from 1 with 1/2; reward 1 in state 1.

    ν(1) = p/(p + 1/2): 1/3 and 1/2. Against action 0 (average 1/3) action 1 wins 1/2 − 1/3 = 1/6. Values under
    action 0: c = r − 1/3, h(1) − h(0) = 1/(p + 1/2) = 4/3, and ν·V = 0 gives V = (−4/9, 8/9). Last,
    Q(0, 1) = −1/3 + ½V(0) + ½V(1) = −1/9.
    """
    P = np.array([[[0.75, 0.25], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]])
    contest = mdc.Contest.from_mdp(P, [1.0, 0.0], [[0.0, 0.0], [1.0, 1.0]])
    slow, fast = np.array([[1.0, 0], [1, 0]]), np.array([[0.0, 1], [1, 0]])
    np.testing.assert_allclose(mdc.occupancy(contest, slow), [[2 / 3, 0], [1 / 3, 0]], atol=1e-15)
    assert abs(mdc.average_margin(contest, fast, slow) - 1 / 6) < 1e-15
    assert abs(mdc.optimality_gap(contest, slow) - 1 / 6) < 1e-15
    V, Q = mdc.marginal_values(contest, slow)
    np.testing.assert_allclose(V, [-4 / 9, 8 / 9], atol=1e-14)
    np.testing.assert_allclose(Q[0], [-4 / 9, -1 / 9], atol=1e-14)
    np.testing.assert_array_equal(mdc.best_response(contest, slow)[0], [0, 1])


@given(contests_with_rules(max_states=20, max_actions=5))
def test_residuals(case):
    """Flow, Poisson and normalisation residuals at 1e-12 times the size of the values."""
    contest, rule = case
    x = mdc.occupancy(contest, rule)
    V, _Q = mdc.marginal_values(contest, rule)
    c = (rule * mdc.cumulant(contest, rule)).sum(axis=1)
    size = 1 + contest.margin.bound + np.abs(V).max()
    assert np.abs(flow_residual(contest, x)).max() <= 1e-12
    assert np.abs(c + chain_of(contest, rule) @ V - V).max() <= 1e-12 * size
    assert abs(x.sum(axis=1) @ V) <= 1e-12 * size


@given(st.sampled_from(["corridor", "marriage", "discounted"]), seeds, st.floats(1, 60))
def test_rules_with_tiny_probabilities(example, seed, digits):
    """Probabilities down to 1e-60, as HPI makes them: values stay within the bound τ, flow holds."""
    contest = mdc.examples.make(example)
    exponent = np.random.default_rng(seed).uniform(0, digits, size=(contest.num_states, contest.num_actions))
    rule = 10.0 ** -(exponent - exponent.min(axis=1, keepdims=True))
    rule /= rule.sum(axis=1, keepdims=True)
    V, Q = mdc.marginal_values(contest, rule)
    assert np.abs(V).max() <= contest.margin.bound * mdc.check_conditions(contest).tau
    assert np.abs(flow_residual(contest, mdc.occupancy(contest, rule))).max() <= 1e-12
    np.testing.assert_allclose((rule * Q).sum(axis=1), V, atol=1e-10)


@pytest.mark.parametrize("digits", range(1, 15))
def test_rare_exits(digits):
    """Two states left with probabilities p and 3p: ν = (3/4, 1/4) however small p is, and the solution verifies."""
    p = 10.0**-digits
    P = np.array([[[1 - p, p]], [[3 * p, 1 - 3 * p]]])
    contest = mdc.Contest.from_mdp(P, [0.5, 0.5], [[0.0], [1.0]])
    np.testing.assert_allclose(mdc.occupancy(contest, [[1.0], [1.0]]).reshape(-1), [0.75, 0.25], rtol=1e-9)
    solution = mdc.solve(contest)
    assert mdc.verify(contest, solution)


def test_transition_probabilities_near_the_smallest_float():
    """A link of 1e-300 is too weak for float64: an occupancy or a clear error, never NaN."""
    P = np.array([[[1.0, 1e-300]], [[1e-300, 1.0]]])
    contest = mdc.Contest(P, [0.5, 0.5], np.zeros((2, 2)))
    try:
        assert np.isfinite(mdc.occupancy(contest, [[1.0], [1.0]])).all()
    except mdc.InputError as error:
        assert "with_restart" in str(error)


@given(contests_with_rules(max_policies=64, max_states=6))
def test_best_response_is_the_best_of_all_deterministic_policies(case):
    contest, rule = case
    best = max(mdc.average_margin(contest, rival, rule) for rival in deterministic_rules(contest))
    response = mdc.best_response(contest, rule)
    scale = 1 + contest.margin.bound
    assert abs(mdc.average_margin(contest, response, rule) - best) <= 1e-9 * scale
    assert abs(mdc.optimality_gap(contest, rule) - max(best, 0)) <= 1e-9 * scale
    np.testing.assert_array_equal(np.sort(response, axis=1)[:, -1], 1)


@given(contests(max_states=12, max_actions=4), seeds)
def test_policy_iteration_from_any_start(contest, seed):
    """The optimum does not depend on the actions one starts from, and h proves it."""
    rng = np.random.default_rng(seed)
    reward = rng.normal(size=contest.num_pairs)
    cold = optimal_average_reward(contest, reward)
    warm = optimal_average_reward(contest, reward, rng.integers(contest.num_actions, size=contest.num_states))
    assert abs(cold.gain - warm.gain) < 1e-9
    for found in (cold, warm):
        q = reward.reshape(contest.num_states, -1) + np.einsum("sat,t->sa", dense_transitions(contest), found.h)
        assert (q - found.h[:, None]).max() <= found.gain + 1e-9


def average_reward_by_linear_programming(contest, reward):
    """The textbook linear program of an average-reward MDP, max Σ x r over eq. flow, written here from scratch."""
    P, A = dense_transitions(contest), contest.num_actions
    balance = P.reshape(contest.num_pairs, -1).T - np.repeat(np.eye(contest.num_states), A, axis=1)
    found = linprog(
        -reward.reshape(-1),
        A_eq=np.vstack([balance, np.ones(contest.num_pairs)]),
        b_eq=np.append(np.zeros(contest.num_states), 1.0),
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return -found.fun


def average_reward_by_relative_value_iteration(contest, reward):
    """Relative value iteration on the lazy chain (P + I)/2, whose average reward is the same."""
    P, h = dense_transitions(contest), np.zeros(contest.num_states)
    for _ in range(200_000):
        q = reward + 0.5 * np.einsum("sat,t->sa", P, h) + 0.5 * h[:, None]
        later = q.max(axis=1)
        span = (later - h).max() - (later - h).min()
        if span < 1e-10:
            return ((later - h).max() + (later - h).min()) / 2
        h = later - later[0]
    raise AssertionError(f"span {span}")


@given(contests(max_states=10, margins=("reward",)))
def test_reward_difference_is_the_markov_decision_process(contest):
    """The special case M_r: the solution's average reward is that of two independent MDP solvers, to 1e-8."""
    reward = contest.margin.reward.reshape(contest.num_states, contest.num_actions)
    solution = mdc.solve(contest)
    earned = float((solution.occupancy * reward).sum())
    assert abs(earned - average_reward_by_linear_programming(contest, reward)) < 1e-8
    assert abs(earned - average_reward_by_relative_value_iteration(contest, reward)) < 1e-8


def test_machine_repair_by_hand():
    """Repair at wear 2: a cycle is 2.5 days at 10, 2.5 days at 8, one repair at −4: (25 + 20 − 4)/6 = 6.8333 a day.

    Repairing at wear 1 gives (25 − 4)/3.5 = 6, at wear 3 (25 + 20 + 12.5 − 4)/8.5 = 6.294.
    """
    contest = mdc.examples.make("machine-repair")
    solution = mdc.solve(contest)
    reward = contest.margin.reward.reshape(5, 2)
    assert abs((solution.occupancy * reward).sum() - 41 / 6) < 1e-12
    np.testing.assert_allclose(solution.rule[:3], [[1, 0], [1, 0], [0, 1]], atol=1e-12)


def trap(gamma, d):
    """From 0 to 1 or into the trap 2; from 1 one can stay or go to 3 and back, which brings d a step more."""
    P = np.zeros((4, 2, 4))
    P[0, 0, 1] = P[0, 1, 2] = P[1, 0, 1] = P[1, 1, 3] = 1
    P[2, :, 2] = P[3, :, 1] = 1
    reward = [[0.5, 0.5], [0.5, 0.4], [0, 0], [0.6 + 2 * d] * 2]
    return mdc.Contest.from_mdp(P, [1, 0, 0, 0], reward).discounted(gamma)


@pytest.mark.filterwarnings("ignore:the optimality gap lies between")
@pytest.mark.parametrize(("rare", "d"), [(1e-5, 1e-5), (1e-7, 1e-7), (1e-9, 1e-5), (1e-11, 1e-3), (1e-12, 1e-2)])
def test_gaps_that_rare_restarts_hide(rare, d):
    """Staying in 1 earns ½; each turn to and fro earns −0.1 and then 0.1 + 2d more, from the second step on:

        (1 − γ) γ (−0.1 + γ (0.1 + 2d)) / (1 − γ²) = γ (2dγ − 0.1 (1 − γ)) / (1 + γ).

    Values differ by 1/(2·rare) between the trap and the rest, so the digits that tell the two apart are among the last.
    """
    stay, gamma = np.tile([1.0, 0.0], (4, 1)), 1 - rare
    expected = gamma * (2 * d * gamma - 0.1 * (1 - gamma)) / (1 + gamma)
    assert mdc.optimality_gap(trap(gamma, d), stay) == pytest.approx(expected, rel=1e-6, abs=1e-10)
    rule = mdc.best_response(trap(gamma, d), stay)
    assert rule[1, 1] == 1


def test_a_gap_that_is_lost_in_rounding_is_not_given_without_a_word():
    with pytest.warns(RuntimeWarning, match=r"the optimality gap lies between 0\.01 and 0\.0100.*larger restart"):
        mdc.optimality_gap(trap(1 - 1e-12, 1e-2), np.tile([1.0, 0.0], (4, 1)))


def test_one_hot_wants_actions():
    with pytest.raises(mdc.InputError, match="one action index a state"):
        one_hot(np.array([0.5]), 2)


def test_one_hot_of_very_many_actions():
    """A rule is S·A numbers; a table of all actions against all would be 8 TB."""
    rule = one_hot([999_999], 1_000_000)
    assert (rule.shape, rule[0, -1], rule.sum()) == ((1, 1_000_000), 1.0, 1.0)
