"""Margins: every fast product against the slow obvious matrix, skewness, ties, bounds."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest import margins
from mdcontest.margins import margin_from_record, margin_to_record
from random_contests import MARGINS, random_margin
from strategies import seeds

kinds = st.sampled_from(MARGINS)


def bound_margin(seed, kind, S=4, A=3):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), size=(S, A))
    return mdc.Contest(P, np.ones(S) / S, random_margin(rng, S, A, kind)).margin, rng


@given(seeds, kinds, st.integers(1, 5), st.integers(1, 4))
def test_apply_is_the_matrix_product(seed, kind, S, A):
    margin, rng = bound_margin(seed, kind, S, A)
    x = rng.normal(size=(S, A))
    M = margin.matrix()
    expected = (M @ x.reshape(-1)).reshape(S, A)
    for given_ in (x, x.reshape(-1)):
        found = margin.apply(given_)
        assert found.shape == (S, A)
        np.testing.assert_allclose(found, expected, atol=1e-10 * (1 + np.abs(M).max() * np.abs(x).sum()))


@given(seeds, kinds)
def test_matrix_is_skew_and_bounded(seed, kind):
    margin, _ = bound_margin(seed, kind)
    M = margin.matrix()
    np.testing.assert_allclose(M, -M.T, atol=1e-12 * (1 + np.abs(M).max()))
    assert np.abs(M).max() <= margin.bound * (1 + 1e-12)


@given(seeds, kinds)
def test_against_chosen_opponents(seed, kind):
    """Rows and weighted opponents chosen by index, against the same block of the matrix."""
    margin, rng = bound_margin(seed, kind)
    n = len(margin.rows())
    z, opponents = rng.integers(n, size=5), rng.integers(n, size=7)
    w = rng.normal(size=7)
    block = margin.matrix()[np.ix_(z, opponents)]
    np.testing.assert_allclose(margin.matrix(z, opponents), block, atol=1e-12)
    np.testing.assert_allclose(margin.against(z, opponents, w), block @ w, atol=1e-10 * (1 + np.abs(block).max()))
    np.testing.assert_allclose(margin.against(z, opponents), block.mean(axis=1), atol=1e-10 * (1 + np.abs(block).max()))


@given(seeds, kinds)
def test_records_round_trip(seed, kind):
    margin, _ = bound_margin(seed, kind)
    again = margin_from_record(margin_to_record(margin)).bind(4, 3)
    np.testing.assert_array_equal(again.matrix(), margin.matrix())


@given(seeds, st.sampled_from([m for m in MARGINS if m not in ("dense", "preference")]))
def test_features_may_be_a_function_of_outcomes(seed, kind):
    """The same margin from an array, and from a function that looks the pair up by its outcome's state and action."""
    S, A = 4, 3
    rng = np.random.default_rng(seed)
    table = random_margin(rng, S, A, kind)

    def look_up(z):
        rows = np.asarray(table.features).reshape(S, A, -1)[z.obs, z.action]
        return rows[:, 0] if rows.shape[1] == 1 else rows

    made = {
        "low rank": lambda: margins.LowRank(look_up, table.J),
        "reward": lambda: margins.RewardDifference(look_up),
        "classes": lambda: margins.Classes(look_up, table.class_matrix),
        "signs": lambda: margins.Signs(look_up, table.weights),
        "circular": lambda: margins.Signs(look_up, table.weights, period=table.period),
        "two of three": lambda: margins.BestTwoOfThree(look_up),
        "voters": lambda: margins.Aggregated(look_up, table.weights),
        "function": lambda: margins.Pairwise(lambda z, w: table.fn(look_up(z), look_up(w))),
    }[kind]()
    P = rng.dirichlet(np.ones(S), size=(S, A))
    by_function = mdc.Contest(P, np.ones(S) / S, made).margin
    by_table = mdc.Contest(P, np.ones(S) / S, table).margin
    np.testing.assert_array_equal(by_function.matrix(), by_table.matrix())
    # Unbound, it works on batches of outcomes as a task's would.
    batch = mdc.Outcomes(obs=np.array([0, 1, 3]), action=np.array([2, 0, 1]))
    index = batch.obs * A + batch.action
    np.testing.assert_array_equal(made.matrix(batch, batch), by_table.matrix()[np.ix_(index, index)])
    np.testing.assert_array_equal(by_function.matrix(batch, batch), made.matrix(batch, batch))
    np.testing.assert_allclose(
        made.against(batch, batch), by_table.matrix()[np.ix_(index, index)].mean(axis=1), atol=1e-12
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda score: margins.Pairwise(lambda z, w: score(z) - score(w)),
        lambda score: margins.RewardDifference(score),
        lambda score: margins.LowRank(lambda z: np.stack([score(z), np.ones(len(z))], 1), [[0, 1], [-1, 0]]),
    ],
)
def test_functions_are_asked_about_the_pairs_of_each_contest(make):
    """A margin out of one contest and into another of as many pairs: they are other states and actions there."""
    margin = make(lambda z: 1.0 * z.obs + 0.1 * z.action)
    bound = mdc.Contest(np.full((2, 3, 2), 0.5), [0.5, 0.5], margin).margin
    assert bound.bound == pytest.approx(1.2)
    again = mdc.Contest(np.full((3, 2, 3), 1 / 3), [1.0, 0.0, 0.0], bound).margin
    assert again.bound == pytest.approx(2.1)
    np.testing.assert_array_equal(again.matrix(), margin.bind(3, 2).matrix())
    assert bound.bind(2, 3) is bound
    with pytest.raises(mdc.InputError, match=r"shape \(4, 3\); 6 states × 2 actions"):
        bound.tiled(2).bind(6, 2)  # whose states are those of which step


