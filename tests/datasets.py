"""What the tests of datasets share: trajectories made by hand, a task for them, and damage done to files."""

import numpy as np

from mdcontest.margins import LowRank
from mdcontest.outcomes import Outcomes
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.references import Comparison, Segment
from mdcontest.preferences.trajectories import Trajectory
from mdcontest.tasks import Task


def task_by_hand(ended=None):
    """A task whose environment is never made: two features of the observation, compared round a circle."""
    return Task("CartPole-v1", LowRank(lambda z: z.obs[:, :2], [[0, 1], [-1, 0]]), name="by hand", ended=ended)


def trajectory(seed, length=5, terminated=True, size=3, **more):
    """Random observations and actions, unlike those of any other seed."""
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(length + 1, size))
    outcomes = Outcomes(obs[:-1], rng.integers(0, 3, length), rng.normal(size=length), obs[1:])
    return Trajectory(outcomes, terminated, **{"seed": seed, "source": "test", **more})


def filled(path, trajectories, task=None):
    """A dataset that holds them, and their ids."""
    dataset = Dataset.create(path, task or task_by_hand())
    return dataset, dataset.add_trajectories(trajectories)


def ended_and_cut_off(path):
    """A trajectory of five steps that ended, one of four that was cut off."""
    return filled(path, [trajectory(0, 5), trajectory(1, 4, terminated=False)])


def compared(ids, rng, count, length=1, **more):
    """Comparisons of random first steps."""
    labels = ["first", "second", "equal", "incomparable", 0.25, -1.0]
    return [
        Comparison(
            Segment(ids[rng.integers(len(ids))], int(rng.integers(3)), length),
            Segment(ids[rng.integers(len(ids))], int(rng.integers(3)), length),
            labels[rng.integers(len(labels))],
            **more,
        )
        for _ in range(count)
    ]


def assert_same_trajectory(found, expected):
    """Equal bit for bit, types and shapes included."""
    assert found.id == expected.id
    assert (found.terminated, found.seed, found.source, found.steps) == (
        expected.terminated,
        expected.seed,
        expected.source,
        expected.steps,
    )
    for name in ("obs", "action", "reward", "next_obs", "info"):
        assert_same_arrays(getattr(found.outcomes, name), getattr(expected.outcomes, name))


def assert_same_arrays(found, expected):
    if isinstance(expected, dict):
        assert set(found) == set(expected)
        for key in expected:
            assert_same_arrays(found[key], expected[key])
    elif expected is None:
        assert found is None
    else:
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.tobytes() == expected.tobytes()


def damages(content, rng, count):
    """The file cut short, and with single bits turned, at random places."""
    for place in rng.integers(0, len(content), count):
        yield content[:place]
        turned = bytearray(content)
        turned[place] ^= 1 << rng.integers(8)
        yield bytes(turned)
