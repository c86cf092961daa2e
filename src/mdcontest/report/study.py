"""The numbers of a study: curves, the area under them, intervals and verdicts, from the runs of a store.

On tasks whose margin is a difference of rewards, the measure is the return. On others a return says nothing about how
good a policy is; there the measure is minus what a trained best response wins, at the steps with a bracket of the gap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdcontest import tasks
from mdcontest.arrays import Array
from mdcontest.errors import InputError, did_you_mean, preview
from mdcontest.experiments.store import Run, Store
from mdcontest.report import statistics as st
from mdcontest.report.study_gaps import own_brackets
from mdcontest.settings import ALGORITHM_NAMES

RETURN, INVERTED = "return", "inverted lower bound"
"""What a curve is of: the return of episodes, or minus what the trained best response wins."""
BASELINE = "sppo"
"""The algorithm that others are compared with, where it is there."""
POINTS = 100
"""Of a curve."""
FINAL = 10
"""A final value is the mean over the last tenth of a curve."""
MOST_STEPS = 10**15
"""A run that claims more is no run."""


@dataclass(frozen=True)
class Scores:
    """What the finished runs of a variant came to on a task."""

    variant: str
    algorithm: str
    runs: list[Run]
    """One a seed."""
    curves: Array
    """On the task's grid, [n, T]."""
    areas: Array
    """The area under each curve, as its mean height, [n]."""
    finals: Array
    """The mean over the last tenth of each curve, [n]."""
    area: st.Interval
    """Mean of the areas, with Student's t; what verdicts rest on."""
    area_bootstrap: st.Interval
    final: st.Interval


@dataclass(frozen=True)
class TaskStudy:
    """All variants on one task."""

    name: str
    measure: str
    """RETURN or INVERTED."""
    grid: Array
    """The steps of the curves, [T]; empty where there is no curve."""
    scores: dict[str, Scores]
    """By variant."""
    margins: dict[str, tuple[Array, Array]]
    """Where returns do not count: steps [T] and margins against the first policy [n, T], by variant."""
    baseline: str | None
    """The variant that others are compared with."""
    verdicts: dict[str, str]
    """Of each other variant against it."""


@dataclass(frozen=True)
class Study:
    """Everything a report says in numbers."""

    tasks: list[TaskStudy]
    variants: list[str]
    """All there are, in the order of tables and colours."""
    iqms: dict[str, tuple[st.Interval, int]]
    """The interquartile mean of a variant's areas, each scaled to [0, 1] within its task, and over how many tasks."""
    notes: list[str]
    """What was left out or cut, in one sentence each."""


def make_study(store: Store, baseline: str | None = None) -> Study:
    """The numbers of all runs; `baseline` is a variant or an algorithm, SPPO unless told otherwise."""
    runs, notes = _without_repeats(store.runs)
    _check_baseline(store.runs, baseline)
    variants = in_order(store.runs)
    by_task: dict[str, list[Run]] = {}
    for run in runs:
        by_task.setdefault(run.task, []).append(run)
    found = [_study_task(name, by_task[name], baseline, notes) for name in sorted(by_task, key=natural)]
    return Study(found, variants, _iqms(found, variants), notes)


def in_order(runs: Iterable[Run]) -> list[str]:
    """Variants by algorithm, then by name with its numbers as numbers."""
    algorithms = {run.variant: run.algorithm for run in runs}
    rank = {name: i for i, name in enumerate(ALGORITHM_NAMES)}
    return sorted(algorithms, key=lambda variant: (rank.get(algorithms[variant], len(rank)), natural(variant)))


def natural(text: str) -> list[tuple[int, str]]:
    """A key that sorts a2 before a10."""
    return [(len(part) if part.isdigit() else 0, part) for part in re.split(r"([0-9]+)", text)]


