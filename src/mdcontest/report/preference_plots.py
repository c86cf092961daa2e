"""Figures of a learned margin: calibration, matrices, cycles, maps, disagreement.

Orange is against, purple is for: a pair of colours that all common kinds of colour blindness tell apart. Each figure is
narrow enough for a telephone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from mdcontest.arrays import Array
from mdcontest.report.page import InlineFigure
from mdcontest.report.plots import BLUE, GREY, ORANGE, as_svg
from mdcontest.report.preference_distance import FAR, DistanceView
from mdcontest.report.preference_views import CycleView, MapView
from mdcontest.report.study_plots import LONGEST_LABEL, MARKERS, WIDTH, drawing, label

DIVERGING = "PuOr"
"""Orange for negative, purple for positive."""
CORNERS = np.array([[np.sin(turn), np.cos(turn)] for turn in 2 * np.pi * np.arange(3) / 3])
NAMES = ("A", "B", "C")


def calibration_figure(calibration: Mapping[str, Any]) -> Figure:
    """How often the first was preferred, against what was said; below, about how many pairs it was said."""
    said, was, count = (np.array(calibration[name], float) for name in ("predicted", "observed", "count"))
    error = np.sqrt(np.maximum(was * (1 - was), 0.25 / np.maximum(count, 1)) / count)
    with drawing(WIDTH, 4.4) as figure:
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=[3.2, 1])
        axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1.2, label="as often as said")
        axes.errorbar(said, was, error, color=BLUE, marker="o", markersize=5, capsize=2.5, label="held-out pairs")
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(-0.05, 1.05)
        axes.set_ylabel("share that preferred the first")
        axes.legend(frameon=False, loc="upper left", fontsize=8.5)
        below.bar((np.floor(np.minimum(said, 0.999) * 10) + 0.5) / 10, count, width=0.09, color=BLUE, alpha=0.55)
        below.set_ylabel("pairs")
        below.set_xlabel("probability it gave to the first")
        for one in (axes, below):
            one.grid(color="#e8e8e8", linewidth=0.6)
            one.set_axisbelow(True)
    return figure


def matrix_figure(view: CycleView) -> Figure:
    """M between outcomes, the best-liked first, and what is left of it without its nearest reward."""
    limit = float(np.quantile(np.abs(view.M), 0.99)) or 1.0
    with drawing(WIDTH * 1.15, 2.85) as figure:
        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        image = None
        for axes, values, title in zip(panels, (view.M, view.remainder), ("margin M", "M − (gᵢ − gⱼ)"), strict=True):
            image = axes.imshow(values, cmap=DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
            axes.set_title(title, fontsize=9.5)
            axes.set_xticks([0, len(values) - 1], ["best", "worst"])
            axes.set_yticks([0, len(values) - 1], ["best", "worst"])
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
        panels[0].set_ylabel("row over column", labelpad=-22)
        _color_scale(figure, image, list(panels), "preferred to the column (+) or not (−)")
    return figure


def _color_scale(figure: Figure, image: Any, axes: Sequence[Axes], text: str) -> None:
    scale = figure.colorbar(image, ax=list(axes), location="bottom", shrink=0.8, aspect=30, pad=0.03)
    scale.set_label(text, fontsize=8.5)
    scale.ax.tick_params(labelsize=8, length=2)
    scale.outline.set_visible(False)


# --- cycles -----------------------------------------------------------------------------------------------


def cycles_figure(view: CycleView, positions: Array | None, reach: float, classes: Sequence[str] | None) -> Figure:
    """Each cycle as three arrows from the preferred to the other: in the plane, or between names at three corners."""
    count = len(view.cycles)
    with drawing(max(1.55 * count, WIDTH * 0.6) + 0.1, 2.1) as figure:
        panels = np.atleast_1d(figure.subplots(1, count))
        for number, (axes, cycle) in enumerate(zip(panels, view.cycles, strict=True), 1):
            where = CORNERS if positions is None else positions[list(cycle)]
            names = NAMES if classes is None else [label(classes[i], 14) for i in cycle]
            axes.set_title(f"cycle {number}", fontsize=9.5, loc="center")
            _frame(axes, 1.0 if positions is None else reach, positions is not None)
            chances = [1 / (1 + np.exp(-view.M[cycle[s], cycle[(s + 1) % 3]])) for s in range(3)]
            _arrows(axes, where, names, chances)
    return figure


def _frame(axes: Axes, reach: float, circle: bool) -> None:
    if circle:
        axes.add_patch(Circle((0, 0), reach, fill=False, linestyle=":", linewidth=0.9, color="#777777"))
    room = 1.32 * reach
    axes.set_xlim(-room, room)
    axes.set_ylim(-room, room)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _arrows(axes: Axes, where: Array, names: Sequence[str], chances: Sequence[float]) -> None:
    """From each of three places to the next, with what the preference's probability is."""
    centre = where.mean(axis=0)
    for s in range(3):
        start, end = where[s], where[(s + 1) % 3]
        room = {"shrinkA": _clearance(names[s], end - start), "shrinkB": _clearance(names[(s + 1) % 3], end - start)}
        axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": BLUE, "linewidth": 1.4, **room})
        middle = (start + end) / 2
        text = middle + 0.28 * (centre - middle)  # within the triangle, clear of the line
        behind = {"boxstyle": "round,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
        axes.text(
            text[0], text[1], f"{chances[s]:.2f}", fontsize=7.5, ha="center", va="center", color="#333333", bbox=behind
        )
        short = len(names[s]) <= 2
        axes.text(
            start[0],
            start[1],
            names[s],
            fontsize=9,
            ha="center",
            va="center",
            bbox={
                "boxstyle": "circle,pad=0.18" if short else "round,pad=0.22",
                "facecolor": "white",
                "edgecolor": GREY,
            },
            clip_on=False,
        )


def _clearance(name: str, direction: Array) -> float:
    """Points from the middle of a name's box to its rim, along an arrow."""
    half_width, half_height = 3.0 * len(name) + 6.0, 9.0
    across, along = np.abs(direction) / max(float(np.hypot(*direction)), 1e-12)
    return float(min(half_width / max(across, 1e-6), half_height / max(along, 1e-6)))


# --- maps -------------------------------------------------------------------------------------------------


def map_figure(view: MapView, which: int) -> Figure:
    """Where in the plane outcomes are preferred, learned beside the task's own; `which`: 0 to all, 1 to one."""
    with drawing(WIDTH * 1.15, 3.05) as figure:
        panels = figure.subplots(1, 2)
        for axes, values, title in zip(
            panels, (view.learned[which], view.own[which]), ("learned", "the task's own"), strict=True
        ):
            limit = float(np.quantile(np.abs(values), 0.99)) or 1.0
            image = axes.hexbin(
                *view.positions.T,
                C=values / limit,
                gridsize=26,
                cmap=DIVERGING,
                vmin=-1,
                vmax=1,
                extent=(-view.reach, view.reach, -view.reach, view.reach),
                linewidths=0.1,
            )
            _frame(axes, view.reach, circle=True)
            axes.set_title(title, fontsize=9.5, loc="center")
            if which:
                axes.plot(*view.marked, "o", markersize=8, markerfacecolor="white", markeredgecolor="black")
        text = "margin over the ringed one" if which else "mean margin against all"
        _color_scale(figure, image, list(panels), f"{text}, of its largest")
    return figure


# --- disagreement -----------------------------------------------------------------------------------------


def distance_figure(view: DistanceView) -> Figure:
    """How far members are apart against how far an outcome lies from what they were fitted to."""
    colors = (BLUE, "#56B4E9", "#E69F00", ORANGE)
    with drawing(WIDTH, 3.3) as figure:
        axes = figure.subplots()
        for factor, far, apart, color, marker in zip(
            FAR, view.distance, view.disagreement, colors, MARKERS, strict=False
        ):
            name = "held out" if factor == 1 else f"pushed away × {factor:g}"
            axes.scatter(far, apart, s=8, color=color, marker=marker, alpha=0.35, linewidths=0, rasterized=True)
            axes.plot(
                np.median(far), np.median(apart), marker, color=color, markersize=8, markeredgecolor="black", label=name
            )
        axes.set_xlabel("distance to the nearest fitted outcome, deviations an input")
        axes.set_ylabel("deviation of members' probabilities")
        axes.set_ylim(bottom=0)
        axes.grid(color="#e8e8e8", linewidth=0.6)
        axes.set_axisbelow(True)
        figure.legend(loc="outside lower left", ncols=2, frameon=False, fontsize=8.5)
    return figure


def short_title(text: str) -> str:
    """A name from a file, short enough for a heading."""
    return label(text, LONGEST_LABEL)


def inline(text: str, figure: Figure) -> list[InlineFigure]:
    """A column of one figure for a section."""
    return [InlineFigure(text, as_svg(figure))]
