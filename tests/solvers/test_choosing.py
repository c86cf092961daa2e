"""What `solve` does beyond its methods: choosing, falling back, certifying, time limits, estimates of time."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import mdcontest as mdc
from mdcontest.solvers import HPI, Extragradient, InteriorPoint, LinearProgram, PolicyGeneration, choose, choose_solver
from mdcontest.solvers.base import OutOfTime, Progress, Proposal
from mdcontest.solvers.certifying import certified
from mdcontest.solvers.solve import _Watch
from random_contests import random_contest, random_margin, random_rule, random_transitions


def sized(states, actions, margin, shape="dense", seed=0):
    return random_contest(seed, states=states, actions=actions, shape=shape, margin=margin)


@pytest.mark.parametrize(
    ("margin", "states", "solver", "reason"),
    [
        ("dense", 7, LinearProgram, "28 pairs, at most 150"),
        ("low rank", 7, LinearProgram, "28 pairs"),
        ("reward", 7, PolicyGeneration, "Markov decision process"),
        ("dense", 60, InteriorPoint, "240 pairs and a margin without structure"),
        ("function", 60, InteriorPoint, "without structure"),
        ("low rank", 60, PolicyGeneration, "240 pairs and a LowRank margin"),
        ("voters", 60, PolicyGeneration, "Aggregated"),
    ],
)
def test_the_default_chooses_and_says_why(margin, states, solver, reason):
    contest = sized(states, 4, margin)
    chosen, why = choose_solver(contest)
    assert type(chosen) is solver
    assert reason in why
    solution = mdc.solve(contest)
    assert (solution.solver, solution.why) == (solver.name, why)
    assert solution.status == "solved"
    assert "asked for" in mdc.solve(contest, HPI(5)).why


def test_a_matrix_whose_rows_many_pairs_share_has_structure():
    """A horizon repeats the rows of M; the same margin as classes is solved in the same way."""
    base = sized(5, 2, "dense")
    assert type(choose_solver(base.finite_horizon(19))[0]) is InteriorPoint
    long = base.finite_horizon(20)
    chosen, why = choose_solver(long)
    assert type(chosen) is PolicyGeneration
    assert "200 pairs and a Dense margin" in why
    classes = mdc.margins.Classes(long.margin.rows(), base.margin.M)
    other = mdc.Contest(long.transitions.reshape(100, 2, 100), long.start, classes)
    for contest in (long, other):
        solution = mdc.solve(contest)
        assert (solution.solver, str(solution.status)) == ("PolicyGeneration", "solved")
        assert mdc.verify(other, solution)


def test_without_room_for_a_factorisation_it_multiplies_only(monkeypatch):
    monkeypatch.setattr("mdcontest.solvers.memory.available_memory", lambda: 1e5)
    contest = sized(60, 4, "dense")
    chosen, why = choose_solver(contest)
    assert type(chosen) is Extragradient
    assert "too many to factor" in why
    assert mdc.solve(contest, tol=1e-4).status == "solved"
    for solver in (InteriorPoint(), LinearProgram()):
        with pytest.raises(mdc.SizeError, match=r"needs about .* GB, this machine has 0.0001 GB free; use methods"):
            mdc.solve(contest, solver)


def test_what_is_hard_for_one_method_goes_to_the_next(monkeypatch):
    """Two rounds of policy generation are not enough; the reason says what happened."""
    monkeypatch.setattr(choose, "FEW_ROUNDS", 2)
    solution = mdc.solve(sized(60, 4, "low rank"))
    assert (solution.solver, str(solution.status)) == ("InteriorPoint", "solved")
    assert "policy generation did not get there in 2 rounds (PolicyGeneration: " in solution.why


class Failing:
    """A solver that proposes what it is told to."""

    name = "Failing"

    def __init__(self, *proposals):
        self.proposals = list(proposals)

    def propose(self, contest, gap, report):
        return self.proposals.pop(0)


@pytest.mark.parametrize("seed", range(4))
def test_what_a_solver_claims_is_not_believed(seed):
    """Forged x and h: the gap is that of the rule all the same, or larger, and the certificate verifies."""
    contest = sized(9, 3, "dense", seed=seed)
    rng = np.random.default_rng(seed)
    rule = random_rule(rng, contest)
    gap = mdc.optimality_gap(contest, rule)
    for x, h in (
        (rng.dirichlet(np.ones(27)).reshape(9, 3), np.zeros(9)),
        (np.full((9, 3), 1 / 27), rng.normal(size=9) * 1e6),
        (np.full((9, 3), 1 / 27), np.full(9, np.nan)),
    ):
        proof, proved = certified(contest, Proposal(rule, x=x, h=h), 0.0)
        assert proved >= gap * (1 - 1e-9)
        assert proved <= gap * (1 + 1e-9)  # small contests: a best response is computed where h proves too little
        np.testing.assert_allclose(proof.x, mdc.occupancy(contest, rule), atol=1e-12)


def test_the_bound_with_a_restart_holds_for_rough_occupancies(monkeypatch):
    """gap(d) ≤ max[c + P h − h] + bound·‖F x‖₁/ε for x that are no occupancies, as used for large contests."""
    rng = np.random.default_rng(0)
    P = random_transitions(rng, 20, 3, "garnet")
    contest = mdc.Contest(P, np.full(20, 1 / 20), random_margin(rng, 20, 3, "low rank")).with_restart(0.2)
    monkeypatch.setattr(sys.modules["mdcontest.occupancy"], "FACTORED_STATES", 0)
    monkeypatch.setattr("mdcontest.solvers.certifying.RESPONSE_STATES", 0)
    for noise in (0.0, 1e-6, 0.1, 1.0):
        rule = random_rule(rng, contest)
        exact = mdc.occupancy(contest, rule).sum(axis=1)
        nu = (1 - noise) * exact + noise * rng.dirichlet(np.ones(20))
        h = mdc.marginal_values(contest, rule)[0]
        _, proved = certified(contest, Proposal(rule, x=nu[:, None] * rule, h=h), 0.0)
        assert proved >= mdc.optimality_gap(contest, rule) - 1e-12


@pytest.mark.parametrize(("reason", "status"), [(KeyboardInterrupt, "interrupted"), (mdc.InputError, "inaccurate")])
def test_what_an_earlier_method_found_is_not_lost(reason, status, monkeypatch):
    """The second method of the plan is stopped, or fails, before it has anything."""

    def fails(self, contest, gap, report):
        raise reason("stopped")

    monkeypatch.setattr(InteriorPoint, "propose", fails)
    contest = sized(9, 3, "dense")
    solution = mdc.solve(contest, tol=0.0)
    assert (solution.solver, solution.status) == ("LinearProgram", status)
    assert mdc.verify(contest, solution)


def test_no_number_proves_nothing(monkeypatch):
    """NaN from a solver, in a contest too large for a second opinion, leaves what the best pair wins, and not zero."""
    contest = sized(9, 3, "dense")
    monkeypatch.setattr("mdcontest.solvers.certifying.RESPONSE_STATES", 0)
    rule = random_rule(np.random.default_rng(0), contest)
    _, gap = certified(contest, Proposal(rule, x=np.ones((9, 3)), h=np.full(9, np.nan)), 0.0)
    assert gap == pytest.approx(mdc.cumulant(contest, rule).max())
    assert gap >= mdc.optimality_gap(contest, rule) > 0


def test_a_second_opinion_that_is_lost_in_rounding_costs_nothing(monkeypatch):
    """The solver's values prove a gap; that no best response can be computed must not be an error."""

    def lost(*_):
        raise mdc.InputError("lost in rounding")

    contest = sized(9, 3, "dense")
    rule = random_rule(np.random.default_rng(0), contest)
    monkeypatch.setattr("mdcontest.solvers.certifying.optimal_average_reward", lost)
    proof, proved = certified(contest, Proposal(rule, x=mdc.occupancy(contest, rule), h=np.zeros(9)), 0.0)
    assert mdc.optimality_gap(contest, rule) <= proved < np.inf
    assert proof.kappa == pytest.approx(-proved)
    with pytest.raises(mdc.InputError, match="lost in rounding"):
        certified(contest, Proposal(rule), 0.0)