def returns_count(run: Run) -> bool:
    """Whether the return says how good a policy is on a run's task; unknown tasks are judged by what was measured."""
    try:
        return tasks.make(run.task, **run.task_settings).is_reward_difference
    except (InputError, TypeError):
        return not run.gaps


# --- one task ---------------------------------------------------------------------------------------------


def _study_task(name: str, runs: list[Run], baseline: str | None, notes: list[str]) -> TaskStudy:
    finished = [run for run in runs if run.is_finished]
    by_return = all(returns_count(run) for run in runs)
    measure, curve_of = (RETURN, _return_of) if by_return else (INVERTED, _inverted_of)
    grid = (_return_grid if by_return else _inverted_grid)(name, finished, notes)
    scores = _score(finished, curve_of, grid, measure, notes) if len(grid) else {}
    margins = {} if by_return else _margins(finished)
    chosen = _choose_baseline(name, scores, baseline, notes)
    others = {} if chosen is None else {v: s for v, s in scores.items() if v != chosen}
    verdicts = {variant: st.verdict(one.area, scores[chosen or ""].area) for variant, one in others.items()}
    return TaskStudy(name, measure, grid, scores, margins, chosen, verdicts)


def _return_grid(name: str, runs: list[Run], notes: list[str]) -> Array:
    """Up to the shortest run: areas over different ranges of steps would not be comparable."""
    targets = [run.target for run in runs if 0 < run.target <= MOST_STEPS]
    if not targets:
        return np.empty(0)
    if min(targets) < max(targets):
        notes.append(
            f"{name}: runs are between {min(targets):,} and {max(targets):,} steps long; curves and areas are of the "
            f"first {min(targets):,}, which all of them have"
        )
    return st.step_grid(min(targets), min(POINTS, min(targets)))


def _inverted_grid(name: str, runs: list[Run], notes: list[str]) -> Array:
    """The steps at which all runs were measured; those measured less than twice have no curve."""
    measured = [set(own_brackets(run)) for run in runs]
    often = [steps for steps in measured if len(steps) > 1]
    common = sorted(set.intersection(*often)) if often else []
    if often and len(common) < 2:
        notes.append(f"{name}: gaps were bracketed at different steps in different runs, so they have no common curve")
        return np.empty(0)
    if often and len(common) < max(map(len, often)):
        notes.append(f"{name}: areas are over the {len(common)} steps at which the gap of every run was bracketed")
    return np.array(common, float)


def _return_of(run: Run, grid: Array) -> tuple[Array, float]:
    """The curve of returns and the area under it."""
    curve = st.curve_on_grid(run.episodes["step"], run.episodes["return"], grid)
    if np.isnan(curve).all():
        raise InputError(f"no episode ended in its first {grid[-1]:,.0f} steps")
    return curve, st.auc(grid, curve)


def _inverted_of(run: Run, grid: Array) -> tuple[Array, float]:
    """Minus what the best response wins, and the area under it from the first step that was measured."""
    brackets = own_brackets(run)
    if len(brackets) < 2:
        raise InputError(f"its gap was bracketed at {len(brackets)} steps; a curve takes 2")
    curve = -np.array([brackets[int(step)].best_response.value for step in grid])
    return curve, st.auc(grid, curve, start=grid[0])


def _score(
    runs: list[Run],
    curve_of: Callable[[Run, Array], tuple[Array, float]],
    grid: Array,
    measure: str,
    notes: list[str],
) -> dict[str, Scores]:
    """Scores by variant; a run without a curve is left out by name."""
    found: dict[str, list[tuple[Run, Array, float]]] = {}
    left_out = []
    for run in sorted(runs, key=lambda run: run.seed):
        try:
            found.setdefault(run.variant, []).append((run, *curve_of(run, grid)))
        except InputError as error:
            left_out.append(f"{run.name} ({error})")
    if left_out:
        notes.append(f"{len(left_out)} finished runs have no curve of the {measure}: {preview(left_out, 4)}")
    return {v: _scores(v, found[v]) for v in in_order(runs) if found.get(v)}


