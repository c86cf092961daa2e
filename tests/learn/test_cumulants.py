"""Comparison horizons and the cumulant's scale, against slow obvious implementations."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest.learn import HPIClip
from mdcontest.learn.cumulants import CumulantScale, averaged_over, comparison_windows
from mdcontest.settings import WHOLE
from strategies import seeds


def averaged(cumulant, episode_step, horizon, across=False):
    episode_step = np.asarray(episode_step)
    windows = comparison_windows(episode_step, episode_step == 0, horizon, across)
    return averaged_over(windows, np.asarray(cumulant, float))


def column(*values):
    return np.array(values)[:, None]


def steps_of(rng, steps, envs):
    """Random steps within episodes, the first episodes possibly under way."""
    found = np.zeros((steps, envs), int)
    for i in range(envs):
        step = rng.integers(9)
        for t in range(steps):
            found[t, i] = step
            step = 0 if rng.uniform() < 0.2 else step + 1
    return found


def slowly_averaged(cumulant, episode_step, horizon, across):
    """Each step's mean over all steps of its environment that share its window, pair by pair."""
    steps, envs = cumulant.shape
    found = np.zeros((steps, envs))
    for i in range(envs):
        episode = np.cumsum(episode_step[:, i] == 0)

        def window(t, i=i, episode=episode):
            if across:
                return t // horizon if horizon else 0
            return episode[t], episode_step[t, i] // horizon if horizon else 0

        for t in range(steps):
            found[t, i] = np.mean([cumulant[u, i] for u in range(steps) if window(u) == window(t)])
    return found


def test_a_horizon_of_one_leaves_the_cumulant_alone():
    c = np.random.default_rng(0).normal(size=(12, 3))
    steps = steps_of(np.random.default_rng(1), 12, 3)
    np.testing.assert_array_equal(averaged(c, steps, 1), c)
    np.testing.assert_array_equal(averaged(c, steps, 1, across=True), c)


def test_the_whole_trajectory_is_each_episode_inside_the_rollout():
    # Under way at step 5 for two steps, an episode of three, and one of two that goes on after the rollout.
    steps = column(5, 6, 0, 1, 2, 0, 1)
    c = column(1, 3, 3, 6, 0, 10, 20)
    np.testing.assert_allclose(averaged(c, steps, WHOLE), column(2, 2, 3, 3, 3, 15, 15))


def test_windows_of_three_count_from_the_start_of_the_episode():
    # One episode of five: steps 0–2 and 3–4. The next: 0–1.
    steps = column(0, 1, 2, 3, 4, 0, 1)
    c = column(0, 3, 6, 1, 2, 7, 8)
    np.testing.assert_allclose(averaged(c, steps, 3), column(3, 3, 3, 1.5, 1.5, 7.5, 7.5))


def test_windows_count_from_the_start_of_an_episode_that_is_under_way():
    # The rollout begins at step 5, the last of steps 3–5; then 6–8 in full, then 9 alone, cut by the end.
    steps = column(5, 6, 7, 8, 9)
    c = column(4, 1, 2, 6, 9)
    np.testing.assert_allclose(averaged(c, steps, 3), column(4, 3, 3, 3, 9))


def test_across_episodes_windows_are_steps_of_the_rollout():
    steps = column(5, 0, 1, 0, 0, 1, 2)
    c = column(0, 3, 6, 1, 2, 6, 8)
    np.testing.assert_allclose(averaged(c, steps, 3, across=True), column(3, 3, 3, 3, 3, 3, 8))
    np.testing.assert_allclose(averaged(c, steps, WHOLE, across=True), np.full((7, 1), 26 / 7))


def test_environments_are_averaged_apart():
    steps = np.array([[0, 3], [1, 0], [2, 1]])
    c = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 40.0]])
    np.testing.assert_allclose(averaged(c, steps, WHOLE), [[2, 10], [2, 30], [2, 30]])


