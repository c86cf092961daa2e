"""The tables of a study, for the page and as CSV files."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from typing import Any

from mdcontest.experiments.store import GAPS_COLUMNS, Store
from mdcontest.experiments.stored import Run
from mdcontest.gap.bracket import Measured
from mdcontest.report.page import MISSING, Download, Table
from mdcontest.report.statistics import HIGHER, LOWER, OVERLAPS, TOO_FEW, Interval
from mdcontest.report.study import RETURN, Study
from mdcontest.report.study_curves import natural
from mdcontest.report.study_gaps import GapSeries, mean_over_seeds

VERDICTS = (HIGHER, OVERLAPS, LOWER, TOO_FEW)


def number(value: float | None) -> str:
    """Four digits that matter, with a minus that is one."""
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return (f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}").replace("-", "−")


def ends(interval: Interval) -> str:
    """The two ends; one seed has none."""
    known = math.isfinite(interval.low) and math.isfinite(interval.high)
    return f"[{number(interval.low)}, {number(interval.high)}]" if known else MISSING


# --- on the page ------------------------------------------------------------------------------------------


def verdict_table(study: Study) -> Table:
    """One row a task and variant, the baseline with its own numbers."""
    rows = [
        [
            task.name,
            variant,
            str(one.area.n),
            number(one.area.mean),
            ends(one.area),
            "baseline" if variant == task.baseline else task.verdicts.get(variant, MISSING),
            f"AUC of the {task.measure}",
        ]
        for task in study.tasks
        for variant, one in task.scores.items()
    ]
    columns = ["task", "variant", "seeds", "AUC", "95 % interval", "against the baseline", "measure"]
    return Table(columns, rows, "Verdicts, task by task", sortable=True)


def count_table(study: Study) -> Table:
    """How often each verdict was given to a variant, over tasks."""
    given = {v: [task.verdicts[v] for task in study.tasks if v in task.verdicts] for v in study.variants}
    rows = [[v, *(str(found.count(one)) for one in VERDICTS), str(len(found))] for v, found in given.items() if found]
    return Table(["variant", *VERDICTS, "tasks"], rows, "Number of tasks by verdict", sortable=True)


def iqm_table(study: Study) -> Table:
    """Interquartile means of variants that are on several tasks."""
    rows = [[v, number(one.mean), ends(one), str(n)] for v, (one, n) in study.iqms.items() if n > 1]
    return Table(
        ["variant", "IQM", "95 % interval", "tasks"],
        rows,
        "Interquartile mean of scaled AUCs over tasks",
        sortable=True,
    )


def auc_table(study: Study) -> Table:
    """Areas with both intervals, and where the curves end."""
    rows = [
        [
            task.name,
            variant,
            str(one.area.n),
            number(one.area.mean),
            ends(one.area),
            ends(one.area_bootstrap),
            number(one.final.mean),
            ends(one.final),
        ]
        for task in study.tasks
        for variant, one in task.scores.items()
    ]
    columns = ["task", "variant", "seeds", "AUC", "Student’s t", "bootstrap", "final value", "Student’s t, final"]
    return Table(columns, rows, "Areas under the curves, and their ends", sortable=True)


def gap_table(found: list[GapSeries]) -> Table:
    """The last bracket of each variant, as means over seeds."""
    rows = []
    for one in found:
        means = [mean_over_seeds(part)[-1] for part in (one.lowers, one.values, one.uppers, one.exact)]
        known = int((one.values[:, -1] == one.values[:, -1]).sum())
        lower, value, upper, exact = map(number, means)
        bracket = f"{lower} to {upper}" if upper != MISSING else f"at least {lower}"
        of = [one.task, one.variant, one.returned, one.judge, f"{one.steps[-1]:,.0f}", str(known)]
        rows.append([*of, bracket, value, exact])
    columns = ["task", "variant", "policy", "judged by", "step", "seeds", "gap bracketed in", "best response wins"]
    columns.append("exact gap")
    return Table(columns, rows, "Brackets at the last step that was measured, means over seeds", sortable=True)


def run_table(store: Store, variants: list[str]) -> tuple[Table, list[Table]]:
    """Every run with the settings and versions that differ, and tables of those that are the same in all."""
    runs = sorted(store.runs, key=lambda run: (natural(run.task), variants.index(run.variant), run.seed))
    told = {run.name: _told(run) for run in runs}
    keys = list(dict.fromkeys(key for one in told.values() for key in one))
    texts = {key: [_text(one[key]) if key in one else MISSING for one in told.values()] for key in keys}
    differ = [key for key in keys if len(set(texts[key])) > 1]
    rows = []
    for i, run in enumerate(runs):
        plain = [run.name, run.task, run.variant, str(run.seed), run.status, f"{run.steps:,}", f"{run.target:,}"]
        rows.append(
            [*plain, str(len(run.episodes["step"])), str(run.error or MISSING), *(texts[key][i] for key in differ)]
        )
    columns = ["run", "task", "variant", "seed", "status", "steps", "of", "episodes", "error", *differ]
    found = Table(columns, rows, "Runs, with the settings and versions in which they differ", sortable=True)
    alike = [[key, texts[key][0]] for key in keys if key not in differ]
    return found, [
        Table(["setting or version", "value"], alike, "The same in all runs", sortable=True)
    ] if alike else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _told(run: Run) -> dict[str, Any]:
    """All settings and versions under names of their own."""
    return {
        **{f"version of {key}": value for key, value in run.versions.items()},
        **{f"task.{key}": value for key, value in run.task_settings.items()},
        **run.settings,
    }


# --- as files ---------------------------------------------------------------------------------------------


def downloads(store: Store, study: Study) -> list[Download]:
    """Everything behind the page."""
    return [
        Download("runs.csv", _runs_csv(store), "one row a run: settings, versions, status"),
        Download("curves.csv", _curves_csv(study), "returns on the common grid, one row a seed and step"),
        Download("auc.csv", _auc_csv(study), "one row a seed"),
        Download("verdicts.csv", _verdicts_csv(study), "means, both intervals, verdicts"),
        Download("gaps.csv", _gaps_csv(store), "one row a bracket"),
    ]


def _csv(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """CSV text; None and what is not finite are empty cells, floats have all their digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_cell(value) for value in row] for row in rows])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else ""
    return "" if value is None else value


