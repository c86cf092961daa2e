"""The interior point: gaps certified and verified, against the linear program, at every scale, on hard chains."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

import mdcontest as mdc
from mdcontest.solvers import InteriorPoint
from mdcontest.solvers.base import silent
from proposals import proposed, relative_gap
from random_contests import MARGINS, random_contest

SEEDS = range(200 if os.environ.get("MDCONTEST_COUNTS") == "full" else 60)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_contests_are_solved_far_below_the_default_tolerance(seed):
    contest = random_contest(seed)
    solution = mdc.solve(contest, InteriorPoint(), tol=1e-11)
    assert solution.status == "solved", solution
    report = mdc.verify(contest, solution, tol=1e-10)
    assert report, report
    assert solution.info["steps"] <= 25


@pytest.mark.parametrize("seed", [1, 4, 11, 20])
def test_it_agrees_with_the_linear_program(seed):
    """Two solutions cannot beat each other: M̄(π, π') is at most the gap of π', and minus the gap of π."""
    contest = random_contest(seed, max_policies=4096)
    one, other = mdc.solve(contest, InteriorPoint()), mdc.solve(contest, mdc.solvers.LinearProgram())
    assert abs(mdc.average_margin(contest, one.rule, other.rule)) <= 2e-9 * contest.margin.bound


def test_rock_paper_scissors_with_uneven_stakes():
    """M = [[0, −1, 3], [1, 0, −1], [−3, 1, 0]] has M x = 0 for x ∝ (1, 3, 1) only, so that is the solution."""
    contest = mdc.Contest(np.ones((1, 3, 1)), [1.0], [[0, -1, 3], [1, 0, -1], [-3, 1, 0]])
    solution = mdc.solve(contest, InteriorPoint(), tol=1e-12)
    np.testing.assert_allclose(solution.rule[0], [0.2, 0.6, 0.2], atol=1e-10)


def test_one_action_that_beats_all_others():
    """z beats w if its number is higher: the unique solution is the highest."""
    n = 40
    contest = mdc.Contest(np.ones((1, n, 1)), [1.0], np.sign(np.subtract.outer(np.arange(n), np.arange(n))))
    assert mdc.solve(contest, InteriorPoint(), tol=1e-11).rule[0, -1] >= 1 - 1e-10


@pytest.mark.parametrize("margin", MARGINS)
def test_many_solutions(margin):
    """Every action twice: any split between the copies solves the contest too, so the solutions form a face."""
    base = random_contest(3, states=10, actions=3, shape="dense", margin=margin)
    pairs = np.repeat(np.arange(30).reshape(10, 3), 2, axis=1).reshape(-1)
    M = base.margin.matrix()[np.ix_(pairs, pairs)]
    contest = mdc.Contest(np.repeat(base.transitions, 2, axis=1), base.start, M)
    assert mdc.solve(contest, InteriorPoint(), tol=1e-11).status == "solved"


@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1e8, 1e200])
def test_units_change_nothing(scale):
    base = random_contest(3, states=6, actions=3, shape="dense", margin="dense")
    contest = mdc.Contest(base.transitions, base.start, scale * base.margin.matrix())
    rules = [mdc.solve(c, InteriorPoint(), tol=1e-11).rule for c in (base, contest)]
    np.testing.assert_allclose(*rules, atol=1e-8)


def test_without_preferences_or_choices_any_rule_will_do():
    nothing = mdc.Contest(np.ones((1, 3, 1)), [1.0], np.zeros((3, 3)))
    forced = mdc.Contest([[[0, 1]], [[1, 0]]], [1, 0], [[0, 1], [-1, 0]])
    same = mdc.Contest.from_mdp(np.ones((1, 3, 1)), [1.0], np.full((1, 3), 1e9 / 3))
    for contest in (nothing, forced, same):
        solution = mdc.solve(contest, InteriorPoint())
        assert solution.status == "solved"
        assert mdc.verify(contest, solution)


def test_margins_of_very_different_sizes():
    """One pair of actions differs by 1, all others by 1e-8."""
    rng = np.random.default_rng(0)
    M = 1e-8 * rng.normal(size=(40, 40))
    M[0, 1] = 1
    contest = mdc.Contest(np.ones((1, 40, 1)), [1.0], mdc.margins.antisymmetrise(M))
    assert mdc.solve(contest, InteriorPoint(), tol=1e-12).status == "solved"


def halves(seed, eps, start=None):
    """Two halves that are left only by a restart."""
    rng = np.random.default_rng(seed)
    P = np.zeros((30, 3, 30))
    P[:15, :, :15], P[15:, :, 15:] = (rng.dirichlet(np.full(15, 0.3), size=(15, 3)) for _ in range(2))
    mu = rng.dirichlet(np.ones(30)) if start is None else np.eye(30)[start]
    margin = MARGINS[seed % len(MARGINS)]
    M = random_contest(seed, states=30, actions=3, margin=margin).margin
    return mdc.Contest(sp.csr_array(P.reshape(90, 30)) if seed % 2 else P, mu, M).with_restart(eps)


def corridor(seed):
    """Forty states in a row; going right is hard, so that the last is visited with frequency 1e-7 to 1e-50."""
    S, P = 40, np.zeros((40, 2, 40))
    for a, right in enumerate((0.05, 0.4)):
        P[np.arange(S), a, np.maximum(np.arange(S) - 1, 0)] += 1 - right
        P[np.arange(S), a, np.minimum(np.arange(S) + 1, S - 1)] += right
    return mdc.Contest(P, np.eye(S)[0], random_contest(seed, states=S, actions=2, margin=MARGINS[seed % 10]).margin)


@pytest.mark.parametrize("seed", range(10))
def test_chains_that_hardly_mix(seed):
    """With restarts of ε, values are up to 1/ε margins large and P h − h is rounded by 1e-16/ε of them."""
    for contest, reached in ((corridor(seed), 2e-9), (halves(seed, 1e-6), 1e-9), (halves(seed, 1e-8), 1e-7)):
        assert relative_gap(contest, proposed(contest)) <= reached


def test_states_that_are_never_visited_again():
    contest = halves(2, 1e-3, start=0)  # the second half is left at the first restart
    proposal = proposed(contest, 1e-11)
    assert (proposal.x[15:] == 0).all()
    assert relative_gap(contest, proposal) <= 1e-10
    assert mdc.verify(contest, mdc.solve(contest, InteriorPoint()))


def test_not_unichain_is_refused():
    P = np.zeros((2, 2, 2))
    P[[0, 1], :, [0, 1]] = 1
    contest = mdc.Contest(P, [0.5, 0.5], mdc.margins.antisymmetrise(np.eye(4, k=1)))
    with pytest.raises(mdc.NotUnichainError):
        InteriorPoint().propose(contest, 0.0, silent)
