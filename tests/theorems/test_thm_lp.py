"""thm:lp: the linear program has the stated size and solves the game over |A|^|S| policies."""

import numpy as np
import pytest
from hypothesis import given

import mdcontest as mdc
from mdcontest.solvers.linear_program import build
from mdcontest.solvers.policies import deterministic_occupancies
from strategies import contests, dense_transitions, deterministic_rules


@given(contests())
def test_number_of_variables_and_constraints(contest):
    """|S||A| + |S| + 1 variables and 2|S||A| + |S| + 1 constraints, bounds x ≥ 0 counted, others not."""
    n, S = contest.num_pairs, contest.num_states
    program = build(contest)
    finite_bounds = int((np.isfinite(program.col_lower_)).sum() + np.isfinite(program.col_upper_).sum())
    assert program.num_col_ == n + S + 1
    assert program.num_row_ + finite_bounds == 2 * n + S + 1
    info = mdc.solve(contest, mdc.solvers.LinearProgram()).info
    assert (info["variables"], info["constraints"]) == (n + S + 1, 2 * n + S + 1)


@given(contests(max_states=4, max_actions=3))
def test_the_program_is_the_one_of_the_theorem(contest):
    """Entry by entry: M^T x + F^T h − κ ≥ 0, F x = 0, 1·x = 1, objective κ."""
    n, S = contest.num_pairs, contest.num_states
    program = build(contest)
    from scipy.sparse import csc_array

    matrix = program.a_matrix_
    rows = csc_array((matrix.value_, matrix.index_, matrix.start_), shape=(n + S + 1, n + S + 1)).toarray()
    P = dense_transitions(contest).reshape(n, S)
    F = P.T - np.repeat(np.eye(S), contest.num_actions, axis=1)
    M = contest.margin.matrix() / (contest.margin.bound or 1)
    np.testing.assert_allclose(rows[:n, :n], M.T, atol=1e-15)
    np.testing.assert_allclose(rows[:n, n : n + S], F.T, atol=1e-15)
    np.testing.assert_allclose(rows[:n, -1], -1)
    np.testing.assert_allclose(rows[n : n + S, :n], F, atol=1e-15)
    np.testing.assert_allclose(rows[-1, :n], 1)
    assert not rows[n:, n:].any()
    np.testing.assert_array_equal(program.col_cost_, np.append(np.zeros(n + S), 1))


@given(contests(max_policies=256, max_states=8))
def test_agrees_with_the_game_over_all_deterministic_policies(contest):
    """Both rules have gap zero; they need not be equal, optima need not be unique."""
    lp = mdc.solve(contest, mdc.solvers.LinearProgram())
    game = mdc.solve(contest, mdc.solvers.PolicyGame())
    for solution in (lp, game):
        assert solution.status == "solved", solution
    # The game's value from its own payoff matrix, without any of our gap code.
    X = deterministic_occupancies(contest, 4096)
    payoff = X @ contest.margin.matrix() @ X.T
    for solution in (lp, game):
        assert (payoff_against(X, contest, solution)).min() >= -1e-9 * (contest.margin.bound or 1)
    np.testing.assert_allclose(payoff, -payoff.T, atol=1e-12 * (1 + np.abs(payoff).max()))


def payoff_against(X, contest, solution):
    return solution.occupancy.reshape(-1) @ contest.margin.matrix() @ X.T


@given(contests(max_policies=64, max_states=5))
def test_batched_occupancies_are_the_occupancies(contest):
    """The oracle's fast path against `occupancy`, policy by policy, in the same order."""
    X = deterministic_occupancies(contest, 4096)
    slow = [mdc.occupancy(contest, d).reshape(-1) for d in deterministic_rules(contest)]
    np.testing.assert_allclose(X, slow, atol=1e-10)


def test_too_many_policies_are_refused_with_their_number():
    contest = mdc.examples.make("finite-horizon")
    with pytest.raises(mdc.SizeError, match=r"3\^30, about 1e14\.3"):
        mdc.solve(contest, mdc.solvers.PolicyGame())


@pytest.mark.parametrize("method", ["ipm", "simplex"])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_scale_of_the_margin_does_not_matter(method, scale):
    base = mdc.examples.make("corridor")
    contest = mdc.Contest(base.transitions, base.start, scale * base.margin.matrix())
    solution = mdc.solve(contest, mdc.solvers.LinearProgram(method=method))
    assert solution.status == "solved"
    assert mdc.verify(contest, solution)
