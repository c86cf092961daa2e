"""Every learned margin is a margin, whatever its parameters: skew, and each fast path is the slow one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from fitted_margins import MODELS, STEP, extended_matrix, random_margin, sigmoid
from mdcontest.errors import InputError
from mdcontest.margins import Margin
from mdcontest.margins.sums import averaged
from mdcontest.outcomes import Outcomes
from mdcontest.preferences import Segments, fit_margin
from mdcontest.tasks.corridor import corridor_contest
from played import played_dataset

CLOSE = {"rtol": 1e-4, "atol": 2e-5}
"""Networks compute in float32."""

margins = st.builds(
    random_margin,
    st.sampled_from(MODELS),
    seed=st.integers(0, 10**6),
    members=st.integers(1, 3),
    ended=st.booleans(),
)
seeds = st.integers(0, 10**6)


def outcomes(seed, *counts):
    """Batches of outcomes, some of them far outside what a margin was fitted to."""
    rng = np.random.default_rng(seed)
    return [rng.normal(0, rng.choice([1.0, 10.0]), (count, 3)) for count in counts]


@given(margins, seeds, st.integers(1, 9), st.integers(1, 9))
def test_skew(margin, seed, n, m):
    z, w = outcomes(seed, n, m)
    np.testing.assert_allclose(margin.matrix(z, w), -margin.matrix(w, z).T, **CLOSE)
    np.testing.assert_allclose(np.diagonal(margin.matrix(z, z)), 0, atol=1e-5)


@given(margins, seeds, st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_the_fast_products_are_the_slow_ones(margin, seed, n, m, weighted):
    z, w = outcomes(seed, n, m)
    weights = np.random.default_rng(seed).normal(size=m) if weighted else None
    for theirs, share in ((w, weights), (z, None)):
        slow = margin.matrix(z, theirs) @ (np.full(len(theirs), 1 / len(theirs)) if share is None else share)
        np.testing.assert_allclose(margin.against(z, theirs, share), slow, **CLOSE)
        beyond = Margin.against_beyond_ended(margin, z, theirs, share)
        np.testing.assert_allclose(margin.against_beyond_ended(z, theirs, share), beyond, **CLOSE)
        np.testing.assert_allclose(beyond, slow + averaged(margin.over_ended(theirs), share), **CLOSE)
    other = np.resize(w, z.shape)
    np.testing.assert_allclose(margin.between(z, other), np.diagonal(margin.matrix(z, other)), **CLOSE)


@given(margins, seeds, st.integers(1, 9))
def test_the_bound_holds(margin, seed, n):
    (z,) = outcomes(seed, n)
    rows = margin.rows(z)
    assert np.abs(margin.matrix(z, z)).max() <= margin.rows_bound(rows) * (1 + 1e-6) + 1e-5


def test_the_bound_of_many_pairs_is_no_sample():
    margin, rng = random_margin("general", 3), np.random.default_rng(0)
    z = rng.normal(size=(350, 3))
    assert margin.rows_bound(margin.rows(z)) == pytest.approx(np.abs(margin.matrix(z, z)).max(), rel=1e-6)


@given(margins, seeds)
def test_a_segment_is_the_mean_over_all_cross_pairs(margin, seed):
    """mean_{s,t} M(z_s, w_t), with what the margin says of ⊥ where a segment goes on after its episode's end."""
    rng = np.random.default_rng(seed)
    (table,) = outcomes(seed, 12)
    length, ended = rng.integers(0, 5, (2, 2, 4))
    ended[length + ended == 0] = 1
    first, second = (Segments(rng.integers(0, 7, 4), *of) for of in zip(length, ended, strict=True))
    M = extended_matrix(margin, table)
    slow = [
        M[np.ix_(*([row for row in side.rows()[i] if row > -2] for side in (first, second)))].mean() for i in range(4)
    ]
    np.testing.assert_allclose(margin.segment_margins(table, first, second), slow, **CLOSE)
    np.testing.assert_allclose(margin.segment_margins(table, second, first), np.negative(slow), **CLOSE)


@given(seeds)
def test_the_general_model_of_single_steps(seed):
    """Of longer segments it draws cross pairs; of single steps, ⊥ among them, it has but one."""
    margin, (table,) = random_margin("general", seed), outcomes(seed, 6)
    first = Segments(np.arange(6), np.ones(6, int), np.zeros(6, int))
    second = Segments(np.arange(6)[::-1], np.array([1, 1, 1, 0, 0, 0]), np.array([0, 0, 0, 1, 1, 1]))
    M, rows = extended_matrix(margin, table), second.rows()[:, 0]
    np.testing.assert_allclose(margin.segment_margins(table, first, second), M[np.arange(6), rows], **CLOSE)


def test_the_general_model_says_the_same_of_long_segments_whoever_asks():
    """The other way round it is the opposite, and what else is asked does not matter; it is nearly the mean."""
    margin, rng = random_margin("general", 5), np.random.default_rng(0)
    table = np.sort(outcomes(1, 90)[0], axis=0)  # so that neighbours are alike, and segments differ
    one, other = (Segments(rng.integers(0, 40, 20), np.full(20, 40), rng.integers(0, 3, 20)) for _ in "ab")
    found = margin.segment_margins(table, one, other)
    np.testing.assert_allclose(margin.segment_margins(table, other, one), -found, **CLOSE)
    np.testing.assert_allclose(margin.segment_margins(table, one[7:8], other[7:8]), found[7:8], **CLOSE)
    M = extended_matrix(margin, table)
    means = [M[np.ix_(a[a > -2], b[b > -2])].mean() for a, b in zip(one.rows(), other.rows(), strict=True)]
    assert np.corrcoef(found, means)[0, 1] > 0.95


