"""Comparisons in memory: one table, segments as stretches of it, and errors that say which entry is wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdcontest.errors import InputError
from mdcontest.outcomes import Outcomes
from mdcontest.preferences import Comparisons, Segments
from mdcontest.preferences.batches import CROSS_PAIRS, CROSSED, STEPS, Table, points
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
    most = int(rng.choice([20, 3 * STEPS]))  # of the longer ones an update looks at some steps only
    rows = 4 * STEPS
    data = Comparisons.of_segments(
        rng.normal(size=(rows, 2)), segments(rng, 5, rows, most), segments(rng, 5, rows), np.zeros(5)
    )
    table = Table.of_comparisons(np.asarray(data.outcomes, np.float32), data, False)
    whole = table.side(table.first.rows())
    drawn = table.batch(np.arange(5), rng)[0]
    for side in (whole, drawn):
        np.testing.assert_allclose(side.weight.sum(-1) + side.ended.sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(whole.ended.sum(-1), data.first.ended / data.first.steps, rtol=1e-6)
    assert drawn.weight.shape[1] <= max(STEPS, 1)


@pytest.mark.parametrize("longest", [2, CROSS_PAIRS, STEPS])
def test_cross_pairs_are_drawn_whatever_the_length(longest):
    """Each update of the general model sees CROSS_PAIRS pairs of any two steps, and none that is not there."""
    rng, inputs = np.random.default_rng(0), np.zeros((2 * longest, 1), np.float32)
    one, other = (
        Segments(np.array([start]), np.array([length]), np.array([0])) for start, length in ((0, longest), (longest, 1))
    )
    table = Table.of_comparisons(inputs, Comparisons.of_segments(inputs, one, other, [0.0]), True)
    first, second = table.rows(np.zeros(5000, int), rng)
    assert first.shape == second.shape == (5000, CROSS_PAIRS)
    assert (second == longest).all()
    for place in (0, CROSS_PAIRS - 1):
        assert set(first[:, place]) == set(range(longest))


@given(st.integers(0, 10**6), st.sampled_from([4, CROSSED, CROSSED + 2, 300]))
def test_points_of_segments(seed, most):
    """They lie in the segment, one in each equal part of it, and count as much as it has steps, of ⊥ and of others."""
    side = segments(np.random.default_rng(seed), 8, 400, most)
    rows, weight = points(side)
    np.testing.assert_allclose(weight.sum(axis=1), 1)
    np.testing.assert_allclose((weight * (rows == -1)).sum(axis=1), side.ended / side.steps)
    assert not weight[rows == -2].any()
    for i, found in enumerate(rows):
        steps, parts = found[found >= 0] - side.start[i], min(side.length[i], CROSSED)
        assert len(steps) == parts
        assert (steps < side.length[i]).all()
        assert (np.abs(steps * parts / max(side.length[i], 1) - np.arange(parts)) < 1).all()


def test_points_are_no_comb():
    """Of clips with a period every phase is seen, about as often as the others."""
    for period in (2, 3, 4, 5, 8):
        for length in (32, 48, 50, 64, 128, 240):
            (rows,) = points(Segments(np.array([0]), np.array([length]), np.array([0])))[0]
            seen = np.bincount(rows % period, minlength=period)
            assert seen.max() <= 0.75 * CROSSED, (period, length)
            assert seen.min() >= (1 if period < 8 else 0), (period, length)


def test_thinned_segments_are_the_whole_on_average():
    """Each update sees STEPS of a segment's steps; over many draws their mean is the segment's, ⊥ included."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(4 * STEPS, 1)).astype(np.float32)
    one = Segments(np.array([0]), np.array([3 * STEPS - 5]), np.array([STEPS + 12]))
    table = Table.of_comparisons(inputs, Comparisons.of_segments(inputs, one, one, [0.0]), False)
    drawn = table.batch(np.zeros(20_000, int), rng)[0]
    assert drawn.weight.shape == (20_000, STEPS)
    means, ends = (drawn.weight[..., None] * drawn.x).sum(1)[:, 0].astype(float), drawn.ended.sum(1).astype(float)
    wanted = inputs[: one.length[0]].sum() / one.steps[0], one.ended[0] / one.steps[0]
    for found, whole in zip((means, ends), wanted, strict=True):
        assert found.std() > 0
        assert abs(found.mean() - whole) < 4 * found.std() / np.sqrt(len(found))


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


