"""Training speed beside its peers: `python bench/throughput.py` (needs `pip install -e '.[learn,bench]'`).

For each environment four processes of one thread each take turns, so that whatever else the machine does hits all
alike: the simulator alone with random actions drawn beforehand, Stable-Baselines3's PPO with the same hyperparameters,
and PPO and HPI-Clip of this library, HPI-Clip against the whole batch. Only time in which a process has the turn
counts. Then one and two HPI-Clip runs at once, for what a second core adds. Prints steps a second, ratios, and memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdcontest.threads import one_thread

TASKS = ("HalfCheetah-v5", "Reacher-v5", "Hopper-v5", "Ant-v5", "Reacher-NT")
ENVIRONMENTS = {"Reacher-NT": "Reacher-v5"}
"""What the peers run where a task is more than its environment; Reacher-NT compares a batch by sorting it."""
PEERS = ("simulator", "sb3-ppo", "ppo", "hpi-clip")
TURN = 10 * 2048
"""Steps a turn: ten updates of the policy."""


# --- the four contenders, each a function that trains for one turn ----------------------------------------


def simulator(env_id: str) -> Callable[[], None]:
    """Steps and resets only."""
    import gymnasium
    import numpy as np

    env = gymnasium.make(ENVIRONMENTS.get(env_id, env_id), disable_env_checker=True)
    space = env.action_space
    actions = np.random.default_rng(0).uniform(space.low, space.high, (TURN, *space.shape)).astype(space.dtype)
    env.reset(seed=0)

    def turn() -> None:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return turn


def stable_baselines(env_id: str) -> Callable[[], None]:
    """Stable-Baselines3's PPO with the hyperparameters of the paper's table, observations and rewards normalised."""
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    torch.set_num_threads(1)
    env = VecNormalize(
        DummyVecEnv([lambda: gymnasium.make(ENVIRONMENTS.get(env_id, env_id), disable_env_checker=True)])
    )
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=2048,
        batch_size=64,
        n_epochs=10,
        learning_rate=3e-4,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        clip_range_vf=0.2,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=0.5,
        policy_kwargs={"net_arch": [64, 64], "activation_fn": torch.nn.Tanh},
        seed=0,
        device="cpu",
    )
    return lambda: model.learn(TURN, reset_num_timesteps=False) and None


def ours(env_id: str, algorithm: str) -> Callable[[], None]:
    """This library at its defaults, through the same call a user makes."""
    from mdcontest import tasks
    from mdcontest.learn import ALGORITHMS

    agent = ALGORITHMS[algorithm](tasks.make(env_id), anneal=False)
    return lambda: agent.learn(TURN, progress=False) and None


def contender(name: str, env_id: str) -> Callable[[], None]:
    """The contender of that name, warmed up by its first turn."""
    if name == "simulator":
        return simulator(env_id)
    return stable_baselines(env_id) if name == "sb3-ppo" else ours(env_id, name)


def work(name: str, env_id: str) -> None:
    """A worker: one turn for every line on standard input, its seconds and memory on standard output."""
    turn = contender(name, env_id)
    for _ in sys.stdin:
        began = time.perf_counter()
        turn()
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": time.perf_counter() - began, "megabytes": megabytes}), flush=True)


# --- the benchmark ----------------------------------------------------------------------------------------


class Worker:
    """A contender in a process of its own."""

    def __init__(self, name: str, env_id: str) -> None:
        command = [sys.executable, __file__, "--worker", name, "--env", env_id]
        environment = one_thread(dict(os.environ))
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def begin(self) -> None:
        self.process.stdin.write("go\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]

    def end(self) -> dict[str, float]:
        for line in self.process.stdout or []:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"{self.process.args} ended early; run it by hand to see why")

    def turn(self) -> dict[str, float]:
        self.begin()
        return self.end()

    def close(self) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()


def side_by_side(env_id: str, turns: int) -> dict[str, dict[str, float]]:
    """Steps a second and memory of each contender; the first turn of each is warm-up."""
    workers = {name: Worker(name, env_id) for name in PEERS}
    results: dict[str, list[dict[str, float]]] = {name: [] for name in PEERS}
    for number in range(turns + 1):
        for name, worker in workers.items():
            found = worker.turn()
            if number:
                results[name].append(found)
    for worker in workers.values():
        worker.close()
    return {
        name: {
            "steps_per_second": TURN * len(found) / sum(turn["seconds"] for turn in found),
            "megabytes": max(turn["megabytes"] for turn in found),
        }
        for name, found in results.items()
    }


def two_seeds(env_id: str, turns: int) -> float:
    """How many times as many steps two processes make as one; one and two take turns."""
    first, second = Worker("hpi-clip", env_id), Worker("hpi-clip", env_id)
    alone, together = 0.0, 0.0
    for number in range(turns + 1):
        single = first.turn()["seconds"]
        first.begin()
        second.begin()
        both = max(first.end()["seconds"], second.end()["seconds"])
        if number:
            alone, together = alone + single, together + both
    first.close()
    second.close()
    return 2 * alone / together


def main() -> None:
    """Run every environment and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", default=",".join(TASKS), help="comma-separated tasks")
    parser.add_argument("--turns", type=int, default=5, help=f"turns of {TURN} steps each after warm-up (default 5)")
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    parser.add_argument("--worker", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--env", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.worker, options.env)
    table: dict[str, Any] = {}
    print(f"{TURN * options.turns} steps each after warm-up, taking turns, one thread a process")
    print(f"{'':16}{'simulator':>11}{'SB3 PPO':>10}{'PPO':>10}{'HPI-Clip':>10}{'/ SB3':>8}{'/ simulator':>13}{'MB':>7}")
    for env_id in options.envs.split(","):
        found = side_by_side(env_id, options.turns)
        rate = {name: found[name]["steps_per_second"] for name in PEERS}
        numbers = "".join(f"{rate[name]:>{width},.0f}" for name, width in zip(PEERS, (11, 10, 10, 10), strict=True))
        ratios = f"{rate['hpi-clip'] / rate['sb3-ppo']:>8.2f}{rate['hpi-clip'] / rate['simulator']:>13.2f}"
        print(f"{env_id:16}{numbers}{ratios}{found['hpi-clip']['megabytes']:>7.0f}", flush=True)
        table[env_id] = found
    table["two_seeds"] = two_seeds("HalfCheetah-v5", options.turns)
    print(f"two seeds on two cores: {table['two_seeds']:.2f} × the steps of one (HalfCheetah-v5)")
    if options.out:
        options.out.write_text(json.dumps(table, indent=2))


if __name__ == "__main__":
    main()
