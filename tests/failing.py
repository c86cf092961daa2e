"""Source of environments that fail at their hundredth step, for tests that start processes; they add other kinds."""

FAILING = """
import os
import gymnasium, numpy as np
import mdcontest as mdc

class Failing(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 100:
            self.fail()
        return np.zeros(1), 0.0, False, False, {}

    def fail(self):
        raise OSError("the robot fell over")

class Once(Failing):
    def fail(self):
        try:
            os.unlink(os.environ["FAIL_ONCE"])  # whoever comes first
        except FileNotFoundError:
            return
        super().fail()
"""
