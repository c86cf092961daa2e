"""Interquartile means against another package and slow loops, and verdicts against the chance of a false one."""

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
    iqm,
    iqm_interval,
    student_band,
    student_interval,
    verdict,
)
from not_finite import INF, NAN
from strategies import seeds

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
