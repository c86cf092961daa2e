"""What stops a run at an awkward moment: after its last step, within an episode, or while its state is saved."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import mdcontest as mdc
from mdcontest import tasks
from mdcontest.errors import RunError
from mdcontest.learn import PPO, load_agent
from mdcontest.learn import runs as runs_module
from mdcontest.learn.checkpoint import list_checkpoints
from mdcontest.learn.evaluate import evaluate
from mdcontest.learn.loading import same_parameters
from mdcontest.learn.runs import read_description
from tiny_runs import ITERATION, TINY, new_agent, stop_after

ITERATIONS = 4
SETTINGS = {"mixture": {}, "cloned": {"returned": "cloned", "cloning_epochs": 1, "cloning_minibatches": 2}}


class Endless(gymnasium.Env):
    """Every step gives 1, and no episode ends by itself."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        return np.zeros(1), 1.0, False, False, {}


class Saved(Endless):
    def save_state(self):
        return {}

    def load_state(self, state):
        pass


class Unsaved(Saved):
    error: Exception = ValueError("no state yet")

    def save_state(self):
        raise self.error


def endless(kind=Endless):
    return mdc.Task(kind, tasks.reward_difference(), name="endless", horizon=1000)


# --- after the last iteration -----------------------------------------------------------------------------


def require_finished(folder, agent):
    stored = load_agent(folder)
    assert read_description(folder)["status"] == "finished"
    assert read_description(folder)["steps"] == stored.num_timesteps == ITERATIONS * ITERATION
    assert stored.call == agent.call == (ITERATIONS, ITERATIONS)
    assert same_parameters(stored, agent)
    x = np.zeros((3, 1))
    assert np.array_equal(*(one.policy.head(one.policy.moments.normalise(x)) for one in (stored, agent)))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_callback_that_stops_after_the_last_iteration(settings, tmp_path):
    agent = new_agent(**settings)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(ITERATIONS * ITERATION, False, stop_after(ITERATIONS), folder=tmp_path)
    agent.resume(progress=False)
    require_finished(tmp_path, agent)


def test_a_last_checkpoint_that_the_disk_did_not_take(tmp_path, monkeypatch):
    write = runs_module.write_checkpoint

    def full(path, number, record):
        if number == ITERATIONS:
            raise RunError("No space left on device")
        return write(path, number, record)

    agent = new_agent()
    with monkeypatch.context() as patched:
        patched.setattr(runs_module, "write_checkpoint", full)
        with pytest.raises(RunError, match="No space left"):
            agent.learn(ITERATIONS * ITERATION, False, folder=tmp_path)
        with pytest.raises(RunError, match="No space left"):
            agent.resume(progress=False)
        assert read_description(tmp_path)["status"] == "failed"
    agent.resume(progress=False)
    require_finished(tmp_path, agent)


@pytest.mark.parametrize("loaded", [False, True])
def test_a_last_checkpoint_that_is_there_is_not_written_again(loaded, tmp_path, monkeypatch):
    def fail(*_):
        raise RunError("No space left on device")

    agent = new_agent()
    with monkeypatch.context() as patched:
        patched.setattr(runs_module, "export_logs", fail)
        with pytest.raises(RunError, match="No space left"):
            agent.learn(ITERATIONS * ITERATION, False, folder=tmp_path)
    before = list_checkpoints(tmp_path)
    agent = load_agent(tmp_path) if loaded else agent
    agent.resume(progress=False)
    require_finished(tmp_path, agent)
    assert list_checkpoints(tmp_path) == before


# --- within an episode ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Endless, Saved])
def test_a_new_episode_begins_with_a_discounted_sum_of_zero(kind, tmp_path):
    """Where the environment cannot go on with the episode, its sum of rewards has ended, too."""
    with pytest.raises(KeyboardInterrupt):
        PPO(endless(kind), 0, **TINY).learn(4 * ITERATION, False, stop_after(3), folder=tmp_path, checkpoint_every=1)
    agent, gamma = load_agent(tmp_path, task=endless(kind)), 0.99
    assert agent.settings.gamma == gamma
    assert agent.learner.iteration == 2
    length = (2 if kind is Endless else 4) * ITERATION
    if kind is Endless:
        with pytest.warns(UserWarning, match="new episodes"):
            agent.resume(progress=False)
    else:
        agent.resume(progress=False)
    assert agent.learner.scale.running == pytest.approx([(1 - gamma**length) / (1 - gamma)])


class Lost(Saved):
    def load_state(self, state):
        raise ValueError("the map\nis gone")


def test_an_environment_that_cannot_go_on_can_be_played_but_not_trained(tmp_path):
    """Its policy needs no state of it; whoever would train on is told what the environment said."""
    with pytest.raises(KeyboardInterrupt):
        PPO(endless(Saved), 0, **TINY).learn(4 * ITERATION, False, stop_after(3), folder=tmp_path, checkpoint_every=1)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    agent = load_agent(tmp_path, task=endless(Lost))
    assert agent.num_timesteps == 2 * ITERATION
    assert evaluate(agent, 1).returns.tolist() == [1000.0]
    said = r"^endless: the environment cannot go on from its saved state: ValueError: the map is gone; mend the env"
    calls = (lambda: agent.resume(progress=False), lambda: agent.learn(64), lambda: agent.save(tmp_path / "copy"))
    for call in calls:
        with pytest.raises(RunError, match=said):
            call()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    mended = load_agent(tmp_path, task=endless(Saved)).resume(progress=False)
    assert same_parameters(mended, PPO(endless(Saved), 0, **TINY).learn(4 * ITERATION, False))
    assert load_agent(tmp_path, task=endless(Lost)).resume(progress=False).num_timesteps == 4 * ITERATION


# --- while the state is saved -----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("no state yet"), KeyError("x"), RunError("not now")])
def test_a_state_that_cannot_be_saved_names_the_task(error, tmp_path, monkeypatch):
    monkeypatch.setattr(Unsaved, "error", error)
    with pytest.raises(
        RunError, match=r"endless: the state of the environment cannot be saved: .*(no state|x|not now)"
    ):
        PPO(endless(Unsaved), 0, **TINY).learn(2 * ITERATION, False, folder=tmp_path, checkpoint_every=1)
    assert "endless" in read_description(tmp_path)["error"]
    assert load_agent(tmp_path, task=endless(Unsaved)).num_timesteps == 0
