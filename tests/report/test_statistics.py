"""Curves, areas, intervals and verdicts against closed forms, slow loops, other packages and simulated seeds."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rliable import metrics
from scipy import stats

from mdcontest.errors import InputError
from mdcontest.report import intervals, statistics
from mdcontest.report.statistics import (
    HIGHER,
    LOWER,
    MIN_SEEDS,
    OVERLAPS,
    TOO_FEW,
    Interval,
    auc,
    bootstrap_band,
    bootstrap_interval,
    curve_on_grid,
    iqm,
    iqm_interval,
    step_grid,
    student_band,
    student_interval,
    verdict,
)
from strategies import seeds

NAN, INF = float("nan"), float("inf")


# --- curves on a grid -------------------------------------------------------------------------------------


def slowly_on_grid(steps, values, grid):
    """Interval by interval, episode by episode."""
    found, last = [], None
    for before, until in itertools.pairwise([0, *grid]):
        ended = [value for step, value in zip(steps, values, strict=True) if before < step <= until]
        if ended:
            last = sum(ended) / len(ended)
        found.append(last)
    first = next((value for value in found if value is not None), NAN)
    return [first if value is None else value for value in found]


@given(seeds, st.integers(0, 40), st.integers(1, 15), st.integers(1, 80))
def test_the_curve_is_that_of_a_slow_loop(seed, episodes, points, longest):
    rng = np.random.default_rng(seed)
    steps, values = np.sort(rng.integers(1, longest + 1, episodes)), rng.normal(size=episodes)
    grid = np.sort(rng.choice(60, points, replace=False))
    np.testing.assert_allclose(curve_on_grid(steps, values, grid), slowly_on_grid(steps, values, grid), atol=1e-12)


def test_the_curve_by_hand():
    # Two episodes in (10, 20], the second exactly at its end; none in (20, 30]; one in (30, 40]; one after the grid.
    curve = curve_on_grid([12, 20, 31, 45], [1, 3, 7, 100], [10, 20, 30, 40])
    assert curve.tolist() == [2, 2, 2, 7]  # the first 2 stands in, the last carries on


@pytest.mark.parametrize(("steps", "values"), [([], []), ([50], [1.0])])
def test_without_an_episode_on_the_grid_there_is_no_curve(steps, values):
    assert np.isnan(curve_on_grid(steps, values, [10, 20])).all()


def test_a_million_episodes():
    rng = np.random.default_rng(0)
    steps, values, grid = np.cumsum(rng.integers(1, 20, 1_000_000)), rng.normal(size=1_000_000), step_grid(10_000_000)
    sums, edges = np.histogram(steps - 0.5, np.append(0, grid), weights=values)
    counts, _ = np.histogram(steps - 0.5, edges)
    found = curve_on_grid(steps, values, grid)
    known = counts > 0
    np.testing.assert_allclose(found[known], sums[known] / counts[known], atol=1e-9)
    assert (found[~known] == found[known][-1]).all()


@pytest.mark.parametrize(("total", "points"), [(1_000_000, 100), (2048, 100), (100, 100), (7, 3), (1e6, 10)])
def test_the_grid_is_of_whole_steps_and_ends_with_the_last(total, points):
    grid = step_grid(total, points)
    assert len(grid) == points
    assert grid[-1] == total
    assert (grid == np.floor(grid)).all()
    gaps = np.diff(np.append(0, grid))
    assert gaps.min() >= 1
    assert np.ptp(gaps) <= 1


@pytest.mark.parametrize(("total", "points"), [(50, 100), (100, 0), (100.5, 10), (INF, 10), (NAN, 10)])
def test_a_grid_that_cannot_be(total, points):
    with pytest.raises(InputError, match=f"a grid of {points} points over {total} steps; it takes a whole number"):
        step_grid(total, points)


@pytest.mark.parametrize(
    ("steps", "values", "grid", "text"),
    [
        ([3, 2], [1, 1], [5], r"steps\[1\] = 2 comes after 3; sort steps, and values with them"),
        ([0, 2], [1, 1], [5], r"steps\[0\] = 0: an episode ends after at least one step"),
        ([1, 2], [1], [5], r"steps has shape \(2,\) and values \(1,\); they must be alike"),
        ([[1, 2]], [[1, 2]], [5], r"steps has shape \(1, 2\); it must be one row of numbers"),
        ([1, 2], [1, NAN], [5], r"values\[1\] is nan \(1 of 2 are not finite\); leave the run out, and say so"),
        ([1, INF], [1, 1], [5], r"steps\[1\] is inf .* a step is a whole number"),
        ([1], [1], [5, 5], "grid must be steps from 0 on that increase strictly"),
        ([1], [1], [-1, 5], "grid must be steps from 0 on that increase strictly"),
        ([1], [1], [], r"grid is empty"),
        ([1], ["a"], [5], "values must be an array of numbers"),
    ],
)
def test_curves_from_bad_input(steps, values, grid, text):
    with pytest.raises(InputError, match=text):
        curve_on_grid(steps, values, grid)


# --- area -------------------------------------------------------------------------------------------------


@given(st.floats(-1e6, 1e6), st.integers(1, 20))
def test_a_constant_is_its_own_mean_height(height, points):
    assert auc(step_grid(1000, points), np.full(points, height)) == pytest.approx(height, rel=1e-12)


def test_a_line_has_the_height_of_its_middle():
    steps = np.array([0.0, 1.0, 4.0, 10.0])
    assert auc(steps, 3 + 2 * steps) == pytest.approx(3 + 2 * 5)
    assert auc(steps + 100, 3 + 2 * steps, start=100) == pytest.approx(3 + 2 * 5)


def test_a_jump_weighs_both_sides_by_their_length():
    assert auc([0, 7, 7, 10], [1, 1, 5, 5]) == pytest.approx(0.7 * 1 + 0.3 * 5)


def test_up_to_the_first_step_the_curve_is_level():
    # Height 2 from 0 to 10, then up to 4 at 20.
    assert auc([10, 20], [2, 4]) == pytest.approx((2 * 10 + 3 * 10) / 20)
    assert auc([10], [2]) == 2


def test_a_sine_against_its_integral():
    # ∫₀^X sin x dx = 1 − cos X; the trapezoids are off by at most X h²/12.
    x = np.linspace(0, 4.0, 401)
    assert auc(x, np.sin(x)) == pytest.approx((1 - math.cos(4)) / 4, abs=1e-5)


@given(seeds, st.integers(2, 30), st.floats(0, 5))
def test_the_mean_height_times_the_range_is_the_area(seed, points, before):
    rng = np.random.default_rng(seed)
    steps, values = np.cumsum(rng.uniform(0.1, 2, points)), rng.normal(size=points)
    start = steps[0] - before
    area = values[0] * before
    for i in range(points - 1):
        area += (values[i] + values[i + 1]) / 2 * (steps[i + 1] - steps[i])
    assert auc(steps, values, start) * (steps[-1] - start) == pytest.approx(area, abs=1e-9)


@pytest.mark.parametrize(
    ("steps", "values", "start", "text"),
    [
        ([1, 2], [NAN, NAN], 0, "all 2 values of the curve are nan, as when no episode ended; leave the run out"),
        ([1, 2], [1, NAN], 0, r"values\[1\] is nan"),
        ([1, 2], [1, INF], 0, r"values\[1\] is inf"),
        ([2, 1], [1, 1], 0, r"steps\[1\] = 1 comes after 2"),
        ([1, 2], [1, 2, 3], 0, "they must be alike"),
        ([[1, 2]], [[1, 2]], 0, "must be one row of numbers"),
        ([], [], 0, "steps is empty"),
        ([1, 2], [1, 2], 1.5, "start = 1.5 for steps from 1 to 2; it must be at most the first step"),
        ([0], [1], 0, "start = 0 for steps from 0 to 0"),
        ([1], [1], NAN, "start = nan"),
    ],
)
def test_areas_from_bad_input(steps, values, start, text):
    with pytest.raises(InputError, match=text):
        auc(steps, values, start)


# --- intervals --------------------------------------------------------------------------------------------


@given(seeds, st.integers(2, 30), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_students_interval_by_its_formula(seed, n, confidence):
    values = np.random.default_rng(seed).normal(3, 2, n)
    found = student_interval(values, confidence)
    s = math.sqrt(sum((x - sum(values) / n) ** 2 for x in values) / (n - 1))
    half = stats.t.ppf(0.5 + confidence / 2, n - 1) * s / math.sqrt(n)
    assert found.mean == pytest.approx(sum(values) / n)
    assert (found.low, found.high) == pytest.approx((found.mean - half, found.mean + half))
    assert (found.low, found.high) == pytest.approx(stats.ttest_1samp(values, 0).confidence_interval(confidence))
    assert (found.n, found.confidence, found.method) == (n, confidence, "Student's t")


def test_students_interval_of_students_data():
    # Additional hours of sleep, second drug minus first, of ten patients: Student, The probable error of a mean,
    # Biometrika 6 (1908). R prints for its data set `sleep`, t.test(..., paired = TRUE): 0.7001142 and 2.4598858.
    found = student_interval([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
    assert found.mean == pytest.approx(1.58)
    assert (found.low, found.high) == pytest.approx((0.7001142, 2.4598858), abs=5e-8)


def test_the_bootstrap_against_all_resamples():
    # Three seeds have 27 resamples, so that the distribution of their mean is known: 0 and 3 once, 1/3 and so on.
    values = [0.0, 1.0, 3.0]
    means = [sum(drawn) / 3 for drawn in itertools.product(values, repeat=3)]
    found = bootstrap_interval(values, confidence=0.8)
    assert (found.low, found.high) == pytest.approx(np.quantile(means, [0.1, 0.9], method="inverted_cdf"))
    assert found.mean == pytest.approx(4 / 3)


def test_the_bootstrap_against_scipy():
    values = np.random.default_rng(0).lognormal(size=30)
    found = bootstrap_interval(values)
    other = stats.bootstrap((values,), np.mean, method="percentile", rng=1).confidence_interval
    assert (found.low, found.high) == pytest.approx((other.low, other.high), rel=0.03)


def test_the_bootstrap_repeats_itself():
    values = np.random.default_rng(0).normal(size=8)
    assert bootstrap_interval(values, seed=3) == bootstrap_interval(values, seed=3)
    assert bootstrap_interval(values, seed=3) != bootstrap_interval(values, seed=4)


@given(seeds, st.integers(1, 12), st.integers(1, 6))
def test_bands_are_intervals_point_by_point(seed, n, points):
    curves = np.random.default_rng(seed).normal(size=(n, points))
    for band, interval in (
        (student_band(curves), student_interval),
        (bootstrap_band(curves, resamples=200), lambda values: bootstrap_interval(values, resamples=200)),
    ):
        each = [interval(curves[:, j]) for j in range(points)]
        for part in ("mean", "low", "high"):
            np.testing.assert_allclose(getattr(band, part), [getattr(one, part) for one in each], atol=1e-12)


@pytest.mark.parametrize("interval", [student_interval, bootstrap_interval])
def test_one_seed_tells_nothing(interval):
    found = interval([5.0])
    assert (found.mean, found.low, found.high, found.n) == (5.0, -INF, INF, 1)


@pytest.mark.parametrize("interval", [student_interval, bootstrap_interval])
def test_equal_values_have_no_spread_and_rounding_makes_none(interval):
    few, many = interval([0.1] * 6), interval([0.1] * 23)
    assert few.low == few.mean == few.high == 0.1
    assert verdict(few, many) == OVERLAPS


@pytest.mark.parametrize("interval", [student_interval, bootstrap_interval])
@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1, 2, NAN, 3], r"values\[2\] is nan \(1 of 4 are not finite\)"),
        ([-INF, 2], r"values\[0\] is -inf"),
        ([], r"values is empty \(shape \(0,\)\)"),
        ([[1, 2]], r"values has shape \(1, 2\); it must be one row of numbers"),
        (3.0, r"values has shape \(\)"),
    ],
)
def test_intervals_from_bad_input(interval, values, text):
    with pytest.raises(InputError, match=text):
        interval(values)


@pytest.mark.parametrize("band", [student_band, bootstrap_band])
def test_bands_from_bad_input(band):
    with pytest.raises(InputError, match=r"curves\[1, 0\] is nan \(2 of 4 are not finite\); leave the run out"):
        band([[1, 2], [NAN, NAN]])
    with pytest.raises(InputError, match=r"curves has shape \(2,\); it must be a matrix, one row a seed"):
        band([1, 2])
    with pytest.raises(InputError, match=r"confidence = 95 must lie strictly between 0 and 1; 95 % is 0.95"):
        band([[1, 2], [3, 4]], confidence=95)


def test_too_few_resamples():
    for call in (bootstrap_interval, iqm_interval):
        with pytest.raises(InputError, match="resamples = 10 is too few for the quantiles of a bootstrap"):
            call([1.0, 2.0], resamples=10)


def test_intervals_that_cannot_be():
    with pytest.raises(InputError, match="an interval from 2 to 1 has no inside"):
        Interval(1.5, 2, 1, 5, "", 0.95)
    with pytest.raises(InputError, match="an interval from nan to nan has no inside"):
        Interval(1.5, NAN, NAN, 5, "", 0.95)
    with pytest.raises(InputError, match="an interval from 0 seeds"):
        Interval(1.5, 1, 2, 0, "", 0.95)


# --- coverage: what docs/statistics.md says of the two intervals --------------------------------------------


def coverage(band, seeds, repetitions):
    """The share of 95 % intervals of normal data that contain the mean, in batches that share their resamples."""
    rng = np.random.default_rng(seeds)
    hits = 0
    for batch in range(10):
        found = band(rng.standard_normal((seeds, repetitions // 10)), batch)
        hits += ((found.low <= 0) & (found.high >= 0)).sum()
    return hits / repetitions


@pytest.mark.parametrize("seeds", [5, 10, 100])
def test_students_interval_covers_at_any_number_of_seeds(seeds):
    assert 0.93 <= coverage(lambda values, _: student_band(values), seeds, 20_000) <= 0.97


@pytest.mark.parametrize(("seeds", "low", "high"), [(5, 0, 0.93), (10, 0, 0.93), (100, 0.93, 0.97)])
def test_the_bootstrap_covers_with_many_seeds_only(count, seeds, low, high):
    resamples, repetitions = count(1000, 10_000), count(5000, 20_000)
    found = coverage(lambda values, b: bootstrap_band(values, resamples=resamples, seed=b), seeds, repetitions)
    assert low <= found <= high


# --- interquartile means ----------------------------------------------------------------------------------


@given(seeds, st.integers(1, 30), st.integers(1, 9))
def test_iqm_is_that_of_rliable(seed, runs, tasks):
    scores = np.random.default_rng(seed).lognormal(size=(runs, tasks))
    assert iqm(scores) == pytest.approx(metrics.aggregate_iqm(scores), rel=1e-12)
    assert iqm(list(scores.T)) == pytest.approx(metrics.aggregate_iqm(scores), rel=1e-12)
    assert iqm_interval(scores, resamples=100).mean == iqm(scores)


def test_iqm_by_hand():
    # Of eight scores two are cut at each end, of seven one.
    assert iqm([[-100, 0], [1, 2, 3, 4], [5, 100]]) == pytest.approx((1 + 2 + 3 + 4) / 4)
    assert iqm([-100, 1, 2, 3, 4, 5, 100]) == pytest.approx(3)


def test_runs_are_resampled_within_their_task():
    # Tasks that differ and runs that do not: within columns nothing varies, across them everything would.
    scores = np.tile([1.0, 10.0, 100.0, 1000.0], (6, 1))
    found = iqm_interval(scores)
    assert found.low == found.mean == found.high == 55
    assert iqm_interval(scores.T).high > 100  # as four runs of six tasks


def test_the_stratified_bootstrap_is_a_slow_one_with_rliables_metric():
    rng = np.random.default_rng(0)
    scores = rng.normal([0, 1, 5], [1, 2, 0.5], size=(10, 3))
    slow = [
        metrics.aggregate_iqm(np.column_stack([rng.choice(column, len(column)) for column in scores.T]))
        for _ in range(4000)
    ]
    found = iqm_interval(scores)
    assert (found.low, found.high) == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=0.05)


def test_blocks_only_save_memory(monkeypatch):
    scores = np.random.default_rng(0).normal(size=(10, 4))
    whole = iqm_interval(scores)
    monkeypatch.setattr(statistics, "BLOCK", 40 * 999)  # 999 resamples at a time, and a rest
    cut = iqm_interval(scores)
    assert (cut.low, cut.high) == pytest.approx((whole.low, whole.high), abs=0.05)
    monkeypatch.setattr(statistics, "_resampled", lambda columns, count, rng: np.full(count, float(count)))
    assert iqm_interval(scores, confidence=1 - 1e-9).low == pytest.approx(10_000 % 999, abs=0.1)


def test_unequal_columns_count_the_fewest_runs():
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=size) for size in (9, 4, 7)]
    found = iqm_interval(columns, seed=1)
    assert found.n == 4
    assert found.low < found.mean < found.high
    assert found == iqm_interval(columns, seed=1) != iqm_interval(columns, seed=2)
    alone = iqm_interval([[1.0, 2.0, 3.0], [4.0]])
    assert (alone.mean, alone.low, alone.high, alone.n) == (2.5, -INF, INF, 1)


@pytest.mark.parametrize("function", [iqm, iqm_interval])
@pytest.mark.parametrize(
    ("scores", "text"),
    [
        ([[1, 2], [3, NAN, 4]], r"scores of task 1\[1\] is nan"),
        (np.array([[1, 2], [INF, 4]]), r"scores\[1, 0\] is inf"),
        ([[1, 2], []], "scores of task 1 is empty"),
        ([], "scores is empty"),
        (np.zeros((2, 2, 2)), r"scores has shape \(2, 2, 2\); it must be a matrix"),
    ],
)
def test_scores_that_cannot_be(function, scores, text):
    with pytest.raises(InputError, match=text):
        function(scores)


# --- verdicts ---------------------------------------------------------------------------------------------


def interval(low, high, n=10, confidence=0.95):
    return Interval((low + high) / 2, low, high, n, intervals.STUDENT, confidence)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (interval(3, 4), interval(1, 2), HIGHER),
        (interval(1, 2), interval(3, 4), LOWER),
        (interval(1, 3), interval(2, 4), OVERLAPS),
        (interval(1, 4), interval(2, 3), OVERLAPS),
        (interval(2, 3), interval(1, 2), OVERLAPS),  # they touch
        (interval(3, 4, MIN_SEEDS), interval(1, 2, MIN_SEEDS), HIGHER),
        (interval(3, 4, MIN_SEEDS - 1), interval(1, 2), TOO_FEW),
        (interval(3, 4), interval(1, 2, MIN_SEEDS - 1), TOO_FEW),
        (interval(1, 3, 2), interval(2, 4, 2), TOO_FEW),
        (student_interval([1.0]), interval(1, 2), TOO_FEW),
    ],
)
def test_verdicts(a, b, expected):
    assert verdict(a, b) == expected
    assert verdict(b, a) == {HIGHER: LOWER, LOWER: HIGHER}.get(expected, expected)


def test_the_words_of_the_verdicts():
    assert (HIGHER, LOWER, OVERLAPS, TOO_FEW) == ("strictly higher", "strictly lower", "overlaps", "too few seeds")
    assert MIN_SEEDS == 5


def test_verdicts_compare_like_with_like():
    with pytest.raises(InputError, match=r"intervals of confidence 0.9 and 0.95; compare like with like"):
        verdict(interval(1, 2, confidence=0.9), interval(3, 4))


@pytest.mark.parametrize("seeds", [5, 10, 100])
def test_equal_methods_are_called_different_in_six_of_a_thousand_cases(seeds):
    """Known deviations: |m − m'| > 2 · 1.96 σ/√n, where m − m' has deviation √2 σ/√n."""
    known = 2 * stats.norm.sf(stats.norm.ppf(0.975) * math.sqrt(2))
    assert known == pytest.approx(0.0056, abs=5e-5)
    # Estimated ones, given s and s': the mean of that tail over their distribution, (n − 1)s²/σ² being χ².
    rng = np.random.default_rng(0)
    s, other = np.sqrt(rng.chisquare(seeds - 1, (2, 200_000)) / (seeds - 1))
    t = stats.t.ppf(0.975, seeds - 1)
    assert 2 * stats.norm.sf(t * (s + other) / math.sqrt(2)).mean() == pytest.approx(known, abs=0.0005)
    # The intervals themselves, 40 000 pairs: the error of this share is 0.0004.
    a, b = (student_band(rng.standard_normal((seeds, 40_000))) for _ in range(2))
    assert ((a.low > b.high) | (a.high < b.low)).mean() == pytest.approx(known, abs=0.002)
