"""A cloned policy where observations lie far from zero: float32 alone would not keep what they say."""

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import mdcontest as mdc
from mdcontest.learn import load_agent
from mdcontest.learn.past import past_policy


class Shifted(gymnasium.Env):
    """Tells 0 or 1, from somewhere far away, and rewards the action that says the same."""

    def __init__(self, offset=0.0):
        self.offset = offset
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def observe(self):
        self.side = int(self.np_random.integers(2))
        return np.array([self.offset + self.side, 0.5])

    def step(self, action):
        reward = float(action == self.side)
        return self.observe(), reward, bool(self.np_random.random() < 0.1), False, {}

    def save_state(self):
        return {"side": self.side}

    def load_state(self, state):
        self.side = state["side"]


def shifted(offset):
    return mdc.Task(functools.partial(Shifted, offset), mdc.tasks.reward_difference(), name=f"shifted by {offset}")


def share_of_right_answers(policy, offset):
    sides = np.repeat([0.0, 1.0], 200)
    policy.seed_predictions(0)
    return float(np.mean(policy.predict(np.stack([offset + sides, np.full(400, 0.5)], axis=1))[0] == sides))


CLONED = {"num_steps": 256, "minibatches": 4, "epochs": 4, "hidden": (16,), "learning_rate": 3e-3, "returned": "cloned"}


@pytest.mark.parametrize("offset", [1e6, -1e8, 1e10])
def test_cloning_does_not_mind_observations_far_from_zero(offset, tmp_path):
    near, far = (mdc.PPO(shifted(o), **CLONED).learn(12 * 256, False, folder=tmp_path / str(o)) for o in (0.0, offset))
    assert share_of_right_answers(near, 0.0) > 0.75
    assert abs(share_of_right_answers(far, offset) - share_of_right_answers(near, 0.0)) < 0.05
    halfway = past_policy(far, 6 * 256)
    assert abs(share_of_right_answers(halfway, offset) - share_of_right_answers(past_policy(near, 6 * 256), 0.0)) < 0.05
    assert near.learner.cloning_buffer.origin is None
    back = load_agent(tmp_path / str(offset), shifted(offset))
    np.testing.assert_array_equal(back.learner.cloning_buffer.origin, far.learner.cloning_buffer.origin)
    assert share_of_right_answers(back, offset) == share_of_right_answers(far, offset)


def test_cloning_far_from_zero_goes_on_after_an_interruption(tmp_path):
    def stop(agent, progress):
        if progress.iteration == 3:
            raise KeyboardInterrupt

    whole = mdc.PPO(shifted(1e8), **CLONED).learn(4 * 256, False)
    with pytest.raises(KeyboardInterrupt):
        mdc.PPO(shifted(1e8), **CLONED).learn(4 * 256, False, stop, folder=tmp_path, checkpoint_every=1)
    resumed = load_agent(tmp_path, shifted(1e8)).resume(progress=False)
    for name, value in whole.learner.cloned.items():
        np.testing.assert_array_equal(value, resumed.learner.cloned[name])
