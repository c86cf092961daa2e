"""How a claim is judged: from verdicts on tasks to "holds", "does not hold" or "cannot be told"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evidence import Evidence

from mdcontest.report.statistics import HIGHER, LOWER, OVERLAPS, TOO_FEW

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "cannot be told with these seeds"


@dataclass(frozen=True)
class Finding:
    """Our numbers, and what they say of a claim."""

    numbers: str
    verdict: str


@dataclass(frozen=True)
class Claim:
    """Something the paper says."""

    where: str
    """The paper's label."""
    text: str
    judge: Callable[[Evidence], Finding]
    command: str
    """What makes the numbers."""


def decided(holds: bool | None) -> str:
    """None: nobody knows."""
    return UNKNOWN if holds is None else HOLDS if holds else FAILS


def every_task_is(verdicts: Mapping[str, str], wanted: str = HIGHER) -> Finding:
    """All tasks have the verdict; one with the opposite settles it.

    Too few seeds leave it open, and so does an overlap where a strict order was claimed: with more seeds it may appear.
    """
    good = [task for task, verdict in verdicts.items() if verdict == wanted]
    others = {task: verdict for task, verdict in verdicts.items() if verdict not in (wanted, TOO_FEW)}
    settled = any(wanted == OVERLAPS or verdict != OVERLAPS for verdict in others.values())
    holds = False if settled else True if len(good) == len(verdicts) else None
    said = f"{wanted} on {len(good)} of {len(verdicts)}"
    if others:
        said += "; " + ", ".join(f"{verdict} on {short(task)}" for task, verdict in others.items())
    return Finding(said + _open(verdicts), decided(holds))


def rarely_lower(verdicts: Mapping[str, str], most: int = 1) -> Finding:
    """At most so many tasks on which it is strictly lower."""
    counts = count(verdicts)
    least, largest = counts[LOWER], counts[LOWER] + counts[TOO_FEW]
    holds = True if largest <= most else False if least > most else None
    lower = [short(task) for task, verdict in verdicts.items() if verdict == LOWER]
    said = f"exceeds or overlaps on {counts[HIGHER] + counts[OVERLAPS]} of {len(verdicts)}"
    said += f"; strictly lower on {', '.join(lower)}" if lower else ""
    return Finding(said + _open(verdicts), decided(holds))


def more_often_higher(verdicts: Mapping[str, str]) -> Finding:
    """Strictly higher on more tasks than strictly lower, whatever the tasks that are open turn out to be."""
    counts = count(verdicts)
    ahead = counts[HIGHER] - counts[LOWER]
    holds = True if ahead > counts[TOO_FEW] else False if ahead + counts[TOO_FEW] <= 0 else None
    said = f"strictly higher on {counts[HIGHER]}, overlaps on {counts[OVERLAPS]}, strictly lower on {counts[LOWER]}"
    return Finding(f"{said} of {len(verdicts)}{_open(verdicts)}", decided(holds))


def beside(ours: str, theirs: str | None) -> str:
    """Our verdict, in bold with the paper's where that is another one; a dash where the paper has none."""
    if theirs is None:
        return "–"
    return ours if ours in (theirs, TOO_FEW) else f"**{ours}** (paper: {theirs})"


def count(verdicts: Mapping[str, str]) -> dict[str, int]:
    """Tasks by verdict."""
    found = list(verdicts.values())
    return {verdict: found.count(verdict) for verdict in (HIGHER, OVERLAPS, LOWER, TOO_FEW)}


def _open(verdicts: Mapping[str, str]) -> str:
    few = [short(task) for task, verdict in verdicts.items() if verdict == TOO_FEW]
    where = "all of them" if len(few) == len(verdicts) else ", ".join(few)
    return f"; fewer than 5 seeds on {where}" if few else ""


def short(task: str) -> str:
    """A task's name without its version."""
    return task.removesuffix("-v5")
