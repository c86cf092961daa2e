"""Figures of what is known of gaps, and of what policies do: brackets, positions, shares of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch

from mdcontest.arrays import Array
from mdcontest.gap.curve import OWN
from mdcontest.report.study_gaps import MOST_PANELS, GapSeries, Shares, Traces, mean_over_seeds, shown_steps
from mdcontest.report.study_plots import (
    LINES,
    MARKERS,
    WIDTH,
    Look,
    add_legend,
    drawing,
    label,
    legend_height,
    steps_axis,
)

NAMES = ["best response wins (lower bound)", "between lower and upper end", "upper end", "exact gap"]
"""What the lines of a bracket are."""
MOST_POINTS = 1500
"""Positions drawn in a panel."""


def bracket_range(group: Sequence[GapSeries]) -> tuple[float, float]:
    """The vertical range that all brackets of a task by one margin fit, so that its variants can be compared."""
    ends = np.concatenate([np.ravel(part) for one in group for part in (one.lows, one.highs, one.uppers, one.exact)])
    ends = ends[np.isfinite(ends)]
    low, high = (min(0.0, ends.min()), max(0.0, ends.max())) if len(ends) else (0.0, 1.0)
    room = 0.06 * ((high - low) or 1.0)
    return low - room, high + room


def bracket_figure(series: GapSeries, look: Look, limits: tuple[float, float]) -> Figure:
    """The bracket of one variant over steps; thin lines are single seeds."""
    x_of, mean = series.steps, mean_over_seeds
    has = [True, bool(np.isfinite(series.uppers).any()), bool(np.isfinite(series.uppers).any())]
    has.append(bool(np.isfinite(series.exact).any()))
    shown = [name for name, here in zip(NAMES, has, strict=True) if here]
    with drawing(WIDTH, 2.8 + legend_height(shown)) as figure:
        axes = figure.subplots()
        x = x_of / steps_axis(axes, x_of[-1])
        lower, upper = mean(series.lowers), mean(series.uppers)
        axes.fill_between(x, lower, upper, color=look.color, alpha=0.14, linewidth=0)
        if len(x) == 1:  # between two steps there is an area, at one there is none
            axes.vlines(x, lower, upper, color=look.color, alpha=0.14, linewidth=14)
        if len(series.seeds) > 1:
            for row, top in zip(series.values, series.uppers, strict=True):
                axes.plot(x, row, color=look.color, linewidth=0.5, alpha=0.6)
                axes.plot(x, top, color=look.color, linewidth=0.5, alpha=0.6, linestyle="--")
        low, high = mean(series.lows), mean(series.highs)
        axes.vlines(x, low, high, color=look.color, linewidth=2.2)
        handles: list[Artist] = [
            axes.plot(x, mean(series.values), color=look.color, marker=look.marker, markersize=4.5)[0]
        ]
        handles.append(Patch(color=look.color, alpha=0.14))
        handles.append(axes.plot(x, upper, color=look.color, linestyle="--", marker="_", markersize=7)[0])
        dots = axes.plot(x, mean(series.exact), "o", color="black", markersize=5, markerfacecolor="white", zorder=5)
        axes.set_ylim(*limits)
        axes.axhline(0, color="#999999", linewidth=0.8, zorder=0)
        axes.set_ylabel("average margin a step")
        axes.set_title(f"{label(series.task, 30)}: {label(series.variant, 36)}\n", fontsize=9.5, pad=-2)
        judged = "" if series.judge == OWN else f", judged by {label(series.judge, 16)}"
        note = f"{label(series.returned, 16)} policy, {_seeds(series.seeds)}{judged}"
        axes.text(0, 1.01, note, transform=axes.transAxes, fontsize=8.5, color="#555555", va="bottom")
        add_legend(figure, [h for h, here in zip([*handles, *dots], has, strict=True) if here], shown)
    return figure


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"mean of {len(seeds)} seeds"


def traces_figure(found: Traces, reach: float, styles: Mapping[str, Look]) -> Figure:
    """Positions: a row a variant, a column a step, with the circle that can just be reached."""
    columns = shown_steps({step for _, _, points in found.rows for step in points})
    with drawing(1.3 * MOST_PANELS + 0.2, 1.72 * len(found.rows) + 0.2) as figure:
        rows = figure.subfigures(len(found.rows), 1, squeeze=False)[:, 0]
        for part, (variant, seed, points) in zip(rows, found.rows, strict=True):
            title = f"{label(found.task, 24)}: {label(variant, 40)}, seed {seed}"
            part.suptitle(title, fontsize=10.5, x=0.02, ha="left")
            panels = part.subplots(1, MOST_PANELS)
            for axes in panels:
                axes.set_axis_off()
            for axes, step in zip(panels, columns, strict=False):
                axes.set_title(f"{step:,} steps", fontsize=9, loc="center", color="#555555")
                axes.add_patch(Circle((0, 0), reach, fill=False, linestyle=":", linewidth=0.9, color="#777777"))
                at = points.get(step, np.empty((0, 2)))
                shown = at[:: max(1, len(at) // MOST_POINTS)]
                axes.scatter(*shown.T, s=2, color=styles[variant].color, alpha=0.4, linewidths=0, rasterized=True)
                axes.set_xlim(-1.15 * reach, 1.15 * reach)
                axes.set_ylim(-1.15 * reach, 1.15 * reach)
                axes.set_aspect("equal")
    return figure


def shares_figure(found: Shares) -> Figure:
    """Shares of classes over steps, means over seeds; thin lines are single seeds, dotted is every class alike."""
    count = len(found.labels)
    colors = matplotlib.colormaps["cividis"](np.linspace(0.0, 0.85, max(2, count)))[:count]
    names = [*(label(name) for name in found.labels), f"1/{count}, all alike"]
    with drawing(WIDTH, 2.6 + legend_height(names)) as figure:
        axes = figure.subplots()
        x = found.steps / steps_axis(axes, found.steps[-1])
        handles = []
        for k in range(count):
            handles += _share(axes, x, found.values[:, :, k], colors[k], k)
        handles.append(axes.axhline(1 / count, color="#555555", linestyle=":", linewidth=1.2))
        axes.set_ylim(0, max(0.05, 1.08 * float(np.nanmax(found.values, initial=0.0))))
        axes.set_ylabel("share of steps")
        axes.set_title(f"{label(found.task, 30)}: {label(found.variant, 36)}\n", fontsize=9.5, pad=-2)
        axes.text(0, 1.01, _seeds(found.seeds), transform=axes.transAxes, fontsize=8.5, color="#555555", va="bottom")
        add_legend(figure, handles, names)
    return figure


def _share(axes: Axes, x: Array, values: Array, color: Array, number: int) -> list[Line2D]:
    if len(values) > 1:
        for row in values:
            axes.plot(x, row, color=color, linewidth=0.5, alpha=0.5)
    line, marker = LINES[number % len(LINES)], MARKERS[number % len(MARKERS)]
    return axes.plot(x, mean_over_seeds(values), color=color, linestyle=line, marker=marker, markersize=4.5)
