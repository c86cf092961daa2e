"""Small games with known answers for the tests of gaps: episodes made by hand, and environments of a few steps."""

from __future__ import annotations

import gymnasium
import numpy as np

from mdcontest import tasks
from mdcontest.examples import ROCK_PAPER_SCISSORS
from mdcontest.learn.play import Trajectories
from mdcontest.margins import Classes
from mdcontest.outcomes import Outcomes

RPS = np.array(ROCK_PAPER_SCISSORS, float)
TINY = {"num_steps": 64, "minibatches": 2, "epochs": 1, "hidden": (8,)}
"""Networks and batches for tests in which nothing has to be learned."""
FAST = {"trajectories": 5, "steps": 128, "restarts": 1, "evaluation_steps": 100, "settings": TINY, "progress": False}
"""For tests in which the best response has nothing to learn."""


def corridor():
    return tasks.make("RPSCorridor")


def episodes_of(values, lengths, rewards=None):
    """Episodes whose observations are `values`, one after the other."""
    return Trajectories(Outcomes(np.asarray(values), reward=rewards), np.asarray(lengths))


def observed(z):
    """The margin's features are the observation itself."""
    return z.obs


def classes():
    """Rock, paper, scissors on the observation."""
    return Classes(observed, RPS)


class Clusters:
    """Episodes of three types: a type's steps are mostly of its own class, and types differ in length.

    The length of type t is 1 + Poisson(mean_t), so the share of steps of type t is p_t (1 + mean_t), normalised.
    """

    def __init__(self, probabilities, means, keep=0.8):
        self.p, self.means = np.array(probabilities), np.array(means, float)
        self.mix = keep * np.eye(3) + (1 - keep) / 3

    @property
    def occupancy(self):
        steps = self.p * (1 + self.means)
        return steps / steps.sum() @ self.mix

    def draw(self, rng, episodes):
        types = rng.choice(3, size=episodes, p=self.p)
        lengths = 1 + rng.poisson(self.means[types])
        of_step = np.repeat(types, lengths)
        chances = self.mix.cumsum(axis=1)[of_step]
        labels = np.minimum((chances < rng.random((len(of_step), 1))).sum(axis=1), 2)
        return episodes_of(labels, lengths)


class MayEnd(gymnasium.Env):
    """Action 1 ends the episode, action 0 goes on, which ends it with probability 0.1.

    The first step of an episode earns `first` and every later one `later`; one observes whether it is the first.
    Ending at once averages `first` a step. Never ending has E[length] = 10, so it averages (first + 9 later)/10.
    """

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, first=1.0, later=0.5):
        self.first, self.later, self.steps = first, later, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action):
        earned = self.first if self.steps == 0 else self.later
        self.steps += 1
        return 1, earned, bool(action == 1 or self.np_random.random() < 0.1), False, {}


class Always:
    """A policy that is not this library's: the same action whatever it sees."""

    def __init__(self, action):
        self.action = action

    def predict(self, obs, state=None, episode_start=None, deterministic=False):
        return self.action, None
