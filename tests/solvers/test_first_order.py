"""Extragradient, the bound it ends by, and what it has in common with optimistic HPI (test_optimistic.py)."""

import numpy as np
import pytest
import scipy.sparse as sp

import mdcontest as mdc
from mdcontest.occupancy import decision_rule, flow_residual
from mdcontest.solvers import HPI, Extragradient, InteriorPoint, MirrorDescent, OptimisticHPI
from mdcontest.solvers.base import silent
from mdcontest.solvers.bounding import Bounding, common_part
from mdcontest.solvers.extragradient import Point, Saddle, project_to_simplex
from mdcontest.solvers.linear_program import flow_matrix
from mdcontest.values import optimal_average_reward
from random_contests import random_contest

HEAVY_ROCK = np.array([[0.0, -1.0, 3.0], [1.0, 0.0, -1.0], [-3.0, 1.0, 0.0]])


def one_state(M):
    """A contest that is a matrix game."""
    return mdc.Contest(np.ones((1, len(M), 1)), [1.0], M)


def relative(contest, gap):
    return gap / (contest.margin.bound or 1.0)


# --- the pieces of extragradient --------------------------------------------------------------------------


def project_by_sorting(v):
    """The textbook: the largest j with v_(j) > (Σ_{i≤j} v_(i) − 1)/j gives the level."""
    down = np.sort(v)[::-1]
    levels = (np.cumsum(down) - 1) / np.arange(1, len(v) + 1)
    level = levels[np.flatnonzero(down > levels)[-1]]
    return np.maximum(v - level, 0)


def test_projection_to_the_simplex(count):
    rng = np.random.default_rng(0)
    for _ in range(count(200, 5000)):
        n = int(rng.integers(1, 40))
        v = rng.normal(size=n) * 10.0 ** rng.integers(-6, 3)
        v = np.round(v, 1) if rng.random() < 0.3 else v  # ties
        for guess in (0.0, -1e6, 1e6, float(v[0])):
            x, level = project_to_simplex(v, guess)
            np.testing.assert_allclose(x, project_by_sorting(v), atol=1e-13 * (1 + np.abs(v).max()))
            assert abs(x.sum() - 1) < 1e-13
            np.testing.assert_allclose(project_to_simplex(v, level)[0], x, atol=1e-13 * (1 + np.abs(v).max()))


def test_projection_where_one_is_lost_in_rounding():
    x, _ = project_to_simplex(np.array([1e20, 0.0, 1e20]))
    assert abs(x.sum() - 1) < 1e-12
    assert x[1] == 0


@pytest.mark.parametrize("seed", [0, 3, 8, 10, 22])
def test_the_operator_is_the_matrix_and_skew(seed):
    """slope = (M x/bound + Fᵀ h, F x) with F written out; z·G(z) = 0 for every z, which makes G monotone."""
    contest = random_contest(seed)
    rng, saddle = np.random.default_rng(seed), Saddle(contest)
    M, F = contest.margin.matrix() / saddle.unit, flow_matrix(contest)
    z = Point(rng.dirichlet(np.ones(contest.num_pairs)), rng.normal(size=contest.num_states))
    slope = saddle.slope(z)
    np.testing.assert_allclose(slope.x, M @ z.x + F.T @ z.h, atol=1e-12)
    np.testing.assert_allclose(slope.h, F @ z.x, atol=1e-14)
    assert abs(slope.x @ z.x - slope.h @ z.h) < 1e-12
    # The two norms are dual to each other: |s·z| ≤ ‖s‖*‖z‖, with equality for some s.
    saddle.weight = 7.0
    steepest = Point(7.0 * z.x, z.h / 7.0)
    assert abs(steepest.x @ z.x + steepest.h @ z.h - saddle.slope_length(steepest) * saddle.length(z)) < 1e-9


# --- extragradient ----------------------------------------------------------------------------------------


def test_extragradient_solves_random_contests(count):
    """At 1e-9 of the bound, each certificate verified by other code; x and h it hands over prove the gap themselves."""
    for seed in range(count(14, 200)):
        contest = random_contest(seed)
        proposal = Extragradient().propose(contest, 1e-9 * contest.margin.bound, silent)
        x_rule = mdc.occupancy(contest, proposal.rule)
        c = contest.margin.apply(proposal.x)
        excess = (c + contest.dynamics.expect(proposal.h).reshape(c.shape) - proposal.h[:, None]).max()
        proved = excess + contest.margin.bound * np.abs(x_rule - proposal.x).sum()
        assert relative(contest, proved) <= 2e-9, contest.name
        solution = mdc.solve(contest, Extragradient())
        assert solution.status == "solved", (contest.name, solution.info)
        assert mdc.verify(contest, solution)


