"""thm:markov: an optimal stationary policy exists, and optimal means solving the game of stationary policies."""

import numpy as np
from hypothesis import given

import mdcontest as mdc
from strategies import contests, contests_with_rules, deterministic_rules


@given(contests())
def test_an_optimal_stationary_policy_exists(contest):
    """Part 1, constructively: the linear program's rule is beaten by no policy, its gap is zero up to rounding."""
    solution = mdc.solve(contest)
    assert solution.status == "solved"
    assert mdc.optimality_gap(contest, solution.rule) <= 1e-9 * contest.margin.bound


@given(contests_with_rules(max_policies=64, max_states=6))
def test_no_deterministic_policy_beats_a_solution(case):
    """The definition of optimal (defn:opt) on the vertices of X, and so on all of it by linearity."""
    contest, rule = case
    solution = mdc.solve(contest)
    for rival in [*deterministic_rules(contest), rule]:
        assert mdc.average_margin(contest, solution.rule, rival) >= -1e-9 * (contest.margin.bound or 1)


@given(contests_with_rules(rules=2))
def test_value_of_the_game_is_zero(case):
    """Part 2: solutions are the maximin policies. Any policy's worst case is at most 0, a solution's is 0."""
    contest, rule, other = case
    solution = mdc.solve(contest)
    worst_of_solution = -mdc.optimality_gap(contest, solution.rule)
    for d in (rule, other):
        assert -mdc.optimality_gap(contest, d) <= worst_of_solution + 1e-9 * contest.margin.bound
    assert abs(worst_of_solution) <= 1e-9 * contest.margin.bound


@given(contests_with_rules())
def test_a_policy_that_depends_on_history_gains_nothing(case):
    """A history-dependent policy has the occupancy of a stationary one, so it cannot beat a solution.

    The policy here remembers whether an even or odd number of steps has passed and plays one of two rules. It is a
    stationary rule of the contest with two copies of the states; its occupancy, summed over copies, satisfies eq. flow.
    """
    contest, rule = case
    from strategies import dense_transitions

    P = dense_transitions(contest)
    S, A = contest.num_states, contest.num_actions
    doubled = np.zeros((2, S, A, 2, S))
    doubled[0, :, :, 1], doubled[1, :, :, 0] = P, P
    start = np.concatenate([contest.start, np.zeros(S)])
    memory = mdc.Contest(doubled.reshape(2 * S, A, 2 * S), start, np.zeros((2 * S * A, 2 * S * A)))
    both = np.concatenate([rule, rule[:, ::-1]])
    x = mdc.occupancy(memory, both).reshape(2, S, A).sum(axis=0)
    stationary = mdc.decision_rule(x)
    np.testing.assert_allclose(mdc.occupancy(contest, stationary), x, atol=1e-9)
    solution = mdc.solve(contest)
    assert (solution.occupancy * contest.margin.apply(x)).sum() >= -1e-9 * (contest.margin.bound or 1)


def test_rock_paper_scissors_has_one_solution():
    """M x ≤ 0 for M = cyclic (0, −1, 1): x2 ≥ x1, x0 ≥ x2, x1 ≥ x0 in some order, hence all equal."""
    solution = mdc.solve(mdc.examples.make("rock-paper-scissors"))
    np.testing.assert_allclose(solution.rule, [[1 / 3, 1 / 3, 1 / 3]], atol=1e-12)
