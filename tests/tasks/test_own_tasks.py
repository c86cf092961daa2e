"""Tasks of one's own: what their margins see, how they are registered, and errors that name the culprit."""

import dataclasses
import sys
from importlib.metadata import EntryPoint

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import mdcontest as mdc
from mdcontest import tasks
from mdcontest.learn.networks import initial_params
from mdcontest.learn.policy import Policy, Unchanged
from mdcontest.learn.rollout import Collector
from mdcontest.settings import Settings
from mdcontest.tasks import registry
from shipped_tasks import SHIPPED


def collected(task, num_steps=40, num_envs=1):
    """Outcomes as a learner gets them, from an untrained policy."""
    observations, actions = task.spaces
    settings = Settings(num_steps=num_steps, num_envs=num_envs, minibatches=1)
    params = initial_params(observations.size, actions.size, (8,), actions.discrete, 0)
    policy = Policy(params["actor"], Unchanged(observations.size))
    collector = Collector(task, settings, np.random.SeedSequence(0))
    collector.start(policy.moments)
    rollout = collector.collect(policy, np.random.default_rng(0), 0)
    collector.close()
    return rollout.outcomes(task)


# --- what a margin sees -----------------------------------------------------------------------------------


class Kitchen(gymnasium.Env):
    """A Dict observation and an info beside it; the clock counts the steps, the place is the last action."""

    observation_space = spaces.Dict({"place": spaces.Box(-1.0, 1.0, (2,), np.float32), "room": spaces.Discrete(3)})
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        return {"place": np.zeros(2, np.float32), "room": 0}, {}

    def step(self, action):
        self.clock += 1
        obs = {"place": np.asarray(action, np.float32), "room": self.clock % 3}
        return obs, 0.0, self.clock == 7, False, {"clock": self.clock, "pose": np.array([self.clock, 2.0])}


def test_dict_observations_reach_the_margin_as_a_mapping():
    seen = []

    def margin(z, w):
        seen.append(z)
        return (z.obs["room"] - w.obs["room"]) + (z.next_obs["place"][:, 0] - w.next_obs["place"][:, 0])

    task = mdc.Task(Kitchen, margin)
    z = collected(task)
    np.testing.assert_array_equal(z.obs["room"], np.arange(40) % 7 % 3)
    np.testing.assert_array_equal(z.next_obs["place"], z.action)
    assert z.obs["place"].shape == (40, 2)
    assert len(z) == 40
    value = z.obs["room"] + z.next_obs["place"][:, 0].astype(float)
    np.testing.assert_allclose(task.cumulant(z, z), value - value.mean(), atol=1e-6)
    assert set(seen[0].obs) == {"place", "room"}


def test_info_keys_reach_the_margin():
    task = mdc.Task(Kitchen, lambda z, w: z.info["clock"] - w.info["clock"], info_keys=["clock", "pose"])
    z = collected(task, num_steps=21, num_envs=2)
    clock = np.repeat(np.arange(21) % 7 + 1, 2)
    np.testing.assert_array_equal(z.info["clock"], clock)
    np.testing.assert_array_equal(z.info["pose"], np.stack([clock, np.full(42, 2.0)], axis=1))
    np.testing.assert_allclose(task.cumulant(z, z), clock - 4.0, atol=1e-12)
    assert mdc.Task(Kitchen, task.margin, info_keys="clock").info_keys == ("clock",)


def test_an_info_that_is_not_there_is_named():
    with pytest.raises(
        mdc.RunError, match=r"Kitchen: the info of step 1 has no entry 'watch', it has \['clock', 'pose'\]"
    ):
        collected(mdc.Task(Kitchen, lambda z, w: z.reward - w.reward, info_keys=["watch"]))


# --- the registry -----------------------------------------------------------------------------------------


def kitchen_task(rooms: int = 3):
    return mdc.Task(Kitchen, lambda z, w: (z.obs["room"] - w.obs["room"]) / rooms)


