"""Environments saved in the middle of an episode go on bit for bit, resets included."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers

from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.learn import HPIClip
from mdcontest.learn.evaluate import evaluate
from mdcontest.tasks import Task, load_environment, save_environment


def played(env, actions):
    """What each step gives, with a reset where an episode ends; every observation as a flat vector."""
    seen = []
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        seen.append(np.append(np.ravel(obs), [reward, terminated, truncated]))
        if terminated or truncated:
            seen.append(np.append(np.ravel(env.reset()[0]), [0, 0, 0]))
    return seen


def sampled(env, count, seed):
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(count)]


@pytest.mark.parametrize("name", tasks.names())
def test_a_loaded_environment_goes_on_bit_for_bit(name):
    task = tasks.make(name)
    env, other = task.make_env(horizon=37), task.make_env(horizon=37)
    env.reset(seed=5)
    played(env, sampled(env, 50, seed=1))  # 50 is no multiple of 37: an episode is under way
    states = save_environment(env)
    actions = sampled(env, 120, seed=2)
    expected = played(env, actions)
    other.reset(seed=0)
    played(other, sampled(other, 9, seed=3))  # whatever it did before does not matter
    load_environment(other, states)
    found = played(other, actions)
    assert len(found) == len(expected) > 120  # some episode ended
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    env.close()
    other.close()


@pytest.mark.parametrize("name", ["Hopper-v5", "Humanoid-v5", "RPSContinuous"])
def test_saving_does_not_disturb_the_environment(name):
    task = tasks.make(name)
    env, other = task.make_env(horizon=37), task.make_env(horizon=37)
    actions = sampled(env, 60, seed=1)
    for one in (env, other):
        one.reset(seed=5)
    before = played(env, actions)
    after = []
    for action in actions:
        save_environment(other)
        after += played(other, [action])
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    env.close()
    other.close()


@pytest.mark.parametrize("name", ["Hopper-v5", "Ant-v5", "RPSCorridor"])
def test_a_saved_state_is_a_copy(name):
    """What is played after saving does not reach into the state."""
    task = tasks.make(name)
    env, other = task.make_env(horizon=37), task.make_env(horizon=37)
    env.reset(seed=5)
    states = save_environment(env)
    actions = sampled(env, 60, seed=2)
    expected = played(env, actions)
    played(env, sampled(env, 30, seed=4))
    other.reset(seed=0)
    load_environment(other, states)
    assert all(np.array_equal(a, b) for a, b in zip(played(other, actions), expected, strict=True))
    env.close()
    other.close()


def test_an_environment_that_cannot_tell_gives_none():
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    assert save_environment(env) is None
    env.close()


LONG = np.dtype(np.longdouble)


class Walk(gymnasium.Env):
    """A random walk that can be saved."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = float(self.np_random.normal())
        return np.array([self.place]), {}

    def step(self, action):
        self.place += (2 * action - 1) * float(self.np_random.uniform())
        return np.array([self.place]), self.place, abs(self.place) > 4, False, {}

    def save_state(self):
        return {"place": self.place}

    def load_state(self, state):
        assert set(state) == {"place"}
        self.place = state["place"]


def continues(make):
    env, other = make(), make()
    env.reset(seed=1)
    played(env, sampled(env, 17, seed=1))
    states = save_environment(env)
    assert states is not None
    actions = sampled(env, 60, seed=2)
    expected = played(env, actions)
    other.reset(seed=9)
    load_environment(other, json.loads(json.dumps(states)))  # plain values: it goes through a file
    found = played(other, actions)
    return len(expected) > 60 and all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_an_environment_with_save_state_goes_on_through_wrappers():
    assert continues(lambda: wrappers.TimeLimit(Walk(), 11))
    assert continues(lambda: wrappers.TimeLimit(wrappers.OrderEnforcing(wrappers.PassiveEnvChecker(Walk())), 11))
    assert continues(lambda: wrappers.TimeLimit(wrappers.ClipReward(Walk(), -1.0, 1.0), 11))


class Echo(gymnasium.Wrapper):
    """Rewards the step before: a wrapper with a state of its own."""

    last = 0.0

    def reset(self, **options):
        self.last = 0.0
        return self.env.reset(**options)

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.last, before = reward, self.last
        return obs, before, terminated, truncated, info


