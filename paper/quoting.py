"""Numbers in texts written by hand: what stands in braces is replaced by what the tables say, so it cannot go stale.

{area Hopper hpi-clip}                                the mean area in the paper's settings
{area Hopper hpi-clip termination=ended interval}     with a setting changed, and the ends of the interval
{area InvertedPendulum hpi learned}                   on learned margins
{rate Reacher sppo horizon=none}                       reward a step over training
{inverted Reacher-NT hpi}                             the area of the inverted gap along training
{won Reacher-NT hpi cloned}                           what best responses win in the end against a kind of policy
{end InvertedPendulum sppo first_iterate=0}           the last tenth of training
{other Hopper hpi}                                    the last quarter on another code base, an arm of independent.py
{other_area Hopper hpi}                               all of its steps
{seconds Walker2d}                                    of one core a run, as in the claims about speed
{count higher hpi-clip}                               tasks of the suite whose area is strictly higher than SPPO's
{count lower hpi a_step}                              strictly lower, by reward a step
{count overlaps hpi theirs}                           in the paper
{tasks lower hpi-clip}                                which they are
{seeds Ant ppo}                                       in the paper's settings
{endless}                                             tasks of the suite on which no episode ended early
{exponent contest}                                    of seconds in the number of states, of a contest or a process
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from claims import seconds_of_runs
from evidence import NOT_RUN, Evidence, earned_a_step, over_seeds
from experiment_claims import never_ending
from judging import named, short
from process_sizes import summarise_processes
from selections import NAMES, NT, PAPER
from settings_claims import tenths

from mdcontest.errors import InputError
from mdcontest.report.statistics import HIGHER, LOWER, OVERLAPS, Interval, student_interval
from mdcontest.report.study_gaps import gap_series
from mdcontest.tasks.suite import SUITE

QUOTE = re.compile(r"\{([^{}]+)\}")
LATE = 0.75
"""What is late: after this share of the steps that the other code base was trained for."""


def quoted(text: str, evidence: Evidence) -> str:
    """The text with its numbers."""
    return QUOTE.sub(lambda found: _said(found[1], evidence), text)


def _said(quote: str, evidence: Evidence) -> str:
    what, *words = quote.split()
    with_ends = "interval" in words
    try:
        found = FOUND[what](evidence, *[word for word in words if word != "interval"])
    except (KeyError, TypeError) as error:
        raise InputError(f"nobody knows what {{{quote}}} is in a text about the results: {error}") from None
    if found is None:
        return NOT_RUN
    if isinstance(found, str):
        return found
    mean, low, high = (_figures(value) for value in (found.mean, found.low, found.high))
    return f"{mean} [{low}, {high}]" if with_ends else mean


def _figures(value: float) -> str:
    """As many as one reads in a sentence."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


# --- what can be quoted -----------------------------------------------------------------------------------


def _task(name: str) -> str:
    return {short(task): task for task in (*SUITE, *NT)}[name]


def _area(evidence: Evidence, task: str, algorithm: str, *changed: str) -> Interval | None:
    settings = dict(_setting(word) for word in changed if word != "learned")
    found = evidence.reading(_task(task), NAMED[algorithm], settings, on_learned="learned" in changed)
    return found.area if found else None


def _setting(word: str) -> tuple[str, Any]:
    """A setting as the command line has it."""
    name, _, value = word.partition("=")
    known: dict[str, Any] = {"true": True, "false": False, "none": None}
    number = value.replace(".", "", 1).isdigit()
    return name, known.get(value, (float(value) if "." in value else int(value)) if number else value)


def _rate(evidence: Evidence, task: str, algorithm: str, *changed: str) -> Interval | None:
    if not changed:
        return evidence.reward_a_step("suite", _task(task), NAMED[algorithm])
    found = evidence.reading(_task(task), NAMED[algorithm], dict(map(_setting, changed)))
    return student_interval([earned_a_step(run) for run in found.runs]) if found else None


def _inverted(evidence: Evidence, task: str, algorithm: str, on: str = "") -> Interval | None:
    found = evidence.scores(MARGINS[on], _task(task), NAMED[algorithm])
    return found.area if found else None


