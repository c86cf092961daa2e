"""Solvers × contests: every certified gap within its tolerance, every certificate verified, never equal rules."""

import contextlib
import os
import signal
from fractions import Fraction

import numpy as np
import pytest

import mdcontest as mdc
from mdcontest.solvers import HPI, HPIPG, LinearProgram, MirrorDescent, PolicyGame
from mdcontest.solvers.policies import deterministic_occupancies
from random_contests import random_contest

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
SEEDS = range(200)
SEEDS_RUN = SEEDS if FULL else SEEDS[:24]


def contest_of(seed):
    """2–30 states, 2–6 actions; every third small enough for the oracles, so that at least 60 of 200 are."""
    return random_contest(seed, max_policies=4096 if seed % 3 == 0 else None)


def test_enough_contests_are_small_enough_for_the_oracles():
    small = [c for c in map(contest_of, SEEDS) if c.num_actions**c.num_states <= 4096]
    assert len(small) >= 60
    sizes = {(c.num_states, c.num_actions) for c in map(contest_of, SEEDS)}
    assert {s for s, _ in sizes} >= set(range(2, 11))
    assert {a for _, a in sizes} == set(range(2, 7))


@pytest.mark.parametrize("seed", SEEDS_RUN)
def test_solvers_agree(seed):
    """Agreement: each certified gap is within its tolerance. The linear program verifies at 1e-8."""
    contest = contest_of(seed)
    exact = mdc.solve(contest, LinearProgram())
    assert exact.status == "solved"
    assert exact.gap <= 1e-9 * contest.margin.bound
    report = mdc.verify(contest, exact, tol=1e-8)
    assert report, report
    assert report.gap <= 1e-8 * (contest.margin.bound or 1)
    # K·log K iterations are nothing to be proud of, but 1e-3 is reached on all of them.
    hedged = mdc.solve(contest, HPI(200_000), tol=1e-3)
    assert hedged.status == "solved", hedged.info
    assert hedged.gap <= 1e-3 * contest.margin.bound
    assert mdc.verify(contest, hedged)
    if contest.num_actions**contest.num_states <= 4096:
        game = mdc.solve(contest, PolicyGame())
        assert game.status == "solved"
        assert mdc.verify(contest, game)
        assert mdc.average_margin(contest, game.rule, exact.rule) <= 1e-8 * (contest.margin.bound or 1)
        # Mirror descent over the policies is slow: 5 % of the bound within 4000 iterations is what it manages.
        descended = mdc.solve(contest, MirrorDescent(4000), tol=0.05)
        assert descended.status == "solved"
        assert mdc.verify(contest, descended)


@pytest.mark.parametrize("example", list(mdc.examples.EXAMPLES))
@pytest.mark.parametrize(
    ("solver", "tol"),
    [(None, 1e-9), (LinearProgram("simplex"), 1e-9), (HPI(20_000), 0.01), (HPIPG(500), 0.1), (PolicyGame(), 1e-9)],
    ids=["default", "simplex", "HPI", "HPIPG", "game"],
)
def test_every_solver_on_every_example(example, solver, tol):
    contest = mdc.examples.make(example)
    if isinstance(solver, PolicyGame) and contest.num_actions**contest.num_states > 4096:
        pytest.skip("too many deterministic policies")
    if isinstance(solver, HPIPG) and example == "corridor" and not FULL:
        pytest.skip("half a minute for this one alone")
    solution = mdc.solve(contest, solver, tol=tol)
    assert solution.status == "solved", solution
    assert mdc.verify(contest, solution)
    assert mdc.verify(contest, solution, exact=True)
    np.testing.assert_allclose(mdc.occupancy(contest, solution.rule), solution.occupancy, atol=1e-12)
    assert abs(mdc.optimality_gap(contest, solution.rule) - solution.gap) < 1e-9


