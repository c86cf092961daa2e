"""fig:experiment-summary (b), fig:reacher-trajectories, fig:walker2d-trajectories: the two nontransitive tasks.

Brackets of the gap every 200 000 steps, where the fingertip goes, and how often each class is dominant. The policy
looked at is the mixture of all iterates, which needs no training of its own; at the end also the last iterate, and for
HPI and HPI-Clip the policy cloned from all of them, which is what the paper returns.

python paper/mujoco_nt.py --quick
"""

import sys
from dataclasses import replace

from study import Study, main

from mdcontest.experiments.sweep import GapPlan, Sweep

HOW = {"steps": 300_000, "restarts": 2}
FULL = Sweep(
    tasks=("Reacher-NT", "Walker2d-NT"),
    algorithms=("hpi-clip", "hpi", "sppo"),
    seeds=range(5),
    steps=1_000_000,
    preset="paper",
    gap=GapPlan(every=200_000, returned=("mixture",), how=HOW),
)
AT_THE_END = (
    replace(FULL, algorithms=("hpi-clip", "hpi"), gap=GapPlan(returned=("last", "cloned"), how=HOW)),
    replace(FULL, algorithms=("sppo",), gap=GapPlan(returned=("last",), how=HOW)),
)
QUICK_GAP = {"steps": 20_480, "restarts": 1, "trajectories": 10, "evaluation_steps": 10_000}
STUDY = Study(
    "mujoco-nt",
    "Mujoco-NT: preferences that run in circles",
    "fig:experiment-summary (b)",
    full=(FULL, *AT_THE_END),
    quick=(
        replace(FULL, seeds=range(2), steps=40_960, gap=GapPlan(every=20_480, returned=("mixture",), how=QUICK_GAP)),
    ),
)

if __name__ == "__main__":
    sys.exit(main(STUDY))
