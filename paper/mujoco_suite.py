"""fig:mujoco-suite: PPO, HPI, HPI-Clip and SPPO on the eleven Mujoco-v5 tasks, return over a million steps.

Beside them HPI and HPI-Clip in this library's own settings. Ten seeds take some 35 hours of one core, half of them for
Humanoid, HumanoidStandup and Ant. Parts of it, made anywhere, are merged by paper/record.py; --missing leaves out what
paper/results has.

python paper/mujoco_suite.py --quick
"""

import sys
from collections.abc import Sequence
from dataclasses import replace

from study import Study, main

from mdcontest.experiments.sweep import Sweep
from mdcontest.tasks.suite import SUITE

FULL = Sweep(
    tasks=SUITE,
    algorithms=("hpi-clip", "hpi", "sppo", "ppo"),
    seeds=range(10),
    steps=1_000_000,
    preset="paper",
)
OWN = replace(FULL, algorithms=("hpi-clip", "hpi"), preset=None)
"""The same tasks as this library sets them."""
STUDY = Study(
    "mujoco-suite",
    "Mujoco-v5 suite: learning from reward differences",
    "fig:mujoco-suite",
    full=(FULL, OWN),
    quick=(replace(FULL, seeds=range(2), steps=20_480),),
)


def suite_command(tasks: Sequence[str] = (), algorithms: Sequence[str] = ()) -> str:
    """What runs the suite in the paper's settings, all or some of it, with the paper's number of seeds."""
    chosen = {"--tasks": tasks, "--algos": algorithms}
    some = "".join(f" {option} {','.join(names)}" for option, names in chosen.items() if names)
    return f"python paper/mujoco_suite.py --paper{some} --seeds 0-9"


if __name__ == "__main__":
    sys.exit(main(STUDY))
