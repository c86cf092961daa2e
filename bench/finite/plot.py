"""Seconds against pairs on logarithmic axes, one panel a series: docs/images/solvers.svg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cases
import matplotlib
import numpy as np
import tables
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mdcontest.files import atomic_write
from mdcontest.report.plots import STYLE, as_svg

LOOKS: dict[str, tuple[str, str, str]] = {
    cases.AUTO: ("#000000", "o", "-"),
    "InteriorPoint": ("#0072B2", "s", "-"),
    "PolicyGeneration": ("#009E73", "^", "-"),
    "Extragradient": ("#56B4E9", "v", "-"),
    "OptimisticHPI": ("#CC79A7", "D", "-"),
    "HPI": ("#CC79A7", "x", "-"),
    "best HiGHS": ("#D55E00", "P", "--"),
    "mdpsolver": ("#E69F00", "*", ":"),
    "pymdptoolbox": ("#E69F00", "X", ":"),
}
"""Okabe and Ito's colours, with a marker each: ours are solid lines, HiGHS is dashed, the packages dotted."""
COLUMNS = 4


def write(results: dict[str, Any], path: Path, threads: int | None = None) -> None:
    """Draw what was measured with that many threads (the number measured most often if not given)."""
    counts = [row["threads"] for row in results["rows"]]
    if not counts:
        return
    chosen = threads or max(set(counts), key=counts.count)
    rows = [row for row in results["rows"] if row["threads"] == chosen]
    picture = figure(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write((as_svg(picture) + "\n").encode())


def figure(rows: list[dict[str, Any]]) -> Figure:
    """All panels and one legend."""
    titles = [s for s in cases.SERIES if any((r["model"], r["margin"]) == (s.model, s.margin) for r in rows)]
    lines = -(-len(titles) // COLUMNS)
    with matplotlib.rc_context(STYLE):
        drawn = Figure(figsize=(10.5, 0.8 + 2.5 * lines), layout="constrained")
        panels = drawn.subplots(lines, COLUMNS, squeeze=False, sharex=True, sharey=True).reshape(-1)
        handles: dict[str, Any] = {}
        for axes, series in zip(panels, titles, strict=False):
            mine = [row for row in rows if (row["model"], row["margin"]) == (series.model, series.margin)]
            handles |= panel(axes, series.title, mine)
        for axes in panels[len(titles) :]:
            axes.set_visible(False)
        panels[0].set_ylim(1e-3, 10 * max(row["limit"] for row in rows))  # room for the arrows
        for axes in panels[: len(titles) : COLUMNS]:
            axes.set_ylabel("seconds")
        for axes in panels[max(0, len(titles) - COLUMNS) : len(titles)]:
            axes.set_xlabel("pairs n = |S||A|")
            axes.tick_params(labelbottom=True)
        known = [name for name in LOOKS if name in handles]
        drawn.legend([handles[n] for n in known], known, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return drawn


def panel(axes: Axes, title: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One line a contender through the sizes it solved; an open marker at the limit where it ran over."""
    handles = {}
    for name, (color, marker, line) in LOOKS.items():
        mine = highs_rows(rows) if name == "best HiGHS" else [row for row in rows if row["contender"] == name]
        points = sorted((row["pairs"], row["seconds"]) for row in mine if tables.solved(row))
        over = sorted((row["pairs"], row["limit"]) for row in mine if row["outcome"] == "over the limit")
        if not points and not over:
            continue
        width = 2.6 if name == cases.AUTO else 1.3
        below = 1 if name == cases.AUTO else 2  # what `solve` chose lies on top of the wide line
        style = {"color": color, "marker": marker, "markersize": 5.5, "linewidth": width, "zorder": below}
        (handles[name],) = axes.plot([n for n, _ in points], [t for _, t in points], linestyle=line, **style)
        if over:
            (n, limit), arrow = over[0], {"arrowstyle": "->", "color": color, "shrinkA": 4}
            way = np.array([*points[-1:], over[0]], float)
            axes.plot(way[:, 0], way[:, 1], line, color=color, linewidth=width)
            axes.plot([n], [limit], linestyle="", **style, markerfacecolor="white")
            axes.annotate("", (n, 5 * limit), (n, limit), arrowprops=arrow)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(title, fontsize=9)
    axes.minorticks_off()
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    return handles


def highs_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best HiGHS at each size."""
    sizes = {row["pairs"] for row in rows}
    found = [tables.best_highs([row for row in rows if row["pairs"] == pairs]) for pairs in sizes]
    return [row for row in found if row is not None]