def hard():
    """Slow to solve by HPI at the default tolerance."""
    return sized(12, 4, "dense")


@pytest.mark.parametrize(
    "solver", [HPI(10**9), Extragradient(10**9), InteriorPoint(), PolicyGeneration(), LinearProgram()]
)
def test_a_time_limit(solver):
    """Whatever was found by then, certified; nothing yet is the uniform rule."""
    solution = mdc.solve(hard(), solver, tol=0.0, time_limit=1e-9)
    assert solution.status == "time_limit"
    assert mdc.verify(hard(), solution)
    assert "time limit" in solution.status.advice


def test_a_time_limit_on_a_large_contest():
    rng = np.random.default_rng(0)
    S, n = 3000, 12_000
    P = sp.csr_array((np.full(3 * n, 1 / 3), (np.repeat(np.arange(n), 3), rng.integers(S, size=3 * n))), (n, S))
    J = np.kron(np.eye(4), [[0, 1], [-1, 0]])
    contest = mdc.Contest(P, np.full(S, 1 / S), mdc.margins.LowRank(rng.normal(size=(n, 8)), J)).with_restart(0.001)
    early, late = mdc.solve(contest, time_limit=1e-9), mdc.solve(contest)
    assert (early.status, late.status) == ("time_limit", "solved")
    assert early.gap > late.gap
    for solution in (early, late):
        report = mdc.verify(contest, solution)
        assert report, report


