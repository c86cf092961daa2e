"""What is learned: HPI-Clip ahead of SPPO in long problems, and a circle on Reacher-NT."""

import numpy as np
import pytest

from mdcontest import tasks
from mdcontest.learn import SPPO, HPIClip
from mdcontest.learn.evaluate import play_episodes
from mdcontest.outcomes import concatenate
from mdcontest.tasks.reacher_nt import LINKS, radius_and_angle


def last_return(kind, task, seed, steps):
    """Mean return of the last 100 episodes (or of all there were) with episodes of 2048 steps, one rollout each."""
    agent = kind(tasks.make(task), seed, horizon=2048).learn(steps, progress=False)
    return np.mean([total for total, _ in agent.recent])


@pytest.mark.parametrize("task", ["HalfCheetah-v5", "Swimmer-v5"])
def test_hpi_clip_is_ahead_of_sppo_when_episodes_are_long(task, count):
    """With one number for 2048 steps there is little to learn from; three seeds at 300 000 steps, or a glimpse of it.

    Measured with three seeds at 300 000 steps: HalfCheetah 1690 against −831, Swimmer 41 against 17. Swimmer takes
    longer than a glimpse.
    """
    seeds, steps = count((1, 61_440), (3, 300_000))
    if seeds == 1 and task == "Swimmer-v5":
        pytest.skip("needs 300 000 steps: make test-slow runs it")
    ours = [last_return(HPIClip, task, seed, steps) for seed in range(seeds)]
    theirs = [last_return(SPPO, task, seed, steps) for seed in range(seeds)]
    assert np.mean(ours) > np.mean(theirs), f"HPI-Clip {np.round(ours, 1)}, SPPO {np.round(theirs, 1)}"


def test_the_fingertip_draws_a_circle_on_reacher_nt(count):
    """The solution stretches the arm to 0.21 m and points in every direction equally often."""
    steps, radius_asked, spread_asked = count((60_000, 0.19, 0.8), (250_000, 0.205, 0.9))
    episodes = count(8, 40)  # one iterate of the mixture each, and the first of them do not stretch the arm
    agent = HPIClip(tasks.make("Reacher-NT"), horizon=2048).learn(steps, progress=False)
    outcomes = concatenate([played.outcomes for played in play_episodes(agent, episodes, seed=1)])
    radius, angle = radius_and_angle(outcomes).T
    spread = 1 - np.abs(np.exp(1j * angle).mean())
    assert radius_asked < radius.mean() <= sum(LINKS) + 1e-9
    assert spread > spread_asked
