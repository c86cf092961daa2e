"""Loading changes nothing: the same policy, and the same task with the same margin."""

import dataclasses
import json

import gymnasium
import numpy as np
import pytest

import mdcontest as mdc
from learn.loaded_runs import TINY, interrupted
from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.learn import PPO, HPIClip, load_agent
from mdcontest.learn.loading import same_parameters

CLASSES = [[0, 5, 5], [-5, 0, 0], [-5, 0, 0]]


def pendulum():
    return mdc.Task("Pendulum-v1", tasks.reward_difference())


# --- the policy -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [1, 3])
def test_an_agent_whose_environment_cannot_be_saved_predicts_the_same_when_loaded(again, tmp_path):
    agent = PPO(pendulum(), **TINY).learn(64, False)
    back = agent
    for time in range(again):
        back.save(tmp_path / str(time))
        back = load_agent(tmp_path / str(time), pendulum())
        assert not back.resumed_exactly
    assert back.learner.policy.moments.count == agent.learner.policy.moments.count
    obs = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_array_equal(agent.predict(obs, deterministic=True)[0], back.predict(obs, deterministic=True)[0])


def test_it_goes_on_the_same_way_however_often_it_was_saved(tmp_path):
    PPO(pendulum(), **TINY).learn(64, False).save(tmp_path / "one")
    load_agent(tmp_path / "one", pendulum()).save(tmp_path / "two")
    one, two = (load_agent(tmp_path / name, pendulum()).learn(64, False) for name in ("one", "two"))
    assert same_parameters(one, two)
    assert one.learner.policy.moments.count == 65 + 1 + 64, "a first observation each time an episode begins"


# --- the task ---------------------------------------------------------------------------------------------


def with_other_margin():
    return tasks.make("RPSCorridor").with_margin(mdc.margins.Classes(lambda z: z.obs, CLASSES))


def replaced():
    return dataclasses.replace(tasks.make("RPSCorridor"), margin=mdc.margins.Classes(lambda z: z.obs, CLASSES))


@pytest.mark.parametrize("changed", [with_other_margin, replaced])
def test_a_registered_task_with_another_margin_must_be_passed_again(changed, tmp_path):
    interrupted(HPIClip(changed(), **TINY), tmp_path / "run")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["task"]["registered"] is False
    with pytest.raises(InputError, match=r"on RPSCorridor with something changed, such as its margin.*pass it"):
        load_agent(tmp_path / "run")
    with pytest.raises(InputError, match=r"another task: something of it was changed.*pass the one it was trained on"):
        load_agent(tmp_path / "run", tasks.make("RPSCorridor"))
    agent = load_agent(tmp_path / "run", changed()).resume(progress=False)
    assert same_parameters(agent, HPIClip(changed(), **TINY).learn(6 * 32, False))


@pytest.mark.parametrize(
    ("task", "difference"),
    [
        (lambda: tasks.make("Reacher-v5"), r"name 'Reacher-NT', not 'Reacher-v5'"),
        (lambda: tasks.make("Reacher-NT"), r"settings \{'theta': 1.0\}, not \{\}"),
        (lambda: "Reacher-NT", r"task must be a Task, got str"),
    ],
)
def test_a_run_is_not_loaded_as_another_task(task, difference, tmp_path):
    PPO(tasks.make("Reacher-NT", theta=1.0), **TINY).save(tmp_path)
    with pytest.raises(InputError, match=difference):
        load_agent(tmp_path, task())
    assert load_agent(tmp_path, tasks.make("Reacher-NT", theta=1.0)).task.settings == {"theta": 1.0}


def stretched(gravity=10.0, horizon=20, ended=None, margin=None):
    more = {"horizon": horizon, "ended": ended, "env_settings": {"g": gravity}}
    return mdc.Task("Pendulum-v1", margin or tasks.reward_difference(), **more)


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"gravity": 1.0}, r"env_settings \{'g': 10.0\}, not \{'g': 1.0\}"),
        ({"horizon": 7}, "horizon 20, not 7"),
        ({"ended": 3.0}, "ended None, not 3.0"),
        ({"ended": lambda z: z.reward}, "ended None, not 'function'"),
        ({"margin": lambda z, w: z.reward - w.reward}, "margin 'RewardDifference', not 'Pairwise'"),
    ],
)
def test_a_task_of_ones_own_is_told_from_another_of_its_name(changed, difference, tmp_path):
    PPO(stretched(), **TINY).save(tmp_path)
    with pytest.raises(InputError, match=difference):
        load_agent(tmp_path, stretched(**changed))
    assert load_agent(tmp_path, stretched()).task.horizon == 20


def test_a_run_that_does_not_say_what_its_task_is_made_of_is_loaded(tmp_path, monkeypatch):
    """As those of earlier versions."""
    monkeypatch.setattr("mdcontest.learn.margins.parts_record", lambda task: {})
    PPO(stretched(), **TINY).save(tmp_path)
    monkeypatch.undo()
    assert load_agent(tmp_path, stretched(gravity=1.0)).task.horizon == 20


def test_a_task_that_was_registered_after_its_run_can_be_passed(tmp_path):
    PPO(mdc.Task("Reacher-v5", tasks.reward_difference()), **TINY).save(tmp_path)
    assert load_agent(tmp_path, tasks.make("Reacher-v5")).task.settings == {}


def look_alike():
    """Of the registered name and environment, with another margin and another end."""
    registered = tasks.make("RPSCorridor")
    return mdc.Task(registered.env, lambda z, w: 1.0 * (z.action - w.action), name="RPSCorridor", ended=3.0)


@pytest.mark.parametrize("passed", [look_alike, replaced, with_other_margin])
def test_a_run_on_a_registered_task_goes_on_with_no_other(passed, tmp_path):
    interrupted(HPIClip(tasks.make("RPSCorridor"), **TINY), tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_bytes()
    with pytest.raises(InputError, match=r"as the registry makes it, and this one is not; leave task= out"):
        load_agent(tmp_path / "run", passed())
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    agent = load_agent(tmp_path / "run", tasks.make("RPSCorridor")).resume(progress=False)
    assert same_parameters(agent, HPIClip(tasks.make("RPSCorridor"), **TINY).learn(6 * 32, False))


def test_a_run_whose_environment_got_another_name_survives_a_second_interruption(tmp_path):
    """run.json and the newest checkpoint tell the same task at every moment."""

    def stop_at_once(agent, progress):
        raise KeyboardInterrupt

    def renamed():
        return gymnasium.make("Pendulum-v1")

    interrupted(PPO(pendulum(), **TINY), tmp_path)
    task = mdc.Task(renamed, tasks.reward_difference(), name="Pendulum-v1")
    with pytest.warns(UserWarning, match="cannot save the state"), pytest.raises(KeyboardInterrupt):
        load_agent(tmp_path, task).resume(False, stop_at_once)
    assert load_agent(tmp_path, task).num_timesteps == 3 * 32
