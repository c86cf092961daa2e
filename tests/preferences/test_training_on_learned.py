"""Policies trained on a learned margin: the run carries it, resumes bit for bit, and refuses what does not fit."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from fitted_margins import random_margin
from learned_training import TINY, corridor, learned, train
from mdcontest import tasks
from mdcontest.errors import FileFormatError, InputError
from mdcontest.gap import estimate_gap
from mdcontest.learn import PPO, HPIClip, load_agent
from mdcontest.learn.loading import same_parameters
from mdcontest.learn.spec import RunSpec
from mdcontest.preferences import load_margin
from mdcontest.preferences.ensemble import Ensemble
from mdcontest.preferences.inputs import Field, InputReader
from mdcontest.preferences.learned import LearnedReward


def place(sign=1.0):
    """The learned reward ±x: right, or left, is better."""
    one = np.ones(1)
    reader = InputReader((Field("obs", 1),), 0 * one, one, -one, one)
    params = {"w0": np.ones((1, 1), np.float32), "b0": np.zeros(1, np.float32), "ended": np.zeros(1, np.float32)}
    return LearnedReward(Ensemble("reward", reader, (params,), np.array([sign]), 0.1, True), {})


class Stop(KeyboardInterrupt):
    """What Ctrl-C raises, and nobody else."""


def stop(agent, progress):
    if progress.iteration == 3:
        raise Stop


# --- tasks ------------------------------------------------------------------------------------------------


def test_a_task_with_another_margin():
    own, margin = tasks.make("Walker2d-v5"), learned()
    task = own.with_margin(margin)
    assert task.margin is margin
    assert task.true is own
    assert task.with_margin(learned(seed=1)).true is own, "the task's own, however often it is replaced"
    assert (task.ended, task.largest_reward, task.model) == (None, None, None)
    assert not task.is_reward_difference
    assert own.with_margin(place()).is_reward_difference


def test_rewards_are_those_of_the_margin():
    played = HPIClip(corridor(), **TINY)
    played.learn(64, progress=False)
    z = played.learner.opponents.first
    np.testing.assert_array_equal(corridor().reward(z), z.reward)
    np.testing.assert_allclose(corridor(place()).reward(z), z.obs[:, 0], atol=1e-6)
    with pytest.raises(InputError, match=r"RPSContinuous: PPO learns from rewards, .* mdcontest fit --model reward"):
        corridor(learned()).reward(z)


# --- training ---------------------------------------------------------------------------------------------


def test_resumed_without_the_original_folder(folders):
    """Interrupted, its margin's folder gone, and resumed: bit for bit the run that was not."""
    task = corridor(load_margin(folders / "skew"))
    whole = train(HPIClip(task, 5, **TINY), folders / "whole")
    with pytest.raises(Stop):
        train(HPIClip(task, 5, **TINY), folders / "parts", callback=stop)
    shutil.rmtree(folders / "skew")
    agent = load_agent(folders / "parts")
    assert agent.task.margin.digest == task.margin.digest
    assert agent.resumed_exactly
    agent.resume(progress=False)
    assert same_parameters(agent, whole)
    assert same_parameters(load_agent(folders / "parts"), load_agent(folders / "whole"))
    own = train(HPIClip(corridor(), 5, **TINY), folders / "own")
    assert not same_parameters(own, whole), "the margin makes a difference"


def test_an_agent_saved_elsewhere_brings_its_margin(folders):
    agent = HPIClip(corridor(learned()), **TINY)
    agent.learn(64, progress=False)
    agent.save(folders / "copy")
    loaded = load_agent(folders / "copy")
    assert loaded.task.margin.digest == learned().digest
    assert same_parameters(agent, loaded)


def test_a_task_of_ones_own_gets_its_margin_back(folders):
    """Such a task has to be passed to load_agent; the margin it was trained on is still the run's."""
    mine = dataclasses.replace(corridor(), name="mine", settings=None)
    train(HPIClip(mine.with_margin(learned()), **TINY), folders / "mine", 2)
    with pytest.raises(InputError, match="pass it: load_agent"):
        load_agent(folders / "mine")
    assert load_agent(folders / "mine", task=mine).task.margin.digest == learned().digest


