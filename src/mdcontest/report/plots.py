"""Figures as SVG text: gaps against iterations, occupancies and policies as heat maps."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mdcontest.contest import Contest
from mdcontest.solution import History

# Okabe and Ito's colours: distinct for all common kinds of colour blindness.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "mdcontest",
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans", "sans-serif"],
}
MAX_LABELLED_CELLS = 60
"""Heat maps with more cells carry no numbers."""


@dataclass(frozen=True)
class Curve:
    """Gaps of one method."""

    label: str
    history: History
    color: str
    marker: str


def gap_figure(curves: list[Curve], bound: tuple[NDArray[np.int64], NDArray[np.float64]] | None) -> Figure:
    """Gap against iterations on logarithmic axes, with the theorem's bound; a curve ends where its gap is zero."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.2, 3.4), layout="constrained")
        axes = figure.subplots()
        for curve in curves:
            positive = curve.history.gaps > 0
            label = curve.label if positive.any() else f"{curve.label}: 0 from the first iterate"
            axes.loglog(
                curve.history.iterations[positive],
                curve.history.gaps[positive],
                color=curve.color,
                marker=curve.marker,
                markersize=3,
                markevery=0.08,
                linewidth=1.3,
                label=label,
            )
        if bound is not None:
            axes.loglog(*bound, color=GREY, linestyle="--", linewidth=1.3, label="bound of the theorem for its η")
        axes.set_xlabel("iterations K")
        axes.set_ylabel("optimality gap")
        axes.grid(which="major", color="#dddddd", linewidth=0.6)
        axes.legend(frameon=False, fontsize=8)
    return figure


def heat_map(values: NDArray[np.float64], contest: Contest, title: str, color_map: str) -> Figure:
    """A matrix [S, A] with names on both axes; small ones with their numbers."""
    states, actions = values.shape
    labelled = values.size <= MAX_LABELLED_CELLS
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1.9 + 0.75 * actions, 1.1 + 0.26 * min(states, 40)), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(values, cmap=color_map, vmin=0, vmax=max(values.max(), 1e-12), aspect="auto")
        axes.set_title(title, fontsize=9)
        axes.set_xticks(range(actions), contest.action_names)
        axes.tick_params(length=0)
        shown = range(states) if states <= 40 else range(0, states, states // 20)
        axes.set_yticks(list(shown), [contest.state_names[s] for s in shown])
        axes.spines[:].set_visible(False)
        if labelled:
            for (s, a), value in np.ndenumerate(values):
                dark = value > 0.6 * values.max()
                axes.text(
                    a, s, f"{value:.2f}", ha="center", va="center", fontsize=8, color="white" if dark else "black"
                )
        else:
            figure.colorbar(image, ax=axes, shrink=0.8)
    return figure


def as_svg(figure: Figure) -> str:
    """The figure as an <svg> element, the same text every time."""
    text = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]
