"""How a claim is judged: from verdicts on tasks to "holds", "does not hold" or "cannot be told"."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evidence import NOT_RUN, SAME, SETTLED, Evidence
from scipy import stats

from mdcontest.report.statistics import HIGHER, LOWER, MIN_SEEDS, OVERLAPS, TOO_FEW, Interval

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "cannot be told"
BY_SEEDS, BY_TEST = "with these seeds", "by this test"
"""Why not: more seeds may tell, or the test is too weak for what there is, whatever the seeds."""
OPEN = (TOO_FEW, NOT_RUN)
"""Verdicts that may become any other."""
MOST_BY_CHANCE = 0.05
"""A sign test tells two algorithms apart if chance alone does as much no more often."""


@dataclass(frozen=True)
class Finding:
    """Our numbers, and what they say of a claim."""

    numbers: str
    verdict: str
    why: str = BY_SEEDS
    """Where it cannot be told."""

    @property
    def is_not_run(self) -> bool:
        """Whether there is nothing to judge it by."""
        return self.numbers.startswith(NOT_RUN)

    @property
    def is_run_in_part(self) -> bool:
        """Whether some of its tasks are missing."""
        return not self.is_not_run and f"{NOT_RUN} on" in self.numbers

    @property
    def said(self) -> str:
        """The verdict, and what keeps one from being reached."""
        if self.verdict != UNKNOWN:
            return self.verdict
        why = f"({NOT_RUN})" if self.is_not_run else "(run in part)" if self.is_run_in_part else self.why
        return f"{UNKNOWN} {why}"


@dataclass(frozen=True)
class Claim:
    """Something the paper says."""

    where: str
    """The paper's label."""
    text: str
    judge: Callable[[Evidence], Finding]
    command: str
    """What makes the numbers."""
    by_us: bool = False
    """A second reading of ours, beside what the paper says."""


NOTHING = Finding("not run", UNKNOWN)
SECOND = "(A second reading)"
"""So begin the texts of claims that are ours."""


# --- what is known ----------------------------------------------------------------------------------------


def decided(holds: bool | None) -> str:
    """None: nobody knows."""
    return UNKNOWN if holds is None else HOLDS if holds else FAILS


def all_of(parts: Collection[bool | None]) -> bool | None:
    """False where one is, else None where one is open."""
    return False if False in parts else None if None in parts else True


def between(least: int, most: int, wanted: range) -> bool | None:
    """Whether a count is in a range; all that is known of it is that it is `least` to `most`."""
    possible = range(least, most + 1)
    return True if all(n in wanted for n in possible) else None if any(n in wanted for n in possible) else False


def above(found: Interval, threshold: float) -> bool | None:
    """Whether a mean is, as far as its interval tells; nothing is said with few seeds."""
    if found.n < MIN_SEEDS or found.low <= threshold <= found.high:
        return None
    return found.low > threshold


def known(value: float, holds: bool) -> bool | None:
    """Nothing is known of what could not be computed."""
    return holds if math.isfinite(value) else None


def judged_table(
    table: Any, summarise: Callable[[Any], dict[str, Any]], judge: Callable[[dict[str, Any]], Finding]
) -> Finding:
    """By the summary of a table, where there is one."""
    return NOTHING if table is None else judge(summarise(table))


# --- from tasks to claims ---------------------------------------------------------------------------------


def every_task_is(verdicts: Mapping[str, str], wanted: str = HIGHER) -> Finding:
    """All tasks have the verdict; one with the opposite settles it.

    Too few seeds leave it open, and so does an overlap where a strict order was claimed, unless both have as many seeds
    as the paper: with more of them the order may appear. Runs that are the same refute no order either: on a margin
    that says nothing two algorithms are one.
    """
    right = (OVERLAPS, SETTLED, SAME) if wanted == OVERLAPS else (wanted,)
    good = [task for task, verdict in verdicts.items() if verdict in right]
    others = {task: verdict for task, verdict in verdicts.items() if verdict not in (*right, *OPEN)}
    settled = any(wanted == OVERLAPS or verdict not in (OVERLAPS, SAME) for verdict in others.values())
    holds = False if settled else True if len(good) == len(verdicts) else None
    said = f"{wanted} on {len(good)} of {len(verdicts)}"
    if others:
        said += "; " + ", ".join(f"{verdict} on {short(task)}" for task, verdict in others.items())
    return Finding(_with_open(said, verdicts), decided(holds), BY_TEST if SAME in others.values() else BY_SEEDS)


def rarely_lower(verdicts: Mapping[str, str], doubtful: Collection[str] = (), most: int = 1) -> Finding:
    """At most so many tasks on which it is strictly lower; on `doubtful` ones an overlap may become that."""
    counts = count(verdicts)
    lower = [short(task) for task, verdict in verdicts.items() if verdict == LOWER]
    said = f"exceeds or overlaps on {counts[HIGHER] + _overlaps(counts)} of {len(verdicts)}"
    said += f"; strictly lower on {', '.join(lower)}" if lower else ""
    said = _with_open(said + _lean(doubtful), verdicts)
    return Finding(said, decided(_at_most_lower(verdicts, doubtful, most)))


