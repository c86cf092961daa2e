"""`verify`: true on what the solvers return, false on anything tampered with, and never fooled by NaN."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest import stationary
from mdcontest.cli import main
from mdcontest.rational import _solve_integers
from strategies import contests, contests_with_rules, dense_transitions, seeds


def solved(example="marriage"):
    contest = mdc.examples.make(example)
    return contest, mdc.solve(contest)


def claim_of(contest, rule):
    """An honest solution for any rule."""
    from mdcontest.solvers.base import certify

    proof = certify(contest, rule)
    return mdc.Solution(rule, proof.x, max(0.0, -proof.kappa), proof, mdc.Status.SOLVED, "test", "test", 1.0)


def with_proof(solution, **changes):
    return dataclasses.replace(solution, certificate=dataclasses.replace(solution.certificate, **changes))


@given(contests_with_rules())
def test_honest_claims_hold(case):
    """Any rule with its true gap verifies, however bad the rule; the gap found is the gap."""
    contest, rule = case
    solution = claim_of(contest, rule)
    report = mdc.verify(contest, solution)
    assert report, report
    assert abs(report.gap - mdc.optimality_gap(contest, rule)) <= 1e-9 * (1 + contest.margin.bound)


def test_a_solution_that_is_called_solved_must_be():
    contest = mdc.examples.make("marriage")
    poor = mdc.solve(contest, mdc.solvers.HPI(5))
    assert mdc.verify(contest, poor)
    report = mdc.verify(contest, dataclasses.replace(poor, status=mdc.Status.SOLVED))
    assert not report
    assert report.faults == (
        f"the status is solved, and the claimed gap {poor.gap:.3g} is over the tolerance asked for",
    )


MISUSED = {
    "swapped": (lambda c, s: mdc.verify(s, c), "got a Solution in place of the Contest"),
    "a file's name": (lambda c, s: mdc.verify(c, "s.json"), "got a str in place of the Solution"),
    "no tolerance": (lambda c, s: mdc.verify(c, s, tol=None), "tol must be a nonnegative number, got None"),
    "rule a list": (lambda c, s: mdc.verify(c, dataclasses.replace(s, rule=s.rule.tolist())), "rule must be an array"),
    "x a list": (
        lambda c, s: mdc.verify(c, with_proof(s, x=s.certificate.x.tolist())),
        "certificate.x must be an array",
    ),
    "no gap": (lambda c, s: mdc.verify(c, dataclasses.replace(s, gap=None)), "gap must be a number, got None"),
    "no tolerance of its own": (lambda c, s: mdc.verify(c, dataclasses.replace(s, tol=None)), "tol must be a number"),
    "no kappa": (lambda c, s: mdc.verify(c, with_proof(s, kappa=None)), "certificate.kappa must be a number, got None"),
    "a gap of all": (lambda c, s: mdc.verify(c, dataclasses.replace(s, gap=s.occupancy)), "gap must be a number"),
    "a gap beyond floats": (lambda c, s: mdc.verify(c, dataclasses.replace(s, gap=10**400)), "gap must be a number"),
    "no certificate": (
        lambda c, s: mdc.verify(c, dataclasses.replace(s, certificate=None)),
        "certificate must be a Certificate, got a NoneType",
    ),
    "a rule of objects": (
        lambda c, s: mdc.verify(c, dataclasses.replace(s, rule=s.rule.astype(object))),
        "rule must hold real numbers, got object values",
    ),
    "a complex rule": (
        lambda c, s: mdc.verify(c, dataclasses.replace(s, rule=s.rule + 1j)),
        "rule must hold real numbers, got complex128 values",
    ),
    "a masked occupancy": (
        lambda c, s: mdc.verify(c, dataclasses.replace(s, occupancy=np.ma.array(s.occupancy, mask=s.rule == 0))),
        "occupancy is a masked array",
    ),
    "complex h": (lambda c, s: mdc.verify(c, with_proof(s, h=s.certificate.h + 1j)), "certificate.h must hold real"),
    "solve a file's name": (lambda c, s: mdc.solve("c.json"), "solve takes a contest, got a str; load_contest reads"),
    "tolerance a text": (lambda c, s: mdc.solve(c, tol="1e-3"), "tol must be a nonnegative number, got '1e-3'"),
    "tolerance beyond floats": (lambda c, s: mdc.solve(c, tol=10**400), "tol must be a nonnegative number, got 1000"),
    "time a text": (lambda c, s: mdc.solve(c, time_limit="3"), "positive number of seconds, got '3'"),
    "time a truth": (lambda c, s: mdc.solve(c, time_limit=True), "positive number of seconds, got True"),
}


@pytest.mark.parametrize("case", MISUSED)
def test_misuse_is_an_error_in_words(case):
    call, message = MISUSED[case]
    with pytest.raises(mdc.InputError, match=message):
        call(*solved())


@pytest.mark.parametrize("offset", [1e3, 1.7e9, 1e12])
@pytest.mark.parametrize("exact", [False, True])
def test_features_far_from_zero(offset, exact):
    """J weights what all features have in common by nothing: solved, and verified, as if they were near zero."""
    rng = np.random.default_rng(0)
    P, J = rng.dirichlet(np.ones(6), (6, 4)), [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
    contest = mdc.Contest(P, np.full(6, 1 / 6), mdc.margins.LowRank(rng.normal(size=(24, 3)) + offset, J))
    solution = mdc.solve(contest)
    assert solution.status == "solved"
    assert solution.gap <= 1e-9 * contest.margin.bound < 1e-7
    report = mdc.verify(contest, solution, exact=exact)
    assert report, report
    assert report.gap <= 1e-10


NAN, INF = float("nan"), float("inf")
TAMPERED = {
    "gap too small": lambda s: dataclasses.replace(s, gap=s.gap - 0.1),
    "gap NaN": lambda s: dataclasses.replace(s, gap=NAN),
    "another rule": lambda s: dataclasses.replace(s, rule=s.rule[:, ::-1]),
    "no rule": lambda s: dataclasses.replace(s, rule=s.rule * 1.1),
    "negative rule": lambda s: dataclasses.replace(s, rule=np.array([[2.0, -1, 0]] * 4)),
    "NaN rule": lambda s: dataclasses.replace(s, rule=np.full_like(s.rule, NAN)),
    "occupancy": lambda s: dataclasses.replace(s, occupancy=s.occupancy[::-1]),
    "NaN occupancy": lambda s: dataclasses.replace(s, occupancy=np.full_like(s.occupancy, NAN)),
    "x": lambda s: with_proof(s, x=s.certificate.x[::-1]),
    "x not normalised": lambda s: with_proof(s, x=2 * s.certificate.x),
    "NaN x": lambda s: with_proof(s, x=np.full_like(s.certificate.x, NAN)),
    "h": lambda s: with_proof(s, h=s.certificate.h + np.arange(4)),
    "h shifted until it hides c": lambda s: dataclasses.replace(
        with_proof(s, x=s.certificate.x, h=s.certificate.h + 1e17 * np.arange(4), kappa=0.0), gap=0.0
    ),
    "NaN h": lambda s: with_proof(s, h=np.full(4, NAN)),
    "infinite h": lambda s: with_proof(s, h=np.full(4, INF)),
    "kappa": lambda s: with_proof(s, kappa=s.certificate.kappa + 0.1),
    "NaN kappa": lambda s: with_proof(s, kappa=NAN),
}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("case", TAMPERED)
def test_tampered_solutions_do_not_hold(case, exact):
    contest, solution = solved()
    assert mdc.verify(contest, solution, exact=exact)
    report = mdc.verify(contest, TAMPERED[case](solution), exact=exact)
    assert not report
    assert report.faults
    assert "does NOT hold" in str(report)


def test_a_constant_in_h_does_not_hide_a_gap():
    """A rule with a gap of 0.6 claimed to be 0: with 1e17 added to h, c is lost in rounding unless h is centred."""
    contest = mdc.examples.make("marriage")
    rule = np.tile([1.0, 0.0, 0.0], (4, 1))
    honest = claim_of(contest, rule)
    assert honest.gap > 0.1
    forged = with_proof(dataclasses.replace(honest, gap=0.0), h=honest.certificate.h + 1e17, kappa=0.0)
    assert not mdc.verify(contest, forged)
    spread = with_proof(dataclasses.replace(honest, gap=0.0), h=1e17 * np.arange(4.0), kappa=0.0)
    assert not mdc.verify(contest, spread)


def two_rooms():
    """Staying in either state is worth what its reward is: rule 0 loses 0.9 to rule 1 on average."""
    P = np.full((2, 2, 2), 0.05)
    P[:, 0, 0] = P[:, 1, 1] = 0.95
    return mdc.Contest.from_mdp(P, [1, 0], [[0, 0], [1, 1]])


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
def test_whole_numbers_do_not_wrap_around_in_a_forged_certificate(kind):
    """h(s') − h(s) of the least whole number is a large gain in that type: 0 − (−128) is −128 in eight bits."""
    contest, rule = two_rooms(), np.array([[1.0, 0.0], [1.0, 0.0]])
    honest = claim_of(contest, rule)
    assert honest.gap == pytest.approx(0.9)
    forged = with_proof(dataclasses.replace(honest, gap=0.0), h=np.array([np.iinfo(kind).min, 0], kind), kappa=0.0)
    assert not mdc.verify(contest, forged)


@given(contests_with_rules(), seeds)
def test_single_precision_is_compared_in_double(case, seed):
    contest, rule = case
    h = (1e7 * np.random.default_rng(seed).normal(size=contest.num_states)).astype(np.float32)
    gaps = [mdc.verify(contest, with_proof(claim_of(contest, rule), h=one)).gap for one in (h, h.astype(float))]
    assert gaps[0] == gaps[1]


@pytest.mark.parametrize("kind", [np.uint8, bool, np.float16, np.float32, np.longdouble])
def test_any_real_numbers_are_read(kind):
    """The best rule here is deterministic, so that every type can hold it."""
    contest = two_rooms()
    solution = mdc.solve(contest)
    assert mdc.verify(contest, dataclasses.replace(solution, rule=solution.rule.astype(kind)))
    if kind is np.longdouble:
        assert mdc.verify(contest, with_proof(solution, x=solution.certificate.x.astype(kind)))


def test_an_exact_gap_of_any_number_of_digits_can_be_looked_at():
    rng = np.random.default_rng(0)
    states, B = 60, rng.normal(size=(180, 180))
    contest = mdc.Contest(rng.dirichlet(np.ones(states), (states, 3)), np.full(states, 1 / states), B - B.T)
    report = mdc.verify(contest, mdc.solve(contest), exact=True)
    assert report.gap.denominator > 10**4300, "more digits than Python turns into a text by itself"
    assert "exactly known" in repr(report)
    assert "exact rational" in str(report)


def test_a_rule_of_another_contest_does_not_hold():
    contest, solution = solved()
    other = mdc.Contest(
        contest.transitions,
        contest.start,
        -contest.margin.matrix() + np.triu(np.ones((12, 12)), 1) - np.tril(np.ones((12, 12)), -1),
    )
    assert not mdc.verify(other, solution)


def test_shapes_must_fit():
    _, solution = solved()
    with pytest.raises(mdc.InputError, match=r"rule has shape \(4, 3\), this contest needs \(7, 3\)"):
        mdc.verify(mdc.examples.make("corridor"), solution)


def test_a_rule_with_two_classes_is_not_verified():
    P = np.zeros((2, 2, 2))
    P[[0, 1], 0, [0, 1]], P[[0, 1], 1, [1, 0]] = 1, 1
    contest = mdc.Contest(P, [0.5, 0.5], np.zeros((4, 4)))
    stay = np.array([[1.0, 0], [1, 0]])
    x = np.array([[0.5, 0], [0.5, 0]])
    claim = mdc.Solution(x * 2, x, 0.0, mdc.Certificate(x, np.zeros(2), 0.0), mdc.Status.SOLVED, "test", "test", 1.0)
    report = mdc.verify(contest, dataclasses.replace(claim, rule=stay))
    assert not report
    assert "several recurrent classes" in report.faults[0]


@given(contests(max_states=5, max_actions=3))
def test_the_exact_bound_is_above_the_true_gap(contest):
    """Over the rationals: the bound is a Fraction, at least the exact payoff of every deterministic rival."""
    solution = mdc.solve(contest)
    report = mdc.verify(contest, solution, exact=True)
    assert report, report
    assert isinstance(report.gap, Fraction)
    assert report.gap >= 0
    assert float(report.gap) <= 1e-8 * (contest.margin.bound or 1)


@given(contests_with_rules(max_states=4, max_actions=2, shapes=("dense", "periodic", "transient", "lazy")))
def test_exact_bound_against_brute_force_rationals(case):
    """An independent computation in Fractions: exact occupancies of all rivals by Gaussian elimination, exact payoffs.

    The bound must be at least the largest payoff, and within 1e-9 of it because h is optimal up to rounding.
    """
    contest, rule = case
    solution = claim_of(contest, rule)
    bound = mdc.verify(contest, solution, exact=True).gap
    S, A = contest.num_states, contest.num_actions
    P = [[[Fraction(float(p)) for p in row] for row in block] for block in dense_transitions(contest)]
    P = [[[p / sum(row) for p in row] for row in block] for block in P]
    M = [[Fraction(float(v)) for v in row] for row in contest.margin.matrix()]

    def exact_occupancy(d):
        chain = [[sum(d[s][a] * P[s][a][t] for a in range(A)) for t in range(S)] for s in range(S)]
        # (I − Pᵀ) ν = 0 with one equation replaced by Σν = 1, by elimination over the rationals.
        rows = [[Fraction(int(s == t)) - chain[s][t] for s in range(S)] + [Fraction(0)] for t in range(S - 1)]
        rows.append([Fraction(1)] * S + [Fraction(1)])
        for k in range(S):
            pivot = next(i for i in range(k, S) if rows[i][k] != 0)
            rows[k], rows[pivot] = rows[pivot], rows[k]
            rows[k] = [v / rows[k][k] for v in rows[k]]
            for i in range(S):
                if i != k:
                    rows[i] = [v - rows[i][k] * w for v, w in zip(rows[i], rows[k], strict=True)]
        return [rows[s][S] * d[s][a] for s in range(S) for a in range(A)]

    def fractions(d):
        return [[Fraction(float(v)) / sum(Fraction(float(u)) for u in row) for v in row] for row in d]

    x = exact_occupancy(fractions(rule))
    n = S * A
    c = [sum((M[i][j] - M[j][i]) / 2 * x[j] for j in range(n)) for i in range(n)]
    from strategies import deterministic_rules

    payoffs = [
        sum(u * v for u, v in zip(exact_occupancy(fractions(d)), c, strict=True)) for d in deterministic_rules(contest)
    ]
    assert bound >= max(payoffs)
    assert float(bound - max(payoffs)) <= 1e-9 * (1 + contest.margin.bound)


@given(seeds, st.integers(1, 6))
def test_integer_elimination(seed, size):
    """Bareiss against numpy, and exactly: A·solution = b over the integers."""
    rng = np.random.default_rng(seed)
    A = rng.integers(-5, 6, size=(size, size))
    b = rng.integers(-5, 6, size=size)
    if abs(np.linalg.det(A)) < 0.5:
        with pytest.raises(mdc.InputError, match="singular"):
            _solve_integers([[*map(int, row), int(v)] for row, v in zip(A, b, strict=True)])
        return
    found = _solve_integers([[*map(int, row), int(v)] for row, v in zip(A, b, strict=True)])
    for row, v in zip(A, b, strict=True):
        assert sum(int(a) * f for a, f in zip(row, found, strict=True)) == int(v)


def test_exact_is_refused_for_large_contests():
    S = 200
    contest = mdc.Contest.from_mdp(np.full((S, 1, S), 1 / S), np.full(S, 1 / S), np.zeros((S, 1)))
    with pytest.raises(mdc.SizeError, match="up to 80 states"):
        mdc.verify(contest, mdc.solve(contest), exact=True)


def test_large_contests_use_the_fast_product_and_spot_checks(monkeypatch):
    contest, solution = solved("corridor")
    monkeypatch.setattr("mdcontest.verification.SLOW_PRODUCT_PAIRS", 5)
    monkeypatch.setattr("mdcontest.verification.SPOT_CHECKS", 7)
    assert mdc.verify(contest, solution)
    wrong = mdc.margins.Classes
    monkeypatch.setattr(wrong, "kernel_against", lambda self, f, g, w: np.ones(len(f)))
    with pytest.raises(mdc.InputError, match="bug in the margin"):
        mdc.verify(contest, solution)


@given(contests(max_states=6))
def test_sparse_stationary_agrees_with_elimination(contest):
    rule = np.full((contest.num_states, contest.num_actions), 1 / contest.num_actions)
    by_elimination = stationary.solved_within(contest, rule)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stationary, "ELIMINATION_STATES", 1)
        np.testing.assert_allclose(stationary.solved_within(contest, rule)[0], by_elimination, atol=1e-12)


