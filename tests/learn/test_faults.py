"""Environments, margins and updates that fail: the run stops and says where, the checkpoint before stays."""

import re
import sys

import numpy as np
import pytest

import mdcontest as mdc
from learn.broken_tasks import (
    AT,
    RESET_FAULTS,
    STEP_FAULTS,
    larger,
    learn_until_it_fails,
    names_step,
    require_the_checkpoint_before,
    task_of,
)
from learn.stopped_runs import FULL, TINY
from mdcontest import tasks
from mdcontest.errors import InputError, RunError
from mdcontest.learn import HPIClip, load_agent
from mdcontest.learn.evaluate import evaluate
from mdcontest.learn.play import sample_trajectories


@pytest.mark.parametrize("fault", STEP_FAULTS)
def test_a_step_that_goes_wrong_is_named(fault, tmp_path):
    text, after = learn_until_it_fails(task_of(fault), tmp_path)
    assert re.search(STEP_FAULTS[fault][1], text)
    assert names_step(text, AT), text
    assert text.startswith("Counter: ")
    assert len(text.splitlines()) == 1
    assert max(after) == 3
    require_the_checkpoint_before(tmp_path, after)


@pytest.mark.parametrize("fault", RESET_FAULTS)
def test_a_reset_that_goes_wrong_is_named(fault, tmp_path):
    text, after = learn_until_it_fails(task_of(fault), tmp_path)
    assert names_step(text, AT), text
    require_the_checkpoint_before(tmp_path, after)


@pytest.mark.parametrize("fault", STEP_FAULTS)
def test_a_step_that_goes_wrong_while_playing_is_named(fault):
    """As in training, wherever episodes are played: to evaluate, to judge, to collect."""
    with pytest.raises(RunError) as caught:
        sample_trajectories(task_of(fault, at=30), HPIClip(task_of(), **TINY), 1)
    text = str(caught.value)
    assert re.search(STEP_FAULTS[fault][1], text)
    assert names_step(text, 30), text
    assert text.startswith("Counter: ")


@pytest.mark.parametrize("fault", RESET_FAULTS)
def test_a_reset_that_goes_wrong_while_playing_is_named(fault):
    with pytest.raises(RunError, match=r"^Counter: .*"):
        sample_trajectories(task_of(fault, at=0), HPIClip(task_of(), **TINY), 1)


def test_steps_are_counted_over_all_environments(tmp_path):
    text, after = learn_until_it_fails(task_of("NaN reward", at=100), tmp_path, num_envs=2)
    assert names_step(text, 199), text
    assert max(after) == 1
    require_the_checkpoint_before(tmp_path, after, 0, num_envs=2)


def test_a_fault_after_a_resume_is_counted_from_the_start(tmp_path):
    learn_until_it_fails(task_of("raises"), tmp_path)
    with pytest.raises(RunError, match=r"at step 300\b"):
        load_agent(tmp_path, task=task_of("raises", at=300)).resume(progress=False)
    assert load_agent(tmp_path, task=task_of()).learner.iteration == 4