@pytest.mark.parametrize("seed", [3, 9, 12])
def test_mirror_descent_is_hedge_on_the_payoff_matrix(seed):
    """Against the update written out with the full matrix G of payoffs between policies."""
    contest = random_contest(seed, max_policies=64)
    X = deterministic_occupancies(contest, 64)
    G, eta, K = X @ contest.margin.matrix() @ X.T, 0.3 / (contest.margin.bound or 1), 50
    p = p_bar = np.full(len(X), 1 / len(X))
    for k in range(2, K + 1):
        p = p * np.exp(eta * G @ p)
        p /= p.sum()
        p_bar = p_bar + (p - p_bar) / k
    solution = mdc.solve(contest, MirrorDescent(K, eta=eta), tol=0)
    if solution.info["policies"] and solution.history.iterations[-1] == K:
        np.testing.assert_allclose(solution.occupancy.reshape(-1), p_bar @ X, atol=1e-9)


def test_a_constant_rate_survives_underflow():
    """Rock-paper-scissors with a triple win; η = 100 drives probabilities to exact zeros, which must come back.

    By skewness and symmetry of the update the average converges all the same (gap ≤ log 3/(ηK) + oscillation).
    """
    contest = mdc.Contest(np.ones((1, 3, 1)), [1.0], [[0, -1, 3], [1, 0, -1], [-3, 1, 0]])
    for eta in (1.0, 10.0, 100.0):
        assert mdc.solve(contest, HPI(1000, eta=eta), tol=0).gap < 0.1


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (HPI(0), "at least 1, got 0"),
        (HPI(10, eta=-1.0), "eta must be"),
        (HPI(10, eta=float("nan")), "eta must be"),
        (HPI(10, eta="fast"), "eta must be"),
        (HPIPG(10, maximiser="magic"), "maximiser must be"),
        (MirrorDescent(0), "at least 1"),
        (MirrorDescent(10.5), "whole number"),
        (MirrorDescent(10, eta=-1.0), "eta must be"),
        (LinearProgram("magic"), "method must be 'ipm' or 'simplex', got 'magic'"),
        (LinearProgram(np.array(["ipm", "ipm"])), "method must be"),
        (HPI(10, eta=10**400), "eta must be"),
        (HPI(10, eta=np.ones(2)), "eta must be"),
        (HPI(10, eta=True), "eta must be"),
        (HPIPG(10, maximiser=np.array(["gradient", "closed form"])), "maximiser must be"),
        (MirrorDescent(10, eta=10**400), "eta must be"),
        (MirrorDescent(10, eta=True), "eta must be"),
        (HPI, "such as solvers.HPI"),
        ("hpi", "such as solvers.HPI"),
    ],
)
def test_bad_settings(solver, message):
    with pytest.raises(mdc.InputError, match=message):
        mdc.solve(mdc.examples.make("marriage"), solver)


@pytest.mark.parametrize("solver", [HPI, HPIPG, MirrorDescent])
def test_a_rate_is_any_real_number(solver):
    """Of NumPy, in single precision, or exact."""
    found = [mdc.solve(mdc.examples.make("marriage"), solver(5, eta=e), tol=0).gap for e in (0.25, np.float32(0.25))]
    assert found[0] == found[1]
    assert found[0] == mdc.solve(mdc.examples.make("marriage"), solver(5, eta=Fraction(1, 4)), tol=0).gap


@pytest.mark.parametrize("tol", [-1.0, float("nan"), float("inf")])
def test_bad_tolerance(tol):
    with pytest.raises(mdc.InputError, match="tol must be"):
        mdc.solve(mdc.examples.make("marriage"), tol=tol)


def test_a_program_that_does_not_fit_is_refused_before_it_starts(monkeypatch):
    monkeypatch.setattr("mdcontest.solvers.linear_program.BYTES_PER_ENTRY", 1e15)
    with pytest.raises(mdc.SizeError, match=r"12 pairs.*needs about"):
        mdc.solve(mdc.examples.make("marriage"), LinearProgram())


def test_a_margin_without_preferences_is_solved_by_anything():
    contest = mdc.Contest(np.ones((1, 3, 1)), [1.0], np.zeros((3, 3)))
    for solver in (None, HPI(5), HPIPG(5), PolicyGame(), MirrorDescent(5)):
        solution = mdc.solve(contest, solver)
        assert solution.status == "solved"
        assert mdc.verify(contest, solution)


