"""A run that was interrupted and resumed is, bit for bit, the run that was not."""

import csv
import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import mdcontest as mdc
from mdcontest import tasks
from mdcontest.errors import InputError, RunError
from mdcontest.learn import HPI, PPO, SPPO, HPIClip, load_agent
from mdcontest.learn.loading import same_parameters

TINY = {"num_steps": 64, "minibatches": 2, "epochs": 1, "hidden": (8,)}
ITERATIONS = 6
FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
FEW = ["Ant-v5", "Hopper-v5", "Reacher-NT", "RPSCorridor", "RPSContinuous"]
TIMING = {"seconds", "steps_per_second"}


class Stop(KeyboardInterrupt):
    """What Ctrl-C raises, and nobody else."""


def stop_after(iteration):
    def callback(agent, progress):
        if progress.iteration == iteration:
            raise Stop

    return callback


def steps_of(agent, iterations=ITERATIONS):
    return iterations * agent.settings.batch_size


def learn(agent, folder, iterations=ITERATIONS, stop=None, **options):
    """Train in a folder, with a checkpoint every second iteration; interrupted in iteration `stop` if there is one."""
    options = {"folder": folder, "checkpoint_every": 2, "progress": False} | options
    if stop is None:
        return agent.learn(steps_of(agent, iterations), **options)
    with pytest.raises(Stop):
        agent.learn(steps_of(agent, iterations), callback=stop_after(stop), **options)
    return agent


def rows_of(path):
    """A log without the columns that depend on the clock."""
    with open(path, newline="") as file:
        return [{k: v for k, v in row.items() if k not in TIMING} for row in csv.DictReader(file)]


def files_of(folder):
    """What two equal runs have in common on disk."""
    found = {name: rows_of(folder / name) for name in ("progress.csv", "episodes.csv")}
    return found | {path.name: path.read_bytes() for path in folder.glob("*.f32")}


def require_same(folder, reference):
    one, other = load_agent(folder), load_agent(reference)
    assert same_parameters(one, other)
    assert one.call == other.call
    assert one.num_timesteps == other.num_timesteps
    assert files_of(folder) == files_of(reference)
    steps = [int(row["steps"]) for row in rows_of(folder / "progress.csv")]
    assert steps == sorted(set(steps))
    assert json.loads((folder / "run.json").read_text())["status"] == "finished"


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
            load_agent(tmp_path / "parts").resume(progress=False, callback=stop_after(again))
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


# --- the same agent goes on -------------------------------------------------------------------------------


def test_an_interrupted_agent_resumes_without_being_loaded(tmp_path):
    """The object that was interrupted can finish the call itself, and loses no row of its logs."""
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "whole")
    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "parts", stop=3)
    agent.resume(progress=False)
    require_same(tmp_path / "parts", tmp_path / "whole")


def test_an_agent_interrupted_within_an_iteration_does_not_go_on_from_there(tmp_path, monkeypatch):
    """Ctrl-C in the middle of a rollout, as in a notebook: that object is half a step ahead, its checkpoint is not."""
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "whole")
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY)
    env, calls = agent.learner.collector.envs[0], []
    step = env.step

    def interrupted(action):
        calls.append(action)
        if len(calls) == 3 * 64 + 20:
            raise KeyboardInterrupt
        return step(action)

    monkeypatch.setattr(env, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learn(agent, tmp_path / "parts")
    for go_on in (agent.resume, lambda: agent.learn(64), lambda: learn(agent, tmp_path / "parts")):
        with pytest.raises(InputError, match=r"stopped in the middle of an iteration; go on with load_agent"):
            go_on()
    with pytest.raises(InputError, match="stopped in the middle of an iteration"):
        agent.save(tmp_path / "copy")
    load_agent(tmp_path / "parts").resume(progress=False)
    require_same(tmp_path / "parts", tmp_path / "whole")


@pytest.mark.parametrize("kind", ["same agent", "loaded agent"])
def test_learning_again_goes_on_in_the_same_folder(kind, tmp_path):
    folder = tmp_path / "run"
    whole = HPIClip(tasks.make("RPSContinuous"), **TINY, anneal=False)
    learn(whole, tmp_path / "whole", 8)
    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY, anneal=False), folder, 4)
    agent = load_agent(folder) if kind == "loaded agent" else agent
    learn(agent, folder, 4)
    assert same_parameters(agent, whole)
    assert same_parameters(load_agent(folder), whole)
    assert [row["steps"] for row in rows_of(folder / "progress.csv")] == [str(64 * k) for k in range(1, 9)]
    assert rows_of(folder / "episodes.csv") == rows_of(tmp_path / "whole" / "episodes.csv")
    assert (folder / "iterates.f32").read_bytes() == (tmp_path / "whole" / "iterates.f32").read_bytes()


def test_learning_again_and_interrupted_there(tmp_path):
    for name in ("whole", "parts"):
        learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / name, 4)
    learn(load_agent(tmp_path / "whole"), tmp_path / "whole", 5)
    learn(load_agent(tmp_path / "parts"), tmp_path / "parts", 5, stop=7)
    agent = load_agent(tmp_path / "parts")
    assert agent.call == (2, 5)
    agent.resume(progress=False)
    require_same(tmp_path / "parts", tmp_path / "whole")


