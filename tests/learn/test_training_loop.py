"""One loop for every algorithm, space and setting, and the settings that an agent takes."""

import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import mdcontest as mdc
from learn.trained_agents import SMALL, is_finite, rps_agent, trained
from mdcontest import tasks
from mdcontest.learn import HPI, PPO, SPPO, HPIClip
from mdcontest.learn.loading import same_parameters
from strategies import count_of


def upright(z, w):
    return np.abs(w.next_obs[:, 2]) - np.abs(z.next_obs[:, 2])


class Kitchen(gymnasium.Env):
    """A Dict observation; the place follows the action, the room changes at random."""

    observation_space = spaces.Dict(
        {"place": spaces.Box(-1.0, 1.0, (2,), np.float32), "room": spaces.Discrete(3, start=1)}
    )
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"place": np.zeros(2, np.float32), "room": 1}, {}

    def step(self, action):
        assert self.action_space.contains(action)
        room = int(self.np_random.integers(1, 4))
        return {"place": np.array(action, np.float32), "room": room}, float(action[0]), room == 3, False, {}


def kitchen(z, w):
    return z.next_obs["place"][:, 0] - w.next_obs["place"][:, 0] + np.sign(z.obs["room"] - w.obs["room"])


# --- one loop for all -------------------------------------------------------------------------------------


def test_learning_twice_goes_on_and_anneals_anew():
    agent, seen = HPIClip(tasks.make("RPSContinuous"), **SMALL), []

    def note(agent, progress):
        seen.append((progress.steps, progress.learning_rate))

    agent.learn(4 * 64, progress=False, callback=note)
    halfway = agent.learner.params
    agent.learn(2 * 64 + 63, progress=False, callback=note)  # whole iterations only
    assert agent.num_timesteps == 6 * 64
    assert agent.learner.iteration == len(agent.learner.iterates) == 6
    assert [steps for steps, _ in seen] == [64 * k for k in range(1, 7)]
    # Over each call: 3e-4·(1, ¾, ½, ¼), then 3e-4·(1, ½).
    np.testing.assert_allclose([rate for _, rate in seen], 3e-4 * np.array([1, 0.75, 0.5, 0.25, 1, 0.5]))
    assert not np.array_equal(agent.learner.params["actor"]["w0"], halfway["actor"]["w0"])


def test_without_annealing_two_calls_are_one():
    task = tasks.make("RPSContinuous")
    once = trained(HPIClip, task, 5, anneal=False)
    twice = HPIClip(task, **SMALL, anneal=False).learn(2 * 64, progress=False).learn(3 * 64, progress=False)
    assert same_parameters(once, twice)


def test_a_callback_that_returns_false_stops():
    agent, seen = HPIClip(tasks.make("RPSContinuous"), **SMALL), []

    def stop(agent, progress):
        seen.append(progress.iteration)
        return len(seen) < 3

    assert agent.learn(10 * 64, progress=False, callback=stop) is agent
    assert seen == [1, 2, 3]
    assert agent.num_timesteps == 3 * 64
    agent.learn(64, progress=False, callback=lambda agent, progress: None)  # None goes on
    assert agent.num_timesteps == 4 * 64


@pytest.mark.parametrize("kind", [HPIClip, HPI, PPO])
def test_discrete_actions_train_through_the_same_calls(kind):
    agent = trained(kind, mdc.Task("CartPole-v1", upright))
    assert is_finite(agent)
    action, _ = agent.predict(np.zeros(4))
    assert action in (0, 1)
    actions, _ = agent.predict(np.zeros((6, 4)))
    assert actions.shape == (6,)
    assert set(actions.tolist()) <= {0, 1}


@pytest.mark.parametrize("returned", ["mixture", "cloned"])
def test_dict_observations_train_through_the_same_calls(returned):
    agent = trained(HPIClip, mdc.Task(Kitchen, kitchen), returned=returned, cloning_epochs=1)
    assert is_finite(agent)
    one = {"place": np.zeros(2, np.float32), "room": 2}
    action, state = agent.predict(one)
    assert Kitchen.action_space.contains(action)
    assert state is None if returned == "cloned" else state.shape == (1,)
    many = {"place": np.zeros((5, 2), np.float32), "room": np.array([1, 2, 3, 1, 2])}
    actions, _ = agent.predict(many, deterministic=returned == "cloned")
    assert actions.shape == (5, 2)
    if returned == "cloned":  # the same observation, the same action
        np.testing.assert_array_equal(actions[0], actions[3])
        np.testing.assert_array_equal(actions[1], agent.predict(one, deterministic=True)[0])


@pytest.mark.parametrize("kind", [HPIClip, SPPO])
def test_several_environments_make_one_batch(kind):
    agent = trained(kind, tasks.make("RPSContinuous"), num_envs=3)
    assert agent.num_timesteps == 2 * 3 * 64
    assert is_finite(agent)
    assert len({float(place) for place in agent.learner.collector.obs[:, 0]}) == 3


