"""The numbers of a study: curves, the area under them, intervals and verdicts, from the runs of a store.

On tasks whose margin is the environment's reward, the measure is the return. On others a return says nothing about how
good a policy is; there the measure is minus what a trained best response wins, at the steps with a bracket of the gap.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdcontest.arrays import Array
from mdcontest.errors import InputError, did_you_mean, preview
from mdcontest.experiments.store import Store
from mdcontest.experiments.stored import Run
from mdcontest.report import statistics as st
from mdcontest.report.study_curves import (
    all_returns_count,
    in_order,
    inverted_grid,
    inverted_of,
    margins_of,
    natural,
    return_grid,
    return_of,
)

RETURN, INVERTED = "return", "inverted lower bound"
"""What a curve is of: the return of episodes, or minus what the trained best response wins."""
BASELINE = "sppo"
"""The algorithm that others are compared with, where it is there."""
FINAL = 10
"""A final value is the mean over the last tenth of a curve."""


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
    runs: list[Run]
    """The finished ones, each seed once: all that counts."""


def make_study(store: Store, baseline: str | None = None) -> Study:
    """The numbers of all runs; `baseline` is a variant or an algorithm, SPPO unless told otherwise."""
    runs, notes = _without_repeats(store.runs)
    _check_baseline(store.runs, baseline)
    variants = in_order(store.runs)
    by_task: dict[str, list[Run]] = {}
    for run in runs:
        by_task.setdefault(run.task, []).append(run)
    found = [_study_task(name, by_task[name], baseline, notes) for name in sorted(by_task, key=natural)]
    return Study(found, variants, _iqms(found, variants), notes, [run for run in runs if run.is_finished])


# --- one task ---------------------------------------------------------------------------------------------


def _study_task(name: str, runs: list[Run], baseline: str | None, notes: list[str]) -> TaskStudy:
    finished = [run for run in runs if run.is_finished]
    by_return = all_returns_count(name, runs, notes)
    measure, curve_of = RETURN if by_return else INVERTED, return_of
    if by_return:
        grid = return_grid(name, finished, notes)
    else:
        grid, judge = inverted_grid(name, finished, notes)
        curve_of = functools.partial(inverted_of, judge=judge)
    scores = _score(finished, curve_of, grid, measure, notes) if len(grid) else {}
    margins = {} if by_return else margins_of(finished)
    chosen = _choose_baseline(name, scores, baseline, notes)
    others = {} if chosen is None else {v: s for v, s in scores.items() if v != chosen}
    verdicts = {variant: st.verdict(one.area, scores[chosen or ""].area) for variant, one in others.items()}
    return TaskStudy(name, measure, grid, scores, margins, chosen, verdicts)


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
        have = "runs have" if len(left_out) > 1 else "run has"
        notes.append(f"{len(left_out)} finished {have} no curve of the {measure}: {preview(left_out, 4)}")
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
    one = "run repeats the seed of another and is" if len(repeats) == 1 else "runs repeat the seed of another and are"
    notes = [f"{len(repeats)} {one} left out: {preview(repeats, 4)}"]
    return list(kept.values()), notes if repeats else []
