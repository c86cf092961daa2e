"""Is PPO as good as the public ones, and HPI-Clip ahead of SPPO in long problems? `python bench/returns.py --jobs 2`

Twelve runs of PPO for a million steps at the registered limits, and twelve of HPI-Clip and SPPO for 300 000 steps with
episodes of 2048; prints the mean return of the last 100 episodes, seed by seed. Takes about half an hour on two cores;
interrupted, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from mdcontest.experiments.launch import run_all
from mdcontest.learn.loading import load_agent
from mdcontest.learn.spec import RunSpec

FLOORS = {"HalfCheetah-v5": 1400.0, "Hopper-v5": 1700.0, "InvertedPendulum-v5": 940.0, "Reacher-v5": -6.0}
"""What public implementations of PPO reach at a million steps, about."""
LONG = ("HalfCheetah-v5", "Swimmer-v5")
SEEDS = (0, 1, 2)


def specs(folder: Path) -> list[RunSpec]:
    """All runs, the longest first."""
    found = [RunSpec(task, "ppo", s, 1_000_000, "", checkpoint_every=50) for task in FLOORS for s in SEEDS]
    for task in LONG:
        for algorithm in ("hpi-clip", "sppo"):
            settings = {"horizon": 2048}
            found += [RunSpec(task, algorithm, s, 300_000, "", settings=settings, checkpoint_every=50) for s in SEEDS]
    names = [f"{spec.task}_{spec.algorithm}_{spec.steps}_seed{spec.seed}" for spec in found]
    return [
        RunSpec(**(spec.record() | {"folder": str(folder / name)})) for spec, name in zip(found, names, strict=True)
    ]


def main() -> None:
    """Run what is not done yet and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default 2)")
    parser.add_argument("--out", type=Path, default=Path("build/returns"), help="folder of the runs")
    options = parser.parse_args()
    wanted = specs(options.out)
    for result in run_all(wanted, options.jobs):
        if result.error:
            raise SystemExit(f"{result.spec.folder}: {result.error}")
    returns: dict[tuple[str, str], list[float]] = {}
    for spec in wanted:
        recent = load_agent(spec.folder).recent
        returns.setdefault((spec.task, spec.algorithm), []).append(float(np.mean([total for total, _ in recent])))
    print(f"{'task':20}{'algorithm':>10}{'mean':>9}{'asked':>9}   seeds")
    for (task, algorithm), found in returns.items():
        asked = f"{FLOORS[task]:.0f}" if algorithm == "ppo" else ""
        seeds = "  ".join(f"{value:.4g}" for value in found)
        print(f"{task:20}{algorithm:>10}{np.mean(found):>9.4g}{asked:>9}   {seeds}")


if __name__ == "__main__":
    main()