@pytest.fixture
def own_registry(monkeypatch):
    """A registry whose changes are forgotten after the test."""
    monkeypatch.setattr(registry, "_makers", dict(registry._makers))
    return registry


def test_an_unknown_task_lists_the_known_ones():
    with pytest.raises(mdc.InputError, match=r"no task 'Hopper'; did you mean Hopper-v5"):
        tasks.make("Hopper")


def test_an_unknown_setting_of_a_task_is_named():
    with pytest.raises(mdc.InputError, match=r"Hopper-v5 does not take these settings: .*'theta'"):
        tasks.make("Hopper-v5", theta=1.0)


def test_settings_of_a_made_task_are_kept_with_it():
    task = tasks.make("Reacher-NT", theta=1.0)
    assert task.settings == {"theta": 1.0}
    assert task.name == "Reacher-NT"
    assert tasks.make("Hopper-v5").settings == {}
    assert mdc.Task("Hopper-v5", tasks.reward_difference()).settings is None


def test_a_registered_task_is_made_by_name(own_registry):
    tasks.register("Kitchen-v0", kitchen_task)
    assert "Kitchen-v0" in tasks.names()
    task = tasks.make("Kitchen-v0", rooms=2)
    assert (task.name, task.settings) == ("Kitchen-v0", {"rooms": 2})
    for taken in ("Kitchen-v0", "Hopper-v5"):
        with pytest.raises(mdc.InputError, match=f"already a task '{taken}'"):
            tasks.register(taken, kitchen_task)
    tasks.register("No-Task", lambda: 3)
    with pytest.raises(mdc.InputError, match="registered as No-Task makes a int, not a Task"):
        tasks.make("No-Task")


def test_tasks_of_other_packages_come_through_entry_points(monkeypatch):
    points = [
        EntryPoint("Their-Corridor", "mdcontest.tasks.corridor:rps_corridor", registry.GROUP),
        EntryPoint("Hopper-v5", "nowhere:nothing", registry.GROUP),  # ours goes first
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.GROUP else [])
    assert tasks.names() == [*SHIPPED, "Their-Corridor"]
    task = tasks.make("Their-Corridor", slip=0.25)
    assert (task.name, task.settings) == ("Their-Corridor", {"slip": 0.25})
    assert tasks.make("Hopper-v5").env == "Hopper-v5"
    with pytest.raises(mdc.InputError, match="already a task 'Their-Corridor'"):
        tasks.register("Their-Corridor", kitchen_task)