@given(seeds)
def test_the_general_model_of_segments_beside_longer_ones(seed):
    """Up to 16 steps all cross pairs count alike, whatever else is in the table."""
    margin, rng, (table,) = random_margin("general", seed), np.random.default_rng(seed), outcomes(seed, 40)
    one, other = (
        Segments(rng.integers(0, 20, 4), rng.integers(1, [2, 4, 9, 17]), rng.integers(0, [2, 4, 9, 1])) for _ in "ab"
    )
    M = extended_matrix(margin, table)
    means = [M[np.ix_(a[a > -2], b[b > -2])].mean() for a, b in zip(one.rows(), other.rows(), strict=True)]
    np.testing.assert_allclose(margin.segment_margins(table, one, other), means, **CLOSE)


@given(seeds)
def test_a_reward_is_a_difference_from_that_of_having_ended(seed):
    margin, (z, w) = random_margin("reward", seed), outcomes(seed, 5, 7)
    np.testing.assert_allclose(margin.over_ended(z), margin.learned_reward(z), **CLOSE)
    np.testing.assert_allclose(margin.against_beyond_ended(z, w), margin.learned_reward(z), **CLOSE)
    of_ended = margin.ensemble.stacked_ended()[0]
    raw = margin.ensemble.stacked(margin.ensemble.features(z))[:, 0]
    np.testing.assert_allclose(margin.learned_reward(z), raw - of_ended, **CLOSE)


@pytest.mark.parametrize("model", ["skew", "general"])
def test_unknown_ends_are_indifferent(model):
    margin, (z,) = random_margin(model, ended=False), outcomes(0, 4)
    np.testing.assert_array_equal(margin.over_ended(z), 0)


@given(margins, seeds)
def test_how_sure_it_is(margin, seed):
    z, w = outcomes(seed, 5, 5)
    np.testing.assert_allclose(margin.probability(z, w), sigmoid(margin.between(z, w)), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(margin.probability(z, w) + margin.probability(w, z), 1, atol=1e-5)
    doubt = margin.uncertainty(z, w)
    np.testing.assert_allclose(doubt, margin.uncertainty(w, z), atol=1e-5)
    assert (doubt >= 0).all()
    assert (doubt <= 0.5).all()
    if len(margin.ensemble.members) == 1:
        np.testing.assert_allclose(doubt, 0, atol=1e-7)


def test_how_far_outside_the_data():
    margin = random_margin("skew")
    reader = margin.ensemble.reader
    inside = reader.mean + np.linspace(-2, 2, 9)[:, None] * reader.deviation
    np.testing.assert_allclose(margin.extrapolates(inside), 0, atol=1e-9)
    outside = reader.mean + np.array([0, -5, 3]) * reader.deviation
    np.testing.assert_allclose(margin.extrapolates(outside[None]), 3)  # 5 deviations below the mean, 3 below the least


@pytest.mark.parametrize("model", MODELS)
def test_wrong_outcomes(model):
    margin = random_margin(model)
    good = np.zeros((4, 3))
    bad = good.copy()
    bad[2, 1] = np.nan
    with pytest.raises(InputError, match=r"the outcomes' inputs\[2, 1\] is nan"):
        margin.against(bad, good)
    with pytest.raises(InputError, match="reads 3 numbers of features an outcome, got 2"):
        margin.matrix(np.zeros((4, 2)), good)
    with pytest.raises(InputError, match="empty"):
        margin.against(good, np.zeros((0, 3)))
    with pytest.raises(InputError, match="cannot be compared one by one with 2"):
        margin.between(good, good[:2])
    for compare in (margin.against, margin.against_beyond_ended):
        if (model, compare) != ("reward", margin.against_beyond_ended):  # which needs no opponents
            with pytest.raises(InputError, match="4 opponents need 4 weights, got 3"):
                compare(good, good, np.ones(3) / 3)
    of_steps = random_margin(model, fields=STEP)
    with pytest.raises(InputError, match="the outcomes have no 'action' for the learned margin to read"):
        of_steps.matrix(Outcomes(np.zeros((2, 1))), Outcomes(np.zeros((2, 1))))


@pytest.mark.parametrize("model", MODELS)
def test_a_finite_contest_of_a_learned_margin(model, tmp_path):
    """It is a margin like any other: solved, verified, and stored as its matrix."""
    margin = random_margin(model, fields=STEP)
    corridor = corridor_contest(end=0.0)
    contest = mdc.Contest(corridor.transitions, corridor.start, margin).with_restart(0.1)
    solution = mdc.solve(contest)
    assert mdc.verify(contest, solution)
    contest.save(tmp_path / "contest.json")
    stored = mdc.load_contest(tmp_path / "contest.json")
    np.testing.assert_allclose(stored.margin.matrix(), contest.margin.matrix(), atol=1e-6)
    assert mdc.verify(stored, solution)


def test_a_margin_of_a_dataset_stands_in_a_contest_where_it_reads_states_and_actions(tmp_path):
    """Which is all that outcomes of a contest are; the error says so."""
    dataset = played_dataset(tmp_path / "d", "RPSCorridor", pairs=200)
    corridor, quick = corridor_contest(), {"members": 1, "updates": 50, "penalty": 1e-3}
    whole = fit_margin(dataset, **quick)
    with pytest.raises(InputError, match=r"no 'next_obs' .* to read, only obs, action; fit .* inputs= of these"):
        mdc.Contest(corridor.transitions, corridor.start, whole)
    margin = fit_margin(dataset, inputs=["obs", "action"], **quick)
    assert mdc.Contest(corridor.transitions, corridor.start, margin).margin.matrix().shape == (9, 9)