@given(seeds, st.integers(1, 30), st.integers(1, 3), st.integers(0, 12), st.booleans())
def test_averages_are_those_of_their_windows(seed, steps, envs, horizon, across):
    rng = np.random.default_rng(seed)
    c, episode_step = rng.normal(size=(steps, envs)), steps_of(rng, steps, envs)
    found = averaged(c, episode_step, horizon, across)
    np.testing.assert_allclose(found, slowly_averaged(c, episode_step, horizon, across), atol=1e-12)


@given(seeds, st.integers(1, 40), st.integers(1, 3), st.integers(0, 12), st.booleans())
def test_the_mean_over_every_window_is_kept(seed, steps, envs, horizon, across):
    rng = np.random.default_rng(seed)
    c, episode_step = rng.normal(size=(steps, envs)), steps_of(rng, steps, envs)
    windows = comparison_windows(episode_step, episode_step == 0, horizon, across)
    found = averaged_over(windows, c)
    assert sorted(set(windows.reshape(-1))) == list(range(windows.max() + 1))
    for number in range(windows.max() + 1):
        where = windows == number
        assert found[where].mean() == pytest.approx(c[where].mean(), abs=1e-12)
        assert np.ptp(found[where]) == 0
        assert len(set(np.nonzero(where)[1])) == 1  # of one environment
    assert found.mean() == pytest.approx(c.mean(), abs=1e-12)


# --- one scale for all tasks ------------------------------------------------------------------------------


class StepByStep:
    """The same scale, one step after the other, from all discounted sums seen so far."""

    def __init__(self, num_envs, gamma):
        self.gamma, self.sums, self.running = gamma, [], [0.0] * num_envs

    def scale(self, cumulant, ended):
        found = np.zeros_like(cumulant)
        for t in range(len(cumulant)):
            for i in range(cumulant.shape[1]):
                self.running[i] = self.gamma * self.running[i] + cumulant[t, i]
                self.sums.append(self.running[i])
                if ended[t, i]:
                    self.running[i] = 0.0
            found[t] = np.clip(cumulant[t] / np.sqrt(np.var(self.sums) + 1e-8), -10, 10)
        return found


def example(seed, steps, envs, level=0.0):
    rng = np.random.default_rng(seed)
    return level + rng.normal(size=(steps, envs)), rng.uniform(size=(steps, envs)) < 0.2


@given(seeds, st.integers(1, 25), st.integers(1, 3), st.sampled_from([0.0, 0.5, 0.99, 1.0]), st.floats(-50, 50))
def test_the_scale_is_the_deviation_of_all_discounted_sums_so_far(seed, steps, envs, gamma, level):
    fast, slow = CumulantScale(envs, gamma), StepByStep(envs, gamma)
    for call in range(3):
        c, ended = example(seed + call, steps, envs, level)
        np.testing.assert_allclose(fast.scale(c, ended), slow.scale(c, ended), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fast.running, slow.running, atol=1e-9)
    assert fast.count == len(slow.sums)
    assert fast.mean == pytest.approx(np.mean(slow.sums), abs=1e-8)


def test_the_scale_by_hand():
    # γ = ½: sums 2, 1 + 1 = 2, then (episode over) 4, deviation of (2, 2, 4) is √(8/9). Nothing varies before that, so
    # a deviation of √1e-8 = 1e-4 and the limit of ±10.
    scale = CumulantScale(1, 0.5)
    found = scale.scale(column(2.0, 1.0, 4.0), column(False, True, False))
    np.testing.assert_allclose(found, column(10.0, 10.0, 4.0 / np.sqrt(8 / 9 + 1e-8)), rtol=1e-9)
    assert scale.running == [4.0]


@given(seeds, st.integers(2, 25), st.integers(1, 2))
def test_no_value_depends_on_later_ones(seed, steps, envs):
    c, ended = example(seed, steps, envs)
    whole = CumulantScale(envs, 0.9).scale(c, ended)
    cut = steps // 2
    np.testing.assert_allclose(CumulantScale(envs, 0.9).scale(c[:cut], ended[:cut]), whole[:cut], rtol=1e-12)
    other = c.copy()
    other[cut:] *= 100
    np.testing.assert_array_equal(CumulantScale(envs, 0.9).scale(other, ended)[:cut], whole[:cut])


