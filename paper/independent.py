"""A second look at tasks where we find other than the paper: its algorithms once more, on another code base.

Stable-Baselines3's PPO collects and updates; what it is rewarded with is replaced, after each rollout, by the cumulant
of the paper's text, and for HPI its update by the paper's objective as printed, each written here in a few lines that
share nothing with this library. Three seeds of 200 000 steps show large differences only. Needs pip install
stable-baselines3.

python paper/independent.py [--tasks A,B]     (some 10 minutes on two cores for a task; others stay as they are)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import recorded
from study import guarded

from mdcontest.errors import InputError
from mdcontest.folders import make_folder
from mdcontest.report.statistics import curve_on_grid, step_grid
from mdcontest.tables import read_table, write_table

FORMAT = "mdcontest/paper-independent"
SCHEMA = {"task": "string", "algorithm": "string", "seed": "int64", "step": "int64", "return": "float64"}
CASES = {"Hopper-v5": ("hpi-clip", "sppo"), "InvertedPendulum-v5": ("hpi", "sppo")}
"""Task → whom the paper has ahead of SPPO, or level with it, and we have behind."""
SEEDS, ETA = (0, 1, 2), 1.5
Job = tuple[str, str, int]
"""Task, algorithm, seed."""
STEPS, POINTS = 100 * 2048, 20
ROLLOUT, OF_ALL_STEPS = 2048, 1_000_000
GAMMA, SAMPLES = 0.99, 100
"""Discount, and outcomes of the policy before, and of the first one, that an outcome is compared with."""


def cumulants(rewards: np.ndarray, starts: np.ndarray, opponents: np.ndarray, whole_episodes: bool) -> np.ndarray:
    """c = r − the mean reward of the opponents; for SPPO its mean over each episode, step for step."""
    found = rewards - opponents.mean()
    if whole_episodes:
        for episode in np.split(np.arange(len(found)), np.flatnonzero(starts[1:]) + 1):
            found[episode] = found[episode].mean()
    return found


class Scale:
    """Divides by the standard deviation of the running discounted sum, clipped at ±10."""

    def __init__(self) -> None:
        self.total, self.seen = 0.0, list[float]()

    def __call__(self, values: np.ndarray, starts: np.ndarray) -> np.ndarray:
        scaled = np.empty(len(values))
        for i, value in enumerate(values):
            self.total = value + (0.0 if starts[i] else GAMMA * self.total)
            self.seen.append(self.total)
        deviation = float(np.std(self.seen)) + 1e-8
        scaled[:] = np.clip(values / deviation, -10, 10)
        return scaled


def train(task: str, algorithm: str, seed: int, steps: int = STEPS) -> tuple[list[int], list[float]]:
    """Steps at which episodes ended, and their returns."""
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    torch.set_num_threads(1)
    ends, returns, total = list[int](), list[float](), 0.0
    rng = np.random.default_rng(seed)

    class Compare(BaseCallback):  # type: ignore[misc]
        """Puts cumulants in place of rewards, once a rollout is complete."""

        def __init__(self) -> None:
            super().__init__()
            self.rewards = list[float]()
            self.before, self.first, self.scale = None, None, Scale()

        def _on_step(self) -> bool:
            nonlocal total
            self.rewards.append(float(self.locals["rewards"][0]))
            total += self.rewards[-1]
            if self.locals["dones"][0]:
                ends.append(self.num_timesteps)
                returns.append(total)
                total = 0.0
            return True

        def _on_rollout_end(self) -> None:
            buffer, rewards = self.locals["rollout_buffer"], np.array(self.rewards)
            self.rewards = []
            drawn = rng.choice(rewards, SAMPLES)
            self.first = drawn if self.first is None else self.first
            opponents = np.concatenate([drawn if self.before is None else self.before, self.first])
            starts = buffer.episode_starts[:, 0]
            found = cumulants(rewards, starts, opponents, algorithm == "sppo")
            buffer.rewards[:, 0] = self.scale(found, starts)
            buffer.compute_returns_and_advantage(self.locals["values"], self.locals["dones"])
            self.before = drawn

    def make() -> Any:
        return gymnasium.make(task, max_episode_steps=2048, disable_env_checker=True)

    class Hedged(PPO):  # type: ignore[misc]
        """The printed objective of HPI, in place of the clipped one."""

        def train(self) -> None:
            self.policy.set_training_mode(True)
            self._update_learning_rate(self.policy.optimizer)
            for _ in range(self.n_epochs):
                for batch in self.rollout_buffer.get(self.batch_size):
                    values, log_likelihood, _ = self.policy.evaluate_actions(batch.observations, batch.actions)
                    advantage = (batch.advantages - batch.advantages.mean()) / (batch.advantages.std() + 1e-8)
                    moved = log_likelihood - batch.old_log_prob
                    gain = (moved.exp() * (advantage - moved / ETA)).mean()
                    change = (values.flatten() - batch.old_values).clamp(-0.2, 0.2)
                    error = torch.nn.functional.mse_loss(batch.old_values + change, batch.returns)
                    self.policy.optimizer.zero_grad()
                    (self.vf_coef * error - gain).backward()
                    torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
                    self.policy.optimizer.step()

    env = VecNormalize(DummyVecEnv([make]), norm_reward=False)
    model = (Hedged if algorithm == "hpi" else PPO)(
        "MlpPolicy",
        env,
        n_steps=ROLLOUT,
        batch_size=64,
        n_epochs=10,
        learning_rate=lambda left: 3e-4 * (1 - (1 - left) * steps / OF_ALL_STEPS),
        gamma=GAMMA,
        gae_lambda=0.95,
        clip_range=0.2,
        clip_range_vf=0.2,
        vf_coef=0.25,
        max_grad_norm=0.5,
        policy_kwargs={"net_arch": [64, 64], "activation_fn": torch.nn.Tanh},
        seed=seed,
        device="cpu",
    )
    model.learn(steps, callback=Compare())
    return ends, returns


def _rows(job: Job) -> list[dict[str, Any]]:
    grid = step_grid(STEPS, POINTS)
    curve = curve_on_grid(*train(*job), grid)
    head = dict(zip(("task", "algorithm", "seed"), job, strict=True))
    return [head | {"step": int(step), "return": float(value)} for step, value in zip(grid, curve, strict=True)]


def _jobs(tasks: Sequence[str]) -> list[Job]:
    unknown = [task for task in tasks if task not in CASES]
    if unknown:
        raise InputError(f"there is no second look at {unknown[0]}; there is one at {', '.join(CASES)}")
    return [(task, algorithm, seed) for task in tasks for seed in SEEDS for algorithm in CASES[task]]


def _others(path: Path, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """Rows that are there of other tasks."""
    if not path.is_file():
        return []
    table = read_table(path, FORMAT, SCHEMA)
    rows = [dict(zip(SCHEMA, row, strict=True)) for row in zip(*(table[name] for name in SCHEMA), strict=True)]
    return [row for row in rows if row["task"] not in tasks]


def main() -> int:
    """Train all and write results/independent.parquet."""
    parser = argparse.ArgumentParser(description="The paper's algorithms on Stable-Baselines3, for a second look.")
    parser.add_argument("--tasks", metavar="A,B", help=f"some of {', '.join(CASES)} (default all)")
    parser.add_argument("--out", default=str(recorded.FOLDER), metavar="FOLDER", help="default paper/results")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time (default 2)")
    return guarded(_run, parser.parse_args())


def _run(options: argparse.Namespace) -> int:
    try:
        import stable_baselines3  # noqa: F401
    except ImportError:
        raise InputError("this needs another code base to compare with: pip install stable-baselines3") from None
    if options.jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {options.jobs}")
    tasks = list(CASES) if options.tasks is None else [name.strip() for name in options.tasks.split(",")]
    jobs, path = _jobs(tasks), Path(options.out) / "independent.parquet"
    make_folder(path.parent)
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = [row for found in pool.map(_rows, jobs) for row in found]
    everything = sorted(_others(path, tasks) + rows, key=lambda row: list(CASES).index(row["task"]))
    write_table(path, FORMAT, SCHEMA, {name: [row[name] for row in everything] for name in SCHEMA})
    for job in jobs:
        last = [r["return"] for r in rows if (r["task"], r["algorithm"], r["seed"]) == job][-POINTS // 4 :]
        print(f"{job[0]:16} {job[1]:9} seed {job[2]}: return {np.mean(last):.0f} over the last quarter")
    return 0


if __name__ == "__main__":
    sys.exit(main())
