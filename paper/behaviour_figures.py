"""Figures of what policies of the nontransitive tasks do, and of what best responses win against them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from behaviour import positions, to_the_end
from evidence import Evidence
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from selections import LEARNERS, NAMES

from mdcontest import tasks
from mdcontest.experiments.stored import Run
from mdcontest.report.study_gap_plots import bracket_figure, bracket_range, shares_figure, traces_figure
from mdcontest.report.study_gaps import gap_series, shares, traces
from mdcontest.report.study_plots import drawing, looks

REACHER = "Reacher-NT"
Ends = list[tuple[Run, Any]]
"""Runs, and where the fingertip was at the end of training."""


def behaviour_figures(evidence: Evidence) -> Iterator[tuple[str, Figure]]:
    """fig:experiment-summary (b), fig:reacher-trajectories, fig:walker2d-trajectories."""
    study, runs = evidence.study("nontransitive"), evidence.store("nontransitive").runs
    styles = looks(study)
    series = [one for one in gap_series(runs) if len(one.steps) > 1]  # what was measured at the end only is in a table
    for one in series:
        limits = bracket_range([other for other in series if other.task == one.task])
        drawn = bracket_figure(replace(one, variant=_shown(one.variant)), styles[one.variant], limits)
        yield f"gap-{one.task}-{one.variant.split()[0]}-{one.returned}", drawn
    ends = {name: _ends(evidence, name) for name in (*LEARNERS, "sppo")}
    for found in traces([_middle(of_algorithm) for of_algorithm in ends.values() if of_algorithm]):
        order = sorted(found.rows, key=lambda row: list(NAMES).index(row[0].split()[0]))
        rows = [(_shown(variant), *others) for variant, *others in order]
        known = {_shown(variant): look for variant, look in styles.items()}
        yield f"positions-{found.task}", traces_figure(replace(found, rows=rows), tasks.make(found.task).reach, known)
    if any(ends.values()):
        colors = {run.algorithm: styles[run.variant].color for found in ends.values() for run, _ in found}
        yield f"ends-{REACHER}", ends_figure(ends, colors)
    for part in shares(runs):
        name = f"classes-{part.task}-{part.variant.split()[0]}"
        yield name, shares_figure(replace(part, variant=_shown(part.variant)))


def ends_figure(ends: dict[str, Ends], colors: dict[str, str]) -> Figure:
    """A row an algorithm, a column a seed, with the circle that can just be reached."""
    shown = {name: found for name, found in ends.items() if found}
    seeds, reach = sorted({run.seed for found in shown.values() for run, _ in found}), tasks.make(REACHER).reach
    with drawing(1.25 * len(seeds) + 0.6, 1.35 * len(shown) + 0.2) as figure:
        panels = figure.subplots(len(shown), len(seeds), squeeze=False)
        for row, (name, found) in zip(panels, shown.items(), strict=True):
            row[0].set_ylabel(NAMES[name])
            known = {run.seed: at for run, at in found}
            for axes, seed in zip(row, seeds, strict=True):
                axes.set_xticks([])
                axes.set_yticks([])
                axes.spines[:].set_visible(False)
                axes.set_title(f"seed {seed}" if axes in panels[0] else "", fontsize=9, loc="center", color="#555555")
                axes.add_patch(Circle((0, 0), reach, fill=False, linestyle=":", linewidth=0.9, color="#777777"))
                at = known.get(seed, np.empty((0, 2)))
                axes.scatter(*at.T, s=2, color=colors[name], alpha=0.4, linewidths=0, rasterized=True)
                axes.set(xlim=(-1.15 * reach, 1.15 * reach), ylim=(-1.15 * reach, 1.15 * reach), aspect="equal")
    return figure


def _ends(evidence: Evidence, algorithm: str) -> Ends:
    return [(run, np.array(positions(done[max(done)]))) for run, done in to_the_end(evidence, REACHER, algorithm)]


def _middle(found: Sequence[tuple[Run, Any]]) -> Run:
    """The run whose mean radius is the middle one, of the lower two if there are two."""
    ordered = sorted(found, key=lambda one: float(np.hypot(*one[1].T).mean()))
    return ordered[(len(ordered) - 1) // 2][0]


def _shown(variant: str) -> str:
    """A variant with its algorithm as in texts."""
    algorithm, *settings = variant.split()
    return " ".join([NAMES[algorithm], *settings])
