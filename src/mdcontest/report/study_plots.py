"""Figures of a study, one a task: learning curves with bands, areas with their seeds.

Each is narrow enough for a telephone; a page lays them side by side where it is wide.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mdcontest.arrays import Array
from mdcontest.report.plots import STYLE
from mdcontest.report.statistics import student_band
from mdcontest.report.study import INVERTED, RETURN, Scores, Study, TaskStudy

# Okabe and Ito's colours, without the yellow that white paper swallows. Line and marker change with each variant too,
# so that prints in grey can be read.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9")
LINES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (9, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
RC: dict[Any, Any] = STYLE | {"text.parse_math": False, "axes.titlesize": 10, "axes.titlelocation": "left"}
WIDTH = 4.4
"""Inches."""
LONGEST_LABEL = 44
MOST_BANDS = 6
"""With more variants than this in one figure, bands would hide the curves."""
FEWEST_FOR_BAND = 3
"""The band of two seeds is 12.7 standard errors to each side; the two are drawn instead."""
MEASURES = {RETURN: "return of an episode", INVERTED: "− what the best response wins"}


@dataclass(frozen=True)
class Look:
    """How a variant is drawn, in every figure."""

    color: str
    line: Any
    marker: str


def looks(study: Study) -> dict[str, Look]:
    """One look a variant; those that are on most tasks get the colours that are easiest to tell apart."""
    tasks = Counter(variant for task in study.tasks for variant in task.scores)
    ranked = sorted(study.variants, key=lambda variant: -tasks[variant])
    look = {v: Look(COLORS[i % 7], LINES[(i + i // 7) % 6], MARKERS[(i + i // 7) % 8]) for i, v in enumerate(ranked)}
    return {variant: look[variant] for variant in study.variants}


def label(text: str, longest: int = LONGEST_LABEL) -> str:
    """A name from a file as text for a figure: nothing that XML forbids, and not too long."""
    clean = re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "�", text)
    if len(clean) > longest:  # what tells two long names apart is more often at their ends
        clean = f"{clean[: longest // 3]}…{clean[1 + longest // 3 - longest :]}"
    return f" {clean}" if clean.startswith("_") else clean  # matplotlib keeps names with _ out of legends


def wrapped(variant: str, count: int) -> str:
    """A variant and its number of seeds, on as many lines as its settings take."""
    lines = textwrap.wrap(label(variant, 4 * LONGEST_LABEL), LONGEST_LABEL, break_on_hyphens=False) or [""]
    return "\n".join([*lines[:-1], f"{lines[-1]} (n = {count})"])


@contextmanager
def drawing(width: float, height: float) -> Iterator[Figure]:
    """A figure in the style of all."""
    with matplotlib.rc_context(RC):
        yield Figure(figsize=(width, height), layout="constrained")


def steps_axis(axes: Axes, last: float) -> float:
    """Label the axis of steps; what to divide them by."""
    unit, name = (1e6, ", millions") if last >= 2e6 else (1e3, ", thousands") if last >= 2e3 else (1.0, "")
    axes.set_xlabel(f"environment steps{name}")
    axes.grid(color="#e8e8e8", linewidth=0.6)
    axes.set_axisbelow(True)
    return unit


def add_legend(figure: Figure, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Below the axes, where it hides nothing."""
    columns = 2 if names and max(map(len, names)) <= 20 and len(names) > 1 else 1
    figure.legend(
        handles, names, loc="outside lower left", ncols=columns, frameon=False, fontsize=8.5, handlelength=3.2
    )