def _scores(variant: str, curves: list[tuple[Run, Array, float]]) -> Scores:
    runs, matrix = [run for run, _, _ in curves], np.array([curve for _, curve, _ in curves])
    areas = np.array([area for _, _, area in curves])
    finals = matrix[:, -max(1, matrix.shape[1] // FINAL) :].mean(axis=1)
    return Scores(
        variant,
        runs[0].algorithm,
        runs,
        matrix,
        areas,
        finals,
        st.student_interval(areas),
        st.bootstrap_interval(areas),
        st.student_interval(finals),
    )


def _margins(runs: list[Run]) -> dict[str, tuple[Array, Array]]:
    """Margins against the first policy, where every run of a variant logged them at the same steps."""
    found: dict[str, tuple[Array, Array]] = {}
    for variant in in_order(runs):
        logs = [run.progress for run in runs if run.variant == variant]
        steps = [_numbers(log["steps"]) for log in logs]
        count = min(map(len, steps))
        if count and all(np.array_equal(one[:count], steps[0][:count]) for one in steps):
            curves = np.array([_numbers(log["margin_vs_first"])[:count] for log in logs])
            kept = np.isfinite(curves).all(axis=0)
            if kept.any():
                found[variant] = steps[0][:count][kept], curves[:, kept]
    return found


def _numbers(values: Any) -> Array:
    return np.array([np.nan if value is None else value for value in values], float)


# --- against a baseline -----------------------------------------------------------------------------------


def _check_baseline(runs: list[Run], baseline: str | None) -> None:
    known = [*in_order(runs), *dict.fromkeys(run.algorithm for run in runs)]
    if baseline is not None and baseline not in known:
        near = did_you_mean(baseline, list(dict.fromkeys(known)), "variants")
        raise InputError(f"the baseline {baseline!r} is no variant or algorithm of these runs{near}")


def _choose_baseline(name: str, scores: dict[str, Scores], wanted: str | None, notes: list[str]) -> str | None:
    """A variant by its name, or the first of an algorithm."""
    if wanted in scores:
        return wanted
    of_algorithm = [variant for variant, one in scores.items() if one.algorithm == (wanted or BASELINE)]
    if len(of_algorithm) > 1:
        notes.append(f"{name}: of {len(of_algorithm)} variants of the baseline, {of_algorithm[0]} was taken")
    if scores and wanted is not None and not of_algorithm:
        notes.append(f"{name}: there is no finished run of the baseline {wanted}, so no verdict")
    return next(iter(of_algorithm or ([] if wanted is not None else scores)), None)


def _iqms(studies: list[TaskStudy], variants: list[str]) -> dict[str, tuple[st.Interval, int]]:
    """Over tasks on which areas differ at all: each is scaled by the least and the largest area of any run there."""
    columns: dict[str, list[Array]] = {variant: [] for variant in variants}
    for study in studies:
        areas = np.concatenate([one.areas for one in study.scores.values()] or [np.zeros(1)])
        if np.ptp(areas) > 0:
            for variant, one in study.scores.items():
                columns[variant].append((one.areas - areas.min()) / np.ptp(areas))
    return {variant: (st.iqm_interval(found), len(found)) for variant, found in columns.items() if found}


def _without_repeats(runs: list[Run]) -> tuple[list[Run], list[str]]:
    """Of two finished runs of the same seed only the first: they are not independent, and would count as two."""
    kept: dict[Any, Run] = {}
    repeats = []
    for run in runs:
        key = (run.task, run.variant, run.seed, run.is_finished) if run.is_finished else run.name
        if key in kept:
            repeats.append(f"{run.name} ({kept[key].name})")
        kept.setdefault(key, run)
    notes = [f"{len(repeats)} runs repeat the seed of another and are left out: {preview(repeats, 4)}"]
    return list(kept.values()), notes if repeats else []