@pytest.mark.parametrize("step", [1, 64, 65, 640])
def test_a_fault_at_the_edges_of_iterations(step, tmp_path):
    text, after = learn_until_it_fails(task_of("raises", at=step), tmp_path)
    assert names_step(text, step), text
    require_the_checkpoint_before(tmp_path, after, (step - 1) // 64 // 2 * 2)


@pytest.mark.parametrize(
    ("margin", "message"),
    [
        (lambda z, w: z.info["colour"] - w.info["colour"], r"^Counter: the margin raised KeyError: 'colour'$"),
        (lambda z, w: sys.exit(0), r"^Counter: the margin raised SystemExit: 0$"),
    ],
)
def test_a_margin_that_goes_wrong_while_a_policy_is_judged(margin, message):
    agent = HPIClip(task_of(), **TINY).learn(64, progress=False)
    assert evaluate(agent, 1).margin_vs_first is not None
    agent.task = task_of(margin=margin)
    with pytest.raises(RunError, match=message):
        evaluate(agent, 1)


def test_an_error_that_shows_outcomes_is_one_line():
    """NumPy writes an observation of six numbers in two."""
    agent = HPIClip(mdc.Task("Acrobot-v1", lambda z, w: z.obs[:, 0] - w.obs[:, 0]), **TINY).learn(64, progress=False)
    agent.task = mdc.Task("Acrobot-v1", lambda z, w: z.obs[:, 0] + w.obs[:, 0], horizon=20)
    for fail in (lambda: evaluate(agent, 1), lambda: HPIClip(agent.task, **TINY).learn(64, progress=False)):
        with pytest.raises(InputError, match=r"not skew-symmetric: .* z = Outcomes\(obs=array\(.*; return") as caught:
            fail()
        assert len(str(caught.value).splitlines()) == 1


def broken(how):
    """A margin or an ended function that is sound until it meets the outcome of step AT."""

    def fn(z, *w):
        values = larger(z, *w) if w else np.zeros(len(z))
        here = z.next_obs[:, 0] == AT
        return how(values, here) if here.any() else values

    return fn


def raising(values, here):
    raise ZeroDivisionError("cannot compare")


MARGIN_FAULTS = {
    "NaN": (lambda values, here: np.where(here, np.nan, values), "finite"),
    "infinite": (lambda values, here: np.where(here, np.inf, values), "finite"),
    "raises": (raising, "the margin raised ZeroDivisionError: cannot compare"),
    "leaves": (lambda values, here: sys.exit(0), "the margin raised SystemExit: 0"),
    "wrong shape": (lambda values, here: np.append(values, 0.0), "shape"),
    "one number": (lambda values, here: 0.0, "shape"),
    "text": (lambda values, here: np.array(["a"] * len(values)), "must be an array of numbers: it holds <U1 values"),
    "nothing": (lambda values, here: None, "must be an array of numbers: it holds None"),
    "not skew": (lambda values, here: np.where(here, 1.0, values), "skew"),
}


@pytest.mark.parametrize("opponents", ["batch", "queue"] if FULL else ["batch"])
@pytest.mark.parametrize("fault", MARGIN_FAULTS)
def test_a_margin_that_goes_wrong_names_the_step(fault, opponents, tmp_path):
    how, message = MARGIN_FAULTS[fault]
    text, after = learn_until_it_fails(task_of(margin=broken(how)), tmp_path, opponents=opponents)
    assert re.search(message, text), text
    assert names_step(text, AT), text
    assert len(text.splitlines()) == 1
    assert max(after) == 3
    require_the_checkpoint_before(tmp_path, after, opponents=opponents)


@pytest.mark.parametrize("fault", ["NaN", "raises", "leaves", "wrong shape", "one number", "text"])
def test_an_ended_function_that_goes_wrong_names_the_step(fault, tmp_path):
    how, message = MARGIN_FAULTS[fault]
    text, after = learn_until_it_fails(task_of(ended=broken(how)), tmp_path)
    assert re.search(message.replace("the margin", "ended"), text), text
    assert names_step(text, AT), text
    mended = task_of(ended=lambda z: np.zeros(len(z)))
    assert load_agent(tmp_path, task=mended).learner.iteration == 2
    assert max(after) == 3


@pytest.mark.parametrize(
    ("learning_rate", "iterations"), [(1e6, 20), (1e12, 5), (9e14, 1), (9e14, 5)][: 4 if FULL else 2]
)
def test_training_that_diverges_stops(learning_rate, iterations, tmp_path):
    """It is never 'finished' with parameters that are no numbers, and the error blames training, not the task."""
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY, anneal=False, learning_rate=learning_rate, max_grad_norm=1e9)
    try:
        agent.learn(iterations * 64, progress=False, folder=tmp_path)
    except RunError as error:
        assert "diverged" in str(error)
    leaves = [value for part in load_agent(tmp_path).learner.params.values() for value in part.values()]
    assert all(np.isfinite(value).all() for value in leaves)


def test_a_learning_rate_of_a_million_is_refused_by_the_run_itself(tmp_path):
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY, learning_rate=1e6, anneal=False)
    with pytest.raises(RunError, match="diverged in iteration"):
        agent.learn(100 * 64, progress=False, folder=tmp_path)
