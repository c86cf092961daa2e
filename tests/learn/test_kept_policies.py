"""A policy that was handed out, or cloned, acts the same however long its agent goes on."""

import shutil

import numpy as np
import pytest

from mdcontest.learn import load_agent
from mdcontest.learn import persist as persist_module
from mdcontest.learn.past import past_policy
from tiny_runs import ITERATION, new_agent, stop_after

CLONED = {"returned": "cloned", "cloning_epochs": 2, "cloning_minibatches": 2}
OBS = np.array([[0.5], [-0.5], [3.0]])


def interrupted(agent, folder, stop, iterations=10):
    with pytest.raises(KeyboardInterrupt):
        agent.learn(iterations * ITERATION, False, stop_after(stop), folder=folder, checkpoint_every=1)


def actions(policy):
    return policy.predict(OBS, deterministic=True)[0].tolist()


# --- clones -----------------------------------------------------------------------------------------------


def test_a_clone_keeps_the_statistics_it_was_cloned_with(tmp_path):
    agent = new_agent(**CLONED).learn(2 * ITERATION, False, folder=tmp_path)
    cloned = actions(agent)
    assert actions(load_agent(tmp_path)) == cloned
    interrupted(agent, tmp_path, 8)
    assert actions(agent) == cloned
    loaded = load_agent(tmp_path)
    assert loaded.learner.iteration == 7
    assert actions(loaded) == cloned
    assert actions(past_policy(loaded, 7 * ITERATION)) == cloned
    loaded.resume(progress=False)
    assert actions(loaded) != cloned, "a new clone, with statistics of its own"
    assert actions(load_agent(tmp_path)) == actions(loaded)


@pytest.mark.parametrize("normalise", [True, False])
def test_a_checkpoint_without_the_statistics_of_the_clone_loads(normalise, tmp_path, monkeypatch):
    """Those of the policy stand in, as they did when it was written."""
    record = persist_module.learner_record

    def older(learner):
        return {name: value for name, value in record(learner).items() if name != "cloned_moments"}

    with monkeypatch.context() as patched:
        patched.setattr("mdcontest.learn.runs.learner_record", older)
        agent = new_agent(**CLONED, normalise_observations=normalise).learn(2 * ITERATION, False, folder=tmp_path)
    loaded = load_agent(tmp_path)
    assert actions(loaded) == actions(agent)
    loaded.learn(2 * ITERATION, False, folder=tmp_path)
    assert actions(load_agent(tmp_path)) == actions(loaded)


# --- past policies ----------------------------------------------------------------------------------------


def drawn(policy):
    """Actions of many episodes, so that every iterate of the mixture is played; each is read from disk."""
    policy.seed_predictions(3)
    policy.mixture._loaded.clear()
    return policy.predict(np.zeros((50, 1)))[0].tolist()


@pytest.mark.parametrize("settings", [{"returned": "mixture"}, CLONED], ids=["mixture", "cloned"])
@pytest.mark.parametrize("where", ["same folder", "another folder", "no folder"])
def test_a_past_policy_stays_when_its_agent_goes_on(where, settings, tmp_path):
    interrupted(new_agent(**settings), tmp_path / "run", 4)
    agent = load_agent(tmp_path / "run")
    policy = past_policy(agent, 2 * ITERATION, "mixture")
    before = drawn(policy)
    if where == "same folder":
        agent.resume(progress=False)
    else:
        agent.learn(3 * ITERATION, False, folder=tmp_path / "other" if where == "another folder" else None)
        shutil.rmtree(tmp_path / "run")
    assert drawn(policy) == before
    assert len(policy.iterates) == 2
    assert len(policy.iterates.head(1)) == 1
    del agent
    assert drawn(policy) == before
