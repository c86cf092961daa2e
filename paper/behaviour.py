"""What policies of the nontransitive tasks do, as numbers: far out and evenly around, or evenly over the classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from evidence import BASELINE, Evidence, shown
from judging import NOTHING, Finding, above, all_of, decided
from scipy import stats
from selections import LEARNERS, NAMES

from mdcontest import tasks
from mdcontest.experiments.stored import Run
from mdcontest.report.statistics import Interval, student_interval
from mdcontest.report.study_gaps import own_brackets

FAR, EVEN = 0.9, 0.8
"""A circle: this share of the reach, and this much spread of directions, where 1 is all of them alike."""
Table = dict[str, Any]


# --- measures ---------------------------------------------------------------------------------------------


def roundness(positions: Any, reach: float) -> tuple[float, float]:
    """The mean radius as a share of the reach, and the spread of directions: 1 for all alike, 0 for one or opposites.

    The mean of e^{iα} vanishes for two opposite directions as well, that of e^{2iα} does not.
    """
    x, y = np.asarray(positions, float).T
    towards = np.exp(1j * np.arctan2(y, x))
    concentrated = max(abs(towards.mean()), abs((towards**2).mean()))
    return float(np.hypot(x, y).mean() / reach), float(1 - concentrated)


def unevenness(shares: Any) -> float:
    """Half the sum of distances from equal shares: what one would have to move."""
    values = np.asarray(shares, float)
    return float(np.abs(values - 1 / len(values)).sum() / 2)


def tables(run: Run, returned: str | None = None) -> dict[int, Table]:
    """What a policy of a run does, by step, earliest first; None: the one that the run returns."""
    own = [table for table in run.behaviour if table["returned"][0] == (returned or run.settings["returned"])]
    return dict(sorted((int(table["step"][0]), table) for table in own))


# --- claims -----------------------------------------------------------------------------------------------


def circle(evidence: Evidence) -> Finding:
    """Roundness at the end of training; SPPO, of which nothing is claimed, stands beside the learners.

    A mixture has the first, untrained policies in it, so how often the last policy alone draws a circle is said, too.
    """
    said, good = [], []
    for name in (*LEARNERS, BASELINE):
        if found := _roundness_at_the_end(evidence, name):
            radius, spread = (student_interval(column) for column in zip(*found, strict=True))
            radius = replace(radius, high=min(radius.high, 1.0))  # nothing is farther out
            last = _roundness_at_the_end(evidence, name, "last")
            many = f"{_circles(found)} runs" + (f", by the last policy {_circles(last)}" if last else "")
            measured = f"radius {shown(radius)} of the reach, spread of directions {shown(spread)}"
            said.append(f"{NAMES[name]}: {many}; {measured}")
            good += [all_of((above(radius, FAR), above(spread, EVEN)))] if name in LEARNERS else []
    return _judged(said, good, f"the mixture of iterates; more than {FAR} and {EVEN} counts as a circle")


def _roundness_at_the_end(evidence: Evidence, algorithm: str, returned: str | None = None) -> list[tuple[float, float]]:
    reach, runs = tasks.make("Reacher-NT").reach, to_the_end(evidence, "Reacher-NT", algorithm, returned)
    return [roundness(positions(found[max(found)]), reach) for _, found in runs]


def _circles(found: list[tuple[float, float]]) -> str:
    return f"{sum(radius > FAR and spread > EVEN for radius, spread in found)} of {len(found)}"


def more_even(evidence: Evidence) -> Finding:
    """How far shares of the classes are from thirds, at the first bracket and at the last."""
    said, good = [], []
    for name in LEARNERS:
        looked_at = to_the_end(evidence, "Walker2d-NT", name)
        runs = [list(map(unevenness, map(_shares, run.values()))) for _, run in looked_at]
        if found := [(run[0], run[-1], run[0] - run[-1]) for run in runs if len(run) > 1]:
            first, last, less = (student_interval(column) for column in zip(*found, strict=True))
            moved = f"{shown(first)} at first and {shown(last)} at the end, nearer by {shown(less)}"
            said.append(f"{NAMES[name]}: distance from thirds {moved}")
            good.append(above(less, 0.0))
    return _judged(said, good)


def trends(evidence: Evidence) -> Finding:
    """Rank correlation along each run: what best responses win, and how far the behaviour is from the solution's."""
    reach = tasks.make("Reacher-NT").reach
    measures: dict[str, Callable[[Table], float]] = {
        "Reacher-NT": lambda table: -min(roundness(positions(table), reach)),
        "Walker2d-NT": lambda table: unevenness(_shares(table)),
    }
    said, good = [], []
    for task, distance in measures.items():
        for name in LEARNERS:
            if found := list(_correlations(evidence, task, name, distance)):
                rank = _correlation(student_interval(found))
                said.append(f"{task}, {NAMES[name]}: {shown(rank)}")
                good.append(above(rank, 0.0))
            else:
                good.append(None)
    return _judged(said, good, "Spearman's correlation along a run, mean over runs")


def _correlation(found: Interval) -> Interval:
    """Without what no correlation can be."""
    return replace(found, low=max(found.low, -1.0), high=min(found.high, 1.0))


def _correlations(evidence: Evidence, task: str, algorithm: str, distance: Callable[[Table], float]) -> Iterator[float]:
    for run in _runs(evidence, task, algorithm):
        brackets, done = own_brackets(run, "mixture"), tables(run)
        pairs = [(brackets[s].best_response.value, distance(done[s])) for s in brackets if s in done]
        if len(pairs) > 2 and all(len(set(column)) > 1 for column in zip(*pairs, strict=True)):
            yield float(stats.spearmanr(*zip(*pairs, strict=True)).statistic)


def _judged(said: list[str], good: list[bool | None], note: str = "") -> Finding:
    """Open where one of the learners was not run."""
    if not said:
        return NOTHING
    holds = all_of(good if len(good) >= len(LEARNERS) else [*good, None])
    return Finding("; ".join(said) + (f" ({note})" if note else ""), decided(holds))


# --- tables -----------------------------------------------------------------------------------------------


def _runs(evidence: Evidence, task: str, algorithm: str) -> list[Run]:
    return [r for r in evidence.store("nontransitive").runs if (r.task, r.algorithm) == (task, algorithm)]


def to_the_end(
    evidence: Evidence, task: str, algorithm: str, returned: str | None = None
) -> Iterator[tuple[Run, dict[int, Table]]]:
    """Each run that was looked at when its training was over, and its tables."""
    for run in _runs(evidence, task, algorithm):
        if (found := tables(run, returned)) and max(found) >= run.target:
            yield run, found


def positions(table: Table) -> list[tuple[float, float]]:
    """Where the fingertip was."""
    rows = zip(table["kind"], table["x"], table["y"], strict=True)
    return [(x, y) for kind, x, y in rows if kind == "position"]


def _shares(table: Table) -> list[float]:
    return [share for kind, share in zip(table["kind"], table["share"], strict=True) if kind == "class"]
