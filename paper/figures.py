"""The figures beside RESULTS.md, drawn from the recorded results alone."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from evidence import Evidence
from finite_figures import rates_figure, sizes_figure
from judging import short
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mdcontest.report.statistics import MIN_SEEDS
from mdcontest.report.study import INVERTED, RETURN, Study, TaskStudy
from mdcontest.report.study_gap_plots import bracket_figure, bracket_range, shares_figure, traces_figure
from mdcontest.report.study_gaps import gap_series, shares, traces
from mdcontest.report.study_plots import Look, drawing, looks, mean_curve
from mdcontest.report.study_setting_plot import setting_figure
from mdcontest.tasks import make

COLUMNS = 4
NAMES = {
    "hpi-clip": "HPI-Clip",
    "hpi": "HPI",
    "sppo": "SPPO (SPO of Swamy et al. 2024)",
    "ppo": "PPO, which sees the reward",
}
PANEL = 4.2
"""Inches of the widest panel."""
MILLION = 1e6
MEASURES = {RETURN: "return of an episode", INVERTED: "inverted lower bound"}


def all_figures(evidence: Evidence) -> Iterator[tuple[str, Figure]]:
    """File names without their ending, and figures; only those there is something to draw of."""
    yield from curves_figures(evidence)
    if evidence.study("suite").tasks:
        yield "suite-areas", areas_figure(evidence)
    yield from _nontransitive(evidence)
    for name, study in (("comparison-horizon", "comparison horizon"), ("eta", "learning rate")):
        found = evidence.study(study)
        for task in found.tasks:
            if len(task.scores) > 1 and (figure := setting_figure(task, looks(found))) is not None:
                yield f"{name}-{short(task.name)}", figure
    for name, draw in (("sizes", sizes_figure), ("rates", rates_figure)):
        if (measured := evidence.finite(name)) is not None:
            yield f"finite-{name}", draw(measured)


def _panels(tasks: Sequence[TaskStudy], draw: Callable[[Axes, TaskStudy], None], height: float, legend: int) -> Figure:
    """One panel a task."""
    columns = min(COLUMNS, len(tasks))
    rows = -(-len(tasks) // columns)
    with drawing(min(11.0, PANEL * columns), height * rows + 0.3 * legend) as figure:
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for one in axes[len(tasks) :]:
            one.set_axis_off()
        for one, task in zip(axes, tasks, strict=False):
            draw(one, task)
            one.set_title(panel_title(task))
    return figure


def panel_title(task: TaskStudy) -> str:
    """The task, and how many seeds there are where that is too few to claim anything."""
    seeds = [scores.area.n for scores in task.scores.values()]
    if not seeds or min(seeds) >= MIN_SEEDS:
        return short(task.name)
    counts = f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)}–{max(seeds)}"
    return f"{short(task.name)} ({counts} seeds)"


def curves_figures(evidence: Evidence) -> Iterator[tuple[str, Figure]]:
    """fig:mujoco-suite, fig:experiment-summary (b), and the same with learned margins, where they were run."""
    for study in ("suite", "nontransitive", "learned margins"):
        for measure, label in MEASURES.items():
            tasks = [task for task in evidence.study(study).tasks if task.measure == measure and task.scores]
            if tasks:
                name = study.replace(" ", "-") + ("-nontransitive" if "learned" in study and measure != RETURN else "")
                yield name, curves_figure(evidence.study(study), tasks, label)


def curves_figure(study: Study, tasks: Sequence[TaskStudy], label: str) -> Figure:
    """Curves over training, means over seeds with Student's 95 % bands."""
    styles, handles = looks(study), {}

    def draw(axes: Axes, task: TaskStudy) -> None:
        for i, (variant, one) in enumerate(task.scores.items()):
            drawn = mean_curve(axes, task.grid / MILLION, one.curves, styles[variant], i / len(task.scores), True)
            handles[one.algorithm] = drawn[0]
        axes.grid(color="#e8e8e8", linewidth=0.6)
        axes.set_xlabel("million steps")

    figure = _panels(tasks, draw, 2.3, 1)
    order = [name for name in NAMES if name in handles]
    lines, names = [handles[n] for n in order], [NAMES[n] for n in order]
    figure.legend(lines, names, loc="outside lower center", ncols=1 if len(tasks) == 1 else 4, frameon=False)
    figure.supylabel(label, fontsize=10)
    return figure


def areas_figure(evidence: Evidence) -> Figure:
    """fig:experiment-summary (a): the area under each curve, every seed a dot, with Student's 95 % interval."""
    study = evidence.study("suite")
    styles = looks(study)

    def draw(axes: Axes, task: TaskStudy) -> None:
        for row, (variant, one) in enumerate(task.scores.items()):
            _area(axes, row, one.areas, (one.area.mean, one.area.low, one.area.high), styles[variant])
        axes.set_yticks(
            range(len(task.scores)), [NAMES[one.algorithm].split(" (")[0].split(",")[0] for one in task.scores.values()]
        )
        axes.invert_yaxis()
        axes.grid(axis="x", color="#e8e8e8", linewidth=0.6)
        axes.set_axisbelow(True)

    figure = _panels(study.tasks, draw, 1.6, 0)
    figure.supxlabel("area under the curve of returns, as its mean height", fontsize=10)
    return figure


def _area(axes: Axes, row: int, areas: np.ndarray, interval: tuple[float, float, float], look: Look) -> None:
    mean, low, high = interval
    axes.scatter(areas, np.full(len(areas), row), s=10, color=look.color, alpha=0.5, linewidths=0)
    axes.plot([mean], [row], color=look.color, marker=look.marker, markersize=6)
    if np.isfinite([low, high]).all():
        axes.plot([low, high], [row, row], color=look.color, linewidth=2)


def _nontransitive(evidence: Evidence) -> Iterator[tuple[str, Figure]]:
    """fig:experiment-summary (b), fig:reacher-trajectories, fig:walker2d-trajectories."""
    study, runs = evidence.study("nontransitive"), evidence.store("nontransitive").runs
    styles = looks(study)
    series = [one for one in gap_series(runs) if len(one.steps) > 1]  # what was measured at the end only is in a table
    for one in series:
        limits = bracket_range([other for other in series if other.task == one.task])
        yield (
            f"gap-{one.task}-{one.variant.split()[0]}-{one.returned}",
            bracket_figure(one, styles[one.variant], limits),
        )
    for found in traces(runs):
        yield f"positions-{found.task}", traces_figure(found, make(found.task).reach, styles)
    for part in shares(runs):
        yield f"classes-{part.task}-{part.variant.split()[0]}", shares_figure(part)


def as_png(figure: Figure) -> bytes:
    """The same bytes for the same figure, whatever version of Matplotlib says it drew it."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, metadata={"Software": None})
    return image.getvalue()
