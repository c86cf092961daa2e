"""Contests: accepted forms, renormalised rows, errors, sparse transitions that stay sparse."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

import mdcontest as mdc
from random_contests import random_contest, random_rule
from strategies import contests, dense_transitions, seeds

GOOD = np.full((2, 2, 2), 0.5)
START = np.array([0.5, 0.5])
ZERO = np.zeros((4, 4))
NAN = float("nan")


def changed(where, value):
    P = GOOD.copy()
    P[where] = value
    return P


ERRORS = {
    "two dimensions": (lambda: mdc.Contest(np.ones((4, 2)) / 2, START, ZERO), r"\(S, A, S\).*got \(4, 2\)"),
    "not S x A x S": (lambda: mdc.Contest(np.ones((2, 2, 3)) / 3, START, ZERO), r"got \(2, 2, 3\)"),
    "sparse rows": (lambda: mdc.Contest(sp.csr_array(np.ones((3, 2)) / 2), START, ZERO), "no multiple of 2"),
    "row sums": (lambda: mdc.Contest(changed((1, 0, 0), 0.6), START, ZERO), r"\(s=1, a=0\) sums to 1\.1"),
    "negative": (lambda: mdc.Contest(changed((0, 1), [1.5, -0.5]), START, ZERO), r"\(s=0, a=1\).*-0\.5.*negative"),
    "nan": (lambda: mdc.Contest(changed((1, 1, 0), NAN), START, ZERO), r"\(s=1, a=1\).*nan"),
    "infinite": (lambda: mdc.Contest(changed((1, 1, 0), np.inf), START, ZERO), r"\(s=1, a=1\).*inf"),
    "sparse negative": (
        lambda: mdc.Contest(sp.csr_array(changed((0, 1), [1.5, -0.5]).reshape(4, 2)), START, ZERO),
        r"\(s=0, a=1\).*negative",
    ),
    "complex": (lambda: mdc.Contest(GOOD + 0j, START, ZERO), "array of numbers.*complex"),
    "texts": (lambda: mdc.Contest(GOOD.astype(str), START, ZERO), "array of numbers"),
    "sparse complex": (lambda: mdc.Contest(sp.csr_array(GOOD.reshape(4, 2) + 0j), START, ZERO), "matrix of numbers"),
    "complex margin": (lambda: mdc.Contest(GOOD, START, ZERO * 1j), "array of numbers"),
    "transposed reward": (
        lambda: mdc.Contest.from_mdp(np.full((2, 3, 2), 0.5), START, np.zeros((3, 2))),
        r"shape \(3, 2\); 2 states × 3 actions need",
    ),
    "transposed rule": (
        lambda: mdc.occupancy(mdc.Contest.from_mdp(np.full((2, 3, 2), 0.5), START, np.zeros(6)), np.full((3, 2), 0.5)),
        r"shape \(2, 3\), got \(3, 2\)",
    ),
    "overflowing rewards": (lambda: mdc.Contest.from_mdp(GOOD, START, [1.7e308, -1.7e308, 0, 0]), "overflow"),
    "no states": (lambda: mdc.Contest(np.ones((0, 2, 0)), [], ZERO), "at least one state"),
    "no actions": (lambda: mdc.Contest(np.ones((2, 0, 2)), START, ZERO), "one action"),
    "no sparse states": (lambda: mdc.Contest(sp.csr_array((0, 0)), [], ZERO), "no states"),
    "start shape": (lambda: mdc.Contest(GOOD, [1.0], ZERO), r"start must have shape \(2,\)"),
    "start sum": (lambda: mdc.Contest(GOOD, [0.5, 0.6], ZERO), "start sums to 1.1"),
    "start negative": (lambda: mdc.Contest(GOOD, [1.5, -0.5], ZERO), "start has a negative"),
    "start nan": (lambda: mdc.Contest(GOOD, [NAN, 1.0], ZERO), "start has a negative, NaN"),
    "margin shape": (lambda: mdc.Contest(GOOD, START, np.zeros((3, 3))), r"shape \(3, 3\).*\(4, 4\)"),
    "margin sparse": (lambda: mdc.Contest(GOOD, START, sp.csr_array(ZERO)), "toarray"),
    "words": (lambda: mdc.Contest([["a"]], START, ZERO), "array of numbers"),
    "names": (lambda: mdc.Contest(GOOD, START, ZERO, state_names=["one"]), "1 state names for 2 states"),
    "rule shape": (
        lambda: mdc.occupancy(mdc.Contest(GOOD, START, ZERO), [[1.0, 0.0]]),
        r"shape \(2, 2\), got \(1, 2\)",
    ),
    "rule sum": (
        lambda: mdc.occupancy(mdc.Contest(GOOD, START, ZERO), [[1, 0], [0.5, 0.6]]),
        r"state 1 is \[0\.5, 0\.6\]",
    ),
    "rule nan": (lambda: mdc.occupancy(mdc.Contest(GOOD, START, ZERO), [[1, 0], [NAN, 1]]), "state 1"),
    "masked transitions": (
        lambda: mdc.Contest(np.ma.masked_array(GOOD, mask=[[[0, 0], [1, 1]], [[0, 0], [0, 0]]]), START, ZERO),
        "transitions has 2 masked entries.*copy of another",
    ),
    "masked rule": (
        lambda: mdc.occupancy(mdc.Contest(GOOD, START, ZERO), np.ma.masked_array(np.eye(2), mask=np.eye(2))),
        "a decision rule has 2 masked entries",
    ),
    "fewer actions in a state": (
        lambda: mdc.Contest([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]]], START, ZERO),
        "state 0 has 2 actions and state 1 has 1; every state needs the same number",
    ),
    "an action without transitions": (
        lambda: mdc.Contest(changed((1, 0), 0.0), START, ZERO),
        r"\(s=1, a=0\) sums to 0.*copy of one that it has",
    ),
    "None": (lambda: mdc.Contest.from_mdp(GOOD, START, [None, 0, 0, 0]), "it holds None"),
    "restart as a text": (lambda: mdc.Contest(GOOD, START, ZERO).with_restart("0.1"), r"\(0, 1\], got '0.1'"),
    "too long a horizon": (
        lambda: mdc.Contest(GOOD, START, ZERO).finite_horizon(10**9),
        "a horizon of 1000000000 makes 8e.09 transitions",
    ),
    "flat occupancy": (lambda: mdc.decision_rule(np.ones(4) / 4), "reshape"),
    "negative occupancy": (lambda: mdc.decision_rule([[-0.5, 1.5]]), "-0.5"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_culprit(case):
    make, message = ERRORS[case]
    with pytest.raises(mdc.InputError, match=message):
        make()


def test_rows_near_one_are_renormalised():
    P = GOOD * (1 + 5e-9)
    contest = mdc.Contest(P, START * (1 - 5e-9), ZERO)
    np.testing.assert_array_equal(contest.transitions.sum(axis=2), 1)
    assert contest.start.sum() == 1
    with pytest.raises(mdc.InputError, match="sum"):
        mdc.Contest(GOOD * (1 + 5e-8), START, ZERO)


def test_input_arrays_are_copied():
    P, start = GOOD.copy(), START.copy()
    contest = mdc.Contest(P, start, ZERO)
    P[:], start[:] = 7, 7
    np.testing.assert_array_equal(contest.transitions, GOOD)
    np.testing.assert_array_equal(contest.start, START)
    with pytest.raises(ValueError, match="read-only"):
        contest.transitions[0, 0, 0] = 1.0


def test_a_contest_cannot_be_changed():
    """What came out of it before would no longer be true of it."""
    sparse = mdc.Contest(
        sp.csr_array(GOOD.reshape(4, 2)), START, mdc.margins.LowRank(np.eye(4), np.eye(4, k=1) - np.eye(4, k=-1))
    )
    sparse.transitions.data[:] = 7
    np.testing.assert_array_equal(sparse.transitions.toarray(), GOOD.reshape(4, 2))
    classes = mdc.Contest(GOOD, START, mdc.margins.Classes([0, 1, 0, 1], [[0, 1], [-1, 0]]))
    for array in (sparse.margin.J, sparse.margin.features, classes.margin.class_matrix, classes.start):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(AttributeError, match="a contest is immutable: start cannot be changed"):
        classes.start = np.array([1.0, 0.0])


@pytest.mark.parametrize(
    ("gamma", "shown"), [(0.9, "0.9"), (1 - 1e-15, "0.999999999999999"), (1 - 2.0**-53, "0.9999999999999999")]
)
def test_a_discount_is_never_called_one(gamma, shown):
    assert mdc.Contest(GOOD, START, ZERO).discounted(gamma).name == f"contest, discount {shown}"


def test_exact_numbers_are_numbers():
    contest = mdc.Contest(GOOD, START, ZERO)
    assert contest.with_restart(Fraction(1, 4)).name == contest.with_restart(0.25).name == "contest, restart 0.25"


@given(contests(shapes=("garnet",)), seeds)
def test_sparse_and_dense_agree(contest, seed):
    """Every quantity, on sparse transitions with a restart kept apart and on the same numbers written out."""
    dense = mdc.Contest(dense_transitions(contest), contest.start, contest.margin)
    rule = random_rule(np.random.default_rng(seed), contest)
    for quantity in (mdc.occupancy, mdc.cumulant, mdc.optimality_gap):
        np.testing.assert_allclose(
            quantity(contest, rule), quantity(dense, rule), atol=1e-10 * (1 + contest.margin.bound)
        )
    for one, other in zip(mdc.marginal_values(contest, rule), mdc.marginal_values(dense, rule), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9 * (1 + contest.margin.bound))


@given(contests(shapes=("garnet",)), seeds)
def test_sparse_factorisation_agrees_with_the_dense_one(contest, seed):
    """The same with the shortcut for small contests off, so that sparse LU really runs."""
    from mdcontest.chain import Chain

    rule = random_rule(np.random.default_rng(seed), contest, 0.02)
    quick = Chain(contest.dynamics, rule)
    contest.dynamics.__dict__["for_chains"] = contest.dynamics
    slow = Chain(contest.dynamics, rule)
    assert sp.issparse(slow.matrix)
    assert not sp.issparse(quick.matrix)
    np.testing.assert_allclose(slow.frequencies, quick.frequencies, atol=1e-11)
    c = np.linspace(-1, 1, contest.num_states)
    np.testing.assert_allclose(slow.poisson(c)[1], quick.poisson(c)[1], atol=1e-9)


def test_a_large_sparse_contest_never_becomes_dense():
    """20 000 states: a dense [S, S] matrix would need 3.2 GB, the whole test stays under 1.5 GB of address space."""
    import resource

    states, actions = 20_000, 2
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(states * actions), 2)
    later = (rows // actions + rng.integers(1, 40, size=len(rows))) % states
    P = sp.csr_array((np.full(len(rows), 0.5), (rows, later)), shape=(states * actions, states))
    reward = rng.normal(size=states * actions)
    contest = mdc.Contest(P, np.full(states, 1 / states), mdc.margins.RewardDifference(reward)).with_restart(0.05)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    uniform = np.full((states, actions), 0.5)
    gap = mdc.optimality_gap(contest, uniform)
    best = mdc.best_response(contest, uniform)
    with pytest.raises(mdc.SizeError, match="take the horizon first"):
        contest.finite_horizon(3)
    expanded = mdc.Contest(P, contest.start, contest.margin).finite_horizon(3).with_restart(0.05)
    assert expanded.num_states == 3 * states
    assert sp.issparse(expanded.dynamics.matrix)
    assert sp.issparse(contest.dynamics.matrix)
    assert abs(mdc.average_margin(contest, best, uniform) - gap) < 1e-9
    assert mdc.check_conditions(contest).unichain == "yes"
    assert mdc.occupancy(expanded, np.full((3 * states, actions), 0.5)).sum() > 0.999
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    assert grown < 1.0, f"{grown} GB"


def test_repr_names_the_contest():
    text = repr(mdc.examples.make("marriage"))
    assert text == 'Contest("May\'s marriage example": 4 states, 3 actions, BestTwoOfThree(12 pairs))'


@pytest.mark.parametrize("seed", range(5))
def test_same_seed_same_answer(seed):
    """Everything is deterministic: two solves of one contest agree to the last bit."""
    for solver in (None, mdc.solvers.HPI(50), mdc.solvers.HPIPG(5)):
        one, two = (mdc.solve(random_contest(seed), solver) for _ in range(2))
        np.testing.assert_array_equal(one.rule, two.rule)
        assert one.gap == two.gap


@pytest.mark.parametrize("sparse", [False, True])
def test_single_precision_rows_cannot_sum_to_one_any_better(sparse):
    """Rows of float32 are off by 1e-7 or so and are renormalised; the same error in float64 is refused."""
    P = np.random.default_rng(0).dirichlet(np.ones(40), size=(40, 2)).astype(np.float32)
    assert np.abs(P.astype(float).sum(axis=2) - 1).max() > 1e-8
    given = sp.csr_array(P.reshape(80, 40)) if sparse else P
    contest = mdc.Contest(given, np.eye(40)[0], mdc.margins.RewardDifference(np.arange(80.0)))
    np.testing.assert_allclose(np.asarray(contest.dynamics.matrix.sum(axis=1)), 1, atol=1e-14)
    with pytest.raises(mdc.InputError, match="within 1e-08"):
        mdc.Contest(given.astype(float), np.eye(40)[0], mdc.margins.RewardDifference(np.arange(80.0)))
