"""Brackets and behaviour along runs: series over steps, one a variant, ready to be drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdcontest.arrays import Array
from mdcontest.experiments.stored import Gap, Run
from mdcontest.gap.bracket import GapBracket
from mdcontest.gap.curve import OWN
from mdcontest.settings import Settings

MOST_PANELS = 4
"""Steps at which positions are shown."""
ITERATION = Settings().batch_size
"""Steps of an iteration in which a best response is trained, unless told otherwise."""


@dataclass(frozen=True)
class GapSeries:
    """Brackets of a variant's policies on a task over steps, of every seed that was measured."""

    task: str
    variant: str
    returned: str
    """Which policy of a run: last, mixture or cloned."""
    judge: str
    """The margin that judged all of them, as in a bracket."""
    seeds: list[int]
    steps: Array
    """At which any seed was measured, [T]."""
    values: Array
    """What the best response wins, [n, T]; NaN where a seed was not measured."""
    lows: Array
    """Lower end of its interval, [n, T]."""
    highs: Array
    """Upper end of its interval, [n, T]."""
    lowers: Array
    """The bracket's lower end, [n, T]."""
    uppers: Array
    """The bracket's upper end, [n, T]; NaN also where there is no ceiling."""
    exact: Array
    """The gap itself, [n, T]; NaN also where it is not known."""


@dataclass(frozen=True)
class Traces:
    """Positions of one run of each variant on a task, at up to MOST_PANELS steps."""

    task: str
    rows: list[tuple[str, int, dict[int, Array]]]
    """Variant, seed, and positions [B, 2] by step."""


@dataclass(frozen=True)
class Shares:
    """How often the policies of a variant are in each class, over steps."""

    task: str
    variant: str
    seeds: list[int]
    labels: list[str]
    steps: Array
    values: Array
    """[n, T, K]; NaN where a seed was not looked at."""


def mean_over_seeds(values: Array) -> Array:
    """The mean over the first axis of what is there; NaN where nothing is."""
    known = np.isfinite(values)
    sums, counts = np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


# --- brackets ---------------------------------------------------------------------------------------------


def common_judge(runs: Iterable[Run]) -> str | None:
    """The margin that judged each of these runs of which there are brackets, the task's own if it did.

    What two margins say are answers to two questions. Of several learned ones it is the one with the most brackets;
    None where no margin judged them all.
    """
    judged = [[gap.judge for gap in _finite(run)] for run in runs]
    shared = set[str].intersection(*(set(judges) for judges in judged if judges)) if any(judged) else set[str]()
    counts = Counter(judge for judges in judged for judge in judges)
    return min(shared, key=lambda judge: (judge != OWN, -counts[judge], judge), default=None)


def own_brackets(run: Run, returned: str | None = None, judge: str | None = None) -> dict[int, GapBracket]:
    """The bracket at each step, of the policy that was followed and by the task's own margin unless told otherwise.

    Of several at one step the one whose best responses were trained longest, then the one with the narrowest interval.
    A run that its task's own margin did not judge is taken as a learned one judged it.
    """
    kind = returned or followed(run, judge)
    found: dict[int, GapBracket] = {}
    for gap in sorted(_that_count(run, judge), key=lambda gap: gap.step):
        if gap.returned == kind:
            known = found.get(gap.step)
            found[gap.step] = gap.bracket if known is None or _rank(gap.bracket) < _rank(known) else known
    return found


def _that_count(run: Run, judge: str | None) -> list[Gap]:
    wanted = judge or common_judge([run])
    return [gap for gap in _finite(run) if gap.judge == wanted]


def _finite(run: Run) -> list[Gap]:
    return [gap for gap in run.gaps if np.isfinite(gap.bracket.best_response.value)]


def followed(run: Run, judge: str | None = None) -> str:
    """The policy that a run returns, unless its gap was bracketed at one step at most, and that of another at more."""
    own, steps = str(run.settings.get("returned")), dict[str, set[int]]()
    for gap in _that_count(run, judge):
        steps.setdefault(gap.returned, set()).add(gap.step)
    often = max(steps, key=lambda kind: len(steps[kind]), default=own)
    known = len(steps.get(own, ()))
    return own if known > 1 or known == len(steps.get(often, ())) else often


