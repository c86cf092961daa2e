"""The policy that acts in NumPy against the network in JAX, its distributions against SciPy, its statistics."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from mdcontest.learn.networks import apply_layers, initial_params, log_probability, state_values
from mdcontest.learn.policy import Moments, Policy, Unchanged
from strategies import seeds


def random_params(seed, inputs=5, actions=3, hidden=(16, 8), discrete=False):
    """Parameters away from their initial values, so that biases and deviations matter."""
    rng = np.random.default_rng(seed)
    params = initial_params(inputs, actions, hidden, discrete, seed)
    return {
        part: {name: (value + 0.5 * rng.normal(size=value.shape)).astype(np.float32) for name, value in layers.items()}
        for part, layers in params.items()
    }


# --- statistics -------------------------------------------------------------------------------------------


@given(seeds, st.integers(2, 60), st.floats(-1e4, 1e4), st.floats(1e-2, 1e3))
def test_moments_are_mean_and_variance(seed, count, level, deviation):
    seen = np.random.default_rng(seed).normal(level, deviation, size=(count, 3))
    moments = Moments(3)
    for vector in seen:
        moments.add(vector)
    assert moments.count == count
    np.testing.assert_allclose(moments.mean, seen.mean(axis=0), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(moments.variance, seen.var(axis=0), rtol=1e-6)
    expected = (seen - seen.mean(axis=0)) / np.sqrt(seen.var(axis=0) + 1e-8)
    np.testing.assert_allclose(moments.normalise(seen), np.clip(expected, -10, 10), rtol=1e-4, atol=1e-4)


def test_normalising_clips_at_ten_deviations_and_takes_one_vector_or_many():
    moments = Moments.of(np.array([1.0, 0.0]), np.array([4.0, 1.0]))
    np.testing.assert_allclose(moments.normalise(np.array([5.0, -1e6])), [2.0, -10.0], rtol=1e-6)
    many = moments.normalise(np.array([[5.0, 0.5], [1e6, 0.0]]))
    np.testing.assert_allclose(many, [[2.0, 0.5], [10.0, 0.0]], rtol=1e-6)
    assert many.dtype == np.float32


def test_before_two_observations_the_deviation_counts_as_one():
    moments = Moments(2)
    np.testing.assert_allclose(moments.normalise(np.array([3.0, -2.0])), [3.0, -2.0], rtol=1e-6)
    moments.add(np.array([3.0, -2.0]))
    np.testing.assert_allclose(moments.normalise(np.array([4.0, -2.0])), [1.0, 0.0], rtol=1e-6)


def test_unchanged_leaves_observations_alone():
    unchanged = Unchanged(2)
    for value in (5.0, 7.0, 1e5):
        unchanged.add(np.array([value, value]))
    np.testing.assert_array_equal(unchanged.normalise(np.array([123.0, -456.0])), [123.0, -456.0])


# --- networks ---------------------------------------------------------------------------------------------


@given(seeds, st.sampled_from([(), (8,), (16, 8), (64, 64)]), st.booleans())
def test_the_acting_policy_is_the_network(seed, hidden, discrete):
    params = random_params(seed, hidden=hidden, discrete=discrete)
    x = np.random.default_rng(seed).normal(size=(7, 5)).astype(np.float32)
    policy = Policy(params["actor"], Unchanged(5))
    np.testing.assert_allclose(policy.head(x.copy()), apply_layers(params["actor"], x), rtol=1e-5, atol=1e-5)


def test_acting_leaves_observations_and_weights_alone():
    for hidden in ((), (8,)):
        params = random_params(0, hidden=hidden)
        policy, x = Policy(params["actor"], Unchanged(5)), np.ones((2, 5), np.float32)
        before = {name: value.copy() for name, value in params["actor"].items()}
        first = policy.act(x, None)
        np.testing.assert_array_equal(policy.act(x, None), first)
        np.testing.assert_array_equal(x, np.ones((2, 5)))
        for name, value in params["actor"].items():
            np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("shape", [(5, 64), (64, 5), (64, 64), (105, 64)])
def test_orthogonal_initialisation(shape):
    # Gain √2: the shorter side is orthogonal with length √2; the last layers have 0.01 (policy) and 1 (critic).
    inputs, width = shape
    params = initial_params(inputs, 3, (width, width), False, 0)

    def lengths(w):
        w = np.asarray(w, float)
        gram = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-5)
        return np.sqrt(np.diag(gram))

    for part in ("actor", "critic"):
        np.testing.assert_allclose(lengths(params[part]["w0"]), np.sqrt(2), rtol=1e-5)
        np.testing.assert_allclose(lengths(params[part]["w1"]), np.sqrt(2), rtol=1e-5)
        assert all(not params[part][name].any() for name in ("b0", "b1", "b2"))
    np.testing.assert_allclose(lengths(params["actor"]["w2"]), 0.01, rtol=1e-5)
    np.testing.assert_allclose(lengths(params["critic"]["w2"]), 1.0, rtol=1e-5)
    assert params["critic"]["w2"].shape == (width, 1)
    np.testing.assert_array_equal(params["actor"]["log_std"], np.zeros(3))
    assert all(value.dtype == np.float32 for layers in params.values() for value in layers.values())


def test_a_discrete_policy_has_no_deviation_and_starts_nearly_uniform():
    params = initial_params(4, 3, (64, 64), True, 0)
    assert "log_std" not in params["actor"]
    probabilities = Policy(params["actor"], Unchanged(4)).probabilities(np.random.default_rng(0).normal(size=(50, 4)))
    np.testing.assert_allclose(probabilities, 1 / 3, atol=0.02)


def test_values_have_the_shape_of_the_batch():
    params = random_params(0)
    x = np.random.default_rng(0).normal(size=(4, 2, 5)).astype(np.float32)
    assert state_values(params, x).shape == (4, 2)
    np.testing.assert_allclose(state_values(params, x)[1, 1], state_values(params, x[1, 1]), rtol=1e-5)


# --- distributions ----------------------------------------------------------------------------------------


@given(seeds)
def test_log_probabilities_of_box_actions_are_normal(seed):
    actor = random_params(seed)["actor"]
    rng = np.random.default_rng(seed)
    x, action = rng.normal(size=(6, 5)).astype(np.float32), rng.normal(size=(6, 3)).astype(np.float32)
    found, entropy = log_probability(actor, x, action)
    normal = scipy.stats.norm(np.asarray(apply_layers(actor, x), float), np.exp(actor["log_std"].astype(float)))
    np.testing.assert_allclose(found, normal.logpdf(action).sum(axis=1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(entropy, normal.entropy().sum(axis=1), rtol=1e-5, atol=1e-5)


@given(seeds)
def test_log_probabilities_of_discrete_actions_are_categorical(seed):
    actor = random_params(seed, discrete=True)["actor"]
    rng = np.random.default_rng(seed)
    x, action = rng.normal(size=(6, 5)).astype(np.float32), rng.integers(3, size=6)
    found, entropy = log_probability(actor, x, action)
    probabilities = scipy.special.softmax(np.asarray(apply_layers(actor, x), float), axis=1)
    for i in range(6):
        one = scipy.stats.multinomial(1, probabilities[i] / probabilities[i].sum())
        assert found[i] == pytest.approx(one.logpmf(np.eye(3)[action[i]]), abs=1e-4)
        assert entropy[i] == pytest.approx(scipy.stats.entropy(probabilities[i]), abs=1e-4)
    np.testing.assert_allclose(Policy(actor, Unchanged(5)).probabilities(x), probabilities, atol=1e-5)


@given(seeds, st.integers(1, 6), st.floats(0.1, 1000))
def test_probabilities_sum_to_one(seed, actions, scale):
    actor = random_params(seed, actions=actions, discrete=True)["actor"]
    seen = scale * np.random.default_rng(seed).normal(size=(9, 5))
    probabilities = Policy(actor, Unchanged(5)).probabilities(seen)
    assert probabilities.shape == (9, actions)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    assert probabilities.min() >= 0


def test_discrete_draws_have_the_softmax_frequencies():
    policy = Policy(random_params(3, discrete=True)["actor"], Unchanged(5))
    x, n = np.random.default_rng(5).normal(size=5).astype(np.float32), 40_000
    expected = policy.probabilities(x[None].astype(float))[0]
    assert 0.01 < expected.min() < expected.max() < 0.9
    drawn = policy.act(np.tile(x, (n, 1)), policy.noise(np.random.default_rng(0), n))
    # Deviation at most 0.5/√40,000 = 0.0025.
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / n, expected, atol=0.01)
    np.testing.assert_array_equal(policy.act(x[None], None), [np.argmax(expected)])


def test_box_draws_have_the_mean_and_deviation_of_the_network():
    actor = random_params(3)["actor"]
    policy, n = Policy(actor, Unchanged(5)), 40_000
    x = np.random.default_rng(5).normal(size=5).astype(np.float32)
    drawn = policy.act(np.tile(x, (n, 1)), policy.noise(np.random.default_rng(0), n))
    deviation = np.exp(actor["log_std"].astype(float))
    np.testing.assert_allclose(drawn.mean(axis=0), apply_layers(actor, x), atol=0.02 * deviation.max())
    np.testing.assert_allclose(drawn.std(axis=0), deviation, rtol=0.02)
    np.testing.assert_allclose(policy.act(x[None], None)[0], apply_layers(actor, x), atol=1e-5)


def test_an_updated_policy_acts_with_the_new_weights():
    old, new = random_params(0)["actor"], random_params(1)["actor"]
    policy, x = Policy(old, Unchanged(5)), np.ones((1, 5), np.float32)
    policy.update(new)
    np.testing.assert_array_equal(policy.act(x, None), Policy(new, Unchanged(5)).act(x, None))
