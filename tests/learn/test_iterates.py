"""The iterates that are stored, mixtures that share steps equally, and cloning."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdcontest.learn.cloning import CloningBuffer, clone
from mdcontest.learn.iterates import Iterates, Mixture
from mdcontest.learn.networks import initial_params, log_probability
from mdcontest.learn.policy import Moments, Policy, Unchanged
from mdcontest.settings import Settings

# --- iterates ---------------------------------------------------------------------------------------------


def actor_of(seed, discrete=False):
    rng = np.random.default_rng(seed)
    actor = initial_params(4, 2, (6,), discrete, seed)["actor"]
    return {name: (value + rng.normal(size=value.shape)).astype(np.float32) for name, value in actor.items()}


def moments_of(seed, kind=Moments):
    moments = kind(4)
    for vector in np.random.default_rng(seed).normal(3, 2, size=(20, 4)):
        moments.add(vector)
    return moments


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("kind", [Moments, Unchanged])
def test_iterates_come_back_as_they_were_stored(discrete, kind):
    iterates = Iterates(actor_of(0, discrete), kind(4))
    stored = [(actor_of(seed, discrete), moments_of(seed, kind)) for seed in range(5)]
    for length, (actor, moments) in enumerate(stored, 1):
        iterates.append(actor, moments, length)
    assert len(iterates) == 5
    np.testing.assert_array_equal(iterates.mean_lengths(), [1, 2, 3, 4, 5])
    seen = np.random.default_rng(9).normal(3, 2, size=(8, 4))
    for k, (actor, moments) in enumerate(stored):
        again, policy = iterates.policy(k), Policy(actor, moments)
        assert type(again.moments) is kind
        np.testing.assert_allclose(again.moments.mean, moments.mean, rtol=1e-13)
        np.testing.assert_allclose(again.moments.variance, moments.variance, rtol=1e-13)
        x = policy.moments.normalise(seen)
        np.testing.assert_array_equal(again.head(x.copy()), policy.head(x.copy()))  # weights are float32 already
        np.testing.assert_array_equal(again._deviation, policy._deviation)
        np.testing.assert_allclose(again.moments.normalise(seen), x, atol=1e-5)


def mixture_of(lengths):
    actor, moments = actor_of(0), Moments(4)
    iterates = Iterates(actor, moments)
    for length in lengths:
        iterates.append(actor, moments, length)
    return Mixture(iterates)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=8))
def test_iterates_are_drawn_inversely_to_the_length_of_their_episodes(lengths):
    found = mixture_of(lengths).iterates.draw_probabilities()
    assert found.sum() == pytest.approx(1, abs=1e-12)
    # p_k · length_k is the same for all: in the long run each has the same share of steps.
    shares = found * np.array(lengths)
    np.testing.assert_allclose(shares, shares[0], rtol=1e-6)


def test_episodes_of_ten_and_of_a_thousand_steps_share_the_steps_equally():
    # Lengths are geometric around their means, 10 and 1000. The short one is drawn with 100/101.
    mixture, rng = mixture_of([10, 1000]), np.random.default_rng(0)
    np.testing.assert_allclose(mixture.iterates.draw_probabilities(), [100 / 101, 1 / 101], rtol=1e-6)
    drawn = mixture.draw(rng, 400_000)
    steps = rng.geometric(1 / np.array([10, 1000])[drawn])
    # About 4,000 long episodes: their sum has a relative deviation of √2/√4000 = 0.022.
    assert steps[drawn == 0].sum() / steps.sum() == pytest.approx(0.5, abs=0.04)


def test_a_mixture_notices_new_iterates():
    mixture, rng = mixture_of([5]), np.random.default_rng(0)
    assert set(mixture.draw(rng, 50).tolist()) == {0}
    mixture.iterates.append(actor_of(1), Moments(4), 5)
    assert set(mixture.draw(rng, 50).tolist()) == {0, 1}


def test_a_mixture_keeps_some_policies_and_reads_the_others_again(monkeypatch):
    monkeypatch.setattr(Mixture, "KEPT", 2)
    iterates = Iterates(actor_of(0), Moments(4))
    for seed in range(4):
        iterates.append(actor_of(seed), Moments(4), 1)
    mixture, x = Mixture(iterates), np.ones((1, 4), np.float32)
    for k in (0, 1, 2, 3, 0, 2, 2, 1):
        np.testing.assert_array_equal(mixture.policy(k).act(x, None), iterates.policy(k).act(x, None))
        assert len(mixture._loaded) <= 2


@pytest.mark.parametrize(
    ("ended", "lengths"),
    [
        ([[3, 5], [], [], [10]], [4, 4, 4, 10]),  # none ended: the length known last
        ([[], [], [6], []], [6, 6, 6, 6]),  # none has ended yet: the first one known
        ([[], [], []], [1, 1, 1]),  # none ever ends: all count the same
    ],
)
def test_an_iterate_that_saw_no_episode_end_takes_the_length_of_another(ended, lengths):
    actor, moments = initial_params(2, 1, (3,), False, 0)["actor"], Moments(2)
    iterates = Iterates(actor, moments)
    for found in ended:
        iterates.append(actor, moments, found)
    np.testing.assert_allclose(iterates.mean_lengths(), lengths)


def test_statistics_keep_their_digits():
    """Observations around 1.7e9 with a deviation of 5: float32 alone would be off by up to 64."""
    actor, moments = initial_params(1, 1, (3,), False, 0)["actor"], Moments(1)
    for value in 1.7e9 + 5 * np.random.default_rng(0).standard_normal(200):
        moments.add(np.array([value]))
    iterates = Iterates(actor, moments)
    iterates.append(actor, moments, [7])
    x = np.array([[1.7e9 + 1.0]])
    np.testing.assert_allclose(iterates.policy(0).moments.normalise(x), moments.normalise(x), rtol=1e-5)


# --- cloning ----------------------------------------------------------------------------------------------


def buffer_of(obs, action):
    buffer = CloningBuffer(obs.shape[1] + (1 if action.ndim == 1 else action.shape[1]))
    buffer.append(np.hstack([obs, action.reshape(len(obs), -1)]))
    return buffer


def known_data(discrete, count=1024):
    """Observations away from 0 and 1, and the actions of a policy that is not the one to start from."""
    rng = np.random.default_rng(0)
    obs = rng.normal(5.0, 3.0, size=(count, 4))
    moments = Moments.of(obs.mean(axis=0), obs.var(axis=0))
    teacher = actor_of(1, discrete)
    if not discrete:
        teacher["log_std"][:] = -1.0
    policy = Policy(teacher, moments)
    x = moments.normalise(obs)
    return obs, x, moments, policy, policy.act(x, policy.noise(rng, count))


def likelihood(actor, x, action):
    return float(np.mean(log_probability(actor, x, action)[0]))


@pytest.mark.parametrize("discrete", [False, True])
def test_cloning_approaches_the_policy_of_the_data(discrete):
    obs, x, moments, teacher, action = known_data(discrete)
    start = initial_params(4, 2, (16,), discrete, 7)["actor"]
    settings = Settings(cloning_minibatches=16)
    cloned = clone(buffer_of(obs, action), start, moments, settings, np.random.default_rng(0))
    kind = action.astype(np.int32) if discrete else action
    before, after = likelihood(start, x, kind), likelihood(cloned, x, kind)
    assert after > before + 0.1
    pupil = Policy(cloned, moments)
    if discrete:
        distance = np.abs(pupil.probabilities(obs) - teacher.probabilities(obs)).mean()
        assert distance < 0.3 * np.abs(Policy(start, moments).probabilities(obs) - teacher.probabilities(obs)).mean()
    else:
        distance = np.abs(pupil.head(x.copy()) - teacher.head(x.copy())).mean()
        assert distance < 0.2 * np.abs(teacher.head(x.copy())).mean()
        np.testing.assert_allclose(cloned["log_std"], -1.0, atol=0.15)


def test_cloning_leaves_its_start_alone_and_repeats_itself():
    obs, _, moments, _, action = known_data(False, 64)
    start = initial_params(4, 2, (16,), False, 7)["actor"]
    before = {name: value.copy() for name, value in start.items()}
    settings = Settings(cloning_minibatches=4, cloning_epochs=2)
    first = clone(buffer_of(obs, action), start, moments, settings, np.random.default_rng(3))
    again = clone(buffer_of(obs, action), start, moments, settings, np.random.default_rng(3))
    for name in start:
        np.testing.assert_array_equal(start[name], before[name])
        np.testing.assert_array_equal(first[name], again[name])
    assert any(not np.array_equal(first[name], start[name]) for name in start)
