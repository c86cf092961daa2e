"""What tests of runs share: agents whose iterations take milliseconds, and a callback that stops them."""

from mdcontest import tasks
from mdcontest.learn import HPIClip

TINY = {"num_steps": 32, "minibatches": 2, "epochs": 1, "hidden": (4,)}
ITERATION = 32
"""Steps of one."""


def new_agent(**settings):
    return HPIClip(tasks.make("RPSContinuous"), 0, **TINY, **settings)


def stop_after(iteration, error=KeyboardInterrupt):
    """A callback that raises when an iteration is done."""

    def callback(agent, progress):
        if progress.iteration == iteration:
            raise error

    return callback