@given(seeds, st.integers(2, 25))
def test_two_calls_are_one(seed, steps):
    c, ended = example(seed, steps, 2)
    whole = CumulantScale(2, 0.9).scale(c, ended)
    scale = CumulantScale(2, 0.9)
    cut = steps // 2
    parts = [scale.scale(c[:cut], ended[:cut]), scale.scale(c[cut:], ended[cut:])]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-9, atol=1e-12)


def test_a_large_level_does_not_eat_the_deviation():
    # With γ = 0 the sums are the cumulants themselves: deviation 1 around 1e7.
    c = 1e7 + np.tile([[-1.0], [1.0]], (500, 1))
    scale = CumulantScale(1, 0.0)
    scale.scale(c, np.zeros((1000, 1), bool))
    scale.scale(c, np.zeros((1000, 1), bool))
    assert np.sqrt(scale.square / scale.count) == pytest.approx(1, rel=1e-6)


@given(seeds)
def test_no_mean_is_subtracted(seed):
    c, ended = example(seed, 20, 2)
    found = CumulantScale(2, 0.9).scale(c, ended)
    np.testing.assert_array_equal(np.sign(found), np.sign(c))
    assert np.abs(found).max() <= 10


def test_a_scale_goes_on_from_its_record():
    c, ended = example(0, 20, 2)
    scale, other = CumulantScale(2, 0.9), CumulantScale(2, 0.9)
    scale.scale(c, ended)
    other.restore(json.loads(json.dumps(scale.record())))
    np.testing.assert_array_equal(scale.scale(c, ended), other.scale(c, ended))


# --- margins too small for it -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "too_small"), [(1.0, False), (1e-5, False), (1e-6, True), (1e-9, True), (1e-16, False), (0.0, False)]
)
def test_cumulants_below_the_least_deviation_are_told(size, too_small):
    """Not those that are all alike, up to rounding: there is nothing to bring to a scale."""
    scale = CumulantScale(1, 0.9)
    c, ended = example(0, 50, 1)
    found = scale.scale(size * c, ended)
    assert scale.is_too_small is too_small
    assert scale.deviation == pytest.approx(np.sqrt(scale.square / 50))
    if too_small:
        np.testing.assert_allclose(found, size * c / scale.FLOOR, rtol=0.01)


def small_margins(size, **settings):
    task = mdc.Task("CartPole-v1", lambda z, w: size * np.sign(w.obs[:, 2].astype(float) - z.obs[:, 2]), name="Small")
    return HPIClip(task, num_steps=16, minibatches=1, epochs=1, hidden=(4,), **settings)


def test_a_run_on_margins_too_small_warns_once(recwarn):
    small_margins(1e-7).learn(9 * 16, progress=False)
    small_margins(1.0).learn(20 * 16, progress=False)
    assert not recwarn.list
    small_margins(1e-7).learn(20 * 16, progress=False)
    (warning,) = recwarn.list
    assert "Small: discounted sums of the cumulant deviate by" in str(warning.message)
    assert "it is divided by 1e-04 at least, so little is learned, or nothing; multiply" in str(warning.message)


@pytest.mark.parametrize(("size", "settings"), [(1e200, {}), (1e30, {"normalise_cumulant": False})])
def test_cumulants_too_large_to_be_squared_are_told(size, settings):
    """No learning rate would help."""
    with pytest.raises(mdc.RunError, match=r"Small: the cumulant reaches .* iteration 1, too large .*; divide the"):
        small_margins(size, **settings).learn(16, progress=False)


@given(seeds, st.sampled_from([1e-3, 1.0, 1e100]))
def test_a_scale_says_when_it_means_nothing(seed, size):
    scale, (c, ended) = CumulantScale(2, 0.9), example(seed, 20, 2)
    scale.scale(size * c, ended)
    assert not scale.is_too_large
    scale.scale(1e160 * c, ended)
    assert scale.is_too_large