@pytest.mark.parametrize("kind", ["same agent", "loaded agent"])
def test_learning_again_in_the_same_folder_by_another_name(kind, tmp_path, monkeypatch):
    """Relative and absolute, or through a link, the folder is the same one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "run")
    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY), "run", 4)
    before = (tmp_path / "run" / "iterates.f32").read_bytes()
    agent = load_agent("run") if kind == "loaded agent" else agent
    learn(agent, tmp_path / "run", 4)
    learn(agent, "link", 2)
    assert (tmp_path / "run" / "iterates.f32").read_bytes().startswith(before)
    back = load_agent(tmp_path / "run")
    assert same_parameters(agent, back)
    assert len(back.mixture.iterates) == 10


def test_learning_on_elsewhere_leaves_the_first_folder_alone(tmp_path):
    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "one", 4)
    before = {path: path.read_bytes() for path in (tmp_path / "one").rglob("*") if path.is_file()}
    learn(load_agent(tmp_path / "one"), tmp_path / "two", 4)
    load_agent(tmp_path / "one").learn(64, progress=False)
    assert {path: path.read_bytes() for path in (tmp_path / "one").rglob("*") if path.is_file()} == before
    assert len(load_agent(tmp_path / "two").mixture.iterates) == 8
    assert same_parameters(agent, load_agent(tmp_path / "one"))


def test_a_callback_that_returns_false_ends_the_call(tmp_path):
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY)
    learn(agent, tmp_path, callback=lambda agent, progress: progress.iteration < 3)
    assert agent.num_timesteps == 3 * 64
    back = load_agent(tmp_path)
    assert back.call[0] == back.call[1]
    assert same_parameters(agent, back)
    assert same_parameters(back.resume(progress=False), agent)


def test_an_agent_loaded_before_another_trained_on_cannot_destroy_its_work(tmp_path):
    """Two agents loaded from one run, trained one after the other: the folder still loads, to the work of one."""
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path, 4)
    first, second = load_agent(tmp_path), load_agent(tmp_path)
    learn(first, tmp_path, 6)
    try:
        learn(second, tmp_path, 2)
    except InputError:
        assert same_parameters(load_agent(tmp_path), first)
    else:
        assert same_parameters(load_agent(tmp_path), second)


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
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path, 2)
    other = dataclasses.replace(cartpole(), name="RPSContinuous")
    with pytest.raises(InputError, match=r"the (actor|critic) has the layers"):
        load_agent(tmp_path, task=other)


def test_a_task_comes_back_with_its_settings(tmp_path):
    learn(HPIClip(tasks.make("RPSContinuous", end=0.2), **TINY), tmp_path, stop=4)
    agent = load_agent(tmp_path)
    assert agent.task.settings == {"end": 0.2}
    assert agent.learner.collector.envs[0].unwrapped.end == 0.2


# --- save and load ----------------------------------------------------------------------------------------


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


# --- one run a folder, one process a run ------------------------------------------------------------------


def test_a_folder_that_holds_a_run_is_refused(tmp_path):
    agent = learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path)
    other = HPIClip(tasks.make("RPSContinuous"), **TINY)
    with pytest.raises(InputError, match=r"already holds a run; finish it with load_agent"):
        learn(other, tmp_path)
    assert same_parameters(load_agent(tmp_path), agent)
    assert other.call == (0, 0), "nothing was begun"


def test_a_second_agent_in_the_same_folder_is_refused(tmp_path):
    def intrude(agent, progress):
        if progress.iteration == 3:
            with pytest.raises(RunError, match="another process is training in"):
                load_agent(tmp_path / "run").resume(progress=False)
            with pytest.raises(InputError, match="already holds a run"):
                learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "run")

    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "run", callback=intrude)
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "whole")
    require_same(tmp_path / "run", tmp_path / "whole")


def test_whoever_was_refused_can_try_again(tmp_path):
    refused = []

    def intrude(agent, progress):
        if progress.iteration == 3:
            refused.append(load_agent(tmp_path))
            with pytest.raises(RunError, match="another process is training in"):
                refused[0].resume(progress=False)
            raise Stop

    with pytest.raises(Stop):
        learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path, callback=intrude)
    refused[0].resume(progress=False)
    assert load_agent(tmp_path).num_timesteps == ITERATIONS * 64


HOLDER = """
import sys
from mdcontest import tasks
from mdcontest.learn import HPIClip

def wait(agent, progress):
    print("training", flush=True)
    sys.stdin.readline()

settings = dict(num_steps=64, minibatches=2, epochs=1, hidden=(8,))
HPIClip(tasks.make("RPSContinuous"), **settings).learn(128, progress=False, callback=wait, folder=sys.argv[1])
"""


def test_a_second_process_in_the_same_folder_is_refused(tmp_path):
    """And the lock goes with the process that held it, however that ends."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "training\n"
    with pytest.raises(RunError, match="another process is training in"):
        load_agent(tmp_path).resume(progress=False)
    holder.kill()
    holder.communicate()
    agent = load_agent(tmp_path).resume(progress=False)
    assert agent.num_timesteps == 128
