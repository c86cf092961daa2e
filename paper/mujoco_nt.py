"""fig:experiment-summary (b), fig:reacher-trajectories, fig:walker2d-trajectories: the two nontransitive tasks.

Brackets of the gap every 200 000 steps, where the fingertip goes, and how often each class is dominant. The policy
looked at is the mixture of all iterates, which needs no training of its own; the paper's cloned policy is
`--returned cloned` of mdcontest gap, on runs that kept what to clone from.

python paper/mujoco_nt.py --quick
"""

import sys
from dataclasses import replace

from study import Study, main

from mdcontest.experiments.sweep import GapPlan, Sweep

FULL = Sweep(
    tasks=("Reacher-NT", "Walker2d-NT"),
    algorithms=("hpi-clip", "hpi", "sppo"),
    seeds=range(10),
    steps=1_000_000,
    preset="paper",
    settings={"returned": "mixture"},
    gap=GapPlan(every=200_000, how={"steps": 300_000, "restarts": 2}),
)
QUICK_GAP = {"steps": 20_480, "restarts": 1, "trajectories": 10, "evaluation_steps": 10_000}
STUDY = Study(
    "mujoco-nt",
    "Mujoco-NT: preferences that run in circles",
    "fig:experiment-summary (b)",
    full=FULL,
    quick=replace(FULL, seeds=range(2), steps=40_960, gap=GapPlan(every=20_480, how=QUICK_GAP)),
)

if __name__ == "__main__":
    sys.exit(main(STUDY))
