"""What the tests of training on learned margins share: margins of RPSContinuous, that task with one, and short runs."""

from fitted_margins import STEP, random_margin
from mdcontest import tasks

TINY = {"num_steps": 64, "minibatches": 2, "epochs": 1, "hidden": (8,)}


def learned(model="skew", seed=0):
    return random_margin(model, seed, fields=STEP)


def corridor(margin=None):
    task = tasks.make("RPSContinuous")
    return task if margin is None else task.with_margin(margin)


def train(agent, folder, iterations=6, **options):
    return agent.learn(iterations * 64, progress=False, folder=folder, checkpoint_every=2, **options)
