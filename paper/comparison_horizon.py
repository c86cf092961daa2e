"""fig:sppo-ablation: HPI-Clip with its cumulant averaged over T_C steps. T_C = 1 is HPI-Clip, 2048 is SPPO.

python paper/comparison_horizon.py --quick
"""

import sys
from dataclasses import replace

from study import Study, main

from mdcontest.experiments.sweep import Sweep
from mdcontest.tasks.suite import SUITE

SHOWN = ("HalfCheetah-v5", "Swimmer-v5", "Reacher-v5")
FULL = Sweep(
    tasks=SUITE,
    algorithms=("hpi-clip",),
    seeds=range(10),
    steps=1_000_000,
    preset="paper",
    grid={"comparison_horizon": (1, 4, 16, 64, 256, 1024, 2048)},
)
STUDY = Study(
    "comparison-horizon",
    "From HPI-Clip to SPPO: the comparison horizon T_C",
    "fig:sppo-ablation",
    full=(FULL,),
    quick=(replace(FULL, tasks=SHOWN, seeds=range(2), steps=40_960),),
    baseline="hpi-clip comparison_horizon=2048",
)

if __name__ == "__main__":
    sys.exit(main(STUDY))
