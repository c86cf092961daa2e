"""The learning half of the demo: HPI-Clip and SPPO on Reacher-NT, where the fingertip should draw a circle.

Episodes last 2048 steps, the paper's horizon, so SPPO gives every step of an episode the same credit.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mdcontest import tasks
from mdcontest.arrays import Array
from mdcontest.errors import RunError
from mdcontest.experiments.launch import run_all
from mdcontest.learn.agent import Agent
from mdcontest.learn.algorithms import HPIClip
from mdcontest.learn.evaluate import play_episodes
from mdcontest.learn.loading import load_agent
from mdcontest.learn.logs import Logs
from mdcontest.learn.spec import RunSpec
from mdcontest.outcomes import Outcomes, concatenate
from mdcontest.report.learning_plots import Series, curves_figure, trace_figure
from mdcontest.report.page import InlineFigure, Section
from mdcontest.report.plots import BLUE, GREY, ORANGE, as_svg
from mdcontest.tasks.reacher_nt import LINKS, fingertip, radius_and_angle

TASK, HORIZON, SEED, EPISODES = "Reacher-NT", 2048, 0, 8
LEARNING_COLUMNS = ["policy", "radius", "of", "angular spread", "margin vs first"]


@dataclass(frozen=True)
class Trace:
    """Where a policy's fingertip goes."""

    name: str
    color: str
    points: Array
    """Positions of the fingertip, shape [B, 2]."""
    radius: float
    spread: float
    """1 − |mean of e^{iα}|: 1 when every direction is as frequent, 0 when the arm always points the same way."""
    margin: float
    """Mean margin of a step against the first policy."""


def learn_and_draw(folder: Path, steps: int, jobs: int) -> tuple[Section, list[list[str]]]:
    """Train both, or take what an earlier demo trained, and make the page's section and the table's rows."""
    agents = _train(folder / "runs", steps, jobs)
    first = HPIClip(tasks.make(TASK), SEED, horizon=HORIZON)
    against = agents["HPI-Clip"].learner.opponents.first
    traces = [
        _trace("first policy", GREY, first, against),
        _trace("HPI-Clip", BLUE, agents["HPI-Clip"], against),
        _trace("SPPO", ORANGE, agents["SPPO"], against),
    ]
    reach = sum(LINKS)
    figures = {
        "fingertip": trace_figure([(trace.name, trace.points, trace.color) for trace in traces], reach),
        "curves": curves_figure(
            [Series("HPI-Clip", *_curve(agents["HPI-Clip"]), BLUE), Series("SPPO", *_curve(agents["SPPO"]), ORANGE)],
            "mean margin of a step against the first policy",
        ),
    }
    for kind, figure in figures.items():
        figure.savefig(folder / "figures" / f"{TASK}-{kind}.png", dpi=160)
    rows = [[t.name, f"{t.radius:.3f}", f"{reach:.2f}", f"{t.spread:.2f}", f"{t.margin:+.3f}"] for t in traces]
    told = "; ".join(f"{t.name}: radius {t.radius:.3f}, angular spread {t.spread:.2f}" for t in traces)
    section = Section(
        f"{TASK}: learned from preferences",
        "A robot's finger is preferred further out, and ahead of the other counter-clockwise, so no place is best. A "
        "policy that cannot be beaten is at every angle equally often with the arm stretched: a circle.",
        f"One seed, {steps} steps, episodes of {HORIZON}, policies as returned (a mixture of the iterates). {told}. "
        f"The arm reaches {reach:.2f}; a spread of 1 is every direction equally often.",
        [
            [InlineFigure("fingertip positions", as_svg(figures["fingertip"]))],
            [InlineFigure("learning curves", as_svg(figures["curves"]))],
        ],
    )
    return section, rows


def _train(folder: Path, steps: int, jobs: int) -> dict[str, Agent]:
    specs = {}
    for label, algorithm in (("HPI-Clip", "hpi-clip"), ("SPPO", "sppo")):
        spec = RunSpec(TASK, algorithm, SEED, steps, "", settings={"horizon": HORIZON})
        specs[label] = spec.in_folder(folder)
    for result in run_all(list(specs.values()), jobs):
        if result.error:
            raise RunError(f"{result.spec.algorithm} on {TASK}: {result.error}")
    return {label: load_agent(spec.folder) for label, spec in specs.items()}


def _trace(name: str, color: str, agent: Agent, first: Outcomes | None) -> Trace:
    outcomes = concatenate([played.outcomes for played in play_episodes(agent, EPISODES, seed=1)])
    radius, angle = radius_and_angle(outcomes).T
    margin = float(agent.task.cumulant(outcomes, first).mean()) if first is not None else 0.0
    spread = 1 - float(np.abs(np.exp(1j * angle).mean()))
    return Trace(name, color, fingertip(outcomes.obs), float(radius.mean()), spread, margin)


def _curve(agent: Agent) -> tuple[Array, Array]:
    """Steps and margin against the first policy, from the run's log."""
    if agent.folder is None:
        raise RunError(f"{agent} was not loaded from a run")
    with open(agent.folder / Logs.PROGRESS, newline="") as file:
        rows = [(float(row["steps"]), float(row["margin_vs_first"])) for row in csv.DictReader(file)]
    steps, margins = np.array(rows).T
    return steps, margins
