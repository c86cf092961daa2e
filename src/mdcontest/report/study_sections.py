"""The sections of a study's page, each with its figures and tables."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from pathlib import Path

from matplotlib.figure import Figure

from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.experiments.store import Store
from mdcontest.experiments.stored import Run
from mdcontest.files import atomic_write
from mdcontest.folders import make_folder
from mdcontest.gap.curve import OWN
from mdcontest.report import study_tables
from mdcontest.report.page import Details, InlineFigure, Section
from mdcontest.report.plots import as_svg
from mdcontest.report.statistics import MIN_SEEDS
from mdcontest.report.study import INVERTED, Study
from mdcontest.report.study_gap_plots import bracket_figure, bracket_range, shares_figure, traces_figure
from mdcontest.report.study_gaps import Traces, gap_series, shares, traces
from mdcontest.report.study_plots import Look, auc_figure, curves_figure, learning_figure
from mdcontest.report.study_setting_plot import setting_figure

DPI = 160
LIST = "figures.txt"
"""Names of the figures a page wrote."""


class Gallery:
    """Figures as files in a folder, and for the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names: set[str] = set()
        self._written: list[str] = []

    def add(self, name: str, label: str, figure: Figure) -> list[InlineFigure]:
        """Write NAME.svg and NAME.png; a column of one for a section."""
        make_folder(self.folder)
        stem = self._free(re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:80] or "figure")
        image = io.BytesIO()
        with warnings.catch_warnings():
            # A name in letters that the font lacks is drawn as boxes; the page's text has it right.
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            svg = as_svg(figure)
            figure.savefig(image, format="png", dpi=DPI)
        write_file(self.folder / f"{stem}.svg", svg.encode(errors="replace"))
        write_file(self.folder / f"{stem}.png", image.getvalue())
        self._written += [f"{stem}.svg", f"{stem}.png"]
        return [InlineFigure(label, svg)]

    def tidy(self) -> None:
        """Remove figures of an earlier page that this one no longer has, and nothing that it did not write."""
        if not self.folder.is_dir():
            return
        listed = self.folder / LIST
        with contextlib.suppress(OSError, UnicodeDecodeError):
            for name in listed.read_text().split():
                if name not in self._written and Path(name).name == name and name.endswith((".svg", ".png")):
                    (self.folder / name).unlink(missing_ok=True)
        write_file(listed, "".join(f"{name}\n" for name in sorted(self._written)).encode())

    def _free(self, stem: str) -> str:
        names = (stem if i == 1 else f"{stem}-{i}" for i in range(1, len(self._names) + 2))
        found = next(name for name in names if name.lower() not in self._names)
        self._names.add(found.lower())  # some file systems do not tell A from a
        return found