@pytest.mark.parametrize("example", list(mdc.examples.EXAMPLES))
def test_first_order_methods_on_the_examples(example):
    contest = mdc.examples.make(example)
    exact = mdc.solve(contest, Extragradient())
    assert exact.status == "solved"
    assert mdc.verify(contest, exact, exact=True)
    hedged = mdc.solve(contest, OptimisticHPI(3000), tol=2e-3)
    assert hedged.status == "solved", hedged
    assert mdc.verify(contest, hedged)


@pytest.mark.parametrize("iterate", ["best", "average", "last"])
def test_extragradient_finds_the_only_solution(iterate):
    """M x = 0 for x ∝ (|M₁₂|, |M₀₂|, |M₀₁|) in a skew 3×3 matrix: (1, 3, 1)/5 here, and it is the only one."""
    solution = mdc.solve(one_state(HEAVY_ROCK), Extragradient(5000, iterate=iterate), tol=1e-10)
    assert solution.status == "solved"
    np.testing.assert_allclose(solution.rule, [[0.2, 0.6, 0.2]], atol=1e-9)


def test_extragradient_on_a_decision_process_finds_its_optimal_reward():
    """With M = r(z) − r(z') a solution is an optimal policy, whose average reward policy iteration gives."""
    contest = mdc.examples.make("machine-repair")
    reward = contest.margin.reward.reshape(contest.num_states, contest.num_actions)
    solution = mdc.solve(contest, Extragradient())
    assert abs((solution.occupancy * reward).sum() - optimal_average_reward(contest, reward).gain) < 1e-7


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e12, 1e200])
def test_the_scale_of_a_margin_changes_nothing(scale):
    base = random_contest(3, states=4, actions=3, shape="dense", margin="dense")
    contest = mdc.Contest(base.transitions, base.start, scale * base.margin.matrix())
    solution = mdc.solve(contest, Extragradient())
    assert solution.status == "solved"
    assert mdc.solve(contest, OptimisticHPI(300), tol=0.01).status == "solved"
    assert mdc.verify(contest, solution)


@pytest.mark.parametrize("iterate", ["best", "average", "last"])
def test_a_corner_is_reached_and_returned(iterate):
    """Where one action beats all others the last iterate gets there and stays, and an average would lag behind."""
    solution = mdc.solve(
        one_state(np.sign(np.subtract.outer(range(3), range(3))) * 1.0), Extragradient(iterate=iterate)
    )
    assert solution.status == "solved"
    np.testing.assert_allclose(solution.rule, [[0, 0, 1]], atol=1e-9)


@pytest.mark.parametrize("solver", [Extragradient(50), OptimisticHPI(50)], ids=repr)
def test_nothing_to_decide(solver):
    for contest in (
        one_state(np.zeros((3, 3))),
        one_state(np.zeros((1, 1))),
        mdc.Contest([[[0.0, 1.0]], [[1.0, 0.0]]], [1.0, 0.0], [[0.0, 1.0], [-1.0, 0.0]]),  # one action, period two
    ):
        solution = mdc.solve(contest, solver)
        assert solution.status == "solved"
        assert mdc.verify(contest, solution)


def test_an_iteration_limit_is_an_honest_end():
    contest = random_contest(1, states=20, actions=4, shape="dense", margin="dense")
    solution = mdc.solve(contest, Extragradient(30))
    assert solution.status == "iteration_limit"
    assert solution.info["iterations"] == 30
    assert abs(solution.gap - mdc.optimality_gap(contest, solution.rule)) < 1e-9
    assert mdc.verify(contest, solution)


@pytest.mark.parametrize("solver", [HPI(300), OptimisticHPI(300), Extragradient(300), MirrorDescent(300)], ids=repr)
def test_the_history_is_that_of_what_is_returned(solver):
    contest = random_contest(5, states=4, actions=3, shape="dense", margin="dense")
    one, two = (mdc.solve(contest, solver, tol=0) for _ in range(2))
    history = one.history
    assert len(history.seconds) == len(history.gaps) == len(history)
    assert (np.diff(history.seconds) >= 0).all()
    assert (np.diff(history.iterations) > 0).all()
    assert abs(history.gaps[-1] - one.gap) < 1e-12
    np.testing.assert_array_equal(one.rule, two.rule)  # nothing depends on the clock or on chance


def test_restarts_make_the_rate_linear():
    """Twice the iterations gain as many digits again at a linear rate; at a rate K^−p only 0.3 p of them."""
    contest = random_contest(2, states=15, actions=3, shape="garnet", margin="low rank")
    gaps = [relative(contest, mdc.solve(contest, Extragradient(K), tol=0).gap) for K in (400, 800)]
    assert gaps[1] < 1e-3 * gaps[0] or gaps[1] < 1e-14


