"""Runs of six iterations that stop in the fourth, to be loaded again."""

import pytest

TINY = {"num_steps": 32, "minibatches": 2, "epochs": 1, "hidden": (8,)}


def interrupted(agent, folder, iterations=6):
    """Stopped in iteration 4, with a checkpoint after every one."""

    def stop(agent, progress):
        if progress.iteration == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent.learn(iterations * 32, False, stop, folder=folder, checkpoint_every=1)