@given(seeds, st.integers(1, 400), st.integers(1, 3))
def test_signs_with_many_ties(seed, n, levels):
    """Integer features collide all the time; sorting must count ties as zero, exactly as the matrix does."""
    rng = np.random.default_rng(seed)
    period = [None, 4.0, 2 * np.pi]
    features = np.stack(
        [rng.integers(levels, size=n), rng.integers(-9, 9, size=n), rng.integers(-8, 8, size=n) * np.pi / 4], 1
    )
    margin = margins.Signs(features, rng.normal(size=3), period=period)
    w = rng.uniform(size=n)
    np.testing.assert_allclose(margin.apply(w), margin.matrix() @ w, atol=1e-9)
    np.testing.assert_array_equal(margin.matrix(), -margin.matrix().T)


def test_circular_sign_by_hand():
    """A quarter turn ahead wins, a quarter behind loses; ties and half turns are indifferent. Angles wrap."""
    angles = np.array([0.0, np.pi / 2, np.pi, 3 * np.pi / 2, 2 * np.pi])[:, None]
    M = margins.Signs(angles, [1.0], period=2 * np.pi).matrix()
    expected = np.array([[0, -1, 0, 1, 0], [1, 0, -1, 0, 1], [0, 1, 0, -1, 0], [-1, 0, 1, 0, -1], [0, -1, 0, 1, 0]])
    np.testing.assert_array_equal(M, expected)
    rng = np.random.default_rng(0)
    a = rng.uniform(-20, 20, size=(300, 1))
    np.testing.assert_array_equal(margins.Signs(a, [1.0], period=2 * np.pi).matrix(), np.sign(np.sin(a - a.T)))


def test_best_two_of_three_by_hand():
    """May's suitors x, y, z beat each other in a circle; one win and two ties win; one each way is indifference."""
    x, y, z = (3, 1, 2), (2, 3, 1), (1, 2, 3)
    M = margins.BestTwoOfThree([x, y, z]).matrix()
    np.testing.assert_array_equal(M, [[0, 1, -1], [-1, 0, 1], [1, -1, 0]])
    ties = margins.BestTwoOfThree([(1, 0, 0), (0, 0, 0), (0, 1, 0)]).matrix()
    np.testing.assert_array_equal(ties, [[0, 1, 0], [-1, 0, -1], [0, 1, 0]])


def test_condorcet_by_hand():
    """Three voters, three options in a circle: two of three prefer A to B, B to C, C to A, so M = ±1/3."""
    M = margins.Aggregated([[3, 1, 2], [2, 3, 1], [1, 2, 3]]).matrix()
    np.testing.assert_allclose(M, np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]]) / 3, atol=1e-15)
    weighted = margins.Aggregated([[3, 1, 2], [2, 3, 1], [1, 2, 3]], weights=[2, 1, 1])
    np.testing.assert_allclose(weighted.weights, [0.5, 0.25, 0.25])
    np.testing.assert_allclose(weighted.matrix()[0, 1], 0.5 - 0.25 + 0.25)