def legend_height(names: Sequence[str]) -> float:
    """Inches that it takes."""
    columns = 2 if names and max(map(len, names)) <= 20 else 1
    return 0.2 * -(-len(names) // columns) + 0.14 * sum(name.count("\n") for name in names)


# --- curves -----------------------------------------------------------------------------------------------


def curves_figure(
    title: str, curves: Mapping[str, tuple[Array, Array]], styles: Mapping[str, Look], ylabel: str
) -> Figure:
    """Means over seeds with their bands; `curves` are steps [T] and values [n, T] by variant."""
    names = [wrapped(variant, len(values)) for variant, (_, values) in curves.items()]
    with drawing(WIDTH, 2.75 + legend_height(names)) as figure:
        axes = figure.subplots()
        unit = steps_axis(axes, max((steps[-1] for steps, _ in curves.values()), default=0.0))
        handles = []
        for i, (variant, (steps, values)) in enumerate(curves.items()):
            handles += mean_curve(
                axes, steps / unit, values, styles[variant], i / len(curves), len(curves) <= MOST_BANDS
            )
        _fit(axes, [values for _, values in curves.values()])
        axes.set_ylabel(ylabel)
        axes.set_title(label(title))
        add_legend(figure, handles, names)
    return figure


def _fit(axes: Axes, values: Sequence[Array]) -> None:
    """Show every seed's curve; the band of few seeds may be so wide that nothing else could be seen."""
    low, high = min((v.min() for v in values), default=0.0), max((v.max() for v in values), default=1.0)
    room = 0.05 * (high - low) or 0.5 * abs(high) or 0.5
    axes.set_ylim(low - room, high + room)


def mean_curve(axes: Axes, x: Array, values: Array, look: Look, phase: float, with_band: bool) -> list[Line2D]:
    """One mean, its marks set off from those of others, and its band where there are seeds for one."""
    band = student_band(values)
    if len(values) >= FEWEST_FOR_BAND and with_band:
        axes.fill_between(x, band.low, band.high, color=look.color, alpha=0.15, linewidth=0)
    elif with_band:
        axes.plot(x, values.T, color=look.color, linewidth=0.5, alpha=0.6)
    gap = max(1, len(x) // 8)
    return axes.plot(
        x,
        band.mean,
        color=look.color,
        linestyle=look.line,
        marker=look.marker,
        markersize=4,
        markevery=(int(phase * gap), gap),
        linewidth=1.5,
    )


def learning_figure(study: TaskStudy, styles: Mapping[str, Look]) -> Figure:
    """The measure over steps."""
    curves = {variant: (study.grid, one.curves) for variant, one in study.scores.items()}
    return curves_figure(study.name, curves, styles, MEASURES[study.measure])


# --- areas ------------------------------------------------------------------------------------------------


def auc_figure(study: TaskStudy, styles: Mapping[str, Look]) -> Figure:
    """Bars of mean areas with Student's interval (thick) and the bootstrap's (thin), and each seed as a dot."""
    scores = list(study.scores.values())
    names = [wrapped(one.variant, len(one.areas)) for one in scores]
    line = 0.3 * max((name.count("\n") for name in names), default=0)  # a further line of text, in rows
    with drawing(WIDTH, 0.95 + 0.5 * (1 + line) * len(scores)) as figure:
        axes = figure.subplots()
        for row, one in enumerate(scores):
            look = styles[one.variant]
            axes.barh(row, one.area.mean, height=0.4 / (1 + line), color=look.color, alpha=0.3, edgecolor=look.color)
            spread = row + np.linspace(-0.13, 0.13, len(one.areas)) * (len(one.areas) > 1) / (1 + line)
            axes.scatter(one.areas, spread, s=18, color=look.color, marker=look.marker, linewidths=0, zorder=3)
            _whiskers(axes, row, one, 0.27 / (1 + line))
            axes.text(
                0, row - 0.25 / (1 + line), names[row], transform=axes.get_yaxis_transform(), fontsize=8.5, va="bottom"
            )
        axes.axvline(0, color="#999999", linewidth=0.8, zorder=0)
        axes.set_ylim(len(scores) - 0.6, -0.65 - 0.3 * line)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.margins(x=0.06)
        axes.set_xlabel(f"AUC of the {study.measure}")
        axes.set_title(label(study.name))
    return figure


def _whiskers(axes: Axes, row: int, one: Scores, below: float) -> None:
    for interval, offset, width, color in ((one.area, 0.0, 2.0, "black"), (one.area_bootstrap, below, 1.0, "#555555")):
        if np.isfinite([interval.low, interval.high]).all():
            axes.plot([interval.low, interval.high], [row + offset] * 2, color=color, linewidth=width, zorder=4)
