"""Intervals and bands against closed forms, other packages and simulated seeds, and how often they cover."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mdcontest.errors import InputError
from mdcontest.report.statistics import (
    OVERLAPS,
    Interval,
    bootstrap_band,
    bootstrap_interval,
    iqm_interval,
    student_band,
    student_interval,
    verdict,
)
from not_finite import INF, NAN
from strategies import seeds

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