TASK_ERRORS = {
    "no environment": (lambda: mdc.Task(3, tasks.reward_difference()), "Gymnasium id or a function.*got int"),
    "no margin": (lambda: mdc.Task("Hopper-v5", 3), "fn must be a function"),
    "horizon of nothing": (lambda: tasks.make("Hopper-v5", horizon=0), "horizon must be .* at least 1.* got 0"),
    "unknown id": (lambda: mdc.Task("Hoper-v5", lambda z, w: 0).make_env(), "cannot make the environment Hoper-v5"),
    "unknown option": (
        lambda: mdc.Task("Hopper-v5", lambda z, w: 0, env_settings={"legs": 3}).make_env(),
        "Hopper-v5 does not take these settings: .*legs",
    ),
    "maker of something else": (lambda: mdc.Task(dict, lambda z, w: 0).make_env(), "dict must make a gymnasium.Env"),
    "maker that leaves": (
        lambda: mdc.Task(lambda: sys.exit(0), lambda z, w: 0, name="Window").make_env(),
        "cannot make the environment of Window: SystemExit: 0",
    ),
    "no spaces": (
        lambda: mdc.Task(gymnasium.Env, lambda z, w: 0, name="Bare").spaces,
        r"Bare: the environment cannot say its observation_space \(AttributeError: .*\); set self.observation_space to",
    ),
    "spaces that fail": (
        lambda: mdc.HPIClip(mdc.Task(Spaceless, lambda z, w: 0)),
        r"Spaceless: the environment cannot say its action_space \(KeyError: 'arm'\); set self.action_space to a space",
    ),
    "no model": (lambda: tasks.make("Hopper-v5").contest(), "Hopper-v5 has no finite model"),
    "a model that is a contest": (
        lambda: corridor_with(lambda: mdc.tasks.make("RPSCorridor").contest()).finite_model(),
        r"Corridor: model must return a FiniteModel\(contest, observations\), got a Contest",
    ),
    "a model with other observations": (
        lambda: corridor_with(lambda: model_seen_as(np.eye(3)[:, :2])).finite_model(),
        r"Corridor: .* observations of shape \(3, 2\), and its 3 states need .* 3 numbers, shape \(3, 3\)",
    ),
    "a model of other actions": (
        lambda: described(model=lambda: model_seen_as(np.zeros((3, 4)))).finite_model(),
        "CartPole-v1: the finite model has 3 actions, and the environment has .* and 2 actions; the two",
    ),
    "slip": (lambda: tasks.make("RPSCorridor", slip=1.5), "slip is a probability below 1, got 1.5"),
    "end": (lambda: tasks.make("RPSContinuous", end=-0.1), "end is a probability below 1, got -0.1"),
    "ended that is none": (lambda: described(ended=np.nan), "ended must be a finite number or a function"),
    "ended a truth": (lambda: described(ended=True), "ended must be a finite number or a function"),
    "no largest reward": (lambda: described(largest_reward=np.inf), "largest_reward must be a finite number, got inf"),
    "largest reward a text": (lambda: described(largest_reward="x"), "largest_reward must be a finite number, got 'x'"),
    "a number for a name": (lambda: described(name=5), "name must be a text, got 5"),
    "another group": (lambda: described(group="NT"), "got 'NT'; did you mean nt"),
    "no group": (lambda: described(group=3), "got 3; the groups are suite, nt"),
    "one class name": (lambda: described(class_names="rock"), "class_names must be a list of texts"),
    "positions": (lambda: described(positions=5), "positions must be a function"),
    "reach": (lambda: described(reach=-1), "reach must be positive, got -1"),
}


class Spaceless(gymnasium.Env):
    observation_space = spaces.Box(-1.0, 1.0, (1,))

    @property
    def action_space(self):
        raise KeyError("arm")


def corridor_with(model):
    return dataclasses.replace(tasks.make("RPSCorridor"), name="Corridor", model=model)


def model_seen_as(observations):
    return tasks.FiniteModel(tasks.make("RPSCorridor").contest(), observations)


def described(**more):
    return mdc.Task("CartPole-v1", lambda z, w: z.obs[:, 0] - w.obs[:, 0], **more)


@pytest.mark.parametrize("number", [1, np.float32(1), np.int64(1)])
def test_numbers_of_numpy_are_numbers(number):
    task = described(ended=number, largest_reward=number)
    assert (task.ended, task.largest_reward) == (1.0, 1.0)
    assert type(task.ended) is type(task.largest_reward) is float, "files hold no numbers of NumPy"


@pytest.mark.parametrize("case", TASK_ERRORS)
def test_errors_name_the_culprit(case):
    make, message = TASK_ERRORS[case]
    with pytest.raises(mdc.InputError, match=message):
        make()


def test_the_horizon_of_a_call_goes_before_the_tasks_and_that_before_the_registered():
    def length(task, horizon=None):
        env = task.make_env(horizon)
        env.reset(seed=0)
        steps, ended = 0, False
        while not ended:
            _, _, terminated, truncated, _ = env.step(np.zeros(env.action_space.shape, np.float32))
            steps, ended = steps + 1, terminated or truncated
        env.close()
        return steps

    assert length(tasks.make("Reacher-NT")) == 50
    assert length(tasks.make("Reacher-NT", horizon=70)) == 70
    assert length(tasks.make("Reacher-NT", horizon=70), 30) == 30
    assert length(tasks.make("RPSContinuous", end=0.0), 12) == 12
