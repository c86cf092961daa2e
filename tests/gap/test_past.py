"""What a run would have returned earlier: the same as a run that was shorter."""

import numpy as np
import pytest

import mdcontest as mdc
from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.learn import HPIClip
from mdcontest.learn.past import past_policy
from mdcontest.learn.play import sample_trajectories
from small_games import TINY

EQUAL = {**TINY, "anneal": False}
"""Without annealing the first iterations do not depend on how many there will be."""


def trained(name, iterations, seed=4, **settings):
    task = tasks.make(name)
    agent = HPIClip(task, seed, **{**EQUAL, **settings})
    return agent.learn(iterations * 64, progress=False)


def same_weights(one, other):
    assert set(one.weights) == set(other.weights)
    for name, value in one.weights.items():
        np.testing.assert_array_equal(value, other.weights[name])


@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("name", ["RPSCorridor", "RPSContinuous"])
def test_the_last_iterate_is_that_of_a_shorter_run(name, k):
    short, long = trained(name, k, returned="last"), trained(name, 6, returned="last")
    past = past_policy(long, k * 64, "last")
    assert (past.steps, past.returned, past.is_mixture) == (k * 64, "last", False)
    same_weights(past.policy, short.policy)
    same_weights(past.last, short.policy)
    # A stored iterate has the statistics of observations as they were after the rollout it was sampled in, one later.
    if name == "RPSCorridor" or k == 6:
        np.testing.assert_array_equal(past.policy.moments.mean, short.policy.moments.mean)
    else:
        np.testing.assert_allclose(past.policy.moments.mean, short.policy.moments.mean, atol=0.5)


@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("name", ["RPSCorridor", "RPSContinuous"])
def test_the_mixture_is_that_of_a_shorter_run(name, k):
    short, long = trained(name, k, returned="mixture"), trained(name, 6, returned="mixture")
    past = past_policy(long, k * 64)
    assert past.is_mixture
    assert len(past.iterates) == k
    np.testing.assert_array_equal(past.iterates.draw_probabilities(), short.learner.iterates.draw_probabilities())
    for j in range(k):
        one, other = past.iterates.policy(j), short.learner.iterates.policy(j)
        same_weights(one, other)
        np.testing.assert_array_equal(one.moments.mean, other.moments.mean)
        np.testing.assert_array_equal(one.moments.variance, other.moments.variance)
    played = [sample_trajectories(player.task, player, 10, seed=3).outcomes for player in (past, short)]
    np.testing.assert_array_equal(played[0].obs, played[1].obs)
    np.testing.assert_array_equal(played[0].action, played[1].action)


def test_the_decision_rule_of_a_past_mixture():
    short, long = trained("RPSCorridor", 3), trained("RPSCorridor", 6)
    past = past_policy(long, 3 * 64, "mixture")
    np.testing.assert_allclose(past.decision_rule(), short.decision_rule(), atol=1e-12)
    contest = long.task.contest()
    rules = [past.iterates.policy(j).probabilities(np.eye(3)) for j in range(3)]
    average = sum(mdc.occupancy(contest, rule) for rule in rules) / 3
    np.testing.assert_allclose(mdc.occupancy(contest, past.decision_rule()), average, atol=1e-9)
    last = past_policy(long, 3 * 64, "last")
    np.testing.assert_allclose(last.decision_rule(), last.policy.probabilities(np.eye(3)))
    with pytest.raises(InputError, match="no finite model"):
        past_policy(trained("RPSContinuous", 1), 64).decision_rule()


CLONED = {"returned": "cloned", "cloning_epochs": 5, "cloning_minibatches": 8}


def test_at_its_end_the_clone_is_the_agents_own():
    agent = trained("RPSCorridor", 4, **CLONED)
    same_weights(past_policy(agent, 4 * 64).policy, agent.policy)
    np.testing.assert_allclose(past_policy(agent, 4 * 64).decision_rule(), agent.decision_rule())


def test_an_earlier_clone_imitates_the_same_outcomes_as_a_shorter_run():
    # The order of the minibatches differs, so the weights do; the rules are those of 192 outcomes both times.
    short, long = trained("RPSCorridor", 3, **CLONED), trained("RPSCorridor", 6, **CLONED)
    past = past_policy(long, 3 * 64)
    np.testing.assert_allclose(past.decision_rule(), short.decision_rule(), atol=0.1)
    contest = long.task.contest()
    between = mdc.occupancy(contest, past.decision_rule()) - mdc.occupancy(contest, short.decision_rule())
    assert np.abs(between).sum() < 0.15
    same_weights(past.last, short.learner.policy)


def test_an_earlier_clone_is_the_same_every_time():
    one, other = (past_policy(trained("RPSCorridor", 4, **CLONED), 2 * 64) for _ in range(2))
    same_weights(one.policy, other.policy)


@pytest.mark.parametrize("kind", ["last", "mixture", "cloned"])
def test_at_the_start_it_is_the_first_policy(kind):
    agent = trained("RPSCorridor", 2, **CLONED)
    past = past_policy(agent, 0, kind)
    same_weights(past.policy, HPIClip(agent.task, 4, **EQUAL).policy)
    assert not past.is_mixture
    past.predict(0)


def test_steps_count_in_whole_iterations():
    agent = trained("RPSCorridor", 3)
    found = [past_policy(agent, steps) for steps in (0, 63, 64, 127, 192, 255)]
    assert [past.steps for past in found] == [0, 0, 64, 64, 192, 192]


def test_what_cannot_be_had():
    agent = trained("RPSCorridor", 3)
    for steps in (-1, 256, 10**9):
        with pytest.raises(InputError, match=f"192 steps so far, none at {steps}"):
            past_policy(agent, steps)
    with pytest.raises(InputError, match="one of last, mixture, cloned, got 'best'"):
        past_policy(agent, 64, "best")
    with pytest.raises(InputError, match="no outcomes to clone from"):
        past_policy(agent, 64, "cloned")


def test_going_on_does_not_change_the_past():
    agent = trained("RPSCorridor", 2, returned="mixture")
    past = past_policy(agent, 128)
    before = past.decision_rule()
    weights = {name: value.copy() for name, value in past.last.weights.items()}
    agent.learn(128, progress=False)
    np.testing.assert_array_equal(past.decision_rule(), before)
    for name, value in weights.items():
        np.testing.assert_array_equal(past.last.weights[name], value)


@pytest.mark.parametrize("kind", ["last", "mixture", "cloned"])
def test_many_can_be_had_of_one_agent(kind):
    """One that is no longer needed takes nothing from the agent."""
    agent = trained("RPSCorridor", 3, **CLONED)
    for steps in (64, 128, 64, 192):
        past_policy(agent, steps, kind).predict(0)
    agent.learn(64, progress=False)
    assert len(agent.learner.iterates) == 4
