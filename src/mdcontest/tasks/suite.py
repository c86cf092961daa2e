"""The 11 tasks of the Mujoco-v5 suite: the environment's reward as a margin, M_r(z, z') = r − r'."""

from __future__ import annotations

from mdcontest.tasks.task import Task, reward_difference

SUITE = (
    "Ant-v5",
    "HalfCheetah-v5",
    "Hopper-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "InvertedDoublePendulum-v5",
    "InvertedPendulum-v5",
    "Pusher-v5",
    "Reacher-v5",
    "Swimmer-v5",
    "Walker2d-v5",
)
"""Their Gymnasium ids."""


LARGEST_REWARD = {
    "InvertedDoublePendulum-v5": 10.0,
    "InvertedPendulum-v5": 1.0,
    "Pusher-v5": 0.0,
    "Reacher-v5": 0.0,
}
"""Most reward a step, where there is a most: being upright, or a distance and an effort that cannot be negative."""


def suite_task(env_id: str, horizon: int | None = None) -> Task:
    """One task of the suite. `horizon` None keeps the registered limit (1000 steps; Reacher 50, Pusher 100)."""
    largest = LARGEST_REWARD.get(env_id)
    return Task(env_id, reward_difference(), name=env_id, horizon=horizon, group="suite", largest_reward=largest)
