"""What the tests of tasks share: the shipped ones, and outcomes of random actions in them."""

import functools

import numpy as np

import mdcontest as mdc
from mdcontest import tasks

SHIPPED = tasks.names()


@functools.cache
def random_outcomes(name, steps=300, seed=0):
    """Outcomes of uniformly random actions in a shipped task, episodes one after the other."""
    task = tasks.make(name)
    reader, _ = task.spaces
    env = task.make_env()
    env.action_space.seed(seed)
    obs, _ = env.reset(seed=seed)
    rows = []
    for _ in range(steps):
        action = env.action_space.sample()
        after, reward, terminated, truncated, _ = env.step(action)
        rows.append(
            (np.array(reader.flatten(obs), float), action, float(reward), np.array(reader.flatten(after), float))
        )
        obs = env.reset()[0] if terminated or truncated else after
    env.close()
    before, action, reward, after = (np.array(column) for column in zip(*rows, strict=True))
    return task, mdc.Outcomes(reader.raw(before), action, reward, reader.raw(after))
