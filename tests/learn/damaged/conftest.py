"""A run that was interrupted, and a copy of it to damage."""

import shutil

import pytest

from learn.stopped_runs import TINY
from mdcontest import tasks
from mdcontest.learn import HPIClip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run interrupted after its checkpoint of iteration 4; the one before is of iteration 2."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    settings = {"returned": "cloned", "cloning_minibatches": 4, "cloning_epochs": 2}
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY, **settings)

    def stop(agent, progress):
        if progress.iteration == 5:
            raise KeyError

    with pytest.raises(KeyError):
        agent.learn(6 * 64, progress=False, folder=folder, checkpoint_every=2, callback=stop)
    return folder


@pytest.fixture
def run(trained, tmp_path):
    """A copy of it to damage."""
    return shutil.copytree(trained, tmp_path / "run")