# --- bounds without solving -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_by_sweeps_is_one(seed, monkeypatch):
    """‖x^d − x‖₁ ≤ ‖F x‖₁/ε for any x, and the gap bounded from any x and h is at least the true one."""
    monkeypatch.setattr("mdcontest.solvers.bounding.EXACT_STATES", 0)
    contest = random_contest(seed, shape=("garnet", "restart")[seed % 2])
    rng, bounding = np.random.default_rng(seed), Bounding(contest)
    assert bounding.eps >= 0.1 - 1e-12
    for _ in range(5):
        x = rng.dirichlet(np.full(contest.num_pairs, 0.3)).reshape(contest.num_states, -1)
        rule = decision_rule(x)
        off = np.abs(mdc.occupancy(contest, rule) - x).sum()
        assert off <= np.abs(flow_residual(contest, x)).sum() / bounding.eps + 1e-12
        found = bounding.bound(x, rng.normal(size=contest.num_states), 0.0)
        true = mdc.optimality_gap(contest, found.rule)
        assert found.gap >= true - 1e-12
        np.testing.assert_allclose(found.rule, rule)
        x_rule = mdc.occupancy(contest, rule)  # from the occupancy and the values of a best reply the bound is tight
        h = optimal_average_reward(contest, contest.margin.apply(x_rule)).h
        assert abs(bounding.bound(x_rule, h, 0.0).gap - true) <= 1e-11 * contest.margin.bound


@pytest.mark.parametrize("margin", ["low rank", "signs", "classes"])
def test_extragradient_needs_no_factorisation(margin, monkeypatch):
    """With a restart, the solver ends by its own bound and never solves a chain."""
    monkeypatch.setattr("mdcontest.solvers.bounding.EXACT_STATES", 0)
    contest = random_contest(4, states=20, actions=3, shape="garnet", margin=margin)

    def refuse(*_):
        raise AssertionError("a chain was factorised")

    with monkeypatch.context() as patch:
        patch.setattr("mdcontest.factors.Factors.__init__", refuse)
        proposal = Extragradient().propose(contest, 1e-9 * contest.margin.bound, silent)
    assert mdc.optimality_gap(contest, proposal.rule) <= proposal.history.gaps[-1] <= 1e-9 * contest.margin.bound


def test_the_common_part_of_transitions():
    """ε = Σ_s' min_sa P(s'|s, a), by the definition for dense transitions, at least the restart for sparse ones."""
    dense = random_contest(1, states=5, actions=2, shape="dense", margin="reward").with_restart(0.2)
    assert abs(common_part(dense.dynamics) - np.asarray(dense.transitions).reshape(10, 5).min(axis=0).sum()) < 1e-15
    sparse = random_contest(1, states=5, actions=2, shape="garnet", margin="reward")
    full = sp.csr_array(sparse.dynamics.full()).toarray()
    assert 0.1 - 1e-15 <= common_part(sparse.dynamics) <= full.min(axis=0).sum() + 1e-15
    assert common_part(random_contest(1, shape="periodic", margin="reward").dynamics) == 0


# --- settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (Extragradient(0), "at least 1, got 0"),
        (Extragradient(1.5), "whole number"),
        (Extragradient(iterate="first"), "iterate must be 'best', 'average' or 'last', got 'first'"),
        (OptimisticHPI(0), "at least 1, got 0"),
        (OptimisticHPI(iterate=None), "iterate must be"),
        (OptimisticHPI(iterate=np.array(["best", "last"])), "iterate must be"),
        (InteriorPoint(device=np.array(["cpu", "gpu"])), "device must be 'auto', 'cpu' or 'gpu', got array"),
        (OptimisticHPI(eta=-1.0), "eta must be"),
    ],
)
def test_bad_settings(solver, message):
    with pytest.raises(mdc.InputError, match=message):
        mdc.solve(mdc.examples.make("marriage"), solver)


@pytest.mark.parametrize(("name", "solver"), [("extragradient", "Extragradient"), ("optimistic-hpi", "OptimisticHPI")])
def test_the_command_knows_them(name, solver, run, tmp_path):
    mdc.examples.make("condorcet").save(tmp_path / "contest.json")
    code, out, _ = run("solve", tmp_path / "contest.json", "--solver", name, "--tol", "0.01", "--quiet")
    assert code == 0
    assert solver in out


def test_the_theorems_rate_is_the_same_for_both():
    contest = mdc.examples.make("condorcet")
    rates = [mdc.solve(contest, kind(50, eta="theorem"), tol=0).info["eta"] for kind in (HPI, OptimisticHPI)]
    assert rates[0] == rates[1] > 0