def repeated(kind, content):
    """Entries of a batch, equal where their number in `content` is; each stands at rows of its own."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 9, 3, 2))
    forms = {
        "vectors": x[:, 0],
        "segments": x,
        "outcomes": Outcomes({"a": x[:, 0], "day": np.arange(9) % 7}, y[:, 0].astype(np.float32), info={"e": y[:, 1]}),
        "in one entry of a field": Outcomes(np.zeros((9, 2)), info={"e": np.arange(9.0)}),
        "of words": Outcomes(np.array([f"room {i}" for i in range(9)])),
        "around zero": np.arange(9)[:, None] * np.array([[0.0, 1.0]]),
    }
    return forms[kind][content]


@pytest.mark.parametrize(
    "kind", ["vectors", "segments", "outcomes", "in one entry of a field", "of words", "around zero"]
)
def test_a_split_knows_equal_segments_wherever_they_stand(kind):
    """An answer that is held out must not be about a pair that is fitted to."""
    rng = np.random.default_rng(1)
    one, other = rng.integers(0, 9, (2, 300))
    first, second = repeated(kind, one), repeated(kind, other)
    if kind == "around zero":
        first[:, 0] *= -1  # −0.0 is 0.0
    data = Comparisons(first, second, np.zeros(300))
    pairs = np.sort([one, other], axis=0).T
    _, wanted = np.unique(pairs, axis=0, return_inverse=True)
    again = wanted[:, None] == wanted
    np.testing.assert_array_equal(data.pair_numbers[:, None] == data.pair_numbers, again)
    some = rng.permutation(300)[:50]
    np.testing.assert_array_equal(data[some].pair_numbers[:, None] == data[some].pair_numbers, again[some][:, some])
    both = concatenate_comparisons([data[:40], data[40:]]).pair_numbers
    np.testing.assert_array_equal(both[:, None] == both, again)
    fitted_to, held_out = split(data, 0.25, rng)  # of 45 pairs 11
    mine = np.isin(data.first.start, held_out.first.start)  # each of the 300 has its own
    assert mine.sum() == len(held_out) == 300 - len(fitted_to)
    assert not set(wanted[mine]) & set(wanted[~mine])


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


def test_one_of_them_is_a_set_of_one():
    data = Comparisons(np.arange(5.0), np.arange(5.0) + 9, ["first", "second", "equal", "first", "second"])
    for i in range(5):
        one = data[i]
        assert len(one) == 1
        assert one.target[0] == data.target[i]
        assert float(one.outcomes[one.second.start[0], 0]) == i + 9
    assert len(data[np.int64(-1)]) == 1
    assert [len(one) for one in data] == [1] * 5


X = np.zeros((3, 2))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (Outcomes(X, X[:2]), Outcomes(X, X), "first's action has 2 rows, its obs 3; there must be one an outcome"),
        (Outcomes(X, X), Outcomes(X, X, np.zeros(4)), "second's reward has 4 rows, its obs 3"),
        (Outcomes({"a": X, "b": X[:1]}), Outcomes({"a": X, "b": X}), r"first's obs\.b has 1 rows, its obs 3"),
        (Outcomes(X, info={"e": 1.0}), Outcomes(X, info={"e": X}), r"first's info\.e has no rows, its obs 3"),
        (Outcomes(X, X), Outcomes(X), "first's outcomes have obs, action, second's obs; leave out what one side lacks"),
        (Outcomes(X), Outcomes(X, X), "first's outcomes have obs, second's obs, action; leave out"),
        (Outcomes({"a": X}), Outcomes({"b": X}), r"first's outcomes have obs\.a, second's obs\.b"),
        (Outcomes(X, info={"e": X}), Outcomes(X), r"first's outcomes have obs, info\.e, second's obs;"),
        (Outcomes(X), Outcomes({"a": X}), r"first's outcomes have obs, second's obs\.a"),
        (Outcomes(X), Outcomes(X[:, :1]), r"first's obs has the shape \(2,\) an outcome, second's \(1,\)"),
    ],
)
def test_outcomes_that_do_not_fit_each_other(first, second, message):
    with pytest.raises(InputError, match=message):
        Comparisons(first, second, [0] * 3)


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
