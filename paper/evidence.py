"""What the recorded runs say: intervals and verdicts by task and algorithm, for claims, tables and figures alike."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import finite
import independent
import lemmas
import nontransitive
import numpy as np
import process_sizes
import selections
import state_counts
from recorded import FOLDER, RecordedStore, read_runs

from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.experiments.stored import Run
from mdcontest.report import statistics as st
from mdcontest.report.study import Scores, Study, TaskStudy, make_study
from mdcontest.tables import read_table

BASELINE, NOT_RUN = "sppo", "not run"
SAME = "the same runs, bit for bit"
"""An overlap that no further seed can end."""
PAPER_SEEDS = 10
"""Of the paper's intervals."""
SETTLED = "overlaps with ten seeds each"
"""An overlap of intervals like the paper's: more seeds could end it, but then they would answer another question."""
FINITE = {
    "sizes": (finite.SIZES_FORMAT, finite.SIZES_SCHEMA),
    "rates": (finite.RATES_FORMAT, finite.RATES_SCHEMA),
    "lemmas": (lemmas.LEMMAS_FORMAT, lemmas.LEMMAS_SCHEMA),
    "nontransitive": (nontransitive.FORMAT, nontransitive.SCHEMA),
    "processes": (process_sizes.PROCESSES_FORMAT, process_sizes.PROCESSES_SCHEMA),
    "states": (state_counts.STATES_FORMAT, state_counts.STATES_SCHEMA),
}
"""Format and columns of what was measured on finite contests."""
BENCHMARKS = Path(__file__).parent.parent / "bench" / "results" / "solvers.json"


class Evidence:
    """Everything that is recorded, by study; each is made when it is asked for."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder, self.runs = folder, read_runs(folder)

    def store(self, name: str) -> RecordedStore:
        """The runs of a study, one a seed; those of nontransitive tasks are judged by the mixture of their iterates."""
        first: dict[str, Run] = {}
        for run in filter(selections.STUDIES[name], self.runs):  # before seeds are compared: others must not hide them
            first.setdefault(_same_seed(run), judged_by(run, "mixture") if run.task in selections.NT else run)
        return RecordedStore(list(first.values()))

    @functools.cache  # noqa: B019 (it lives as long as the program)
    def study(self, name: str) -> Study:
        """The numbers of a study, against SPPO where it took part."""
        store = self.store(name)
        with_baseline = any(run.algorithm == BASELINE for run in store.runs)
        return make_study(store, BASELINE if with_baseline else None)

    def task(self, study: str, name: str) -> TaskStudy | None:
        """A task of a study, where something was run on it."""
        return next((task for task in self.study(study).tasks if task.name == name), None)

    def scores(self, study: str, task: str, algorithm: str) -> Scores | None:
        """Of the only variant of an algorithm."""
        found = self.task(study, task)
        return _only([one for one in found.scores.values() if one.algorithm == algorithm]) if found else None

    def with_setting(
        self, study: str, task: str, setting: str, value: Any, algorithm: str | None = None
    ) -> Scores | None:
        """Of the variant of a study, or of one of its algorithms, in which a setting has this value."""
        found = self.task(study, task)
        alike = [one for one in found.scores.values() if one.runs[0].settings[setting] == value] if found else []
        return _only([one for one in alike if algorithm in (None, one.algorithm)])

    def reading(self, task: str, algorithm: str, changed: Mapping[str, Any], on_learned: bool = False) -> Scores | None:
        """Of an algorithm in the paper's settings, but for those that a reading changes."""
        belongs = selections.reading(task, algorithm, changed, on_learned)
        found = make_study(RecordedStore([run for run in self.runs if belongs(run)]), None).tasks
        return _only(list(found[0].scores.values())) if found else None

    def verdict(self, study: str, task: str, algorithm: str, baseline: str = BASELINE) -> str:
        """An algorithm's area against the baseline's."""
        mine, other = (self.scores(study, task, name) for name in (algorithm, baseline))
        if mine is None or other is None:
            return NOT_RUN
        return SAME if _are_same(mine, other) else st.verdict(mine.area, other.area)

    def verdicts(self, study: str, algorithm: str, tasks: Iterable[str]) -> dict[str, str]:
        """The same by task; an overlap is settled where both have as many seeds as the paper."""
        found = {task: self.verdict(study, task, algorithm) for task in tasks}
        settled = [task for task in found if self.seeds(study, task, algorithm) >= PAPER_SEEDS]
        return found | {task: SETTLED for task in settled if found[task] == st.OVERLAPS}

    def seeds(self, study: str, task: str, algorithm: str) -> int:
        """Of an algorithm and the baseline, the fewer."""
        both = [self.scores(study, task, name) for name in (algorithm, BASELINE)]
        return min(one.area.n if one else 0 for one in both)

    def lean_lower(self, study: str, algorithm: str, tasks: Iterable[str]) -> list[str]:
        """Tasks where it overlaps the baseline with the lower mean, and has fewer seeds than in the paper.

        Intervals of five seeds are wider than those of ten, so more seeds may show that it is strictly lower.
        """
        found = []
        for task in tasks:
            if self.verdict(study, task, algorithm) == st.OVERLAPS:
                mine, other = (self.scores(study, task, name) for name in (algorithm, BASELINE))
                lower = mine and other and mine.area.mean < other.area.mean
                if lower and self.seeds(study, task, algorithm) < PAPER_SEEDS:
                    found.append(task)
        return found

    def reward_a_step(self, study: str, task: str, algorithm: str) -> st.Interval | None:
        """The mean over training of reward a step: comparable where episodes are of different lengths."""
        runs = [run for run in self.store(study).runs if (run.task, run.algorithm) == (task, algorithm)]
        return st.student_interval([earned_a_step(run) for run in runs]) if runs else None

    def verdict_a_step(self, task: str, algorithm: str, baseline: str = BASELINE) -> str:
        """The same of rewards a step, on a task of the suite."""
        mine, other = (self.reward_a_step("suite", task, name) for name in (algorithm, baseline))
        return st.verdict(mine, other) if mine and other else NOT_RUN

    def finite(self, name: str) -> dict[str, Any] | None:
        """The table of that name of finite.py and its like, where it was made."""
        path, (format, schema) = self.folder / f"finite-{name}.parquet", FINITE[name]
        return read_table(path, format, schema) if path.is_file() else None

    @functools.cached_property
    def independent(self) -> dict[str, Any] | None:
        """The table of paper/independent.py, where it was made."""
        path = self.folder / "independent.parquet"
        return read_table(path, independent.FORMAT, independent.SCHEMA) if path.is_file() else None

    @functools.cached_property
    def benchmarks(self) -> list[dict[str, Any]]:
        """Rows of bench/solvers.py."""
        return json.loads(BENCHMARKS.read_text(encoding="utf-8"))["rows"]