def test_preference_scale():
    """FromPreference is P − ½, for matrices and functions."""
    P = np.array([[0.5, 0.9], [0.1, 0.5]])
    np.testing.assert_allclose(margins.FromPreference(P).matrix(), [[0, 0.4], [-0.4, 0]])
    by_function = margins.FromPreference(lambda z, w: 1 / (1 + np.exp(w - z)), np.array([0.0, 2.0]))
    np.testing.assert_allclose(by_function.matrix()[1, 0], 1 / (1 + np.exp(-2)) - 0.5)


def test_a_function_is_asked_about_each_two_pairs_once(monkeypatch):
    """M is kept where it is not too large; in blocks, and where it is not kept, it is the same."""
    asked, score = [], np.random.default_rng(0).normal(size=40)

    def fn(z, w):
        asked.append(len(z))
        return np.tanh(z - w) * np.abs(z + w)

    def bound_margin():
        asked.clear()
        return margins.Pairwise(fn, score.reshape(20, 2)).bind(20, 2)

    x = np.random.default_rng(1).uniform(size=40)
    M = np.tanh(score[:, None] - score) * np.abs(score[:, None] + score)
    monkeypatch.setattr("mdcontest.margins.base.BLOCK_PAIRS", 100)
    for most, times in ((40, 1.1), (39, 8)):
        monkeypatch.setattr("mdcontest.margins.function.TABLE_PAIRS", most)
        margin = bound_margin()
        assert margin.bound == pytest.approx(np.abs(M).max())
        np.testing.assert_allclose(margin.apply(x).reshape(-1), M @ x, atol=1e-13)
        np.testing.assert_allclose(margin.matrix(), M, atol=1e-15)
        np.testing.assert_allclose(margin.matrix([3, 1], slice(4)), M[[3, 1], :4], atol=1e-15)
        assert not np.signbit(margin.matrix().diagonal()).any()
        assert 40**2 <= sum(asked) <= times * 40**2  # each two pairs, both ways
    monkeypatch.undo()
    margin = bound_margin()
    margin.matrix()[:] = 7  # a copy
    np.testing.assert_allclose(margin.matrix(), M, atol=1e-15)


def test_copies_of_pairs_share_what_a_function_said_of_them(monkeypatch):
    """A horizon of many steps asks nothing anew, and is solved by the rows of M that its steps share."""
    asked = []
    margin = margins.Pairwise(lambda z, w: asked.append(len(z)) or np.sin(z.obs - w.obs + z.action - w.action), bound=2)
    contest = mdc.Contest(np.full((4, 3, 4), 0.25), np.ones(4) / 4, margin)
    long = contest.finite_horizon(20)
    solution = mdc.solve(long)
    assert (solution.solver, str(solution.status)) == ("PolicyGeneration", "solved")
    assert sum(asked) <= 2 * 12**2  # both ways
    np.testing.assert_array_equal(long.margin.matrix(), np.tile(contest.margin.matrix(), (20, 20)))
    assert long.margin.bound == contest.margin.bound == 2
    monkeypatch.setattr("mdcontest.margins.function.TABLE_PAIRS", 11)
    lazy = mdc.Contest(contest.transitions, contest.start, margin).finite_horizon(2)
    np.testing.assert_array_equal(lazy.margin.matrix(), long.margin.matrix()[:24, :24])


def test_large_offsets_of_a_reward_do_not_eat_digits():
    reward = 1e9 + np.array([0.0, 1.0, 2.0])
    x = np.array([0.25, 0.25, 0.5])
    np.testing.assert_allclose(margins.RewardDifference(reward).apply(x), [-1.25, -0.25, 0.75], rtol=1e-12)


def test_pairwise_is_evaluated_by_blocks(monkeypatch):
    """With a block of one row the answer is the same, and no call ever sees all n² pairs."""
    score = np.random.default_rng(0).normal(size=40)
    sizes = []

    def fn(z, w):
        sizes.append(len(z))
        return np.tanh(z - w)

    whole = margins.Pairwise(fn, score).matrix()
    monkeypatch.setattr("mdcontest.margins.base.BLOCK_PAIRS", 64)
    sizes.clear()
    x = np.random.default_rng(1).uniform(size=40)
    np.testing.assert_allclose(margins.Pairwise(fn, score).apply(x), whole @ x, atol=1e-12)
    assert max(sizes) < 40 * 40 / 4