def write_file(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    with atomic_write(path) as file:
        file.write(content)


# --- sections ----------------------------------------------------------------------------------------------


def verdict_section(study: Study) -> Section:
    """Every variant against the baseline, and over tasks."""
    if not any(task.scores for task in study.tasks):
        about = "No finished run has an area under a curve, so there is nothing to compare yet."
        return Section("Verdicts", about)
    baselines = list(dict.fromkeys(task.baseline for task in study.tasks if task.baseline))
    about = (
        f"Each variant against the baseline of its task ({', '.join(baselines)}). Strictly higher or lower: the two "
        "95 % intervals of the mean area under the curve have no point in common. Overlaps: they have, and nothing is "
        f"claimed; it is no proof of equality. Too few seeds: one of the two rests on fewer than {MIN_SEEDS}."
    )
    scaled = (
        "The interquartile mean (IQM) needs scores on one scale: each AUC is mapped by (x − min)/(max − min), over the "
        "AUCs of all runs on its task. It is the mean of the middle half of all runs, over the tasks that a variant "
        "was run on; its interval resamples runs within tasks. It does not compare variants on different tasks."
    )
    iqms, counts = study_tables.iqm_table(study), study_tables.count_table(study)
    several = [table for table in (counts, iqms) if table.rows]
    return Section("Verdicts", about, scaled if iqms.rows else "", tables=[*several, study_tables.verdict_table(study)])


def curve_section(study: Study, styles: dict[str, Look], gallery: Gallery) -> Section | None:
    """Curves of the measure, and of margins where returns do not count."""
    figures = []
    for task in study.tasks:
        told = ", ".join(f"{v} ends at {study_tables.number(one.final.mean)}" for v, one in task.scores.items())
        if task.scores:
            text = f"{task.measure} over environment steps on {task.name}: {told}"
            figures.append(gallery.add(f"curves-{task.name}", text, learning_figure(task, styles)))
        if task.margins:
            text = f"margin against the first policy over environment steps on {task.name}: {', '.join(task.margins)}"
            drawn = curves_figure(task.name, task.margins, styles, "margin against the first policy")
            figures.append(gallery.add(f"margins-{task.name}", text, drawn))
    about = "Means over seeds. Bands are pointwise 95 % intervals by Student's t; fewer than 3 seeds are thin lines."
    small = (
        "Where the margin is no difference of rewards, the return says nothing about how good a policy is and is not "
        "shown. Shown instead is minus what a trained best response wins, at the steps where the gap was bracketed, "
        "and the margin against the first policy during training. What a best response wins is a lower bound of the "
        "gap: a curve may lie high because the policy is hard to beat, or because the response was trained too little."
    )
    inverted = any(task.measure == INVERTED for task in study.tasks)
    return Section("Learning curves", about, small if inverted else "", figures, even=True) if figures else None


def auc_section(study: Study, styles: dict[str, Look], gallery: Gallery) -> Section | None:
    """Bars and numbers of the areas."""
    figures = []
    for task in study.tasks:
        if task.scores:
            told = ", ".join(f"{v} {study_tables.number(one.area.mean)}" for v, one in task.scores.items())
            text = f"AUC of the {task.measure} on {task.name}: {told}"
            figures.append(gallery.add(f"auc-{task.name}", text, auc_figure(task, styles)))
    about = (
        "The area under a curve, divided by its range of steps: the mean height, in the unit of the curve. It rewards "
        "learning early as well as ending high. Bars are means over seeds, marks single seeds. Thick lines are 95 % "
        "intervals by Student's t, which verdicts use; thin lines below are by bootstrap, too narrow for few seeds."
    )
    small = "A final value is the mean over the last tenth of a curve."
    tables = [study_tables.auc_table(study)]
    return Section("Area under the curve", about, small, figures, tables, even=True) if figures else None


def setting_section(study: Study, styles: dict[str, Look], gallery: Gallery) -> Section | None:
    """Areas against the one setting that varies, where one does."""
    drawn = [(task.name, setting_figure(task, styles)) for task in study.tasks if task.scores]
    figures = [
        gallery.add(f"setting-{name}", f"AUC on {name} against the setting that varies", figure)
        for name, figure in drawn
        if figure is not None
    ]
    about = (
        "Where one setting alone differs between the variants of an algorithm: AUC, single seeds and 95 % intervals."
    )
    return Section("AUC against a setting", about, "", figures, even=True) if figures else None


def gap_section(study: Study, styles: dict[str, Look], gallery: Gallery) -> Section | None:
    """Brackets of the gap over steps."""
    found = sorted(gap_series(study.runs), key=lambda one: (one.task, one.returned, list(styles).index(one.variant)))
    if not found:
        return None
    figures = []
    for one in found:
        limits = bracket_range([other for other in found if (other.task, other.judge) == (one.task, one.judge)])
        learned = one.judge != OWN
        name = f"gap-{one.task}-{one.variant}-{one.returned}" + f"-by-{one.judge}" * learned
        text = f"bracket of the optimality gap of {one.variant} on {one.task} over environment steps"
        text += f", judged by the learned margin {one.judge}" * learned
        figures.append(gallery.add(name, text, bracket_figure(one, styles[one.variant], limits)))
    about = (
        "The optimality gap of a policy is what the best reply wins against it, as average margin a step; it is zero "
        "at a solution. A response that was trained to win gives a lower bound, and the best step there could be an "
        "upper one. The gap lies between; where it is known exactly it is a ring."
    )
    small = (
        "Vertical strokes are the best response's interval; the shaded range goes from its lower end, or zero, to the "
        "upper end of the ceiling's. With several seeds all are means over them, and thin lines are single seeds."
    )
    return Section("Gap brackets", about, small, figures, [study_tables.gap_table(found)], even=True)


def position_section(study: Study, styles: dict[str, Look], gallery: Gallery) -> Section | None:
    """Positions at several steps."""
    figures, order = [], list(styles)
    for one in traces(study.runs):
        rows = sorted(one.rows, key=lambda row: order.index(row[0]))
        run = next(run for run in study.runs if run.task == one.task)
        text = f"positions on {one.task} at several steps: {', '.join(row[0] for row in rows)}"
        drawn = traces_figure(Traces(one.task, rows), _reach(run), styles)
        figures.append(gallery.add(f"positions-{one.task}", text, drawn))
    about = "Of each variant the run with the smallest seed; dotted is as far out as a position can be."
    return Section("Positions over time", about, "", figures, even=True) if figures else None


def share_section(study: Study, styles: dict[str, Look], gallery: Gallery) -> Section | None:
    """Shares of classes over steps."""
    figures, order = [], list(styles)
    for one in sorted(shares(study.runs), key=lambda one: (one.task, order.index(one.variant))):
        text = f"shares of {', '.join(one.labels)} on {one.task} over environment steps, by {one.variant}"
        figures.append(gallery.add(f"shares-{one.task}-{one.variant}", text, shares_figure(one)))
    about = "How much of its time a policy spends in each class: means over seeds, and thin lines for single ones."
    return Section("Classes over time", about, "", figures, even=True) if figures else None


def _reach(run: Run) -> float:
    try:
        return tasks.make(run.task, **run.task_settings).reach
    except (InputError, TypeError):
        return 1.0


def run_section(store: Store, variants: list[str]) -> Section:
    """All runs with all their settings."""
    runs, alike = study_tables.run_table(store, variants)
    about = (
        "Variants are named by what tells the runs of an algorithm apart on a task, so only equal runs are averaged."
    )
    folded = [
        Details(f"{len(table.rows)} settings and versions that are the same in all runs", [table]) for table in alike
    ]
    return Section("Runs", about, tables=[runs] if runs.rows else [], details=folded)
