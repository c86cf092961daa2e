"""Readings of what the paper leaves open, on tasks where they matter; all else is as in the paper's settings.

What SPPO averages over (an episode, or the rollout whatever ends in it), how the end of an episode counts, how long an
episode is (2048 steps, or the limit that the task was registered with), how far ahead Swimmer must look, whether
outcomes of the first policy are among the opponents, and which of two objectives HPI maximises: as the paper prints it,
it makes actions rarer that are as good as the average.

python paper/readings.py --quick
"""

import sys
from dataclasses import replace

from study import Study, main

from mdcontest.experiments.sweep import Sweep

ROLLOUTS = Sweep(
    tasks=("Hopper-v5",),
    algorithms=("sppo",),
    seeds=range(5),
    steps=1_000_000,
    preset="paper",
    settings={"across_episodes": True},
)
EVERYBODY = ("hpi-clip", "hpi", "sppo")
MORE_ROLLOUTS = replace(ROLLOUTS, tasks=("InvertedPendulum-v5", "Walker2d-v5"))
ENDS = replace(ROLLOUTS, algorithms=EVERYBODY, settings={"termination": "ended"})
BOTH = replace(ROLLOUTS, settings={"across_episodes": True, "termination": "ended"})
HEDGES = replace(
    ROLLOUTS,
    tasks=("InvertedPendulum-v5", "Hopper-v5", "Walker2d-v5", "InvertedDoublePendulum-v5"),
    algorithms=("hpi",),
    settings={"hedge": "corrected"},
)
"""Where HPI is strictly behind SPPO here, and not in the paper."""
LIMITS = replace(
    ROLLOUTS,
    tasks=("HalfCheetah-v5", "Pusher-v5", "Reacher-v5"),
    algorithms=("hpi-clip", "sppo"),
    settings={"horizon": None},
)
"""Episodes of 1000, 100 and 50 steps: there SPPO averages over less."""
FIRST = replace(ROLLOUTS, tasks=("InvertedPendulum-v5",), algorithms=EVERYBODY, settings={"first_iterate": 0})
"""Without the 100 outcomes of the first policy, where the paper says that performance collapses."""
DISCOUNTS = replace(ROLLOUTS, tasks=("Swimmer-v5",), algorithms=("hpi-clip",), settings={"gamma": 0.999})
FULL = (ROLLOUTS, MORE_ROLLOUTS, ENDS, BOTH, HEDGES, FIRST, LIMITS, DISCOUNTS)
STUDY = Study(
    "readings",
    "Other readings of the paper",
    "ap:algorithm-details",
    full=FULL,
    quick=tuple(replace(sweep, seeds=range(2), steps=40_960) for sweep in FULL),
)

if __name__ == "__main__":
    sys.exit(main(STUDY))