def better_on(verdicts: Mapping[str, str], higher: int, doubtful: Collection[str] = (), most: int = 1) -> Finding:
    """Strictly higher on so many tasks or more, strictly lower on few; an overlap of few seeds may become HIGHER."""
    counts = count(verdicts)
    most_higher = len(verdicts) - counts[LOWER] - counts[SETTLED]
    many = between(counts[HIGHER], most_higher, range(higher, len(verdicts) + 1))
    holds = all_of((many, _at_most_lower(verdicts, doubtful, most)))
    return Finding(_with_open(_counted(verdicts) + _lean(doubtful), verdicts), decided(holds))


def more_often_higher(verdicts: Mapping[str, str], theirs: Iterable[str] = ()) -> Finding:
    """Strictly higher on more tasks than strictly lower, by a one-sided sign test, whatever is open turns out to be.

    Overlaps are not counted. It does not hold where it is not on more tasks at all; more, but not by enough for the
    test, cannot be told. Tests of so few tasks are weak: beside ours stands what the paper's own verdicts, `theirs`,
    would give.
    """
    counts = count(verdicts)
    higher, lower = counts[HIGHER], counts[LOWER]
    unsure = counts[OVERLAPS] + sum(counts[word] for word in OPEN)
    holds = True if _by_chance(higher, lower + unsure) <= MOST_BY_CHANCE else None if higher + unsure > lower else False
    said = f"{_counted(verdicts)} (p = {_by_chance(higher, lower):.2g} of a sign test"
    if there := list(theirs):
        most, least = there.count(HIGHER), there.count(LOWER)
        said += f"; the paper's own {most} against {least} have {_by_chance(most, least):.2g}"
    said += ")"
    may_pass = _by_chance(higher + unsure, lower) <= MOST_BY_CHANCE
    return Finding(_with_open(said, verdicts), decided(holds), BY_SEEDS if may_pass else BY_TEST)


def _by_chance(higher: int, lower: int) -> float:
    """How probable so many or more of these would be if either were as likely."""
    return float(stats.binomtest(higher, higher + lower, alternative="greater").pvalue) if higher + lower else 1.0


def _at_most_lower(verdicts: Mapping[str, str], doubtful: Collection[str], most: int) -> bool | None:
    lower = list(verdicts.values()).count(LOWER)
    unsure = sum(verdict in OPEN or task in doubtful for task, verdict in verdicts.items())
    return between(lower, lower + unsure, range(most + 1))


def _counted(verdicts: Mapping[str, str]) -> str:
    counts = count(verdicts)
    parts = {HIGHER: counts[HIGHER], OVERLAPS: counts[OVERLAPS] + counts[SETTLED], LOWER: counts[LOWER]}
    parts |= {SAME: counts[SAME]} if counts[SAME] else {}
    return ", ".join(f"{word} on {many}" for word, many in parts.items()) + f" of {len(verdicts)}"


def _overlaps(counts: Mapping[str, int]) -> int:
    """Of whatever kind."""
    return sum(counts[word] for word in (OVERLAPS, SETTLED, SAME))


def _lean(doubtful: Collection[str]) -> str:
    tasks = named(doubtful)
    return f"; overlaps with the lower mean, and fewer seeds than the paper's, on {tasks}" if doubtful else ""


def _with_open(said: str, verdicts: Mapping[str, str]) -> str:
    """With the tasks that cannot be judged; where none was run, counts of nothing would read like a result."""
    return f"{NOT_RUN} on any of them" if set(verdicts.values()) == {NOT_RUN} else said + still_open(verdicts)


def still_open(verdicts: Mapping[str, str]) -> str:
    """Which tasks cannot be judged, and why."""
    said = ""
    for verdict, words in ((TOO_FEW, f"fewer than {MIN_SEEDS} seeds on"), (NOT_RUN, "not run on")):
        found = [short(task) for task, one in verdicts.items() if one == verdict]
        where = "all of them" if len(found) == len(verdicts) else ", ".join(found)
        said += f"; {words} {where}" if found else ""
    return said


def count(verdicts: Mapping[str, str]) -> dict[str, int]:
    """Tasks by verdict."""
    found = list(verdicts.values())
    return {verdict: found.count(verdict) for verdict in (HIGHER, OVERLAPS, LOWER, SETTLED, SAME, *OPEN)}


# --- words ------------------------------------------------------------------------------------------------


def beside(ours: str, theirs: str | None) -> str:
    """Our verdict, in bold with the paper's where that is another one; a dash where the paper has none."""
    if theirs is None:
        return "–"
    return ours if ours in (theirs, *OPEN) else f"**{ours}** (paper: {theirs})"


def short(task: str) -> str:
    """A task's name without its version."""
    return task.removesuffix("-v5")


def named(tasks: Iterable[str]) -> str:
    """Them in a sentence."""
    return ", ".join(map(short, tasks))
