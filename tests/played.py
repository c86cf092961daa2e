"""Small datasets of preferences that somebody played at random, for tests of what is fitted to them."""

import numpy as np

from mdcontest import tasks
from mdcontest.outcomes import Outcomes
from mdcontest.preferences.asking import compare
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.trajectories import Trajectory


def random_trajectory(env, seed, longest):
    """One episode of uniformly random actions."""
    env.action_space.seed(seed)
    seen, actions, rewards, ended = [env.reset(seed=seed)[0]], [], [], False
    while len(actions) < longest and not ended:
        actions.append(env.action_space.sample())
        obs, reward, ended, cut, _ = env.step(actions[-1])
        seen.append(obs)
        rewards.append(reward)
        if cut:
            break
    seen = np.array(seen)
    outcomes = Outcomes(seen[:-1], np.array(actions), np.array(rewards, float), seen[1:])
    return Trajectory(outcomes, ended, seed, "random", 0)


def played_dataset(path, name, *, episodes=20, longest=30, pairs=0, teacher="sign", annotator=""):
    """A dataset of random episodes of a task, and what a teacher says about pairs of their outcomes."""
    task = tasks.make(name)
    dataset, env = Dataset.create(path, task), task.make_env()
    dataset.add_trajectories([random_trajectory(env, seed, longest) for seed in range(episodes)])
    env.close()
    if pairs:
        compare(dataset, teacher, pairs, annotator=annotator)
    return dataset