def test_progress_is_reported():
    seen = []
    mdc.solve(mdc.examples.make("corridor"), HPI(50), tol=0, progress=seen.append)
    assert [p.iteration for p in seen][:3] == [1, 2, 3]
    assert all(p.of == 50 and p.gap > 0 for p in seen)


def interrupt_at(iteration):
    """A progress report that presses Ctrl-C once, in the middle of the solve."""
    pressed = []

    def report(progress):
        if progress.iteration >= iteration and not pressed:
            pressed.append(progress.iteration)
            os.kill(os.getpid(), signal.SIGINT)

    return report


@pytest.mark.parametrize("solver", [HPI(10**9), HPIPG(10**9), LinearProgram("ipm"), LinearProgram("simplex")], ids=repr)
def test_interrupt_leaves_a_certified_solution(solver):
    contest = random_contest(1, states=40, actions=4, shape="dense", margin="dense")
    solution = mdc.solve(contest, solver, tol=0, progress=interrupt_at(5))
    assert solution.status == "interrupted"
    assert mdc.verify(contest, solution)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupt_before_there_is_anything():
    with pytest.raises(KeyboardInterrupt):
        mdc.solve(mdc.examples.make("corridor"), HPI(10), tol=0, progress=interrupt_at(1))


@pytest.mark.parametrize(
    "solver", [HPI(100), LinearProgram("ipm"), LinearProgram("simplex"), MirrorDescent(100)], ids=repr
)
def test_an_error_in_the_callers_progress_reaches_the_caller(solver):
    def broken(progress):
        raise RuntimeError("my progress bar broke")

    with pytest.raises(RuntimeError, match="my progress bar broke"):
        mdc.solve(random_contest(9, max_policies=256), solver, tol=0, progress=broken)


@pytest.mark.parametrize("method", ["ipm", "simplex"])
def test_stopping_the_linear_program_from_progress(method):
    def stop(progress):
        raise KeyboardInterrupt

    contest = random_contest(1, states=40, actions=4, shape="dense", margin="dense")
    with contextlib.suppress(KeyboardInterrupt):  # it is raised if HiGHS had nothing to return yet
        assert mdc.solve(contest, LinearProgram(method), tol=0, progress=stop).status == "interrupted"


def test_solving_in_a_thread():
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.append(mdc.solve(mdc.examples.make("corridor"))))
    thread.start()
    thread.join()
    assert found[0].status == "solved"


@pytest.mark.parametrize("scale", [1e-200, 1e-12, 1e-9, 1e9, 1e12, 1e200])
def test_the_scale_of_a_margin_changes_nothing(scale):
    """Units are arbitrary: gaps scale with the margin, and every method solves at every scale."""
    base = random_contest(3, states=4, actions=3, shape="dense", margin="dense")
    contest = mdc.Contest(base.transitions, base.start, scale * base.margin.matrix())
    rule = np.eye(3)[[0, 1, 2, 0]]
    assert abs(mdc.optimality_gap(contest, rule) / scale - mdc.optimality_gap(base, rule)) < 1e-9
    for solver, tol in ((None, 1e-9), (PolicyGame(), 1e-9), (HPI(5000), 1e-2)):
        solution = mdc.solve(contest, solver, tol=tol)
        assert solution.status == "solved"
        assert mdc.verify(contest, solution)


@pytest.mark.parametrize("eps", [1e-4, 1e-6, 1e-8])
def test_rare_restarts(eps):
    base = random_contest(5, states=30, actions=3, shape="dense", margin="dense")
    contest = mdc.Contest(base.transitions, base.start, base.margin).with_restart(eps)
    solution = mdc.solve(contest)
    assert solution.status == "solved"
    assert mdc.verify(contest, solution)


def test_refusals_travel_between_processes():
    import copy

    error = mdc.NotUnichainError((0,), (1, 2), "[a] and in [b, c]")
    again = copy.copy(error)  # rebuilt the way a process pool does it
    assert str(again) == str(error)
    assert (again.first, again.second) == ((0,), (1, 2))
