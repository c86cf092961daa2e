"""Whole numbers of NumPy count as Python's do, truth values as none, and files hold plain ones."""

import json

import numpy as np
import pytest

from datasets import filled, trajectory
from mdcontest import tasks
from mdcontest.arrays import is_whole
from mdcontest.errors import InputError
from mdcontest.learn import HPIClip, Settings
from mdcontest.learn.evaluate import evaluate
from mdcontest.learn.play import sample_trajectories
from mdcontest.preferences.fit import FitSettings
from mdcontest.preferences.sampling import sample_pairs
from mdcontest.tasks import Task
from small_games import TINY

KINDS = [np.int64, np.int8, np.uint16]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_numpy(kind, tmp_path):
    task = Task(tasks.make("RPSContinuous").env, lambda z, w: z.reward - w.reward, horizon=kind(5))
    assert type(task.horizon) is int
    agent = HPIClip(task, kind(1), **TINY | {"hidden": (kind(8),), "num_steps": kind(64)})
    assert agent.settings == Settings(**TINY, returned=agent.settings.returned)
    assert type(agent.settings.hidden[0]) is int
    agent.learn(64, progress=False, folder=tmp_path / "run", checkpoint_every=kind(3))
    assert json.loads((tmp_path / "run" / "run.json").read_text())["checkpoint_every"] == 3
    assert evaluate(agent, kind(2), kind(3)).record() == evaluate(agent, 2, 3).record()
    assert sample_trajectories(task, agent, kind(2), seed=kind(1)).lengths.tolist() == [5, 5]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_numpy_in_preferences(kind, tmp_path):
    index = filled(tmp_path, [trajectory(seed) for seed in range(3)])[0].index()
    assert sample_pairs(index, kind(5), kind(2), kind(1)) == sample_pairs(index, 5, 2, 1)
    chosen = FitSettings(members=kind(2), updates=kind(7), hidden=(kind(8), 4))
    assert chosen == FitSettings(members=2, updates=7, hidden=(8, 4))
    assert [type(value) for value in (chosen.members, chosen.updates, *chosen.hidden)] == [int] * 4


@pytest.mark.parametrize("value", [True, np.True_, 2.0, np.float64(2), "2", None, np.array([2])])
def test_what_is_no_whole_number(value):
    assert not is_whole(value)
    if value is not None:
        with pytest.raises(InputError, match="horizon must be a whole number of steps, at least 1, got "):
            Task("CartPole-v1", lambda z, w: 0.0, horizon=value)
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY)
    for ask in (lambda: evaluate(agent, value), lambda: agent.learn(64, progress=False, checkpoint_every=value)):
        with pytest.raises(InputError, match=r"at least 1( iteration)? and whole, got "):
            ask()
    with pytest.raises(InputError, match="positive layer sizes"):
        Settings(hidden=(value,))
