"""A run that was interrupted and resumed is, bit for bit, the run that was not."""

import dataclasses

import numpy as np
import pytest

import mdcontest as mdc
from learn.stopped_runs import FULL, ITERATIONS, TINY, Stop, learn, require_same, rows_of
from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.learn import HPI, PPO, SPPO, HPIClip, load_agent
from mdcontest.learn.loading import same_parameters
from tiny_runs import stop_after

FEW = ["Ant-v5", "Hopper-v5", "Reacher-NT", "RPSCorridor", "RPSContinuous"]


def stored(agent):
    """The states of the environments, as a checkpoint has them."""
    return agent.learner.collector.record()


def test_there_are_fifteen_tasks():
    assert len(tasks.names()) == 15
    assert set(FEW) <= set(tasks.names())


@pytest.mark.parametrize("name", tasks.names() if FULL else FEW)
def test_every_task_resumes_in_the_middle_of_an_episode(name, tmp_path):
    learn(HPIClip(tasks.make(name), 5, **TINY), tmp_path / "whole")
    learn(HPIClip(tasks.make(name), 5, **TINY), tmp_path / "parts", stop=4)
    agent = load_agent(tmp_path / "parts")
    assert agent.learner.iteration == 2
    assert agent.learner.collector.length[0] > 0, "an episode is under way"
    assert agent.resumed_exactly
    agent.resume(progress=False)  # a warning would be an error here
    require_same(tmp_path / "parts", tmp_path / "whole")


VARIANTS = {
    "two environments": (HPIClip, "Reacher-NT", {"num_envs": 2}),
    "queue": (HPIClip, "RPSContinuous", {"opponents": "queue", "queue_size": 10, "first_iterate": 5}),
    "cloned": (HPIClip, "RPSContinuous", {"returned": "cloned", "cloning_minibatches": 4, "cloning_epochs": 2}),
    "cloned discrete": (HPI, "RPSCorridor", {"returned": "cloned", "cloning_minibatches": 4, "cloning_epochs": 2}),
    "average critic": (HPIClip, "RPSContinuous", {"critic": "average"}),
    "two with queue and average": (HPI, "RPSContinuous", {"num_envs": 2, "opponents": "queue", "critic": "average"}),
    "HPI": (HPI, "RPSCorridor", {}),
    "SPPO": (SPPO, "RPSContinuous", {"num_envs": 2}),
    "PPO": (PPO, "InvertedPendulum-v5", {}),
    "paper": (HPIClip, "Reacher-NT", {"preset": "paper", "cloning_minibatches": 4, "cloning_epochs": 2}),
    "short episodes": (HPIClip, "Hopper-v5", {"horizon": 7, "truncation": "zero"}),
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("stop", [1, 3, 6] if FULL else [3])
def test_every_variant_resumes(variant, stop, tmp_path):
    kind, name, settings = VARIANTS[variant]
    whole = learn(kind(tasks.make(name), 1, **TINY, **settings), tmp_path / "whole")
    learn(kind(tasks.make(name), 1, **TINY, **settings), tmp_path / "parts", stop=stop)
    agent = load_agent(tmp_path / "parts")
    assert agent.learner.iteration == (stop - 1) // 2 * 2
    agent.resume(progress=False)
    require_same(tmp_path / "parts", tmp_path / "whole")
    if settings.get("returned") == "cloned":
        for part, value in whole.learner.cloned.items():
            np.testing.assert_array_equal(value, agent.learner.cloned[part])
    obs = [whole.task.make_env().reset(seed=5)[0]] * 3
    whole.seed_predictions(7)
    agent.seed_predictions(7)
    np.testing.assert_array_equal(whole.predict(np.array(obs))[0], agent.predict(np.array(obs))[0])


@pytest.mark.parametrize("name", ["RPSContinuous", "Reacher-NT"])
def test_resumed_twice(name, tmp_path):
    learn(HPIClip(tasks.make(name), **TINY), tmp_path / "whole", 9)
    learn(HPIClip(tasks.make(name), **TINY), tmp_path / "parts", 9, stop=3)
    for again in (5, 8):
        with pytest.raises(Stop):
            load_agent(tmp_path / "parts").resume(progress=False, callback=stop_after(again, Stop))
    load_agent(tmp_path / "parts").resume(progress=False)
    require_same(tmp_path / "parts", tmp_path / "whole")


@pytest.mark.parametrize("name", tasks.names() if FULL else [*FEW, "InvertedPendulum-v5"])
def test_resumed_before_the_first_iteration_is_done(name, tmp_path):
    learn(HPIClip(tasks.make(name), 1, **TINY), tmp_path / "whole", 2)
    learn(HPIClip(tasks.make(name), 1, **TINY), tmp_path / "parts", 2, stop=1)
    assert load_agent(tmp_path / "parts").num_timesteps == 0
    load_agent(tmp_path / "parts").resume(progress=False)
    require_same(tmp_path / "parts", tmp_path / "whole")


def test_a_checkpoint_a_step_changes_nothing(tmp_path):
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "rare", checkpoint_every=100)
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "often", checkpoint_every=1)
    nowhere = HPIClip(tasks.make("RPSContinuous"), **TINY).learn(ITERATIONS * 64, progress=False)
    require_same(tmp_path / "often", tmp_path / "rare")
    assert same_parameters(nowhere, load_agent(tmp_path / "rare"))


