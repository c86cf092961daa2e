"""States and observations come back from files as the values they were; episodes are as long as their horizon."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import mdcontest as mdc
from learn.loaded_runs import TINY, interrupted
from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.files import read_record, write_record
from mdcontest.learn import PPO, HPIClip, load_agent
from mdcontest.learn.evaluate import evaluate
from mdcontest.learn.loading import same_parameters
from mdcontest.learn.play import MOST_STEPS, sample_trajectories

# --- values -----------------------------------------------------------------------------------------------


class Saved(gymnasium.Env):
    """Random observations; its state is what the tests want to see come back."""

    def __init__(self):
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def observe(self):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)

    def step(self, action):
        return self.observe(), float(action.sum()), bool(self.np_random.random() < 0.1), False, {}

    def save_state(self):
        return {}

    def load_state(self, state):
        pass


def own_task(env):
    return mdc.Task(env, tasks.reward_difference(), name="own")


class Visits(Saved):
    loaded = None

    def save_state(self):
        return {"visits": {3: 1, np.int64(4): 2, 0.5: 3, "six": 4}}

    def load_state(self, state):
        Visits.loaded = state


def test_keys_of_a_state_come_back_as_texts(tmp_path):
    PPO(own_task(Visits), **TINY).learn(64, False, folder=tmp_path)
    assert load_agent(tmp_path, own_task(Visits)).resumed_exactly
    assert Visits.loaded == {"visits": {"3": 1, "4": 2, "0.5": 3, "six": 4}}


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ({1: 2, "1": 3}, r"the keys 1 and '1' of a dictionary would both be '1' in a file; rename one"),
        ({(1, 2): 3}, r"a dictionary with the key \(1, 2\) cannot be written .* use texts or numbers"),
    ],
)
def test_keys_that_no_file_can_hold_are_refused(state, error, tmp_path):
    class Odd(Saved):
        def save_state(self):
            return {"visits": state}

    with pytest.raises(InputError, match=error):
        PPO(own_task(Odd), **TINY).learn(64, False, folder=tmp_path)


ONLY_KEYS = ["__array__", "__scalar__", "__dictionary__"]
"""What stands for something else in a checkpoint, where it is the only key."""


class Marked(Saved):
    """Everything it hands out lies under a key that checkpoints use themselves."""

    def __init__(self, key):
        super().__init__()
        self.key, self.observation_space = key, spaces.Dict({key: self.observation_space})

    def observe(self):
        return {self.key: super().observe()}

    def step(self, action):
        *seen, _ = super().step(action)
        return *seen, {self.key: 1.0}

    def save_state(self):
        return {self.key: {self.key: {"__array__": 3, "__scalar__": np.ones(2)}}}

    def load_state(self, state):
        found = state[self.key][self.key]
        assert found["__array__"] == 3
        assert found["__scalar__"].tolist() == [1, 1]


@pytest.mark.parametrize("key", ONLY_KEYS)
def test_keys_that_checkpoints_use_themselves_come_back(key, tmp_path):
    def task():
        margin = mdc.margins.RewardDifference(lambda z: z.obs[key][:, 0] + z.info[key])
        return mdc.Task(lambda: Marked(key), margin, name="marked", info_keys=[key])

    interrupted(HPIClip(task(), **TINY), tmp_path)
    agent = load_agent(tmp_path, task()).resume(progress=False)
    assert agent.resumed_exactly
    assert same_parameters(agent, HPIClip(task(), **TINY).learn(6 * 32, False))


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize <= 8, reason="a long double is a double here")
def test_observations_too_wide_for_a_checkpoint_are_refused(tmp_path):
    class Wide(Saved):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Box(-1, 1, (2,), np.longdouble)

    with pytest.raises(InputError, match=r"numbers of up to 64 bits, but learner/first/obs is an array of float\d+"):
        PPO(own_task(Wide), **TINY).learn(64, False, folder=tmp_path, checkpoint_every=1)


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_every_file_writes_keys_as_texts(ending, tmp_path):
    write_record(tmp_path / f"a.{ending}", "test", {"visits": {3: np.ones(2), True: 1}})
    found = read_record(tmp_path / f"a.{ending}", "test", max_bytes=10_000)["visits"]
    assert {key: np.ravel(value).tolist() for key, value in found.items()} == {"3": [1, 1], "true": [1]}
    with pytest.raises(InputError, match="would both be '3'"):
        write_record(tmp_path / f"b.{ending}", "test", {"visits": {3: 1, "3": 2}})


class Numbered(Saved):
    """Observations under whole numbers, 0 among them."""

    def __init__(self):
        super().__init__()
        box = self.observation_space
        self.observation_space = spaces.Dict({0: box, 1: box, "a": spaces.Discrete(2)})

    def observe(self):
        return {0: super().observe(), 1: super().observe(), "a": int(self.np_random.integers(2))}


@pytest.mark.parametrize("opponents", ["batch", "queue"])
def test_observations_under_whole_numbers_come_back(opponents, tmp_path):
    def margin(z, w):
        return np.sign(z.obs[0][:, 0] - w.obs[0][:, 0]) + z.obs["a"] - w.obs["a"]

    def task():
        return mdc.Task(Numbered, margin, name="numbered")

    settings = TINY | {"opponents": opponents}
    interrupted(HPIClip(task(), **settings), tmp_path)
    agent = load_agent(tmp_path, task()).resume(progress=False)
    assert same_parameters(agent, HPIClip(task(), **settings).learn(6 * 32, False))
    obs = task().make_env().reset(seed=0)[0]
    batch = {key: np.stack([value] * 3) for key, value in obs.items()}
    one, three = agent.predict(obs, [0], deterministic=True), agent.predict(batch, [0, 0, 0], deterministic=True)
    np.testing.assert_allclose(one[0], three[0][0], rtol=1e-5)


def test_observation_keys_that_read_alike_are_refused():
    class Alike(Saved):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Dict([(1, self.observation_space), ("1", self.observation_space)])

    with pytest.raises(InputError, match=r"two keys of the observation space read alike: \[1, '1'\]; rename one"):
        PPO(own_task(Alike), **TINY)


class Rounded(Saved):
    """Computes in float32, which a number of Python would not."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.count = np.float32(self.np_random.uniform(-1, 1)), np.uint8(250)
        return self.see(), {}

    def see(self):
        return np.array([self.place, self.count / 255], np.float32)

    def step(self, action):
        self.place = self.place * np.float32(0.9) + 0.1 * np.float32(action[0])
        self.place = 0.3 * (self.place * 3.3)
        with np.errstate(over="ignore"):
            self.count = self.count + np.uint8(1)
        return self.see(), float(self.place), bool(self.np_random.random() < 0.01), False, {}

    def save_state(self):
        return {"place": self.place, "rest": [self.count, np.bool_(True), 0.25]}

    def load_state(self, state):
        self.place, (self.count, yes, quarter) = state["place"], state["rest"]
        assert [type(value) for value in (self.place, self.count, yes, quarter)] == [
            np.float32,
            np.uint8,
            np.bool_,
            float,
        ]