@pytest.fixture
def hidden_by_rounding():
    """M = [[0, 256], [-256, 0]] by features of up to 2^60, whose products of 2^120 round by far more than 256."""
    b = 2.0**60
    margin = mdc.margins.LowRank([[1, 1], [b, b + 256]], [[0, 1], [-1, 0]])
    assert margin.noise > margin.bound == 256
    return mdc.Contest(np.ones((1, 2, 1)), [1.0], margin)


def test_rationals_have_no_rounding_that_could_hide_a_gap(hidden_by_rounding):
    """The second action loses 256 to the first; in floating point nobody could tell."""
    rule = np.array([[0.0, 1.0]])
    proof = mdc.Certificate(rule, np.zeros(1), -0.0)
    claim = mdc.Solution(rule, rule, 0.0, proof, mdc.Status.SOLVED, "forged", "forged", 1e-9)
    assert mdc.verify(hidden_by_rounding, claim)
    report = mdc.verify(hidden_by_rounding, claim, exact=True)
    assert (report.holds, report.gap, report.faults) == (False, 256, ("claimed gap is off by 1",))
    honest = mdc.solve(hidden_by_rounding)
    assert honest.gap >= 128, "half of what can be lost, and what rounding hides on top"
    assert mdc.verify(hidden_by_rounding, honest, exact=True)


def test_what_is_solved_without_preferences_says_so(hidden_by_rounding, tmp_path, capsys):
    hidden_by_rounding.save(tmp_path / "contest.json")
    assert main(["solve", str(tmp_path / "contest.json")]) == 0
    assert "status   solved: No margin exceeds the rounding of its own terms" in capsys.readouterr().out
