"""ap:algorithm-details: the paper's search for HPI's learning rate η, on the three tasks it names.

python paper/eta_search.py --quick
"""

import sys
from dataclasses import replace

from study import Study, main

from mdcontest.experiments.sweep import Sweep

FULL = Sweep(
    tasks=("HalfCheetah-v5", "InvertedDoublePendulum-v5", "Ant-v5"),
    algorithms=("hpi",),
    seeds=range(5),
    steps=1_000_000,
    preset="paper",
    grid={"eta": (0.75, 1.5, 3.0, 6.0, 12.0)},
)
STUDY = Study(
    "eta-search",
    "HPI's learning rate η",
    "ap:algorithm-details",
    full=(FULL,),
    quick=(replace(FULL, seeds=range(2), steps=20_480),),
    baseline="hpi eta=1.5",
)

if __name__ == "__main__":
    sys.exit(main(STUDY))