@pytest.mark.parametrize(("most", "times"), [(5000, 1.2), (0, 2.4)])
def test_a_time_limit_and_a_function_of_two_outcomes(most, times, monkeypatch):
    """What a certificate needs of the function, its bound and one product, and nothing more."""
    asked = []

    def fn(z, w):
        asked.append(len(z))
        return np.tanh(z[:, 0] * w[:, 1] - z[:, 1] * w[:, 0])

    rng = np.random.default_rng(0)
    margin = mdc.margins.Pairwise(fn, rng.normal(size=(200, 2)))
    contest = mdc.Contest(rng.dirichlet(np.ones(50), size=(50, 4)), np.full(50, 0.02), margin)
    monkeypatch.setattr("mdcontest.margins.function.TABLE_PAIRS", most)
    monkeypatch.setattr("mdcontest.margins.base.BLOCK_PAIRS", 2000)
    hurried = mdc.solve(contest, time_limit=1e-9)
    assert hurried.status == "time_limit"
    assert sum(asked) <= times * 200**2
    assert mdc.verify(contest, hurried)
    if most:
        assert mdc.solve(contest).status == "solved"
        assert sum(asked) <= times * 200**2


def test_the_clock_is_looked_at_while_a_matrix_is_built(monkeypatch):
    monkeypatch.setattr("mdcontest.solvers.newton_system.BLOCK_PAIRS", 50)
    contest, rows, seen = sized(12, 4, "dense"), [], []
    read = contest.margin.matrix
    monkeypatch.setattr(contest.margin, "matrix", lambda z, w: rows.extend(z) or read(z, w))

    def report(progress):
        seen.append(progress.iteration)
        if len(seen) == 5:
            raise OutOfTime

    with pytest.raises(OutOfTime):
        InteriorPoint().propose(contest, 1e-9, report)
    assert seen == [0] * 5
    assert 0 < len(rows) < contest.num_pairs


@pytest.mark.parametrize("wrong", [0, -1, float("nan")])
def test_bad_time_limits(wrong):
    with pytest.raises(mdc.InputError, match="time_limit must be a positive number of seconds"):
        mdc.solve(hard(), time_limit=wrong)


def test_an_estimate_of_the_time_left(monkeypatch):
    """A gap that falls tenfold a second from 1 to 1e-4: at 1e-2 after two seconds, two are left."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    seen = []
    watch = _Watch(seen.append, 3.5, 1e-4)
    for k in range(4):
        now[0] = float(k)
        watch.report(Progress(k, gap=10.0**-k))
    assert seen[0].left is None
    assert [p.seconds for p in seen] == [0, 1, 2, 3]
    assert seen[2].left == pytest.approx(2)
    assert seen[3].left == pytest.approx(1)
    now[0] = 4.0
    with pytest.raises(OutOfTime):
        watch.report(Progress(4))
