"""Environments that are unusual train like any other, and what cannot work is refused with its reason."""

import copy
import pickle
import warnings
from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest

import mdcontest as mdc
from learn.broken_tasks import AT, Counter, larger, task_of
from learn.stopped_runs import TINY
from mdcontest import tasks
from mdcontest.errors import InputError, RunError
from mdcontest.learn import HPIClip, load_agent
from mdcontest.learn.play import sample_trajectories


class Counted(gymnasium.Env):
    """Two actions; its info counts the second, in any kind of number."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, kind):
        self.kind, self.steps = kind, 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), 0.0, self.steps == 10, False, {"count": self.kind(action)}


@pytest.mark.parametrize("kind", [float, int, np.uint8, np.bool_])
def test_info_is_the_same_number_wherever_it_is_read(kind):
    """−1 of an unsigned byte would be 255: in training as in play, margins get floats."""
    seen = []

    def counted(z):
        seen.append(z.info["count"].dtype)
        return -z.info["count"]

    task = mdc.Task(lambda: Counted(kind), mdc.margins.RewardDifference(counted), info_keys=["count"], name="Counted")
    agent = HPIClip(task, **TINY).learn(128, progress=False)
    played = sample_trajectories(task, agent, 3).outcomes
    assert task.margin.rows(played).min() >= -1
    assert set(seen) == {np.dtype(float)}


class Divided(Counted):
    """Its space is still that of the bytes which it has divided by 255."""

    observation_space = gymnasium.spaces.Box(0, 255, (4,), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full(4, 0.25), {}

    def step(self, action):
        return np.full(4, 0.25), *super().step(action)[1:]


def test_observations_that_a_margin_would_not_see_are_refused():
    task = mdc.Task(lambda: Divided(int), lambda z, w: 1.0 * z.obs[:, 0] - w.obs[:, 0], name="Divided")
    with pytest.raises(RunError, match=r"Divided: the observation space says uint8, which cannot hold the 0\.25 "):
        HPIClip(task, **TINY).learn(64, progress=False)


def test_an_environment_that_is_not_new_is_refused():
    one = Counter()
    task = mdc.Task(lambda: one, larger, name="Counter")
    with pytest.raises(InputError, match="Counter: the function has returned the same environment twice"):
        HPIClip(task, num_envs=2, **TINY)


def test_flags_of_numpy_are_read_as_they_are(tmp_path):
    """An array of one is a truth value, and one in a list is the same."""
    lengths = []
    for flag in (bool, np.bool_, lambda value: np.array([value]), lambda value: [value]):
        task = mdc.Task(lambda flag=flag: Flagged(flag), larger, name="Flagged", info_keys=("speed", "mass"))
        agent = HPIClip(task, **TINY).learn(128, progress=False)
        lengths.append((list(agent.recent), sample_trajectories(task, agent, 2).lengths.tolist()))
    assert lengths == lengths[:1] * 4
    assert [length for _, length in lengths[0][0]] == [50, 50]


class Flagged(Counter):
    def __init__(self, flag):
        super().__init__()
        self.flag = flag

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, self.flag(terminated), self.flag(truncated), info


@dataclass
class Unhashable(Counter):
    """Environments that compare by value have no hash."""

    fault: str | None = None
    at: int = AT
    steps: int = 0
    position: float = 0.0


def test_environments_without_a_hash_are_told_apart_by_identity():
    task = mdc.Task(Unhashable, larger, name="Unhashable")
    assert HPIClip(task, num_envs=2, **TINY).learn(128, progress=False).num_timesteps == 128
    one = Unhashable()
    with pytest.raises(InputError, match="has returned the same environment twice"):
        HPIClip(mdc.Task(lambda: one, larger, name="Unhashable"), **TINY)


class Stuck(Counter):
    """Cannot be closed."""

    def close(self):
        raise RuntimeError("the door is stuck")


def test_an_environment_that_cannot_be_closed():
    task = mdc.Task(Stuck, larger, name="Stuck")
    with pytest.raises(InputError, match=r"^Stuck: the environment raised RuntimeError when it was closed: the door"):
        HPIClip(task, **TINY)
    broken = mdc.Task(lambda: Stuck("raises", 5), larger, name="Stuck", info_keys=("speed", "mass"))
    agent = HPIClip(task_of(), **TINY)
    broken.__dict__["spaces"] = agent.task.spaces  # as if it could be closed then
    with pytest.raises(RunError, match=r"the motor is stuck at step 5$"):
        sample_trajectories(broken, agent, 1)


def test_a_task_can_be_copied_while_it_is_played():
    task = mdc.Task(Counter, larger, name="Counter")
    agent = HPIClip(task, **TINY)
    for copied in (copy.copy(task), copy.deepcopy(task)):
        assert copied.make_env().unwrapped is not agent.learner.collector.envs[0].unwrapped


@pytest.mark.parametrize(
    ("low", "high", "far"),
    [
        (100, 200, True),
        (-1000, 1000, True),
        (-3, 3, False),
        (-np.inf, np.inf, False),
        (-0.4, 0.4, False),
        (0, 5, False),
    ],
)
def test_actions_out_of_a_new_policys_reach_are_warned_of(low, high, far):
    class Boxed(Counter):
        action_space = gymnasium.spaces.Box(float(low), float(high), (1,), np.float64)

    task = mdc.Task(Boxed, larger, name="Boxed")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        HPIClip(task, **TINY)
    assert [("RescaleAction" in str(one.message), one.filename) for one in caught] == [(True, __file__)] * far


def test_observations_as_large_as_a_float_can_be():
    """Their variances are beyond single precision, in which iterates are stored; the mixture plays all the same."""

    class Large(Counter):
        def observe(self):
            return 1e20 * super().observe()

    agent = HPIClip(mdc.Task(Large, larger, name="Large"), returned="mixture", **TINY).learn(256, progress=False)
    action, _ = agent.predict(np.array([1e20, -1e20]))
    assert np.isfinite(action).all()


def test_rewards_too_large_to_be_added_up_are_named(tmp_path):
    """Also where the margin does not look at them: the log of episodes does."""

    class Rich(Counter):
        def step(self, action):
            obs, _, *rest = super().step(action)
            return obs, 1e308, *rest

    agent = HPIClip(mdc.Task(Rich, larger, name="Rich"), **TINY)
    with pytest.raises(RunError, match="Rich: the rewards of an episode add up to inf at step 2; divide them"):
        agent.learn(64, progress=False, folder=tmp_path)


def test_an_agent_of_another_kind_of_task():
    corridor = tasks.make("RPSCorridor")
    with pytest.raises(
        InputError, match=r"trained on Counter, .* than those of RPSCorridor: observations of 2 numbers and"
    ):
        mdc.estimate_gap(corridor, HPIClip(task_of(), **TINY), steps=300, restarts=1, progress=False)


def test_what_an_agent_cannot_do():
    agent = HPIClip(task_of(), **TINY)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"neither copied nor pickled; agent\.save"):
            copied(agent)
    agent.close()
    for act in (lambda: agent.predict(np.zeros(2)), lambda: agent.learn(64), agent.draw_policy):
        with pytest.raises(InputError, match="this agent was closed"):
            act()


def test_an_environment_with_awkward_states_comes_back(tmp_path):
    """Keys that look like what a checkpoint uses itself, and nested ones that read alike, stay apart."""

    class Awkward(gymnasium.Wrapper):
        def save_state(self):
            return {"array": np.array([1.0])}

        def load_state(self, state):
            assert state["array"] == np.array([1.0])

    class Slashed(gymnasium.Wrapper):
        def save_state(self):
            return {"a": {"b": np.array([1.0])}, "a/b": np.array([2.0])}

        def load_state(self, state):
            assert state["a"]["b"] == np.array([1.0])
            assert state["a/b"] == np.array([2.0])

    for number, wrapper in enumerate((Slashed, Awkward)):
        task = mdc.Task(lambda wrapper=wrapper: wrapper(Counter()), larger, name="awkward")
        HPIClip(task, **TINY).learn(64, progress=False, folder=tmp_path / str(number))
        assert load_agent(tmp_path / str(number), task=task).resumed_exactly


@pytest.mark.parametrize(
    "state", [{"names": np.array(["a", "b"])}, {"thing": object()}, {"x": float("nan")}], ids=["text", "object", "NaN"]
)
def test_a_state_that_cannot_be_written_is_an_error_of_ours(state, tmp_path):
    class Odd(gymnasium.Wrapper):
        def save_state(self):
            return state

        def load_state(self, state):
            pass

    agent = HPIClip(mdc.Task(lambda: Odd(Counter()), larger, name="odd"), **TINY)
    with pytest.raises(InputError):
        agent.learn(128, progress=False, folder=tmp_path, checkpoint_every=1)
