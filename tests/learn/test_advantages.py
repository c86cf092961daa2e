"""Advantages: by hand, against a double loop, ends of episodes told apart, the average critic."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdcontest.learn.advantages import generalised_advantages, normalised
from mdcontest.learn.networks import initial_params, state_values
from mdcontest.learn.update import Averages, Batch, _evaluate
from mdcontest.settings import Settings
from strategies import seeds

advantages_of = jax.jit(generalised_advantages)


def by_definition(cumulant, value, next_value, ended, discount, trace):
    """Â_t = Σ_l (γλ)^l δ_{t+l}, up to the end of the episode or of the rollout."""
    steps, envs = cumulant.shape
    found = np.zeros((steps, envs))
    for i in range(envs):
        for t in range(steps):
            for later in range(t, steps):
                delta = cumulant[later, i] + discount * next_value[later, i] - value[later, i]
                found[t, i] += (discount * trace) ** (later - t) * delta
                if ended[later, i]:
                    break
    return found


# Two environments, four steps, γ = ½, λ = ½, so γλ = ¼. The first terminates after its second step (next value 0),
# the second is cut off after its third (next value 8, that of the state it was cut off in).
CUMULANT = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [4.0, 2.0]])
VALUE = np.array([[2.0, 4.0], [4.0, 0.0], [0.0, 2.0], [2.0, 6.0]])
NEXT_VALUE = np.array([[4.0, 0.0], [0.0, 2.0], [2.0, 8.0], [6.0, 2.0]])
ENDED = np.array([[False, False], [True, False], [False, True], [False, False]])
# δ, first:  1+2−2 = 1,  2+0−4 = −2,  3+1−0 = 4,  4+3−2 = 5.   second: 0+0−4 = −4,  1+1−0 = 2,  0+4−2 = 2,  2+1−6 = −3.
# Â, first:  1−½ = ½,  −2,  4+5/4 = 5.25,  5.                  second: −4+2.5/4 = −3.375,  2+2/4 = 2.5,  2,  −3.
ADVANTAGE = np.array([[0.5, -3.375], [-2.0, 2.5], [5.25, 2.0], [5.0, -3.0]])


def test_advantages_by_hand():
    advantage, target = advantages_of(CUMULANT, VALUE, NEXT_VALUE, ENDED, 0.5, 0.5)
    np.testing.assert_allclose(advantage, ADVANTAGE, rtol=1e-6)
    np.testing.assert_allclose(target, ADVANTAGE + VALUE, rtol=1e-6)
    np.testing.assert_allclose(by_definition(CUMULANT, VALUE, NEXT_VALUE, ENDED, 0.5, 0.5), ADVANTAGE, rtol=1e-12)


@given(seeds, st.floats(0, 1), st.floats(0, 1))
def test_advantages_are_their_definition(seed, discount, trace):
    rng = np.random.default_rng(seed)
    cumulant, value, next_value = rng.normal(size=(3, 20, 2))
    ended = rng.uniform(size=(20, 2)) < 0.2
    advantage, target = advantages_of(cumulant, value, next_value, ended, discount, trace)
    expected = by_definition(cumulant, value, next_value, ended, discount, trace)
    np.testing.assert_allclose(advantage, expected, atol=1e-4)
    np.testing.assert_allclose(target, expected + value, atol=1e-4)


@given(seeds, st.integers(2, 500), st.floats(-100, 100), st.floats(0.1, 100))
def test_normalised_advantages_have_mean_zero_and_unbiased_deviation_one(seed, size, mean, deviation):
    drawn = np.random.default_rng(seed).normal(mean, deviation, size=size)
    found = np.asarray(normalised(drawn.astype(np.float32)), float)
    assert abs(found.mean()) < 2e-4 * (1 + abs(mean) / deviation)
    assert np.std(found, ddof=1) == pytest.approx(1, abs=1e-3)


def test_normalising_equal_advantages_gives_zero():
    np.testing.assert_array_equal(normalised(np.full(8, 3.0, np.float32)), np.zeros(8))


# --- as the update evaluates them -------------------------------------------------------------------------


def critic_of(slope):
    """V(s) = slope · x, by a critic without hidden layers."""
    params = initial_params(1, 1, (), True, 0)
    params["critic"]["w0"][:] = slope
    return params


def batch_of(x, next_x, cumulant, ended, worthless):
    return Batch(
        np.asarray(x, np.float32)[..., None],
        np.asarray(next_x, np.float32)[..., None],
        np.zeros(np.shape(x), np.int32),
        np.asarray(cumulant, np.float32),
        np.asarray(ended),
        np.asarray(worthless),
    )


def evaluated(params, batch, averages, **settings):
    value = state_values(params, batch.x)
    made = Settings(num_steps=4, num_envs=2, minibatches=1, **settings)
    return value, *_evaluate(params, value, batch, averages, made)


def test_terminated_is_worth_nothing_and_cut_off_is_bootstrapped():
    # The example above, with V(s) = 2x; the critic would say 6 of the state that ended, had it gone on.
    next_x = NEXT_VALUE / 2
    next_x[1, 0] = 3.0
    terminated = ENDED & np.array([True, False])
    batch = batch_of(VALUE / 2, next_x, CUMULANT, ENDED, terminated)
    zero = Averages(np.float32(0), np.float32(0))
    value, advantage, target, averages = evaluated(critic_of(2.0), batch, zero, gamma=0.5, gae_lambda=0.5)
    np.testing.assert_allclose(value, VALUE, rtol=1e-6)
    np.testing.assert_allclose(advantage, ADVANTAGE, rtol=1e-6)
    np.testing.assert_allclose(target, ADVANTAGE + VALUE, rtol=1e-6)
    assert averages == zero
    # Cut off counted as worthless: its δ is 0 + 0 − 2 = −2, so Â of the second is −4+1.5/4, 2−2/4, −2, −3.
    batch = batch._replace(worthless=ENDED)
    _, advantage, _, _ = evaluated(critic_of(2.0), batch, zero, gamma=0.5, gae_lambda=0.5)
    np.testing.assert_allclose(advantage[:, 1], [-3.625, 1.5, -2.0, -3.0], rtol=1e-6)
    np.testing.assert_allclose(advantage[:, 0], ADVANTAGE[:, 0], rtol=1e-6)


def test_average_critic_by_hand():
    # Mean cumulant 13/8 = 1.625, mean value 20/8 = 2.5. With rate ½ from (1, 4): ρ = 1 + ½·0.625 = 1.3125 and
    # v = 4 + ½·(−1.5) = 3.25. γ = 1, λ = ½, δ = c − ρ + V' − V; the value after an end is that of the next episode.
    batch = batch_of(VALUE / 2, NEXT_VALUE / 2, CUMULANT, ENDED, ENDED)
    before = Averages(np.float32(1), np.float32(4))
    chosen = {"critic": "average", "average_rate": 0.5, "average_pull": 0.2, "gamma": 0.9, "gae_lambda": 0.5}
    _, advantage, target, averages = evaluated(critic_of(2.0), batch, before, **chosen)
    np.testing.assert_allclose(averages[:2], [1.3125, 3.25], rtol=1e-6)
    delta = CUMULANT - 1.3125 + NEXT_VALUE - VALUE
    # δ, first: 1.6875, −3.3125, 3.6875, 6.6875.  second: −5.3125, 1.6875, 4.6875, −3.3125.
    np.testing.assert_allclose(delta[:, 0], [1.6875, -3.3125, 3.6875, 6.6875])
    np.testing.assert_allclose(delta[:, 1], [-5.3125, 1.6875, 4.6875, -3.3125])
    # Â = δ + ½ Â' within an episode. First: 1.6875 − 1.65625, δ, 3.6875 + 3.34375, δ.
    # Second: from the back −3.3125; 4.6875; 1.6875 + 2.34375 = 4.03125; −5.3125 + 2.015625.
    expected = np.array([[0.03125, -3.296875], [-3.3125, 4.03125], [7.03125, 4.6875], [6.6875, -3.3125]])
    np.testing.assert_allclose(advantage, expected, rtol=1e-5)
    # Targets are pulled by 0.2 v = 0.65.
    np.testing.assert_allclose(target, expected + VALUE - 0.65, rtol=1e-5)


def test_average_critic_does_not_care_about_the_level_of_the_cumulant():
    """With ρ at its mean a constant added to every cumulant changes nothing."""
    batch = batch_of(VALUE / 2, NEXT_VALUE / 2, CUMULANT, ENDED, ENDED)
    chosen = {"critic": "average", "average_rate": 1.0, "gae_lambda": 0.5}
    zero = Averages(np.float32(0), np.float32(0))
    _, advantage, target, _ = evaluated(critic_of(2.0), batch, zero, **chosen)
    lifted = batch._replace(cumulant=batch.cumulant + 5)
    _, again, target_again, averages = evaluated(critic_of(2.0), lifted, zero, **chosen)
    np.testing.assert_allclose(averages.cumulant, CUMULANT.mean() + 5, rtol=1e-6)
    np.testing.assert_allclose(again, advantage, atol=1e-5)
    np.testing.assert_allclose(target_again, target, atol=1e-5)
