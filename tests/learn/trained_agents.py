"""Agents that were trained for a few small iterations."""

import functools

import numpy as np

from mdcontest import tasks
from mdcontest.learn import HPIClip

SMALL = {"num_steps": 64, "minibatches": 2, "epochs": 2, "hidden": (8,)}


def trained(kind, task, iterations=2, seed=0, **settings):
    agent = kind(task, seed, **(SMALL | settings))
    return agent.learn(iterations * agent.settings.batch_size, progress=False)


@functools.cache
def rps_agent():
    """A mixture of 12 iterates on RPSContinuous."""
    return trained(HPIClip, tasks.make("RPSContinuous"), 12)


def is_finite(agent):
    return all(np.isfinite(value).all() for layers in agent.learner.params.values() for value in layers.values())