def _same_seed(run: Run) -> str:
    """Alike for runs that repeat a seed, be it on a margin that was learned anew."""
    settings = {key: value for key, value in run.settings.items() if key != "returned"}
    return json.dumps([run.task, run.algorithm, run.seed, settings, run.learned is None], sort_keys=True)


def _only(variants: list[Scores]) -> Scores | None:
    """An error where there are several: none of them would be what was asked for."""
    if len(variants) > 1:
        names = ", ".join(f"{one.variant} (n = {one.area.n})" for one in variants)
        raise InputError(f"{variants[0].runs[0].task} is recorded in {len(variants)} variants of one study: {names}")
    return variants[0] if variants else None


def _are_same(one: Scores, other: Scores) -> bool:
    """Whether two algorithms did the same, seed by seed, with enough seeds to say so."""
    runs = [{run.seed: run.fingerprint for run in scores.runs} for scores in (one, other)]
    return runs[0] == runs[1] and one.area == other.area and len(runs[0]) >= st.MIN_SEEDS


def judged_by(run: Run, returned: str) -> Run:
    """The run with another of its policies as the one it returns, and gaps by the task's own margin alone."""
    other = copy.copy(run)
    other.settings = run.settings | {"returned": returned}
    other.gaps = [gap for gap in run.gaps if gap.by_own]
    return other


def earned_a_step(run: Run, after: float = 0.0) -> float:
    """Reward a step, the mean over training after so many steps."""
    steps, returns, lengths = (np.asarray(run.episodes[name], float) for name in ("step", "return", "length"))
    return float(np.mean((returns / lengths)[steps > after]))


def earned_at_the_end(scores: Scores) -> list[float]:
    """Reward a step in the last tenth of training, by seed."""
    return [earned_a_step(run, 0.9 * run.target) for run in scores.runs]


def over_seeds(values: Array) -> st.Interval | None:
    """Of those seeds that were measured."""
    known = values[np.isfinite(values)]
    return st.student_interval(known) if len(known) else None


def shown(interval: st.Interval | None) -> str:
    """A mean with the ends of its interval and the seeds behind it."""
    if interval is None:
        return "not run"
    ends = "" if interval.n < 2 else f" [{number(interval.low)}, {number(interval.high)}]"
    return f"{number(interval.mean)}{ends}, n = {interval.n}"


def number(value: float) -> str:
    """Four figures, and thousands as a whole number."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    digits = max(0, 3 - int(np.floor(np.log10(abs(value)))))
    return f"{value:.{min(digits, 5)}f}" if abs(value) >= 1e-3 else f"{value:.2e}"