def test_a_tampered_margin_is_refused(folders):
    train(HPIClip(corridor(learned()), **TINY), folders / "run", 2)
    kept = folders / "run" / "margin"
    learned(seed=1).save(kept)
    with pytest.raises(FileFormatError, match="is not the one that the run was trained on"):
        load_agent(folders / "run")
    record = json.loads((folders / "run" / "run.json").read_text())
    record["task"]["margin"] = learned(seed=1).digest
    (folders / "run" / "run.json").write_text(json.dumps(record))
    with pytest.raises(FileFormatError, match="its task is not that of the checkpoint"):
        load_agent(folders / "run")
    record["task"]["margin"] = learned().digest
    (folders / "run" / "run.json").write_text(json.dumps(record))
    learned().save(kept)
    load_agent(folders / "run").close()
    shutil.rmtree(kept)
    with pytest.raises(InputError, match=r"there is no learned margin in .*margin"):
        load_agent(folders / "run")


def test_outcomes_that_the_margin_cannot_read(folders):
    """A margin of another environment: an error that names it, before anything starts."""
    with pytest.raises(InputError, match="Reacher-v5: the learned margin reads 1 numbers of obs an outcome, got 10"):
        HPIClip(tasks.make("Reacher-v5").with_margin(learned()), **TINY)
    with pytest.raises(InputError, match="no 'features' for the learned margin to read"):
        HPIClip(corridor(random_margin("skew")), **TINY)


def test_categories_of_another_task():
    """RPSCorridor has places and moves that are counted, RPSContinuous numbers; both have one of each a step."""
    counted = random_margin("skew", fields=(Field("obs", 1, (0.0, 1.0, 2.0)),))
    with pytest.raises(InputError, match=r"^RPSContinuous: .* reads obs as categories \(0, 1, 2\), and it is float"):
        HPIClip(corridor(counted), **TINY)
    with pytest.raises(InputError, match=r"reads obs as categories .* it was learned from another task"):
        estimate_gap(corridor(counted), HPIClip(tasks.make("RPSContinuous"), **TINY), steps=64, progress=False)
    moves = Field("action", 1, (0.0, 1.0, 2.0))
    cart = tasks.Task("CartPole-v1", lambda z, w: z.reward - w.reward)
    with pytest.raises(InputError, match="knows the value 2 of action, here 0 to 1; it was learned from another"):
        HPIClip(cart.with_margin(random_margin("skew", fields=(moves,))), **TINY)
    HPIClip(cart.with_margin(random_margin("skew", fields=(Field("action", 1, (0.0, 1.0)),))), **TINY).close()


def test_ppo_needs_a_reward(folders):
    with pytest.raises(InputError, match="PPO learns from rewards, and the margin that was learned is none"):
        PPO(corridor(learned()), **TINY)
    spec = RunSpec("RPSContinuous", "ppo", 0, 64, "", settings=TINY, margin=str(folders / "skew"))
    with pytest.raises(InputError, match="PPO learns from rewards"):
        spec.in_folder(folders)


def test_ppo_learns_the_learned_reward():
    """The environment pays nothing. With +x learned one ends on the right, with −x on the left."""
    settings = {"num_steps": 256, "minibatches": 4, "epochs": 4, "hidden": (16,), "learning_rate": 3e-3}
    ends = []
    for sign in (1.0, -1.0):
        agent = PPO(corridor(place(sign)), 0, **settings)
        agent.learn(12 * 256, progress=False)
        actions = agent.predict(np.linspace(-0.9, 0.9, 7)[:, None], deterministic=True)[0]
        ends.append(float(np.mean(actions)))
        agent.close()
    assert ends[0] > 0.2
    assert ends[1] < -0.2
