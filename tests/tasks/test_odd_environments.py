"""Environments that do what Gymnasium allows and few do: spoil their arguments, be closed once, sample as they go."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from mdcontest.errors import RunError
from mdcontest.gap import estimate_gap
from mdcontest.learn import HPIClip, load_agent
from mdcontest.learn.evaluate import evaluate
from mdcontest.learn.loading import same_parameters
from mdcontest.learn.play import play_episode
from mdcontest.tasks import Task, load_environment, reward_difference, save_environment
from mdcontest.tasks.environments import step_limit
from mdcontest.tasks.state import reset
from tiny_runs import stop_after

TINY = {"num_steps": 40, "minibatches": 2, "epochs": 1, "hidden": (4,)}


class Line(gymnasium.Env):
    """A position that actions move; nearer to zero is better."""

    observation_space = spaces.Box(-1e3, 1e3, (1,), np.float64)

    def __init__(self):
        self.action_space = spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.normal(size=1)
        return self.at.copy(), {}

    def step(self, action):
        self.at = np.clip(self.at + action, -1e3, 1e3)
        return self.at.copy(), -float(abs(self.at[0])), False, False, {}


class Half:
    """A policy of somebody else."""

    def predict(self, obs, state=None, episode_start=None, deterministic=False):
        return np.array([0.5]), None


def on(kind):
    return Task(kind, reward_difference(), horizon=20, name=kind.__name__)


class Spoils(Line):
    def step(self, action):
        action *= 0.1
        return super().step(action)


def test_what_is_stored_is_what_the_policy_said():
    task = on(Spoils)
    with task.closing(task.make_env()) as env:
        played = play_episode(task, Half(), env, 0)
    np.testing.assert_array_equal(played.outcomes.action, np.full((20, 1), 0.5))
    np.testing.assert_allclose(np.diff(played.outcomes.obs[:, 0]), 0.05)


class ClosedOnce(Line):
    is_closed = False

    def close(self):
        if self.is_closed:
            raise RuntimeError("already closed")
        self.is_closed = True


def test_a_gap_is_not_lost_when_environments_are_closed():
    quick = {"trajectories": 2, "steps": 80, "restarts": 1, "evaluation_steps": 40, "settings": TINY}
    found = estimate_gap(on(ClosedOnce), Half(), progress=False, **quick)
    assert np.isfinite(found.lower)


class Bare(gymnasium.Env):
    """Its spaces are those of the wrapper that encodes it."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0.0
        return self.at, {}

    def step(self, action):
        self.at += float(action[0])
        return self.at, -abs(self.at), bool(self.np_random.random() < 0.1), False, {}


class Encoded(gymnasium.Wrapper):
    def __init__(self):
        super().__init__(Bare())
        self.observation_space = spaces.Box(-1e3, 1e3, (1,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,))

    def reset(self, **options):
        at, info = self.env.reset(**options)
        return np.array([at]), info

    def step(self, action):
        at, *rest = self.env.step(action)
        return np.array([at]), *rest


def test_spaces_of_a_wrapper_alone_are_enough():
    agent = HPIClip(on(Encoded), seed=0, **TINY).learn(80, progress=False)
    assert agent.num_timesteps == 80


class Slips(Line):
    """Every other step is drawn from its action space; it can be saved, but for that space's generator."""

    def step(self, action):
        return super().step(action if self.np_random.random() < 0.5 else self.action_space.sample())

    def save_state(self):
        return {"at": self.at}

    def load_state(self, state):
        self.at = state["at"]


def test_draws_from_a_space_go_on_where_they_were(tmp_path):
    whole = HPIClip(on(Slips), seed=0, **TINY).learn(160, progress=False)
    with pytest.raises(KeyboardInterrupt):
        HPIClip(on(Slips), seed=0, **TINY).learn(
            160, progress=False, callback=stop_after(2), folder=tmp_path, checkpoint_every=1
        )
    again = load_agent(tmp_path, task=on(Slips)).resume(progress=False)
    assert list(again.recent) == list(whole.recent)


