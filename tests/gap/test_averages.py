"""Averages a step over episodes, their errors, and intervals that cover what they should."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mdcontest.gap.averages import average_margin, interval, step_average, thinned
from small_games import RPS, Clusters, classes, episodes_of
from strategies import seeds


def test_the_average_and_its_variance_by_hand():
    # Sums 5 and 6 over lengths 1 and 3: ρ = 11/4. Residuals (5 − 11/4)/2 = 9/8 and (6 − 33/4)/2 = −9/8, so the
    # variance is 2 (9/8)² / (2 − 1) / 2 = 81/64.
    average, variance = step_average(episodes_of(np.zeros(4), [1, 3]), np.array([5.0, 1, 2, 3]))
    assert average == 11 / 4
    assert variance == pytest.approx(81 / 64)


def test_one_episode_says_nothing_about_the_error():
    average, variance = step_average(episodes_of(np.zeros(2), [2]), np.array([1.0, 2.0]))
    assert (average, variance) == (1.5, np.inf)
    found = interval(average, [(variance, 0)], 0.95, 1.0)
    assert (found.low, found.high) == (-np.inf, np.inf)


def test_renewal_reward():
    # Lengths 1, 2, 3 alike, and step k of an episode earns 2k − 1, so that a length of L earns L². The average is
    # E[L²]/E[L] = (14/3)/2 = 7/3, not E[L²/L] = 2.
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 4, size=20_000)
    values = np.concatenate([2 * np.arange(1, n + 1) - 1.0 for n in lengths])
    average, variance = step_average(episodes_of(values, lengths), values)
    assert abs(average - 7 / 3) < 4 * np.sqrt(variance)
    # Residual (L² − 7L/3)/2 at L = 1, 2, 3: −2/3, −1/3, 1. Its mean square is (4/9 + 1/9 + 1)/3 = 14/27.
    assert variance == pytest.approx(14 / 27 / 20_000, rel=0.03)


def test_episodes_of_one_step_are_the_plain_mean():
    values = np.random.default_rng(0).normal(size=50)
    average, variance = step_average(episodes_of(values, np.ones(50, int)), values)
    assert average == pytest.approx(values.mean())
    assert variance == pytest.approx(values.var(ddof=1) / 50)


def test_the_variance_is_that_of_repeated_samples():
    # Length 1 + Poisson(4), each step earns the episode's own level, which grows with the length.
    rng, found = np.random.default_rng(0), []
    for _ in range(2000):
        lengths = 1 + rng.poisson(4, size=100)
        values = np.repeat(lengths + rng.normal(size=100), lengths)
        found.append(step_average(episodes_of(values, lengths), values))
    averages, variances = np.array(found).T
    # E[L·L]/E[L] with L = 1 + N: (1 + 2·4 + 20)/5 = 29/5.
    assert averages.mean() == pytest.approx(29 / 5, abs=0.02)
    assert variances.mean() == pytest.approx(averages.var(), rel=0.08)


UNEQUAL = Clusters([0.5, 0.3, 0.2], [1, 4, 15]), Clusters([0.2, 0.2, 0.6], [6, 2, 3])
ALIKE = Clusters([1 / 3] * 3, [0, 0, 0], keep=1.0), Clusters([0.6, 0.3, 0.1], [0, 0, 0], keep=1.0)


@pytest.mark.parametrize(("ours", "theirs", "episodes"), [(*UNEQUAL, (200, 200)), (*ALIKE, (200, 150))])
def test_intervals_of_the_average_margin_cover_it(ours, theirs, episodes, count):
    """95 % of the intervals hold M̄, for clusters whose length tells their class and for steps alone."""
    rng, exact, repetitions = np.random.default_rng(1), ours.occupancy @ RPS @ theirs.occupancy, count(1500, 6000)
    held = 0
    for _ in range(repetitions):
        found = average_margin(classes(), ours.draw(rng, episodes[0]), theirs.draw(rng, episodes[1]), 0.95)
        held += found.low <= exact <= found.high
    assert 0.93 <= held / repetitions <= 0.97


@pytest.mark.parametrize("episodes", [10, 30])
def test_few_episodes_or_nothing_to_win_make_intervals_too_wide_rather_than_too_narrow(episodes, count):
    """The chance part of c itself is in both errors. It matters where c is near 0, and then it is on the safe side."""
    for ours, theirs in (UNEQUAL, (Clusters([1 / 3] * 3, [3, 3, 3]),) * 2):
        rng, exact, repetitions, held = np.random.default_rng(3), ours.occupancy @ RPS @ theirs.occupancy, 400, 0
        for _ in range(repetitions):
            found = average_margin(classes(), ours.draw(rng, episodes), theirs.draw(rng, episodes), 0.95)
            held += found.low <= exact <= found.high
        assert held / repetitions >= 0.94


def test_both_samples_count_for_the_error():
    # Class 0 for all of our steps, and their classes 1 and 2 equally often: c = ±1, and all error that shows is theirs.
    # Ours may have a kind of episode, unseen in 50, that wins 2 more: it has a share p with (1 − p)^50 ≈ 0.025.
    ours, theirs = episodes_of(np.zeros(50, int), np.ones(50, int)), episodes_of([1, 2] * 25, np.ones(50, int))
    found = average_margin(classes(), ours, theirs, 0.95)
    reach = stats.t.ppf(0.975, 49) * np.sqrt(50 / 49 / 50) + 2 * np.log(40) / 50
    np.testing.assert_allclose([found.value, found.low, found.high], [0, -reach, reach], atol=1e-12)


@given(seeds, st.integers(2, 40), st.integers(2, 40), st.floats(0.1, 10), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_intervals_are_welchs(seed, m, n, scale, confidence):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=m), scale * rng.normal(size=n)
    parts = [(a.var(ddof=1) / m, m - 1), (b.var(ddof=1) / n, n - 1)]
    found = interval(a.mean() - b.mean(), parts, confidence, 0.0)
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(confidence)
    np.testing.assert_allclose([found.low, found.high], [expected.low, expected.high], rtol=1e-9, atol=1e-12)


def test_degrees_of_freedom():
    # Two parts alike have twice the freedom of one; a part without error adds none.
    def reach(parts):
        return interval(0.0, parts, 0.95, 0.0).high

    assert reach([(0.5, 9), (0.5, 9)]) == pytest.approx(stats.t.ppf(0.975, 18))
    assert reach([(1.0, 9), (0.0, 5)]) == pytest.approx(stats.t.ppf(0.975, 9))
    assert reach([(0.0, 9), (0.0, 5)]) == 0


def test_episodes_that_are_all_alike_are_no_proof():
    """Rock in 98 % of episodes, else scissors; paper wins 0.96 on average. A third of samples of 50 see rock only."""
    rng, repetitions, ours = np.random.default_rng(0), 2000, episodes_of(np.ones(50, int), np.ones(50, int))
    theirs = np.where(rng.random((repetitions, 50)) < 0.98, 0, 2)
    lows = [average_margin(classes(), ours, episodes_of(t, np.ones(50, int)), 0.95).low for t in theirs]
    assert np.mean(np.array(lows) > 0.98 - 0.02) <= 0.025


# --- thinning ---------------------------------------------------------------------------------------------


def test_few_steps_are_not_thinned():
    whole = episodes_of(np.arange(10), [4, 6])
    assert thinned(whole, 10, np.random.default_rng(0)) is whole


@given(seeds, st.integers(1, 30), st.integers(1, 100))
def test_thinning_takes_evenly_from_every_episode(seed, episodes, most):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 20, size=episodes)
    steps = np.concatenate([np.arange(n) for n in lengths]) + 100 * np.repeat(np.arange(episodes), lengths)
    kept = thinned(episodes_of(steps, lengths), most, rng)
    every = -(-len(steps) // most)
    assert kept.lengths.sum() == len(kept.outcomes)
    assert kept.lengths.min() >= 1
    for part in np.split(kept.outcomes.obs, kept.starts[1:]):
        assert len(set(part // 100)) == 1
        assert set(np.diff(part)) <= {every} | ({1} if len(kept.outcomes) == len(steps) else set())


def test_thinning_leaves_averages_as_they_are():
    # A step is kept with probability 1/every, whatever episode it is in: sums and lengths shrink alike.
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 30, size=40)
    values = np.repeat(lengths, lengths) + rng.normal(size=lengths.sum())
    whole, most = episodes_of(values, lengths), len(values) // 7
    every = -(-len(values) // most)
    found = np.array([(kept.outcomes.obs.sum(), len(kept.outcomes)) for kept in
                      (thinned(whole, most, rng) for _ in range(1000))])  # fmt: skip
    error = found.std(axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - np.array([values.sum(), len(values)]) / every) < 4 * error)
    assert (found[:, 0] / found[:, 1]).mean() == pytest.approx(values.mean(), rel=0.005)


def test_an_interval_from_thinned_steps_covers_too(count):
    ours, theirs = UNEQUAL
    rng, exact, repetitions, held = (
        np.random.default_rng(2),
        ours.occupancy @ RPS @ theirs.occupancy,
        count(800, 3000),
        0,
    )
    for _ in range(repetitions):
        samples = [thinned(game.draw(rng, 100), 150, rng) for game in (ours, theirs)]
        found = average_margin(classes(), *samples, 0.95)
        held += found.low <= exact <= found.high
    assert 0.93 <= held / repetitions <= 0.97
