"""The learning half of the demo: a small study of Reacher-NT, where the fingertip should draw a circle.

Episodes last 2048 steps, the paper's horizon, so SPPO gives every step of an episode the same credit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mdcontest import tasks
from mdcontest.errors import RunError
from mdcontest.experiments.engine import FAILED
from mdcontest.experiments.launch import run_sweep
from mdcontest.experiments.store import Store
from mdcontest.experiments.stored import Run
from mdcontest.experiments.sweep import GapPlan, Sweep

TASK, HORIZON, ITERATION = "Reacher-NT", 2048, 2048
LEARNING_COLUMNS = ["policy", "radius", "of", "spread", "gap at least", "at most"]


def study(folder: Path, steps: int, jobs: int) -> Store:
    """Train HPI-Clip and SPPO, or take what an earlier demo trained; traces on the way, gaps halfway and at the end."""
    how = {"steps": max(ITERATION, steps // 8), "restarts": 1, "trajectories": 10, "evaluation_steps": 10_000}
    sweep = Sweep(
        tasks=(TASK,),
        algorithms=("hpi-clip", "sppo"),
        steps=steps,
        settings={"horizon": HORIZON},
        trace_every=max(ITERATION, steps // 4),
        gap=GapPlan(every=max(ITERATION, steps // 2), how=how),
    )
    for entry in run_sweep(sweep.jobs(folder), folder, workers=jobs):
        if entry.state == FAILED:
            raise RunError(f"{entry.job.label}: {entry.error}")
    return Store(folder)


def learning_rows(store: Store) -> list[list[str]]:
    """The first policy and the returned ones: how far out the finger is, in how many directions, and the bracket."""
    first = store.runs[0].behaviour[0]
    returned = [[_name(run), *_circle(run.behaviour[-1]), *_ends(run)] for run in store.runs]
    return [["first policy", *_circle(first), "—", "—"], *returned]


def _circle(behaviour: dict[str, object]) -> list[str]:
    """Mean radius, what can be reached, and 1 − |mean of e^{iα}|: 1 where every direction is as frequent."""
    places = np.array([behaviour["x"], behaviour["y"]], float)
    places = places[:, np.isfinite(places).all(axis=0)]
    radius, angle = np.hypot(*places), np.arctan2(places[1], places[0])
    spread = 1 - float(np.abs(np.exp(1j * angle).mean()))
    return [f"{radius.mean():.3f}", f"{tasks.make(TASK).reach:.2f}", f"{spread:.2f}"]


def _ends(run: Run) -> list[str]:
    if not run.gaps:
        return ["—", "—"]
    bracket = run.gaps[-1].bracket
    return [f"{bracket.lower:.2f}", "?" if bracket.upper is None else f"{bracket.upper:.2f}"]


def _name(run: Run) -> str:
    return {"hpi-clip": "HPI-Clip", "sppo": "SPPO"}.get(run.algorithm, run.algorithm)