class InParts(Slips):
    observation_space = spaces.Dict({"one": spaces.Box(-1.0, 1.0, (1,)), "other": spaces.Box(-1.0, 1.0, (1,))})


def test_parts_of_a_space_have_generators_of_their_own_which_are_saved():
    env = InParts()
    reset(env, 5)
    first = env.observation_space.sample()
    assert first["one"] != first["other"]
    states = save_environment(env)
    expected = [env.observation_space.sample() for _ in range(3)]
    reset(env, 6)
    load_environment(env, states)
    assert [env.observation_space.sample() for _ in range(3)] == expected


class Samples(Line):
    """What it shows is drawn from a space that all of its kind have in common."""

    observation_space = spaces.Dict({"noise": spaces.Box(-1.0, 1.0, (2,)), "hint": spaces.Discrete(3)})
    action_space = spaces.Box(-1.0, 1.0, (1,))

    def __init__(self):
        pass

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), *super().step(action)[1:]


class Wrapped(gymnasium.Wrapper):
    """With a space of its class before that of what it wraps."""

    action_space = spaces.Box(-1.0, 1.0, (1,))

    def __init__(self):
        super().__init__(Samples())

    def step(self, action):
        return super().step((action + self.action_space.sample()) / 2)


@pytest.mark.parametrize("kind", [Samples, Wrapped])
def test_environments_beside_a_run_do_not_draw_from_its_spaces(kind):
    def play(agent, progress):
        evaluate(agent, episodes=1)

    settings = TINY | {"num_envs": 2}
    alone, beside = (
        HPIClip(on(kind), seed=0, **settings).learn(240, progress=False, callback=callback) for callback in (None, play)
    )
    assert same_parameters(alone, beside)


def test_spaces_that_an_environment_made_for_itself_are_left_alone():
    """It may hold them by another name, too, and draw from that."""
    env = on(Line).make_env()
    assert vars(env.unwrapped)["action_space"] is env.unwrapped.action_space is env.action_space
    assert env.observation_space is not Line.observation_space
    made = Line()
    assert Task(lambda: made, reward_difference()).make_env().action_space is made.action_space


# --- limits within limits, and what older environments return ------------------------------------------------


class Cuts(TimeLimit):
    """A limit of somebody's own."""


@pytest.mark.parametrize("kinds", [(TimeLimit, TimeLimit), (Cuts,), (TimeLimit, Cuts), ()])
def test_a_horizon_goes_before_every_limit(kinds):
    def made():
        env = Line()
        for kind, limit in zip(kinds, (5, 9), strict=False):
            env = kind(env, limit)
        return env

    task = Task(made, reward_difference(), horizon=12, name="cut")
    assert HPIClip(task, 0, **TINY).learn(40, False).recent[0][1] == 12
    env = task.make_env(horizon=3)
    assert (step_limit(env), play_episode(task, Half(), env, 0).length) == (3, 3)
    assert step_limit(made()) == (5 if kinds else None)


class Old(Line):
    """As Gym was before its version 0.26."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class OldSteps(Line):
    def step(self, action):
        obs, reward, _, _, info = super().step(action)
        return obs, reward, False, info


class RewardInArray(Line):
    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, np.array([reward]), *rest


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Old, r"reset must return \(observation, info\), it returned array"),
        (OldSteps, "step must return .*, it returned 4 values at step 1"),
    ],
)
def test_what_older_environments_return_is_told(kind, said):
    task = Task(kind, reward_difference(), name=kind.__name__)  # with a limit Gymnasium's own wrapper would complain
    with pytest.raises(RunError, match=said):
        HPIClip(task, 0, **TINY).learn(40, False)
    with pytest.raises(RunError, match=said):
        play_episode(task, Half(), task.make_env(), 0)


def test_a_reward_in_an_array_of_one_is_a_number():
    plain, boxed = (HPIClip(on(kind), 0, **TINY).learn(80, False) for kind in (Line, RewardInArray))
    assert same_parameters(plain, boxed)
    assert play_episode(on(RewardInArray), Half(), RewardInArray(), 0, max_steps=3).outcomes.reward.shape == (3,)