def test_numbers_of_numpy_come_back_as_what_they_were(tmp_path):
    interrupted(PPO(own_task(Rounded), **TINY), tmp_path)
    agent = load_agent(tmp_path, own_task(Rounded))
    assert agent.resumed_exactly
    agent.resume(progress=False)
    assert same_parameters(agent, PPO(own_task(Rounded), **TINY).learn(6 * 32, False))


# --- long episodes ----------------------------------------------------------------------------------------


class Endless(Saved):
    def step(self, action):
        return self.observe(), 1.0, False, False, {}


LONG = MOST_STEPS + 500


@pytest.mark.parametrize(
    ("horizon", "settings", "length"),
    [(None, {}, MOST_STEPS), (LONG, {}, LONG), (None, {"horizon": LONG}, LONG), (LONG, {"horizon": 7}, 7)],
)
def test_episodes_are_as_long_as_their_horizon(horizon, settings, length):
    """In `evaluate`, and wherever else whole episodes are played."""
    task = mdc.Task(Endless, tasks.reward_difference(), name="endless", horizon=horizon)
    agent = PPO(task, **TINY, **settings)
    assert evaluate(agent, 1).lengths.tolist() == [length]
    assert sample_trajectories(task, agent, 1, horizon=agent.settings.horizon).lengths.tolist() == [length]