class SavedEcho(Echo):
    def save_state(self):
        return {"last": self.last}

    def load_state(self, state):
        self.last = state["last"]


def test_a_wrapper_of_unknown_type_gives_none():
    # It would be wrong to take what it wraps for an answer, though attribute look-up might reach it.
    env = wrappers.TimeLimit(Echo(Walk()), 11)
    env.reset(seed=0)
    assert save_environment(env) is None


def test_a_wrapper_with_save_state_takes_part():
    assert continues(lambda: wrappers.TimeLimit(SavedEcho(Walk()), 11))
    assert continues(lambda: SavedEcho(wrappers.TimeLimit(Walk(), 11)))


@pytest.mark.parametrize(
    ("state", "where"),
    [
        ({"place": float("nan")}, "['place'] is nan; a number that is not finite"),
        (
            {"place": 0.0, "best": {"so far": [1.0, float("-inf")]}},
            "['best']['so far'][1] is -inf; a number that is not finite",
        ),
        ({"seen": {1, 2}}, "['seen'] is a set, which no file holds; save numbers"),
        ({"walks": [{"by": object()}]}, "['walks'][0]['by'] is a object, which no file holds"),
        ({"place": 1j}, "['place'] is a complex, which no file holds"),
        ({"place": b"x"}, "['place'] is a bytes, which no file holds"),
        ({"place": LONG.type(1)}, f"['place'] is of {LONG}, which no file holds; save it as np.float64"),
        ({"seen": [np.ones(2, LONG)]}, f"['seen'][0] is of {LONG}, which no file holds"),
        (None, " is None, it must be a dictionary, an empty one"),
        ([1.0], " is [1.0], it must be a dictionary"),
    ],
)
def test_a_state_that_no_file_can_hold_is_named(state, where, monkeypatch, tmp_path):
    if str(LONG) in where and LONG.itemsize <= 8:
        pytest.skip("a long double is a double here")
    monkeypatch.setattr(Walk, "save_state", lambda self: state)
    agent = HPIClip(Task(Walk, lambda z, w: z.reward - w.reward, name="Walk"), num_steps=64, minibatches=2, epochs=1)
    with pytest.raises(InputError) as caught:
        agent.learn(64, progress=False, folder=tmp_path / "run")
    assert f"the state that save_state of Walk gave{where}" in str(caught.value)
    assert str(caught.value).startswith("Walk: the state of the environment cannot be saved")


@pytest.mark.parametrize("best", [np.array([np.nan, np.inf]), np.float64("inf"), np.float32("nan")])
def test_numbers_of_numpy_in_a_state_may_be_anything(best, monkeypatch, tmp_path):
    monkeypatch.setattr(Walk, "save_state", lambda self: {"place": self.place, "best": best})
    agent = HPIClip(Task(Walk, lambda z, w: z.reward - w.reward, name="Walk"), num_steps=64, minibatches=2, epochs=1)
    assert agent.learn(64, progress=False, folder=tmp_path / "run").num_timesteps == 64


class Slippery(gymnasium.Env):
    """Half of the time it takes a step of its own: its action space is asked for one."""

    observation_space = spaces.Box(-1e3, 1e3, (1,))

    def __init__(self):
        self.action_space = spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = np.zeros(1)
        return self.at.astype(np.float32), {}

    def step(self, action):
        taken = action if self.np_random.random() < 0.5 else self.action_space.sample()
        self.at = np.clip(self.at + taken, -1e3, 1e3)
        return self.at.astype(np.float32), float(self.at[0]), False, False, {}


def test_an_environment_that_samples_from_its_own_space_is_seeded_there_too():
    def returns(seed):
        task = Task(Slippery, lambda z, w: z.obs[:, 0] - w.obs[:, 0], horizon=20)
        agent = HPIClip(task, seed=seed, num_steps=40, minibatches=2, hidden=(4,)).learn(80)
        return list(evaluate(agent, episodes=3, seed=1).returns)

    assert returns(3) == returns(3)
    assert returns(3) != returns(4)