def _runs_csv(store: Store) -> str:
    columns = ["run", "task", "algorithm", "variant", "seed", "status", "steps", "target", "episodes", "error"]
    rows = [
        [
            *[run.name, run.task, run.algorithm, run.variant, run.seed, run.status, run.steps, run.target],
            *[len(run.episodes["step"]), run.error],
            *[json.dumps(part, sort_keys=True) for part in (run.settings, run.task_settings, run.versions)],
        ]
        for run in store.runs
    ]
    return _csv([*columns, "settings", "task_settings", "versions"], rows)


def _curves_csv(study: Study) -> str:
    rows = [
        [task.name, variant, run.seed, int(step), float(value)]
        for task in study.tasks
        if task.measure == RETURN
        for variant, one in task.scores.items()
        for run, curve in zip(one.runs, one.curves, strict=True)
        for step, value in zip(task.grid, curve, strict=True)
    ]
    return _csv(["task", "variant", "seed", "step", "return"], rows)


def _auc_csv(study: Study) -> str:
    rows = [
        [task.name, variant, task.measure, run.seed, run.name, float(area), float(final)]
        for task in study.tasks
        for variant, one in task.scores.items()
        for run, area, final in zip(one.runs, one.areas, one.finals, strict=True)
    ]
    return _csv(["task", "variant", "auc_of", "seed", "run", "auc", "final"], rows)


def _verdicts_csv(study: Study) -> str:
    columns = ["task", "variant", "auc_of", "seeds", "auc", "low", "high", "bootstrap_low", "bootstrap_high"]
    rows = []
    for task in study.tasks:
        for variant, one in task.scores.items():
            numbers = [one.area.mean, one.area.low, one.area.high, one.area_bootstrap.low, one.area_bootstrap.high]
            verdict = task.verdicts.get(variant)
            rows.append([task.name, variant, task.measure, one.area.n, *numbers, task.baseline, verdict])
    return _csv([*columns, "baseline", "verdict"], rows)


def _gaps_csv(store: Store) -> str:
    rows = []
    for run in store.runs:
        for gap in run.gaps:
            bracket, above = gap.bracket, gap.bracket.ceiling
            ceiling = [None] * 3 if above is None else _measured(above)
            found = [bracket.lower, *_measured(bracket.best_response), bracket.upper, *ceiling, bracket.exact]
            rows.append([*run.identity, run.variant, gap.step, gap.returned, *found, bracket.confidence, gap.judge])
    return _csv(GAPS_COLUMNS, rows)


def _measured(one: Measured) -> list[float | None]:
    return [one.value, one.low, one.high]
