"""Which curve a run has: of its returns, or, where those do not count, of what a best response wins against it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from mdcontest import tasks
from mdcontest.arrays import Array
from mdcontest.errors import InputError, preview
from mdcontest.experiments.stored import Run
from mdcontest.gap.curve import OWN
from mdcontest.learn.export import EPISODES_FILE
from mdcontest.learn.logs import Logs
from mdcontest.learn.runs import JUDGED_BY_RETURN
from mdcontest.margins import RewardDifference
from mdcontest.report import statistics as st
from mdcontest.report.study_gaps import common_judge, effort, followed, own_brackets
from mdcontest.settings import ALGORITHM_NAMES

POINTS = 100
"""Of a curve."""
MOST_STEPS = 10**15
"""A run that claims more is no run."""


def in_order(runs: Iterable[Run]) -> list[str]:
    """Variants by algorithm, then by name with its numbers as numbers."""
    algorithms = {run.variant: run.algorithm for run in runs}
    rank = {name: i for i, name in enumerate(ALGORITHM_NAMES)}
    return sorted(algorithms, key=lambda variant: (rank.get(algorithms[variant], len(rank)), natural(variant)))


def natural(text: str) -> list[tuple[int, str]]:
    """A key that sorts a2 before a10."""
    return [(len(part) if part.isdigit() else 0, part) for part in re.split(r"([0-9]+)", text)]


def returns_count(run: Run) -> bool | None:
    """Whether the return says how good a policy is on a run's task; None: the run is older than that entry, and
    nothing else tells."""
    said = run.description.get(JUDGED_BY_RETURN)
    if isinstance(said, bool):
        return said
    if not run.task_parts["registered"]:
        unsaid = RewardDifference.__name__  # of some function: of which?
        return None if run.task_parts.get("margin", unsaid) == unsaid else False
    try:
        return tasks.make(run.task, **run.task_settings).is_judged_by_return
    except (InputError, TypeError):  # not known here: judged by what was measured
        return not run.gaps


def all_returns_count(name: str, runs: list[Run], notes: list[str]) -> bool:
    """Whether a task can be judged by returns: one run of which they say nothing is enough that it cannot."""
    counts = [returns_count(run) for run in runs]
    silent = [run.name for run, count in zip(runs, counts, strict=True) if count is None]
    if silent:
        say = "older runs do not say whether their" if len(silent) > 1 else "older run does not say whether its"
        notes.append(
            f"{name}: {len(silent)} {say} margin is the environment's reward, so returns are not compared: "
            f"{preview(silent, 4)}; load_agent(FOLDER, task=…).save(FOLDER) adds what one lacks"
        )
    return all(counts)


def return_grid(name: str, runs: list[Run], notes: list[str]) -> Array:
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


def inverted_grid(name: str, runs: list[Run], notes: list[str]) -> tuple[Array, str | None]:
    """The steps at which one margin judged all runs, and which; those measured less than twice have no curve."""
    along = [run for run in runs if len({gap.step for gap in run.gaps}) > 1]
    judge = common_judge(along or runs)
    if along and judge is None:
        notes.append(_judged_apart(name, along))
        return np.empty(0), judge
    brackets = [own_brackets(run, judge=judge) for run in runs]
    often = [set(found) for found in brackets if len(found) > 1]
    common = sorted(set.intersection(*often)) if often else []
    if runs and not often:
        notes.append(
            f"{name}: returns do not count here, and no gap was bracketed at two steps, so areas cannot be compared; "
            "mdcontest gap FOLDER --every N brackets gaps over time"
        )
    if often and len(common) < 2:
        notes.append(f"{name}: gaps were bracketed at different steps in different runs, so they have no common curve")
        return np.empty(0), judge
    if often and len(common) < max(map(len, often)):
        notes.append(f"{name}: areas are over the {len(common)} steps at which the gap of every run was bracketed")
    kinds = [(followed(run, judge), run.settings.get("returned")) for run in runs if run.gaps]
    others = {kind for kind, returned in kinds if kind != returned}
    if common and others:
        notes.append(
            f"{name}: areas are of what best responses win against the {' or the '.join(sorted(others))} policy, which "
            "was followed over time; of what the runs return one step at most was bracketed"
        )
    efforts = {effort(found[step]) for found in brackets for step in common if step in found}
    if len(efforts) > 1:
        notes.append(
            f"{name}: best responses were trained for {min(efforts):,.0f} to {max(efforts):,.0f} steps, so what they "
            "win is not comparable; mdcontest gap with the same options on all runs makes it so"
        )
        return np.empty(0), judge
    return np.array(common, float), judge


def _judged_apart(name: str, runs: list[Run]) -> str:
    counts = Counter(judge for run in runs for judge in {gap.judge for gap in run.gaps})
    names = {judge: "the task's own" if judge == OWN else f"the learned {judge}" for judge in counts}
    told = [f"{names[judge]} ({count} of {len(runs)} runs)" for judge, count in sorted(counts.items())]
    return (
        f"{name}: gaps were judged by different margins, so what best responses win is not comparable: "
        f"{preview(told, 4)}; mdcontest gap FOLDER --every N --margin own judges all runs by the task's own"
    )


def return_of(run: Run, grid: Array) -> tuple[Array, float]:
    """The curve of returns and the area under it."""
    curve = st.curve_on_grid(run.episodes["step"], run.episodes["return"], grid)
    if np.isnan(curve).all():
        if run.lacks_episodes:
            raise InputError(f"there is neither {EPISODES_FILE} nor {Logs.EPISODES} in its folder")
        raise InputError(f"no episode ended in its first {grid[-1]:,.0f} steps")
    return curve, st.auc(grid, curve)


def inverted_of(run: Run, grid: Array, judge: str | None) -> tuple[Array, float]:
    """Minus what the best response wins by that margin, and the area under it from the first step that was measured."""
    brackets = own_brackets(run, judge=judge)
    if len(brackets) < 2:
        raise InputError(f"its gap was bracketed at {len(brackets)} steps; a curve takes 2")
    curve = -np.array([brackets[int(step)].best_response.value for step in grid])
    return curve, st.auc(grid, curve, start=grid[0])


def margins_of(runs: list[Run]) -> dict[str, tuple[Array, Array]]:
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
