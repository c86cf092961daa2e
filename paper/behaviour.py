"""What policies of the nontransitive tasks do, as numbers: far out and evenly around, or evenly over the classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from evidence import Evidence, number, shown
from judging import Finding, decided
from scipy import stats

from mdcontest import tasks
from mdcontest.experiments.store import Run
from mdcontest.report import statistics as st
from mdcontest.report.study_gaps import own_brackets

FAR, EVEN = 0.9, 0.8
"""A circle: this share of the reach, and this much spread of directions, where 1 is all of them alike."""
NEAR_THIRDS = 0.1
"""Largest distance of shares from thirds that counts as a third each."""
LEARNERS = ("hpi-clip", "hpi")


def roundness(positions: Any, reach: float) -> tuple[float, float]:
    """The mean radius as a share of the reach, and the spread of directions, 0 for one and 1 for all alike."""
    x, y = np.asarray(positions, float).T
    radius = np.hypot(x, y)
    towards = np.exp(1j * np.arctan2(y, x))
    return float(radius.mean() / reach), float(1 - abs(towards.mean()))


def unevenness(shares: Any) -> float:
    """Half the sum of distances from equal shares: what one would have to move."""
    values = np.asarray(shares, float)
    return float(np.abs(values - 1 / len(values)).sum() / 2)


def tables(run: Run) -> dict[int, dict[str, Any]]:
    """What a run's returned policy does, by step."""
    own = [table for table in run.behaviour if table["returned"][0] == run.settings["returned"]]
    return {int(table["step"][0]): table for table in own}


def circle(evidence: Evidence) -> Finding:
    """Roundness at the end of training."""
    reach = tasks.make("Reacher-NT").reach
    said, good = [], []
    for name in LEARNERS:
        found = [roundness(_positions(table), reach) for table in _last(evidence, "Reacher-NT", name)]
        if found:
            radius, spread = (st.student_interval(column) for column in zip(*found, strict=True))
            said.append(f"{name}: radius {shown(radius)} of the reach, spread of directions {shown(spread)}")
            good.append(None if radius.n < st.MIN_SEEDS else radius.mean > FAR and spread.mean > EVEN)
    return Finding("; ".join(said) or "not run", decided(_all(good, len(LEARNERS))))


def thirds(evidence: Evidence) -> Finding:
    """Unevenness at the end of training."""
    said, good = [], []
    for name in LEARNERS:
        found = [unevenness(_shares(table)) for table in _last(evidence, "Walker2d-NT", name)]
        if found:
            off = st.student_interval(found)
            said.append(f"{name}: distance from thirds {shown(off)}")
            good.append(None if off.n < st.MIN_SEEDS else off.mean < NEAR_THIRDS)
    return Finding("; ".join(said) or "not run", decided(_all(good, len(LEARNERS))))


def trends(evidence: Evidence) -> Finding:
    """Rank correlation of what best responses win with the distance of the behaviour from the solution's."""
    reach = tasks.make("Reacher-NT").reach
    measures: dict[str, Callable[[dict[str, Any]], float]] = {
        "Reacher-NT": lambda table: -min(roundness(_positions(table), reach)),
        "Walker2d-NT": lambda table: unevenness(_shares(table)),
    }
    said, good = [], []
    for task, distance in measures.items():
        pairs, seeds = [], set()
        for run in (run for run in evidence.store("nontransitive").runs if run.task == task):
            brackets, done = own_brackets(run), tables(run)
            pairs += [(brackets[s].best_response.value, distance(done[s])) for s in brackets if s in done]
            seeds |= {run.seed} if brackets else set()
        if len(pairs) > 2 and all(len(set(column)) > 1 for column in zip(*pairs, strict=True)):
            rank = float(stats.spearmanr(*zip(*pairs, strict=True)).statistic)
            said.append(f"{task}: Spearman {number(rank)} over {len(pairs)} policies of {len(seeds)} seeds")
            good.append(None if len(seeds) < st.MIN_SEEDS else rank > 0)
    return Finding("; ".join(said) or "not run", decided(_all(good, len(measures))))


def _last(evidence: Evidence, task: str, algorithm: str) -> list[dict[str, Any]]:
    """The last table of each seed."""
    runs = [r for r in evidence.store("nontransitive").runs if (r.task, r.algorithm) == (task, algorithm)]
    return [found[max(found)] for run in runs if (found := tables(run))]


def _positions(table: dict[str, Any]) -> list[tuple[float, float]]:
    rows = zip(table["kind"], table["x"], table["y"], strict=True)
    return [(x, y) for kind, x, y in rows if kind == "position"]


def _shares(table: dict[str, Any]) -> list[float]:
    return [share for kind, share in zip(table["kind"], table["share"], strict=True) if kind == "class"]


def _all(good: list[bool | None], count: int) -> bool | None:
    """False where one is; None where one of so many is open, or was not run."""
    if any(one is False for one in good):
        return False
    return None if len(good) < count or None in good else True