OPTIONS = {
    "opponents": ("batch", "queue"),
    "termination": ("ended", "paper"),
    "truncation": ("bootstrap", "zero"),
    "critic": ("discounted", "average"),
    "hedge": ("corrected", "printed"),
    "returned": ("last", "mixture", "cloned"),
}
EVERY = list(itertools.product(*OPTIONS.values()))
# Eight of them hold every pair of values of any two settings.
PAIRS = [
    ("batch", "paper", "zero", "average", "printed", "mixture"),
    ("queue", "ended", "bootstrap", "discounted", "corrected", "last"),
    ("queue", "paper", "zero", "discounted", "printed", "cloned"),
    ("batch", "ended", "bootstrap", "average", "corrected", "cloned"),
    ("queue", "paper", "bootstrap", "discounted", "corrected", "mixture"),
    ("batch", "ended", "zero", "average", "printed", "last"),
    ("queue", "paper", "zero", "average", "corrected", "last"),
    ("batch", "ended", "bootstrap", "discounted", "printed", "mixture"),
]


def test_the_reduced_combinations_hold_every_pair():
    for i, j in itertools.combinations(range(len(OPTIONS)), 2):
        assert len({(one[i], one[j]) for one in PAIRS}) == len({(one[i], one[j]) for one in EVERY})


@pytest.mark.parametrize("values", PAIRS if count_of(0, 1) == 0 else EVERY, ids="-".join)
def test_every_combination_of_settings_runs(values):
    chosen = dict(zip(OPTIONS, values, strict=True))
    agent = trained(HPI, tasks.make("RPSContinuous"), horizon=9, first_iterate=3, cloning_epochs=1, **chosen)
    assert {name: getattr(agent.settings, name) for name in chosen} == chosen
    assert is_finite(agent)
    action, state = agent.predict(np.array([0.5]))
    assert agent.task.make_env().action_space.contains(action)
    assert (state is not None) == (chosen["returned"] == "mixture")
    assert (agent.learner.cloned is not None) == (chosen["returned"] == "cloned")


# --- which settings an agent takes ------------------------------------------------------------------------


def test_auto_returns_a_mixture_where_preferences_may_be_intransitive():
    found = {
        (kind.algorithm.name, name): kind(tasks.make(name)).settings.returned
        for kind in (PPO, HPI, HPIClip, SPPO)
        for name in ("InvertedPendulum-v5", "RPSContinuous")
    }
    expected = {key: "mixture" if key[1] == "RPSContinuous" and key[0] != "ppo" else "last" for key in found}
    assert found == expected


def test_presets_recommendations_and_own_settings_in_order():
    corridor = tasks.make("RPSCorridor")
    assert HPIClip(corridor).settings.clip == 0.05  # the task recommends it
    assert HPIClip(corridor, clip=0.3).settings.clip == 0.3
    paper = HPIClip(corridor, preset="paper").settings
    assert (paper.clip, paper.opponents, paper.horizon) == (0.2, "queue", 2048)
    reacher = HPI(tasks.make("Reacher-NT"), preset="paper", queue_size=7).settings
    assert (reacher.queue_size, reacher.returned, reacher.hedge) == (7, "cloned", "printed")
    assert SPPO(corridor).settings.comparison_horizon == 0


ERRORS = {
    "no task": (lambda: HPIClip("Hopper-v5"), "task must be a Task, got str; tasks.make"),
    "preset": (lambda: HPIClip(tasks.make("RPSCorridor"), preset="papr"), "no preset 'papr'"),
    "seed": (lambda: HPIClip(tasks.make("RPSCorridor"), seed=-1), "seed must .*not .*negative, got -1"),
    "setting": (lambda: HPIClip(tasks.make("RPSCorridor"), learning=1), "no setting 'learning'"),
    "no steps": (lambda: HPIClip(tasks.make("RPSCorridor")).learn(0), "total_timesteps must be .*at least 1, got 0"),
    "NaN steps": (lambda: HPIClip(tasks.make("RPSCorridor")).learn(float("nan")), "at least 1, got nan"),
    "endless": (lambda: HPIClip(tasks.make("RPSCorridor")).learn(float("inf")), "total_timesteps"),
    "nothing to resume": (lambda: HPIClip(tasks.make("RPSCorridor")).resume(), "not loaded from a run's folder"),
    "no model": (lambda: HPIClip(tasks.make("RPSContinuous")).decision_rule(), "RPSContinuous has no finite model"),
    "observation": (lambda: rps_agent().predict(np.zeros(2)), r"shape \(2,\)"),
    "state of another size": (
        lambda: rps_agent().predict(np.zeros((2, 1)), np.zeros(3, int)),
        "what predict returned for 2 observations",
    ),
    "state of no iterate": (lambda: rps_agent().predict(np.zeros(1), np.array([12])), "what predict returned for 1"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_culprit(case):
    make, message = ERRORS[case]
    with pytest.raises(mdc.InputError, match=message):
        make()
