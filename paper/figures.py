"""The figures beside RESULTS.md, drawn from the recorded results alone."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from behaviour_figures import behaviour_figures
from comparison_horizon import SHOWN
from evidence import Evidence, earned_at_the_end
from finite_figures import rates_figure, sizes_figure
from judging import short
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from selections import ETAS, HORIZONS
from selections import NAMES as SHORT
from settings_claims import TUNED_ON

from mdcontest.report.statistics import MIN_SEEDS, student_interval
from mdcontest.report.study import INVERTED, RETURN, Scores, Study, TaskStudy
from mdcontest.report.study_plots import COLORS, drawing, looks, mean_curve

COLUMNS = 4
NAMES = {
    "hpi-clip": "HPI-Clip",
    "hpi": "HPI",
    "sppo": "SPPO (SPO of Swamy et al. 2024)",
    "ppo": "PPO, which sees the reward",
}
BESIDE = 0.3
"""Rows between an interval and its seeds."""
PANEL = 4.2
"""Inches of the widest panel."""
MILLION = 1e6
MEASURES = {RETURN: "return of an episode", INVERTED: "what best responses win, × −1"}
SEEDS = "dots are seeds, bars Student's 95 % intervals"
CAPTIONS = {
    "suite": "Returns over training on the suite, the paper's settings: means over seeds with Student's 95 % bands. "
    "The next figure says how many seeds.",
    "suite-areas": f"The areas under these curves; {SEEDS}, and in brackets stands the number of seeds.",
    "nontransitive": "What best responses win over training against mixtures of the iterates, turned round so that "
    "higher is better: means over five seeds with 95 % bands, which reach beyond what can be won where few seeds are "
    "far apart. Scales differ.",
    "learned-margins": "Returns over training on learned margins, with 95 % bands, which reach beyond what a return "
    "can be where few seeds are far apart. On InvertedPendulum HPI-Clip and SPPO are the same runs.",
    "learned-margins-nontransitive": "The same of what best responses win by the task's own margin.",
    "comparison-horizon": f"Areas against T_C, from HPI-Clip (1) to SPPO (2048); {SEEDS}.",
    "eta": f"HPI's reward a step in the last tenth of training against η, by which the paper chose it; {SEEDS}. Axes "
    "do not begin at zero: on InvertedDoublePendulum all differ by a hundredth.",
    "gap": "Brackets of the gap of mixtures: below what best responses win, above what no policy can win more than; "
    "thin lines are seeds, thick ones means over them, and short bars give or take the error of playing.",
    "positions": "Where the fingertip was in ten episodes of the mixture of iterates along training, of the seed whose "
    "mean radius at the end is the middle one; dotted is what it can just reach.",
    "ends": "The same at the end of training, all seeds.",
    "classes": "Shares of steps of the mixture of iterates in each class; thin lines are seeds. Scales differ.",
    "finite-sizes": "Seconds of the linear program and of the game over policies; dots are contests, lines medians.",
    "finite-rates": "HPI's gap against K: medians over contests, bands from the least to the largest, cut below 1e-6. "
    "The bound is that of the contest in the middle, and proved for the theorem's learning rate alone; the row about "
    "it compares each contest with its own.",
}
"""By the beginnings of file names."""


def all_figures(evidence: Evidence) -> Iterator[tuple[str, Figure]]:
    """File names without their ending, and figures; only those there is something to draw of."""
    yield from curves_figures(evidence)
    if evidence.study("suite").tasks:
        yield "suite-areas", areas_figure(evidence)
    yield from behaviour_figures(evidence)
    yield from _settings(evidence)
    for name, draw in (("sizes", sizes_figure), ("rates", rates_figure)):
        if (measured := evidence.finite(name)) is not None:
            yield f"finite-{name}", draw(measured)


def caption(name: str) -> str:
    """Of the figure in this file."""
    return CAPTIONS[max((start for start in CAPTIONS if name.startswith(start)), key=len)]


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
            look = styles[variant]
            axes.scatter(one.areas, np.full(len(one.areas), row + BESIDE), s=8, color=look.color, linewidths=0)
            axes.plot([one.area.mean], [row], color=look.color, marker=look.marker, markersize=6)
            if np.isfinite([one.area.low, one.area.high]).all():
                axes.plot([one.area.low, one.area.high], [row, row], color=look.color, linewidth=2)
        names = [f"{SHORT[one.algorithm]} ({one.area.n})" for one in task.scores.values()]
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(axis="x", color="#e8e8e8", linewidth=0.6)
        axes.set_axisbelow(True)

    figure = _panels(study.tasks, draw, 1.6, 0)
    figure.supxlabel("area under the curve of returns, as its mean height", fontsize=10)
    return figure


# --- one setting varied -----------------------------------------------------------------------------------


def _settings(evidence: Evidence) -> Iterator[tuple[str, Figure]]:
    """fig:sppo-ablation, and the search for η by the measure that it was chosen by."""
    areas = _values(evidence, "comparison horizon", SHOWN, "comparison_horizon", HORIZONS, lambda one: one.areas)
    rates = _values(evidence, "learning rate", TUNED_ON, "eta", ETAS, earned_at_the_end)
    if areas:
        yield "comparison-horizon", setting_figure(areas, "T_C", "area, HPI-Clip", COLORS[0])
    if rates:
        yield "eta", setting_figure(rates, "η", "reward a step at the end, HPI", COLORS[1])


def _values(
    evidence: Evidence,
    study: str,
    tasks: Sequence[str],
    setting: str,
    values: Sequence[float],
    score: Callable[[Scores], Sequence[float]],
) -> dict[str, dict[float, Sequence[float]]]:
    """Task → value of the setting → scores of its seeds; only tasks on which several values were run."""
    found = {
        task: {v: score(one) for v in values if (one := evidence.with_setting(study, task, setting, v)) is not None}
        for task in tasks
    }
    return {task: scores for task, scores in found.items() if len(scores) > 1}


def setting_figure(
    found: Mapping[str, Mapping[float, Sequence[float]]], setting: str, measure: str, color: str
) -> Figure:
    """A panel a task: means joined by a line, with their seeds and intervals."""
    with drawing(3.2 * len(found) + 0.4, 2.4) as figure:
        panels = figure.subplots(1, len(found), squeeze=False)[0]
        for axes, (task, scores) in zip(panels, found.items(), strict=True):
            intervals = {value: student_interval(seeds) for value, seeds in scores.items()}
            axes.plot(list(scores), [one.mean for one in intervals.values()], color=color, marker="o", markersize=5)
            for value, seeds in scores.items():
                axes.scatter(np.full(len(seeds), value * 1.12), seeds, s=8, color=color, alpha=0.6, linewidths=0)
                axes.plot([value] * 2, [intervals[value].low, intervals[value].high], color=color, linewidth=2)
            axes.set_xscale("log", base=2)
            axes.minorticks_off()
            axes.set_xticks(list(scores), [f"{value:g}" for value in scores], rotation=45 if len(scores) > 5 else 0)
            axes.set_xlabel(setting)
            axes.set_title(short(task))
            axes.grid(color="#e8e8e8", linewidth=0.6)
            axes.set_axisbelow(True)
        panels[0].set_ylabel(measure)
    return figure


def as_png(figure: Figure) -> bytes:
    """The same bytes for the same figure, whatever version of Matplotlib says it drew it."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, metadata={"Software": None})
    return image.getvalue()
