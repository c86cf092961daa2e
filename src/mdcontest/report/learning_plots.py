"""Figures of training runs: curves over steps, and where a robot's finger goes."""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from mdcontest.arrays import Array
from mdcontest.report.plots import STYLE

MAX_POINTS = 6000
"""Points of a trace that are drawn, evenly spaced."""


@dataclass(frozen=True)
class Series:
    """A line: its values over environment steps."""

    label: str
    steps: Array
    values: Array
    color: str


def curves_figure(series: list[Series], label: str) -> Figure:
    """Lines over environment steps, labelled at their ends."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.2, 3.0), layout="constrained")
        axes = figure.subplots()
        for line in series:
            axes.plot(line.steps / 1000, line.values, color=line.color, linewidth=1.4, label=line.label)
        axes.axhline(0, color="#bbbbbb", linewidth=0.8, zorder=0)
        axes.set_xlabel("environment steps, thousands")
        axes.set_ylabel(label, fontsize=8)
        axes.grid(color="#eeeeee", linewidth=0.6)
        axes.legend(frameon=False, fontsize=8)
    return figure


def trace_figure(traces: list[tuple[str, Array, str]], reach: float) -> Figure:
    """Positions [B, 2] of several policies side by side, with the circle that can just be reached."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(2.3 * len(traces), 2.6), layout="constrained")
        for axes, (name, points, color) in zip(figure.subplots(1, len(traces), squeeze=False)[0], traces, strict=True):
            shown = points[:: max(1, len(points) // MAX_POINTS)]
            axes.scatter(*np.asarray(shown).T, s=1.2, color=color, alpha=0.35, linewidths=0, rasterized=True)
            axes.add_patch(Circle((0, 0), reach, fill=False, linestyle=":", linewidth=0.8, color="#888888"))
            axes.set_title(name, fontsize=9)
            axes.set_aspect("equal")
            axes.set_xlim(-1.1 * reach, 1.1 * reach)
            axes.set_ylim(-1.1 * reach, 1.1 * reach)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(False)
    return figure
