"""The area under the curve against the one setting that varies."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mdcontest.report.study import Scores, TaskStudy
from mdcontest.report.study_curves import natural
from mdcontest.report.study_plots import LINES, WIDTH, Look, add_legend, drawing, label, legend_height
from mdcontest.settings import WHOLE

CROWDED = 5
"""Values that an axis can name side by side."""


def varied_setting(study: TaskStudy) -> tuple[str, dict[str, dict[str, float]]] | None:
    """The one setting with numbers that varies within an algorithm: its name, and values by algorithm and variant."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for algorithm in dict.fromkeys(one.algorithm for one in study.scores.values()):
        group = {v: _settings(one) for v, one in study.scores.items() if one.algorithm == algorithm}
        names = dict.fromkeys(name for settings in group.values() for name in settings)
        varied = [name for name in names if len({json.dumps(one.get(name)) for one in group.values()}) > 1]
        values = {variant: settings.get(varied[0]) for variant, settings in group.items()} if len(varied) == 1 else {}
        if values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values.values()):
            found.setdefault(varied[0], {})[algorithm] = {key: float(v) for key, v in values.items() if v is not None}
    return next(iter(found.items())) if len(found) == 1 else None


def _settings(one: Scores) -> dict[str, Any]:
    return {**one.runs[0].settings, **one.runs[0].task_choices}


def setting_figure(study: TaskStudy, styles: Mapping[str, Look]) -> Figure | None:
    """Areas against the setting that varies; None where none does, or several do."""
    varied = varied_setting(study)
    if varied is None:
        return None
    name, groups = varied
    known = sorted({value for group in groups.values() for value in group.values()})
    place = _places(name, known)
    with drawing(WIDTH, 2.75 + legend_height(list(groups))) as figure:
        axes = figure.subplots()
        handles = []
        for i, (_, group) in enumerate(sorted(groups.items(), key=lambda item: natural(item[0]))):
            handles.append(_against(axes, {place[value]: study.scores[v] for v, value in group.items()}, styles, i))
        if _multiply(sorted(place.values())):
            axes.set_xscale("log", base=2)
            axes.minorticks_off()
        if len(known) <= 12:
            whole = name == "comparison_horizon"
            names = ["whole" if whole and v == WHOLE else f"{v:g}" for v in place]
            axes.set_xticks(list(place.values()), names, rotation=45 if len(known) > CROWDED else 0)
        axes.grid(color="#e8e8e8", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_xlabel(label(name))
        axes.set_ylabel(f"AUC of the {study.measure}", fontsize=8.5)
        axes.set_title(label(study.name))
        add_legend(figure, handles, [label(algorithm) for algorithm in sorted(groups, key=natural)])
    return figure


def _multiply(values: list[float]) -> bool:
    """Whether each value is at least twice the one before: then a logarithmic axis sets them apart."""
    return values[0] > 0 and all(b >= 2 * a for a, b in itertools.pairwise(values))


def _places(name: str, values: list[float]) -> dict[float, float]:
    """Where values go on the axis; a comparison horizon of 0 is the whole episode, so it comes after all others."""
    if name != "comparison_horizon" or WHOLE not in values or len(values) < 2:
        return {value: value for value in values}
    known = [value for value in values if value != WHOLE]
    step = max(2.0, known[-1] / known[-2]) if len(known) > 1 else 2.0  # as far off as the last two are apart
    return {value: value for value in known} | {float(WHOLE): known[-1] * step}


def _against(axes: Axes, points: dict[float, Scores], styles: Mapping[str, Look], number: int) -> Line2D:
    """The means of one algorithm joined by a line, each with its seeds and interval in the look of its variant."""
    at = sorted(points)
    (line,) = axes.plot(
        at, [points[x].area.mean for x in at], color="#555555", linewidth=1.2, linestyle=LINES[number % 6]
    )
    for x in at:
        one, look = points[x], styles[points[x].variant]
        axes.scatter(np.full(len(one.areas), x), one.areas, s=9, color=look.color, alpha=0.45, linewidths=0, zorder=2)
        axes.plot([x], [one.area.mean], color=look.color, marker=look.marker, markersize=6, zorder=4)
        if np.isfinite([one.area.low, one.area.high]).all():
            axes.plot([x, x], [one.area.low, one.area.high], color=look.color, linewidth=2, zorder=3)
    return line
