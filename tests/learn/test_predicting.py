"""What an agent predicts: one action or a batch, from a seed, of a mixture, of a cloned policy."""

import numpy as np
import pytest

import mdcontest as mdc
from learn.trained_agents import SMALL, rps_agent, trained
from mdcontest import tasks
from mdcontest.learn import PPO, HPIClip
from mdcontest.learn.loading import same_parameters


def test_one_observation_gives_one_action_and_a_batch_a_batch():
    agent = trained(PPO, tasks.make("Reacher-v5"))
    space = agent.task.make_env().action_space
    action, state = agent.predict(np.zeros(10))
    assert state is None
    assert space.contains(action)
    actions, state = agent.predict(np.zeros((4, 10)))
    assert actions.shape == (4, 2)
    assert actions.dtype == np.float32
    assert all(space.contains(one) for one in actions)
    assert len(np.unique(actions, axis=0)) == 4  # drawn each for itself
    same, _ = agent.predict(np.zeros((4, 10)), deterministic=True)
    np.testing.assert_array_equal(same, same[[0, 0, 0, 0]])


def test_deterministic_actions_are_the_means_clipped_into_the_box():
    agent = trained(PPO, tasks.make("RPSContinuous"))
    seen = np.linspace(-1, 1, 9)[:, None]
    policy = agent.learner.policy
    found, _ = agent.predict(seen, deterministic=True)
    np.testing.assert_array_equal(found, np.clip(policy.act(policy.moments.normalise(seen), None), -1, 1))
    np.testing.assert_array_equal(agent.predict(seen, deterministic=True)[0], found)


def test_predictions_repeat_from_a_seed():
    agent, seen = rps_agent(), np.zeros((50, 1))
    agent.seed_predictions(3)
    actions, state = agent.predict(seen)
    agent.seed_predictions(3)
    again, state_again = agent.predict(seen)
    np.testing.assert_array_equal(actions, again)
    np.testing.assert_array_equal(state, state_again)
    assert not np.array_equal(agent.predict(seen)[0], actions)


@pytest.mark.parametrize("seed", [-1, 1.5, "x", None, True])
def test_predictions_repeat_from_a_whole_number_only(seed):
    with pytest.raises(mdc.InputError, match="seed must be a whole number, not negative, got"):
        rps_agent().seed_predictions(seed)


def test_a_mixture_plays_one_iterate_an_episode():
    agent, seen = rps_agent(), np.zeros((600, 1))
    agent.seed_predictions(0)
    _, state = agent.predict(seen)
    assert set(state.tolist()) == set(range(12))
    for episode_start in (None, False, np.zeros(600, bool)):
        _, kept = agent.predict(seen, state, episode_start)
        np.testing.assert_array_equal(kept, state)
    starts = np.arange(600) % 2 == 0
    before = state.copy()
    _, drawn = agent.predict(seen, state, starts)
    np.testing.assert_array_equal(state, before)  # the caller's own
    np.testing.assert_array_equal(drawn[~starts], state[~starts])
    # 300 drawn anew from 12: about one in twelve is the same by chance.
    assert 0 < (drawn[starts] == state[starts]).mean() < 0.25
    _, drawn = agent.predict(seen, state, True)
    assert (drawn == state).mean() < 0.25


def test_a_mixture_plays_the_iterate_of_its_state():
    agent = rps_agent()
    seen = np.linspace(-1, 1, 36)[:, None]
    state = np.arange(36) % 12
    found, _ = agent.predict(seen, state, deterministic=True)
    np.testing.assert_array_equal(agent.predict(seen, state, deterministic=True)[0], found)
    for i in range(36):
        policy = agent.learner.iterates.policy(int(state[i]))
        expected = np.clip(policy.act(policy.moments.normalise(seen[i : i + 1]), None), -1, 1)[0]
        np.testing.assert_allclose(found[i], expected, atol=1e-6)


def test_an_agent_predicts_before_it_has_learned():
    for kind in (PPO, HPIClip):
        action, state = kind(tasks.make("RPSContinuous"), **SMALL).predict(np.zeros(1))
        assert action.shape == (1,)
        assert state is None


def test_the_last_policy_and_the_cloned_one_are_returned_where_asked():
    agent = trained(HPIClip, tasks.make("RPSContinuous"), returned="cloned", cloning_epochs=1)
    x = np.ones((1, 1), np.float32)
    assert not np.array_equal(agent.policy.head(x.copy()), agent.learner.policy.head(x.copy()))
    last = trained(HPIClip, tasks.make("RPSContinuous"), returned="last")
    assert last.policy is last.learner.policy
    assert same_parameters(agent, last)  # cloning comes after, and draws from a stream of its own


TOO_FEW = SMALL | {"num_steps": 8, "returned": "cloned", "cloning_epochs": 1, "cloning_minibatches": 32}


def test_too_few_outcomes_to_clone_are_refused_before_training():
    agent = HPIClip(tasks.make("RPSContinuous"), **TOO_FEW)
    with pytest.raises(mdc.InputError, match="cloning_minibatches = 32 is more than the 8 outcomes"):
        agent.learn(8, progress=False)
    assert agent.num_timesteps == 0


def test_a_refused_call_leaves_nothing_to_finish():
    agent = HPIClip(tasks.make("RPSContinuous"), **TOO_FEW)
    with pytest.raises(mdc.InputError):
        agent.learn(8, progress=False)
    assert agent.call == (0, 0)


def test_stopping_with_too_few_outcomes_to_clone_does_not_pass_the_last_policy_for_a_cloned_one():
    agent = HPIClip(tasks.make("RPSContinuous"), **TOO_FEW)
    agent.learn(80, progress=False, callback=lambda agent, progress: False)
    last = agent.learner.params["actor"]
    assert agent.learner.cloned is None or any(not np.array_equal(agent.learner.cloned[k], last[k]) for k in last)
