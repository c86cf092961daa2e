"""What the paper costs: a million steps of each of its 13 tasks on one core, and all its studies on 2, 16, 256 cores.

python bench/costs.py [--iterations 10]
"""

from __future__ import annotations

import argparse
import os

from mdcontest.threads import one_thread

os.environ.update(one_thread(dict(os.environ)))  # before NumPy and JAX are imported

import numpy as np

from mdcontest.experiments.cost import measure_speed
from mdcontest.learn.spec import RunSpec
from mdcontest.tasks.suite import SUITE

NONTRANSITIVE = ("Reacher-NT", "Walker2d-NT")
SEEDS, MILLION = 10, 1_000_000
HORIZONS = 7
"""Values of T_C in the ablation."""
BRACKETS = 5
"""Gap brackets a run, one every 200 000 steps."""
BRACKET_STEPS = 2 * 300_000 + 6 * 100 * 2048
"""Steps of one: two best responses, and six samples of 100 episodes of at most 2048 steps."""
MACHINES = (2, 16, 256)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=10, help="of 2048 steps, timed for each task (default 10)")
    options = parser.parse_args()
    seconds = {}
    print(f"{'task':<27} {'steps/s':>8} {'1M steps':>10}")
    for task in (*SUITE, *NONTRANSITIVE):
        seconds[task] = measure_speed(RunSpec(task, "hpi-clip", 0, 0, "", "paper"), options.iterations)
        print(f"{task:<27} {1 / seconds[task]:>8,.0f} {seconds[task] * MILLION / 60:>6.1f} min", flush=True)
    print_studies(seconds)


def print_studies(seconds: dict[str, float]) -> None:
    """Core hours of each study, and hours on several machines if cores keep this speed side by side."""
    suite = [seconds[task] * MILLION for task in SUITE]
    nontransitive = [seconds[task] * MILLION for task in NONTRANSITIVE]
    brackets = [seconds[task] * BRACKET_STEPS for task in NONTRANSITIVE]
    studies = {
        "Mujoco-v5 suite, 4 algorithms": suite * (4 * SEEDS),
        "Mujoco-NT, 3 algorithms": nontransitive * (3 * SEEDS),
        "gap brackets of Mujoco-NT": brackets * (3 * SEEDS * BRACKETS),
        f"{HORIZONS} comparison horizons": suite * (HORIZONS * SEEDS),
        "learned margins (training alone)": suite * (4 * SEEDS) + nontransitive * (3 * SEEDS),
    }
    print(f"\n{'study, 10 seeds':<34} {'jobs':>6} {'core hours':>11}" + "".join(f" {n:>4} cores" for n in MACHINES))
    studies["all"] = [job for jobs in studies.values() for job in jobs]
    for name, jobs in studies.items():
        hours = "".join(f" {makespan(jobs, cores) / 3600:>8.1f} h" for cores in MACHINES)
        print(f"{name:<34} {len(jobs):>6} {sum(jobs) / 3600:>11.1f}{hours}")


def makespan(jobs: list[float], cores: int) -> float:
    """When the last job ends if each core takes the longest one that is left: no job is split."""
    busy = np.zeros(cores)
    for job in sorted(jobs, reverse=True):
        busy[busy.argmin()] += job
    return float(busy.max())


if __name__ == "__main__":
    main()
