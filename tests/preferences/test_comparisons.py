"""Comparisons in memory: one table, segments as stretches of it, and errors that say which entry is wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdcontest.errors import InputError
from mdcontest.outcomes import Outcomes
from mdcontest.preferences import Comparisons, Segments
from mdcontest.preferences.batches import STEPS, Table
from mdcontest.preferences.comparisons import concatenate_comparisons
from mdcontest.preferences.fit import split


def segments(rng, count, rows, most=4):
    """Random stretches of a table, some of them followed by ⊥."""
    length = rng.integers(0, most, count)
    ended = np.where(length == 0, rng.integers(1, most, count), rng.integers(0, most, count))
    return Segments(rng.integers(0, rows - most, count), length, ended)


@given(st.integers(0, 10**6))
def test_rows_of_segments(seed):
    side = segments(np.random.default_rng(seed), 6, 12)
    for i, row in enumerate(side.rows()):
        wanted = [*range(side.start[i], side.start[i] + side.length[i]), *[-1] * side.ended[i]]
        assert [int(step) for step in row if step > -2] == wanted
        assert (row[len(wanted) :] == -2).all()


@given(st.integers(0, 10**6))
def test_weights_of_a_segment_sum_to_one(seed):
    rng = np.random.default_rng(seed)
    data = Comparisons.of_segments(
        rng.normal(size=(40, 2)), segments(rng, 5, 40, 20), segments(rng, 5, 40), np.zeros(5)
    )
    table = Table.of_comparisons(np.asarray(data.outcomes, np.float32), data, False)
    whole = table.side(table.first.rows())
    drawn = table.batch(np.arange(5), rng)[0]
    for side in (whole, drawn):
        np.testing.assert_allclose(side.weight.sum(-1) + side.ended.sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(whole.ended.sum(-1), data.first.ended / data.first.steps, rtol=1e-6)
    assert drawn.weight.shape[1] <= max(STEPS, 1)


def test_thinned_segments_are_the_whole_on_average():
    """Each update sees STEPS of a segment's steps; over many draws their mean is the segment's, ⊥ included."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(30, 1)).astype(np.float32)
    one = Segments(np.array([0]), np.array([20]), np.array([10]))
    table = Table.of_comparisons(inputs, Comparisons.of_segments(inputs, one, one, [0.0]), False)
    drawn = table.batch(np.zeros(20_000, int), rng)[0]
    means, ends = (drawn.weight[..., None] * drawn.x).sum(1)[:, 0], drawn.ended.sum(1)
    wanted, error = inputs[:20].sum() / 30, means.std() / np.sqrt(len(means))
    assert abs(means.mean() - wanted) < 4 * error
    assert abs(ends.mean() - 1 / 3) < 4 * ends.std() / np.sqrt(len(ends))


@given(st.integers(0, 10**6), st.integers(2, 40), st.floats(0.05, 0.9))
def test_a_split_keeps_every_pair_on_one_side(seed, count, share):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 5, (2, count))
    rows[:, 0] = 0, 1  # two different pairs at least
    rows[:, 1] = 2, 3
    data = Comparisons.of_segments(np.arange(5.0), *(Segments.of_single(side) for side in rows), np.zeros(count))
    parts = split(data, share, rng)
    pairs = [{tuple(sorted(pair)) for pair in zip(p.first.start, p.second.start, strict=True)} for p in parts]
    assert len(parts[0]) + len(parts[1]) == count
    assert not pairs[0] & pairs[1]
    assert all(pairs)


def test_batches_of_all_forms():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 5, 3))
    plain = Comparisons(x, y, np.zeros(5))
    np.testing.assert_array_equal(plain.outcomes[plain.first.start], x)
    np.testing.assert_array_equal(plain.outcomes[plain.second.start], y)
    assert Comparisons(x[:, 0], y[:, 0], np.zeros(5)).outcomes.shape == (10, 1)
    longer = Comparisons(np.stack([x, y], 1), np.stack([y, x], 1), np.zeros(5))
    np.testing.assert_array_equal(longer.outcomes[longer.second.rows()], np.stack([y, x], 1))
    both = Comparisons(Outcomes(x, y), Outcomes(y, x), ["first"] * 4 + ["incomparable"])
    np.testing.assert_array_equal(both.outcomes[both.second.start].action, x)
    assert len(both.decided()) == 4
    assert "1 incomparable" in repr(both)


def test_joined_sets_say_the_same():
    rng = np.random.default_rng(0)
    parts = [Comparisons(*rng.normal(size=(2, n, 3)), rng.uniform(-1, 1, n)) for n in (3, 5)]
    joined = concatenate_comparisons(parts)
    for side in ("first", "second"):
        got = joined.outcomes[getattr(joined, side).start]
        np.testing.assert_array_equal(got, np.concatenate([p.outcomes[getattr(p, side).start] for p in parts]))
    np.testing.assert_array_equal(joined.target, np.concatenate([p.target for p in parts]))


@pytest.mark.parametrize(
    ("first", "second", "label", "message"),
    [
        (np.zeros((3, 2)), np.zeros((4, 2)), [0] * 3, "first has 3 entries, second 4"),
        (np.zeros((3, 2)), np.zeros((3, 1)), [0] * 3, "first has 2 features an outcome, second 1"),
        (np.zeros((3, 2)), np.zeros((3, 2)), [0] * 4, "3 pairs need 3 labels, got 4"),
        (np.full((3, 2), np.nan), np.zeros((3, 2)), [0] * 3, r"first\[0, 0\] is nan"),
        (np.zeros((3, 2)), np.full((3, 2), np.inf), [0] * 3, r"second\[0, 0\] is inf"),
        (np.zeros((0, 2)), np.zeros((0, 2)), [], "first is empty"),
        (np.zeros((2, 2, 2, 2)), np.zeros((2, 2)), [0] * 2, r"must be Outcomes or have shape"),
        (Outcomes(np.zeros(2)), np.zeros(2), [0] * 2, "must both be Outcomes, or both arrays"),
        (np.zeros((1, 2)), np.zeros((1, 2)), ["better"], "'better' is no label"),
    ],
)
def test_wrong_batches(first, second, label, message):
    with pytest.raises(InputError, match=message):
        Comparisons(first, second, label)


@pytest.mark.parametrize("wrong", [(4, 2, 0), (-1, 1, 0), (0, 0, 0), (0, -1, 3), (5, 1, 0), (0, 2, -1)])
def test_segments_that_leave_the_table(wrong):
    good, bad = Segments.of_single(np.arange(2)), Segments(*(np.array([0 if i else 1, n]) for i, n in enumerate(wrong)))
    bad.length[0] = 1
    with pytest.raises(InputError, match=r"second\[1\] is the rows .* of 5 outcomes"):
        Comparisons.of_segments(np.zeros((5, 1)), good, bad, [0, 0])