@given(seeds, st.sampled_from([0.0, 1.0, 1e3, 1e8, 1e14]), st.integers(1, 4))
def test_features_far_from_zero_keep_their_digits(seed, offset, d):
    """M over the rationals, from the features as they are; errors count by the largest margin, not by the features."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(7, d)) + offset * rng.integers(0, 2, size=d)
    J = margins.antisymmetrise(rng.integers(-2, 3, size=(d, d)))
    exact = [[[Fraction(float(v)) for v in row] for row in array] for array in (features, J)]
    f, j = exact
    M = np.array([[float(sum(a[i] * j[i][k] * b[k] for i in range(d) for k in range(d))) for b in f] for a in f])
    margin, size = margins.LowRank(features, J), np.abs(M).max()
    np.testing.assert_allclose(margin.matrix(), M, rtol=0, atol=1e-14 * d * d * (size + np.abs(J).max() * 16))
    x = rng.uniform(size=7)
    np.testing.assert_allclose(margin.apply(x), margin.matrix() @ x, rtol=0, atol=1e-13 * d * (size + 1))
    assert margin.bound >= size * (1 - 1e-12)
    again = margin_from_record(margin_to_record(margin))
    np.testing.assert_array_equal(again.features, features)
    np.testing.assert_array_equal(again.matrix(), margin.matrix())
    twice = mdc.Contest(np.ones((1, 7, 1)), [1.0], margin).finite_horizon(2).margin
    np.testing.assert_array_equal(twice.matrix(), np.tile(margin.matrix(), (2, 2)))


def test_rounding_errors_of_a_skew_matrix_are_removed():
    M = np.array([[1e-17, 1.0], [-1.0 + 1e-12, 0.0]])
    found = margins.Dense(M).matrix()
    np.testing.assert_array_equal(found, -found.T)


def test_the_callers_arrays_are_copied():
    reward = np.array([1.0, 2.0])
    margin = margins.RewardDifference(reward)
    reward[:] = 7
    np.testing.assert_array_equal(margin.reward, [1, 2])
    with pytest.raises(ValueError, match="read-only"):
        margin.reward[0] = 3.0


def test_weights_of_a_function_of_outcomes_default_to_equal_ones():
    ranks = np.array([[3, 1, 2], [2, 3, 1], [1, 2, 3]])
    P = np.ones((1, 3, 1))
    for kind in (margins.Aggregated, margins.Signs):
        by_function = mdc.Contest(P, [1.0], kind(lambda z: ranks[z.action])).margin
        by_table = mdc.Contest(P, [1.0], kind(ranks)).margin
        np.testing.assert_array_equal(by_function.matrix(), by_table.matrix())


CIRCLE_AND_GIANT = np.zeros((4, 4))
CIRCLE_AND_GIANT[:3, :3] = mdc.examples.ROCK_PAPER_SCISSORS
CIRCLE_AND_GIANT[3, :3], CIRCLE_AND_GIANT[:3, 3] = 1e10, -1e10


@pytest.mark.parametrize(
    "make",
    [
        lambda labels: margins.Dense(CIRCLE_AND_GIANT, labels),
        lambda labels: margins.Classes(labels, CIRCLE_AND_GIANT),
        lambda labels: margins.Signs(np.stack([np.ones(len(labels)), labels], axis=1), [1e10, 1.0]),
        lambda labels: margins.Signs(np.stack([np.ones(len(labels)), labels], axis=1), [1e10, 1.0], [5.0, 9.0]),
    ],
)
def test_what_no_pair_has_counts_for_nothing(make):
    """A row, class or feature that sets no two pairs apart, however heavy: neither for the bound nor for rounding."""
    rng = np.random.default_rng(0)
    P, labels = rng.dirichlet(np.ones(20), (20, 10)), rng.integers(0, 3, 200)
    contest = mdc.Contest(P, np.full(20, 1 / 20), make(labels))
    assert contest.margin.bound == np.abs(contest.margin.matrix()).max() == 1
    x = rng.dirichlet(np.ones(200))
    off = np.abs(contest.margin.apply(x).reshape(-1) - contest.margin.matrix() @ x).max()
    assert off <= contest.margin.rounding(x) < 1e-12
    solution = mdc.solve(contest)
    assert solution.status == "solved"
    assert mdc.optimality_gap(contest, solution.rule) <= 1e-8


def test_weights_cannot_be_changed_behind_a_contest():
    contest = mdc.Contest(np.ones((1, 3, 1)), [1.0], margins.Signs([[0.0], [1.0], [2.0]], [1.0]))
    with pytest.raises(ValueError, match="read-only"):
        contest.margin.weights[0] = -1


def test_more_turns_of_a_circle_than_a_float_can_count_are_refused():
    with pytest.raises(mdc.InputError, match="too many turns of a circle of 1e-10"):
        margins.Signs([[1e308], [5.0]], [1.0], 1e-10)
