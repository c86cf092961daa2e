"""Training against fixed episodes: the reward it is given, what it maximises, where it begins and when it stops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest import tasks
from mdcontest.gap.averages import step_average
from mdcontest.gap.best_response import (
    RECENT,
    SETTINGS,
    _continue_from,
    can_continue_from,
    challenge,
    train_best_response,
)
from mdcontest.learn import HPIClip
from mdcontest.learn.play import sample_trajectories
from mdcontest.margins import Classes, LowRank, RewardDifference, Signs
from mdcontest.tasks.task import reward_difference
from small_games import RPS, TINY, Always, MayEnd, classes, episodes_of, observed
from strategies import seeds

MARGINS = {
    "classes": (classes, lambda rng, n: rng.integers(3, size=n)),
    "signs": (lambda: Signs(observed, [0.3, -0.7], [None, 1.0]), lambda rng, n: rng.uniform(size=(n, 2))),
    "low rank": (lambda: LowRank(observed, RPS), lambda rng, n: rng.normal(size=(n, 3))),
    "function": (lambda: lambda z, w: np.sign(z.obs - w.obs), lambda rng, n: rng.normal(size=n)),
}


@given(st.sampled_from(sorted(MARGINS)), seeds, st.integers(1, 12), st.integers(1, 12))
def test_the_reward_is_the_mean_margin_over_their_outcomes(kind, seed, size, opponents):
    rng, (margin, draw) = np.random.default_rng(seed), MARGINS[kind]
    task = mdc.Task(lambda: None, margin(), name="game", ended=0.5, recommended={"gamma": 0.5})
    theirs, z = episodes_of(draw(rng, opponents), [opponents]), episodes_of(draw(rng, size), [size]).outcomes
    process = challenge(task, theirs)
    slow = [
        np.mean([task.margin.matrix(z[i : i + 1], theirs.outcomes[j : j + 1])[0, 0] for j in range(opponents)])
        for i in range(size)
    ]
    np.testing.assert_allclose(process.margin.rows(z), slow, atol=1e-12)
    np.testing.assert_allclose(process.cumulant(z, z), slow - np.mean(slow), atol=1e-12)
    assert process.ended is None
    assert not process.recommended


@pytest.mark.parametrize("name", ["RPSCorridor", "RPSContinuous"])
def test_the_learner_is_given_c_minus_its_mean(name):
    task = tasks.make(name)
    process = challenge(task, sample_trajectories(task, HPIClip(task, **TINY), 5))
    learner = HPIClip(process, 1, **TINY, **SETTINGS).learner
    learner.collector.start(learner.policy.moments)
    rollout = learner.collector.collect(learner.policy, learner.rngs["actions"], 0)
    batch = rollout.outcomes(process)
    c = process.margin.rows(batch)
    assert rollout.ended.any()  # the last steps of episodes are no exception
    np.testing.assert_allclose(learner._cumulant(rollout, batch).reshape(-1), c - c.mean(), atol=1e-12)


# --- the average a step, not the sum of an episode --------------------------------------------------------

QUICK = {"num_steps": 256, "minibatches": 4, "epochs": 4, "hidden": (16,), "learning_rate": 3e-3}


def may_end(first, later, **options):
    return mdc.Task(lambda: MayEnd(first, later), reward_difference(), name="may end", **options)


@pytest.mark.parametrize(
    ("first", "later", "best", "other"),
    [
        # Ending at once averages 1; going on averages (1 + 9/2)/10 = 0.55, though an episode then earns 5.5 instead.
        (1.0, 0.5, 1.0, 0.55),
        # Ending at once averages −1; going on averages (−1 − 9/10)/10 = −0.19, though an episode loses 1.9 instead.
        (-1.0, -0.1, -0.19, -1.0),
        # The same with everything 10 higher: what ends forgoes nothing, however much there is to earn.
        (9.0, 9.9, 9.81, 9.0),
    ],
)
def test_it_maximises_the_average_a_step(first, later, best, other):
    task = may_end(first, later)
    process = challenge(task, sample_trajectories(task, Always(0), 20))
    level = task.margin.rows(sample_trajectories(task, Always(0), 20).outcomes).mean()
    trained = train_best_response(process, 10_000, 0, QUICK)
    played = sample_trajectories(task, trained, 50, min_steps=4000, seed=5)
    average, variance = step_average(played, played.outcomes.reward)
    assert abs(average - best) < 0.15 * abs(best - other) + 4 * np.sqrt(variance)
    found, _ = step_average(played, process.margin.rows(played.outcomes))
    assert found == pytest.approx(average - level)


# --- where it begins --------------------------------------------------------------------------------------


def test_it_begins_with_the_weights_it_is_given():
    task = tasks.make("RPSContinuous")
    own = HPIClip(task, 3, **TINY).learn(640, progress=False)
    process = challenge(task, sample_trajectories(task, own, 3))
    start, settings = own.learner.policy, {**TINY, "anneal": False}
    assert can_continue_from(start, settings)
    trained = train_best_response(process, 64, 0, settings, start)
    first = trained.learner.iterates.policy(0)
    for name, weights in start.weights.items():
        np.testing.assert_array_equal(first.weights[name], weights)
        assert name == "log_std" or not np.array_equal(trained.learner.params["actor"][name], weights)
    # 640 observations count for 1000; 65 new ones move the mean by a few hundredths of a deviation.
    np.testing.assert_allclose(first.moments.mean, start.moments.mean, atol=0.1)
    new = train_best_response(process, 64, 0, settings)
    assert not np.array_equal(new.learner.iterates.policy(0).weights["w0"], start.weights["w0"])


def test_it_acts_as_the_policy_it_continues_from():
    task = tasks.make("RPSContinuous")
    own = HPIClip(task, 3, **TINY).learn(640, progress=False)
    before = {name: value.copy() for name, value in own.learner.policy.weights.items()}
    agent = HPIClip(challenge(task, sample_trajectories(task, own, 3)), 0, **TINY, **SETTINGS)
    _continue_from(agent, own.learner.policy)
    for place in (-0.9, 0.0, 0.4):
        one, other = (player.learner.policy for player in (own, agent))
        vector = np.array([[place]])
        np.testing.assert_allclose(
            one.act(one.moments.normalise(vector), None), other.act(other.moments.normalise(vector), None), rtol=1e-5
        )
    agent.learn(128, progress=False)
    for name, value in before.items():
        np.testing.assert_array_equal(own.learner.policy.weights[name], value)  # a copy is trained, not the policy


def test_only_a_network_of_the_same_shape_is_continued_from():
    task = tasks.make("RPSContinuous")
    policy = HPIClip(task, **TINY).learner.policy
    assert can_continue_from(policy, {"hidden": [8]})
    assert not can_continue_from(policy, {})
    assert not can_continue_from(policy, {"hidden": (8, 8)})
    assert not can_continue_from(policy, {"hidden": [8], "normalise_observations": False})
    without = HPIClip(task, **TINY, normalise_observations=False).learner.policy
    assert not can_continue_from(without, TINY)


# --- when it stops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_it_stops_at_the_ceiling(scale):
    # Against rock in every step, c is 0 in the first room, 1 in the second: no average is above 0.9.
    task = tasks.make("RPSCorridor")
    scaled = mdc.Task(task.env, Classes(observed, scale * RPS), name="scaled")
    process = challenge(scaled, episodes_of(np.zeros(10, int), [10]))

    def steps(ceiling):
        return train_best_response(process, 10 * 64, 0, TINY, ceiling=ceiling).num_timesteps

    assert steps(-np.inf) == RECENT * 64
    assert steps(-scale) == RECENT * 64
    assert steps(0.95 * scale) == 10 * 64
    assert steps(np.inf) == 10 * 64


def test_what_is_near_depends_on_the_ceiling_and_not_on_the_unit():
    """A policy that loses 0.004 at most is not 'within 0.005 of the ceiling' from the start."""
    process = challenge(may_end(0.0, -0.002, largest_reward=0.002), episodes_of(np.zeros(4), [4], np.full(4, -0.002)))
    trained = train_best_response(process, 10 * 64, 0, TINY, ceiling=0.004)
    assert trained.num_timesteps == 10 * 64


def test_the_level_it_stops_at_is_the_average_itself():
    # All steps are worth c = 0.5 − 0.2, whoever acts, so that a ceiling of 0.3 is reached and one of 0.31 never.
    task = mdc.Task(lambda: MayEnd(0.5, 0.5), RewardDifference(lambda z: z.reward), name="all alike")
    process = challenge(task, episodes_of(np.zeros(3), [3], np.full(3, 0.2)))
    reached = train_best_response(process, 10 * 64, 0, TINY, ceiling=0.3)
    missed = train_best_response(process, 10 * 64, 0, TINY, ceiling=0.31)
    assert (reached.num_timesteps, missed.num_timesteps) == (RECENT * 64, 10 * 64)


def test_it_is_judged_by_the_margin_that_is_asked_for():
    """The task's own margin likes action 1; the one in its place finds all steps alike, worth 0.5 − 0.2."""
    own = mdc.Task(lambda: MayEnd(0.5, 0.5), RewardDifference(lambda z: 9.0 * z.action), name="all alike")
    process = challenge(
        own.with_margin(RewardDifference(lambda z: z.reward)), episodes_of(np.zeros(3), [3], np.full(3, 0.2))
    )
    assert process.true is process
    reached = train_best_response(process, 10 * 64, 0, TINY, ceiling=0.3)
    missed = train_best_response(process, 10 * 64, 0, TINY, ceiling=0.31)
    assert (reached.num_timesteps, missed.num_timesteps) == (RECENT * 64, 10 * 64)