def test_resuming_a_finished_run_does_nothing(tmp_path):
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    agent = load_agent(tmp_path)
    assert agent.resume(progress=False, callback=stop_after(1)) is agent
    assert agent.num_timesteps == ITERATIONS * 64
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_an_agent_from_no_folder_has_nothing_to_resume():
    with pytest.raises(InputError, match="not loaded from a run's folder"):
        HPIClip(tasks.make("RPSContinuous"), **TINY).resume()


def test_what_only_a_checkpoint_remembers(tmp_path):
    """Everything that the next iteration depends on comes back: statistics, generators, opponents, environments."""
    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY, num_envs=2, opponents="queue"), tmp_path)
    back = load_agent(tmp_path)
    one, other = agent.learner, back.learner
    for name, rng in one.rngs.items():
        assert rng.bit_generator.state == other.rngs[name].bit_generator.state
    assert one.policy.moments.count == other.policy.moments.count
    np.testing.assert_array_equal(one.policy.moments.mean, other.policy.moments.mean)
    np.testing.assert_array_equal(one.policy.moments.square, other.policy.moments.square)
    for field in ("obs", "action", "reward", "next_obs"):
        np.testing.assert_array_equal(getattr(one.opponents.queue, field), getattr(other.opponents.queue, field))
        np.testing.assert_array_equal(getattr(one.opponents.first, field), getattr(other.opponents.first, field))
    assert list(agent.recent) == list(back.recent)
    assert stored(agent)["environments"] == stored(back)["environments"]
    for key in ("obs", "x", "length", "total_reward"):
        np.testing.assert_array_equal(stored(agent)[key], stored(back)[key])


# --- environments that cannot be saved --------------------------------------------------------------------


def cartpole():
    return mdc.Task("CartPole-v1", lambda z, w: abs(w.obs[:, 2]) - abs(z.obs[:, 2]), name="upright")


def test_an_environment_without_save_state_starts_new_episodes_and_says_so(tmp_path):
    learn(HPIClip(cartpole(), **TINY), tmp_path, stop=4)
    agent = load_agent(tmp_path, task=cartpole())
    assert not agent.resumed_exactly
    assert agent.learner.collector.length.tolist() == [0]
    with pytest.warns(UserWarning, match="upright cannot save the state of a running episode"):
        agent.resume(progress=False)
    assert agent.num_timesteps == ITERATIONS * 64
    assert [row["iteration"] for row in rows_of(tmp_path / "progress.csv")] == [str(k) for k in range(1, 7)]
    ends = [int(row["step"]) for row in rows_of(tmp_path / "episodes.csv")]
    assert ends == sorted(set(ends))


def test_such_a_run_resumes_the_same_way_every_time(tmp_path):
    for name in ("one", "other"):
        learn(HPIClip(cartpole(), **TINY), tmp_path / name, stop=4)
        with pytest.warns(UserWarning, match="cannot save the state"):
            load_agent(tmp_path / name, task=cartpole()).resume(progress=False)
    one, other = (load_agent(tmp_path / name, task=cartpole()) for name in ("one", "other"))
    assert same_parameters(one, other)


def test_an_unregistered_task_must_be_passed_again(tmp_path):
    learn(HPIClip(cartpole(), **TINY), tmp_path, 2)
    with pytest.raises(InputError, match=r"task of its own \(upright\); pass it"):
        load_agent(tmp_path)
    assert load_agent(tmp_path, task=cartpole()).num_timesteps == 128


def test_a_task_of_another_shape_is_refused(tmp_path):
    learn(HPIClip(cartpole(), **TINY), tmp_path / "own", 2)
    with pytest.raises(InputError, match=r"the (actor|critic) has the layers"):
        load_agent(tmp_path / "own", task=dataclasses.replace(cartpole(), env="Acrobot-v1"))
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "registered", 2)
    with pytest.raises(InputError, match="trained on another task: it was as the registry makes it"):
        load_agent(tmp_path / "registered", task=dataclasses.replace(cartpole(), name="RPSContinuous"))


def test_a_task_comes_back_with_its_settings(tmp_path):
    learn(HPIClip(tasks.make("RPSContinuous", end=0.2), **TINY), tmp_path, stop=4)
    agent = load_agent(tmp_path)
    assert agent.task.settings == {"end": 0.2}
    assert agent.learner.collector.envs[0].unwrapped.end == 0.2
