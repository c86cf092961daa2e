"""fig:mujoco-suite: PPO, HPI, HPI-Clip and SPPO on the eleven Mujoco-v5 tasks, return over a million steps.

python paper/mujoco_suite.py --quick
"""

import sys
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
STUDY = Study(
    "mujoco-suite",
    "Mujoco-v5 suite: learning from reward differences",
    "fig:mujoco-suite",
    full=FULL,
    quick=replace(FULL, seeds=range(2), steps=20_480),
)

if __name__ == "__main__":
    sys.exit(main(STUDY))
