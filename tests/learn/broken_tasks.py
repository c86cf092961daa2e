"""An environment that breaks at the step it is told to, and what must be left of a run that failed there."""

import json
import re
import sys

import gymnasium
import numpy as np
import pytest

import mdcontest as mdc
from learn.stopped_runs import TINY
from mdcontest.errors import RunError
from mdcontest.learn import HPIClip, load_agent
from mdcontest.learn.loading import same_parameters

AT = 200
"""The step at which something breaks: in iteration 4, the checkpoint before is of iteration 2."""


class Counter(gymnasium.Env):
    """Observes how many steps it has made since it was built, a little scaled, and a position; breaks where told."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, fault=None, at=AT):
        self.fault, self.at, self.steps, self.position = fault, at, 0, 0.0

    def observe(self):
        return np.array([self.steps, self.position])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = float(self.np_random.normal())
        if self.fault in RESET_FAULTS and self.steps >= self.at:
            return RESET_FAULTS[self.fault](self.observe()), {}
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        self.position = 0.9 * self.position + float(action[0]) + 0.1 * float(self.np_random.normal())
        seen = [self.observe(), -abs(self.position), self.steps % 50 == 0, False, {"speed": np.ones(2), "mass": 1.0}]
        if self.fault in STEP_FAULTS and self.steps == self.at:
            STEP_FAULTS[self.fault][0](seen)
        return tuple(seen)

    def save_state(self):
        return {"steps": self.steps, "position": self.position}

    def load_state(self, state):
        self.steps, self.position = state["steps"], state["position"]


def put(index, value):
    def change(seen):
        seen[index] = value

    return change


def put_info(**values):
    return lambda seen: seen[4].update(values)


def fail(*_):
    raise ZeroDivisionError("the motor is stuck")


def fail_in_lines(*_):
    raise ValueError("the motor\n  is stuck\n")


def leave(*_):
    sys.exit(0)


STEP_FAULTS = {
    "NaN observation": (put(0, np.array([1.0, np.nan])), "entry 1 of the observation is nan"),
    "infinite observation": (put(0, np.array([-np.inf, 0.0])), "entry 0 of the observation is -inf"),
    "both infinities": (put(0, np.array([-np.inf, np.inf])), "entry 0 of the observation is -inf"),
    "NaN reward": (put(1, np.nan), "the reward is nan"),
    "infinite reward": (put(1, np.inf), "the reward is inf"),
    "no reward": (put(1, None), "the reward is None, it must be one number at"),
    "text for a reward": (put(1, "much"), "the reward is 'much', it must be one number at"),
    "two rewards": (put(1, np.ones(2)), r"the reward is array\(\[1., 1.\]\), it must be one number at"),
    "raises": (fail, "the environment raised ZeroDivisionError: the motor is stuck"),
    "raises in lines": (fail_in_lines, "the environment raised ValueError: the motor is stuck at"),
    "leaves": (leave, "the environment raised SystemExit: 0"),
    "longer observation": (put(0, np.zeros(3)), r"the observation has shape \(3,\), its space says \(2,\)"),
    "scalar observation": (put(0, np.float64(1)), r"the observation has shape \(\), its space says \(2,\)"),
    "no observation": (put(0, None), r"the observation has shape \(\), its space says \(2,\)"),
    "text for an observation": (put(0, np.array(["a", "b"])), "the observation holds <U1 instead of numbers"),
    "other info shape": (put_info(speed=np.ones(3)), r"info\['speed'\] is \[1. 1. 1.\]"),
    "NaN info": (put_info(mass=np.nan), r"info\['mass'\] is nan"),
    "a table of NaN": (put_info(speed=np.full((2, 2), np.nan)), r"info\['speed'\] is \[\[nan nan\] \[nan nan\]\] at"),
    "text info": (put_info(mass="heavy"), "only numbers can be kept"),
    "ragged info": (
        put_info(speed=[[1.0], [2.0, 3.0]]),
        r"info\['speed'\] is .*only numbers can be kept",
    ),
    "missing info": (lambda seen: seen[4].pop("mass"), "has no entry 'mass', it has \\['speed'\\]"),
    "no info": (put(4, None), r"the info of step \d+ is None, it must be a dictionary"),
    "two ends": (put(2, np.array([True, False])), r"terminated is array\(\[ True, False\]\), it must be one tr"),
    "a list of cuts": (put(3, [False, False]), r"truncated is \[False, False\], it must be one truth value"),
    "four values": (lambda seen: seen.pop(), r"step must return \(obs.*, it returned 4 values at"),
}
RESET_FAULTS = {
    "NaN at reset": lambda obs: obs * np.nan,
    "raises at reset": fail,
    "leaves at reset": leave,
    "other shape at reset": lambda obs: obs[:1],
}


def larger(z, w):
    return np.sign(z.obs[:, 1] - w.obs[:, 1])


def task_of(fault=None, margin=larger, at=AT, **options):
    return mdc.Task(lambda: Counter(fault, at), margin, name="Counter", info_keys=("speed", "mass"), **options)


def learn_until_it_fails(task, folder, **settings):
    """The error, and the parameters after every iteration before it."""
    agent, after = HPIClip(task, **TINY, **settings), {0: None}
    after[0] = agent.learner.params
    with pytest.raises(RunError) as caught:
        agent.learn(
            10 * agent.settings.batch_size,
            progress=False,
            folder=folder,
            checkpoint_every=2,
            callback=lambda agent, progress: after.update({progress.iteration: agent.learner.params}),
        )
    return str(caught.value), after


def same(one, other):
    return all(np.array_equal(one[part][name], other[part][name]) for part in one for name in one[part])


def require_the_checkpoint_before(folder, after, iteration=2, **settings):
    """It loads, is the one of that iteration, and a sound environment finishes the run like one that never broke."""
    assert json.loads((folder / "run.json").read_text())["status"] == "failed"
    agent = load_agent(folder, task=task_of())
    assert agent.learner.iteration == iteration
    assert same(agent.learner.params, after[iteration])
    agent.resume(progress=False)
    whole = HPIClip(task_of(), **TINY, **settings)
    assert same_parameters(agent, whole.learn(10 * whole.settings.batch_size, progress=False))


def names_step(text, step):
    return re.search(rf"step {step}\b", text) is not None
