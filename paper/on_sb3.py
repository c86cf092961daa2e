"""HPI-Clip, HPI and SPPO on Stable-Baselines3, for independent.py, and two of their settings.

Its PPO collects and updates. What it is rewarded with is replaced, after each rollout, by the cumulant of the paper's
text, and for HPI its update by the paper's objective as printed, each written here in a few lines that share nothing
with this library.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

ROLLOUT, OF_ALL_STEPS = 2048, 1_000_000
"""Steps of a rollout and of an episode at most; the learning rate falls to zero over all steps of the paper's runs."""
GAMMA, CLIP, ETA, SAMPLES = 0.99, 0.2, 1.5, 100
"""The paper's; samples are outcomes of the policy before, and of the first one, that an outcome is compared with."""


def cumulants(rewards: np.ndarray, starts: np.ndarray, opponents: np.ndarray, horizon: int) -> np.ndarray:
    """c = r − the mean reward of the opponents; at every step its mean over that step's block of an episode."""
    found = rewards - opponents.mean()
    for episode in np.split(np.arange(len(found)), np.flatnonzero(starts[1:]) + 1):
        for block in np.split(episode, range(horizon, len(episode), horizon)):
            found[block] = found[block].mean()
    return found


class Scale:
    """Divides by the standard deviation of the running discounted sum, clipped at ±10."""

    def __init__(self) -> None:
        self.total, self.seen = 0.0, list[float]()

    def __call__(self, values: np.ndarray, starts: np.ndarray) -> np.ndarray:
        for i, value in enumerate(values):
            self.total = value + (0.0 if starts[i] else GAMMA * self.total)
            self.seen.append(self.total)
        return np.clip(values / (float(np.std(self.seen)) + 1e-8), -10, 10)


class Compare(BaseCallback):
    """Puts cumulants in place of rewards, once a rollout is complete, and writes down how episodes ended."""

    def __init__(self, horizon: int, first_iterate: int, seed: int) -> None:
        super().__init__()
        self.horizon, self.first_iterate, self.rng = horizon, first_iterate, np.random.default_rng(seed)
        self.ends, self.returns, self.total = list[int](), list[float](), 0.0
        self.rewards = list[float]()
        self.before, self.first, self.scale = None, None, Scale()

    def _on_step(self) -> bool:
        self.rewards.append(float(self.locals["rewards"][0]))
        self.total += self.rewards[-1]
        if self.locals["dones"][0]:
            self.ends.append(self.num_timesteps)
            self.returns.append(self.total)
            self.total = 0.0
        return True

    def _on_rollout_end(self) -> None:
        buffer, rewards = self.locals["rollout_buffer"], np.array(self.rewards)
        self.rewards = []
        drawn = self.rng.choice(rewards, SAMPLES)
        self.first = drawn[: self.first_iterate] if self.first is None else self.first
        opponents = np.concatenate([drawn if self.before is None else self.before, self.first])
        starts = buffer.episode_starts[:, 0]
        buffer.rewards[:, 0] = self.scale(cumulants(rewards, starts, opponents, self.horizon), starts)
        buffer.compute_returns_and_advantage(self.locals["values"], self.locals["dones"])
        self.before = drawn


class Hedged(PPO):
    """The printed objective of HPI, in place of the clipped one."""

    def train(self) -> None:
        """The epochs of one update."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        for _ in range(self.n_epochs):
            for batch in self.rollout_buffer.get(self.batch_size):
                self._step(batch)

    def _step(self, batch: Any) -> None:
        values, log_likelihood, _ = self.policy.evaluate_actions(batch.observations, batch.actions)
        advantage = (batch.advantages - batch.advantages.mean()) / (batch.advantages.std() + 1e-8)
        moved = log_likelihood - batch.old_log_prob
        gain = (moved.exp() * (advantage - moved / ETA)).mean()
        change = (values.flatten() - batch.old_values).clamp(-CLIP, CLIP)
        error = torch.nn.functional.mse_loss(batch.old_values + change, batch.returns)
        self.policy.optimizer.zero_grad()
        (self.vf_coef * error - gain).backward()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
        self.policy.optimizer.step()


def train(
    task: str, algorithm: str, seed: int, steps: int, comparison_horizon: int = 1, first_iterate: int = SAMPLES
) -> tuple[list[int], list[float]]:
    """Steps at which episodes ended, and their returns."""
    torch.set_num_threads(1)

    def make() -> Any:
        return gymnasium.make(task, max_episode_steps=ROLLOUT, disable_env_checker=True)

    compare = Compare(ROLLOUT if algorithm == "sppo" else comparison_horizon, first_iterate, seed)
    model = (Hedged if algorithm == "hpi" else PPO)(
        "MlpPolicy",
        VecNormalize(DummyVecEnv([make]), norm_reward=False),
        n_steps=ROLLOUT,
        batch_size=64,
        n_epochs=10,
        learning_rate=lambda left: 3e-4 * (1 - (1 - left) * steps / OF_ALL_STEPS),
        gamma=GAMMA,
        gae_lambda=0.95,
        clip_range=CLIP,
        clip_range_vf=CLIP,
        vf_coef=0.25,
        max_grad_norm=0.5,
        policy_kwargs={"net_arch": [64, 64], "activation_fn": torch.nn.Tanh},
        seed=seed,
        device="cpu",
    )
    model.learn(steps, callback=compare)
    return compare.ends, compare.returns