def effort(bracket: GapBracket) -> float:
    """Training steps of all best responses tried; lower bounds compare only where it is the same.

    Older brackets know what was asked for alone, and each response was trained for whole iterations of that.
    """
    known = bracket.details.get("trained", bracket.details.get("effort"))
    asked = float(known) if isinstance(known, int | float) else 0.0
    steps = [int(one["steps"]) for one in bracket.details.get("candidates", [])]  # each response with noise and without
    if "trained" in bracket.details or len(steps) < 2 or any(count % ITERATION for count in steps):
        return asked
    responses = len(steps) // 2
    return float(responses * max(1, asked // responses // ITERATION) * ITERATION)


def _rank(bracket: GapBracket) -> tuple[float, float]:
    return -effort(bracket), bracket.best_response.high - bracket.best_response.low


def gap_series(runs: list[Run]) -> list[GapSeries]:
    """One a task, variant and kind of policy, in the order of the runs.

    They are by one margin on all of a task, so that they can be compared; where no margin judged all of its runs, there
    is one series a margin.
    """
    judges = {task: common_judge(run for run in runs if run.task == task) for task in {run.task for run in runs}}
    groups: dict[tuple[str, str, str, str], list[Run]] = {}
    for run in runs:
        for kind, judge in dict.fromkeys((gap.returned, gap.judge) for gap in run.gaps):
            if judges[run.task] in (None, judge):
                groups.setdefault((run.task, run.variant, kind, judge), []).append(run)
    found = [_series(*key, sorted(runs, key=lambda run: run.seed)) for key, runs in groups.items()]
    return [series for series in found if len(series.steps)]


def _series(task: str, variant: str, returned: str, judge: str, runs: list[Run]) -> GapSeries:
    measured = [own_brackets(run, returned, judge) for run in runs]
    steps = sorted({step for brackets in measured for step in brackets})
    rows = [[_numbers(brackets.get(step)) for step in steps] for brackets in measured]
    numbers = np.array(rows, float).reshape(len(runs), len(steps), 6).transpose(2, 0, 1)
    return GapSeries(task, variant, returned, judge, [run.seed for run in runs], np.array(steps, float), *numbers)


def _numbers(bracket: GapBracket | None) -> list[float]:
    if bracket is None:
        return [np.nan] * 6
    response, upper, exact = bracket.best_response, bracket.upper, bracket.exact
    ends = [np.nan if number is None else number for number in (upper, exact)]
    return [response.value, response.low, response.high, bracket.lower, *ends]


# --- behaviour --------------------------------------------------------------------------------------------


def traces(runs: list[Run]) -> list[Traces]:
    """Of each variant the run with the smallest seed of which positions are known."""
    found: dict[str, dict[str, tuple[str, int, dict[int, Array]]]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        points = {step: at for step, table in _tables(run).items() if len(at := _positions(table))}
        if points and run.variant not in found.get(run.task, {}):
            found.setdefault(run.task, {})[run.variant] = (run.variant, run.seed, points)
    return [Traces(task, list(rows.values())) for task, rows in found.items()]


def shown_steps(steps: set[int]) -> list[int]:
    """The first, the last and some between."""
    known = sorted(steps)
    at = np.unique(np.linspace(0, len(known) - 1, min(MOST_PANELS, len(known))).round().astype(int))
    return [known[i] for i in at]


def shares(runs: list[Run]) -> list[Shares]:
    """Shares of classes, one a task and variant."""
    groups: dict[tuple[str, str], list[tuple[int, dict[int, dict[str, float]]]]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        found = {step: classes for step, table in _tables(run).items() if (classes := _classes(table))}
        if found:
            groups.setdefault((run.task, run.variant), []).append((run.seed, found))
    return [_shares(*key, seeds) for key, seeds in groups.items()]


def _shares(task: str, variant: str, seeds: list[tuple[int, dict[int, dict[str, float]]]]) -> Shares:
    labels = list(dict.fromkeys(label for _, found in seeds for classes in found.values() for label in classes))
    steps = sorted({step for _, found in seeds for step in found})
    values = [[[found.get(s, {}).get(name, np.nan) for name in labels] for s in steps] for _, found in seeds]
    return Shares(task, variant, [seed for seed, _ in seeds], labels, np.array(steps, float), np.array(values, float))


def _tables(run: Run) -> dict[int, dict[str, Any]]:
    """Behaviour by step, of the policy that the run returns where it was looked at."""
    filled = [table for table in run.behaviour if len(table["step"])]
    own = [table for table in filled if table["returned"][0] == run.settings.get("returned")]
    return {int(table["step"][0]): table for table in own or filled}


def _positions(table: dict[str, Any]) -> Array:
    rows = zip(table["kind"], table["x"], table["y"], strict=True)
    found = [(x, y) for kind, x, y in rows if kind == "position" and x is not None and y is not None]
    points = np.array(found, float).reshape(-1, 2)
    return points[np.isfinite(points).all(axis=1)]


def _classes(table: dict[str, Any]) -> dict[str, float]:
    rows = zip(table["kind"], table["label"], table["share"], strict=True)
    return {
        str(label): float(share)
        for kind, label, share in rows
        if kind == "class" and share is not None and np.isfinite(share)
    }