def _won(evidence: Evidence, task: str, algorithm: str, returned: str, on: str = "") -> Interval | None:
    series = gap_series(evidence.store(MARGINS[on]).runs)
    wanted = (_task(task), NAMED[algorithm], returned)
    found = [one for one in series if (one.task, one.variant.split()[0], one.returned) == wanted]
    return over_seeds(found[0].values[:, -1]) if found else None


def _end(evidence: Evidence, task: str, algorithm: str, *changed: str) -> Interval | None:
    found = evidence.reading(_task(task), NAMED[algorithm], dict(map(_setting, changed)))
    return student_interval([tenths(run)[-1] for run in found.runs]) if found else None


def _other(evidence: Evidence, task: str, *arm: str) -> Interval | None:
    """Arms are named in several words."""
    return other_returns(evidence, _task(task), " ".join(arm), LATE)


def _other_area(evidence: Evidence, task: str, *arm: str) -> Interval | None:
    return other_returns(evidence, _task(task), " ".join(arm), 0.0)


def other_returns(evidence: Evidence, task: str, arm: str, after: float) -> Interval | None:
    """Mean returns on the other code base after this share of an arm's steps."""
    table = evidence.independent
    if table is None:
        return None
    columns: Sequence[Any] = [table[name] for name in ("task", "algorithm", "seed", "step", "return")]
    rows = [row[2:] for row in zip(*columns, strict=True) if row[:2] == (task, arm)]
    last, seeds = max((step for _, step, _ in rows), default=0), dict[int, list[float]]()
    for seed, step, value in rows:
        if step > after * last:
            seeds.setdefault(seed, []).append(value)
    return student_interval([float(np.mean(values)) for values in seeds.values()]) if seeds else None


def _seconds(evidence: Evidence, task: str) -> Interval | None:
    found = seconds_of_runs(evidence).get(_task(task))
    return student_interval([found]) if found is not None else None


def _exponent(evidence: Evidence, of: str) -> Interval | None:
    table = evidence.finite("processes")
    return summarise_processes(table)[f"{of}_exponents"] if table else None


def _count(evidence: Evidence, wanted: str, algorithm: str, measure: str = "") -> str:
    return str(len(_where(evidence, wanted, algorithm, measure)))


def _tasks(evidence: Evidence, wanted: str, algorithm: str, measure: str = "") -> str:
    return named(_where(evidence, wanted, algorithm, measure)) or "none"


def _where(evidence: Evidence, wanted: str, algorithm: str, measure: str) -> list[str]:
    """Tasks of the suite on which an algorithm has this verdict against SPPO."""
    found = MEASURES[measure](evidence, NAMED[algorithm])
    return [task for task in SUITE if found[task] == VERDICTS[wanted]]


def _by_area(evidence: Evidence, algorithm: str) -> Mapping[str, str]:
    return {task: evidence.verdict("suite", task, algorithm) for task in SUITE}


def _by_step(evidence: Evidence, algorithm: str) -> Mapping[str, str]:
    return {task: evidence.verdict_a_step(task, algorithm) for task in SUITE}


def _seeds(evidence: Evidence, task: str, algorithm: str) -> str | None:
    found = evidence.scores("suite", _task(task), NAMED[algorithm])
    return str(found.area.n) if found else None


def _endless(evidence: Evidence) -> str | None:
    return named(never_ending(evidence)) or None


VERDICTS = {"higher": HIGHER, "overlaps": OVERLAPS, "lower": LOWER}
MEASURES: Mapping[str, Callable[[Evidence, str], Mapping[str, str]]] = {
    "": _by_area,
    "a_step": _by_step,
    "theirs": lambda evidence, algorithm: PAPER[algorithm],
}
"""By what an algorithm is compared with SPPO."""
MARGINS = {"": "nontransitive", "learned": "learned margins"}
"""Studies of the nontransitive tasks."""
NAMED = {name: name for name in NAMES}
"""So that others are not taken for what was not run."""
FOUND = {
    "area": _area,
    "rate": _rate,
    "inverted": _inverted,
    "won": _won,
    "end": _end,
    "other": _other,
    "other_area": _other_area,
    "seconds": _seconds,
    "count": _count,
    "tasks": _tasks,
    "seeds": _seeds,
    "endless": _endless,
    "exponent": _exponent,
}
