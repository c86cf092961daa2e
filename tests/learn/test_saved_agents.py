"""An agent that was saved and loaded predicts, learns on and finishes its call like the one that was saved."""

import numpy as np
import pytest

from learn.stopped_runs import ITERATIONS, TINY, learn, rows_of, steps_of
from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.learn import HPIClip, load_agent
from mdcontest.learn.loading import same_parameters


@pytest.mark.parametrize("returned", ["last", "mixture", "cloned"])
@pytest.mark.parametrize("name", ["RPSContinuous", "RPSCorridor"])
def test_a_saved_agent_predicts_the_same(name, returned, tmp_path):
    settings = {"returned": returned, "cloning_minibatches": 4, "cloning_epochs": 2}
    agent = HPIClip(tasks.make(name), 2, **TINY, **settings).learn(ITERATIONS * 64, progress=False)
    agent.save(tmp_path / "saved")
    back = load_agent(tmp_path / "saved")
    env = agent.task.make_env()
    obs = np.array([env.observation_space.sample() for _ in range(20)])
    for one in (agent, back):
        one.seed_predictions(3)
    (actions, state), (others, other_state) = (one.predict(obs, deterministic=True) for one in (agent, back))
    np.testing.assert_array_equal(actions, others)
    np.testing.assert_array_equal(state, other_state)
    assert (state is None) == (returned != "mixture")
    np.testing.assert_array_equal(agent.mixture.iterates.rows.read(0, 6), back.mixture.iterates.rows.read(0, 6))
    np.testing.assert_array_equal(
        agent.mixture.iterates.draw_probabilities(), back.mixture.iterates.draw_probabilities()
    )
    assert same_parameters(agent, back)
    assert same_parameters(back.resume(progress=False), agent)


def test_a_saved_agent_learns_on_like_the_one_it_was_saved_from(tmp_path):
    agent = HPIClip(tasks.make("Reacher-NT"), **TINY).learn(4 * 64, progress=False)
    agent.save(tmp_path)
    agent.learn(4 * 64, progress=False)
    assert same_parameters(load_agent(tmp_path).learn(4 * 64, progress=False), agent)


def test_an_agent_saved_by_a_callback_finishes_its_call(tmp_path):
    def save(agent, progress):
        if progress.iteration == 3:
            agent.save(tmp_path / "copy")

    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "run", callback=save)
    copy = load_agent(tmp_path / "copy")
    assert copy.num_timesteps == 3 * 64
    assert same_parameters(copy.resume(progress=False), agent)


def test_an_agent_saved_by_the_last_callback_still_gets_its_cloned_policy(tmp_path):
    def save(agent, progress):
        if progress.iteration == ITERATIONS:
            agent.save(tmp_path)

    settings = {"returned": "cloned", "cloning_minibatches": 4, "cloning_epochs": 2}
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY, **settings)
    agent.learn(steps_of(agent), progress=False, callback=save)
    copy = load_agent(tmp_path).resume(progress=False)
    assert copy.learner.cloned is not None
    np.testing.assert_array_equal(
        copy.predict([0.3], deterministic=True)[0], agent.predict([0.3], deterministic=True)[0]
    )


@pytest.mark.parametrize("name", ["RPSContinuous", "InvertedPendulum-v5", "Hopper-v5", "Humanoid-v5"])
def test_an_agent_that_never_learned_can_be_saved(name, tmp_path):
    """And acts the same when it comes back, to the last bit: so does then a run that is resumed from its start."""
    agent = HPIClip(tasks.make(name), **TINY)
    agent.save(tmp_path)
    back = load_agent(tmp_path)
    assert same_parameters(agent, back)
    size = agent.task.spaces[0].size
    for obs in np.random.default_rng(0).normal(size=(100, size)):
        actions = [one.predict(obs, deterministic=True)[0] for one in (agent, back)]
        np.testing.assert_array_equal(*actions)


def test_saving_twice_keeps_the_later(tmp_path):
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY).learn(128, progress=False)
    agent.save(tmp_path)
    agent.learn(128, progress=False)
    agent.save(tmp_path)
    agent.save(tmp_path)
    assert same_parameters(load_agent(tmp_path), agent)


def test_saving_into_its_own_run_keeps_the_logs(tmp_path):
    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path, 4)
    agent.save(tmp_path)
    learn(load_agent(tmp_path), tmp_path, 2)
    assert [row["iteration"] for row in rows_of(tmp_path / "progress.csv")] == [str(k) for k in range(1, 7)]


def test_saving_over_another_run_is_refused(tmp_path):
    HPIClip(tasks.make("RPSContinuous"), **TINY).save(tmp_path)
    with pytest.raises(InputError, match="already holds a run"):
        HPIClip(tasks.make("RPSContinuous"), 1, **TINY).save(tmp_path)
    assert load_agent(tmp_path).seed == 0
