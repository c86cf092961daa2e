"""`estimate_gap`: wrong settings, tasks, policies and actions are errors that say so."""

import json

import numpy as np
import pytest

from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.gap import estimate_gap
from mdcontest.gap.estimate import GapSettings
from mdcontest.learn.play import sample_trajectories
from small_games import FAST, Always, corridor


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"trajectories": 1}, "trajectories must be at least 2"),
        ({"trajectories": 0}, "trajectories must be a whole number, at least 1"),
        ({"steps": 0}, "steps must be a whole number, at least 1, got 0"),
        ({"steps": 1e5}, "steps must be a whole number"),
        ({"restarts": True}, "restarts must be a whole number"),
        ({"evaluation_steps": -3}, "evaluation_steps must be a whole number"),
        ({"confidence": 1.0}, "confidence must lie between 0 and 1"),
        ({"confidence": True}, "confidence must lie between 0 and 1, got True"),
        ({"confidence": "0.9"}, "confidence must lie between 0 and 1, got '0.9'"),
        ({"confidence": 95}, "confidence must lie between 0 and 1"),
        ({"confidence": float("nan")}, "confidence must lie between 0 and 1"),
        ({"settings": {"leraning_rate": 1}}, "there is no setting 'leraning_rate'.*learning_rate"),
        ({"settings": {"num_steps": -1}}, "num_steps"),
        ({"episodes": 5}, "takes no 'episodes'; it takes trajectories, steps"),
        ({"seed": -1}, "seed must be a whole number, at least 0, got -1"),
        ({"seed": None}, "seed must be a whole number"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"horizon": 0}, "horizon must be a whole number, at least 1, got 0"),
        ({"horizon": 2.5}, "horizon must be a whole number"),
    ],
)
def test_wrong_settings(how, told):
    with pytest.raises(InputError, match=told):
        estimate_gap(corridor(), Always(0), **{**FAST, **how})


def test_numbers_of_numpy_are_numbers():
    settings = GapSettings(trajectories=np.int64(5), steps=np.int32(64))
    assert (type(settings.trajectories), type(settings.steps)) == (int, int)
    settings = GapSettings(confidence=np.float32(0.5))
    assert (type(settings.confidence), settings.confidence) == (float, 0.5)
    found = estimate_gap(corridor(), Always(0), seed=np.int64(1), **FAST)
    json.dumps(found.record())


def test_what_is_no_task_and_what_is_no_policy():
    with pytest.raises(InputError, match=r"task must be a Task, got str; tasks.make\(name\)"):
        estimate_gap("RPSCorridor", Always(0))
    with pytest.raises(InputError, match="must have a method predict, a int has none"):
        estimate_gap(corridor(), 3)


class Answers:
    """A policy whose predict gives back anything."""

    def __init__(self, answer):
        self.answer = answer

    def predict(self, obs, state=None, episode_start=None, deterministic=False):
        return self.answer


@pytest.mark.parametrize(
    ("name", "answer", "told"),
    [
        ("RPSCorridor", 1, r"must return \(action, state\)"),
        ("RPSCorridor", None, r"must return \(action, state\)"),
        ("RPSCorridor", np.array([1, 2]), r"must return \(action, state\)"),
        ("RPSCorridor", (1, None, None), r"must return \(action, state\)"),
        ("RPSCorridor", (None, None), "None is no action"),
        ("RPSCorridor", ("left", None), "'left' is no action"),
        ("RPSCorridor", (3, None), r"3 is no action of Discrete\(3\)"),
        ("RPSCorridor", (-1, None), "-1 is no action"),
        ("RPSCorridor", (0.5, None), "0.5 is no action"),
        ("RPSCorridor", (np.nan, None), "nan is no action"),
        ("RPSCorridor", (np.array([1, 1]), None), "is no action, 1 finite number"),
        ("RPSContinuous", (np.array([np.nan]), None), "is no action, 1 finite number"),
        ("RPSContinuous", (np.zeros(2), None), "is no action"),
    ],
)
def test_a_predict_that_returns_the_wrong_thing(name, answer, told):
    with pytest.raises(InputError, match=f"predict of Answers.*{told}"):
        estimate_gap(tasks.make(name), Answers(answer), **FAST)


@pytest.mark.parametrize(
    ("name", "action"), [("RPSCorridor", np.array([2])), ("RPSCorridor", np.int32(2)), ("RPSContinuous", 0.5)]
)
def test_one_number_is_an_action_in_any_form(name, action):
    plain = estimate_gap(tasks.make(name), Always(float(np.ravel(action)[0])), **FAST)
    assert estimate_gap(tasks.make(name), Always(action), **FAST).best_response == plain.best_response


def test_an_action_outside_the_box_is_clipped_as_it_is_for_every_other_policy():
    task = tasks.make("RPSContinuous")
    played = sample_trajectories(task, Always(np.array([9.0])), 3)
    assert set(played.outcomes.action.reshape(-1)) == {1.0}
