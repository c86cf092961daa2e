"""What was looked at again: a page written by hand, other readings of the paper, and another code base."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from evidence import Evidence, shown
from independent import ARMS, LONGER, POINTS, STEPS
from judging import short
from quoting import LATE, other_returns, quoted
from readings import FIRST
from selections import ENDED, LEARNERS, NAMES, SUITE
from tables_as_text import table

from mdcontest.experiments.stored import Run
from mdcontest.report.statistics import curve_on_grid, step_grid, student_interval

NOTES = Path(__file__).parent / "second-look.md"


@dataclass(frozen=True)
class Reading:
    """Settings that the paper leaves open, or that may explain a result, changed."""

    algorithm: str
    changed: Mapping[str, Any]
    words: tuple[str, str]
    """What the preset has, and what this."""
    on_learned: bool = False
    """Whether margins were learned."""


LIMITS = ({"horizon": None}, ("episodes of 2048 steps", "the registered limit"))
ROLLOUT = {"across_episodes": True}
END_COUNTS = ("an end is worth nothing", "an end is an outcome")
FIRST_SEEN = ("100 outcomes of the first policy among the opponents", "none of them")
READINGS = [
    Reading("sppo", ROLLOUT, ("averages over an episode", "over the rollout")),
    Reading("sppo", ROLLOUT | ENDED, ("averages over an episode", "over the rollout, and an end is an outcome")),
    *(Reading(name, ENDED, END_COUNTS) for name in (*LEARNERS, "sppo")),
    *(Reading(name, FIRST.settings, FIRST_SEEN) for name in (*LEARNERS, "sppo")),
    Reading("hpi", {"hedge": "corrected"}, ("the objective as printed", "corrected")),
    Reading("hpi-clip", {"gamma": 0.999}, ("a discount of 0.99", "of 0.999")),
    Reading("hpi-clip", *LIMITS),
    Reading("sppo", *LIMITS),
    *(Reading(name, ENDED, END_COUNTS, on_learned=True) for name in (*LEARNERS, "sppo")),
]


def second_look(evidence: Evidence) -> str:
    """All of it."""
    parts = [quoted(NOTES.read_text(encoding="utf-8"), evidence), _readings(evidence)]
    if (other := evidence.independent) is not None:
        parts.append(_other_code(evidence, other))
    return "\n".join(part for part in parts if part)


def _readings(evidence: Evidence) -> str:
    """Areas of tasks on which another reading than the preset's was run."""
    rows = []
    for task in SUITE:
        for one in READINGS:
            found = [evidence.reading(task, one.algorithm, given, one.on_learned) for given in ({}, one.changed)]
            if found[1] is not None:
                areas = (shown(scores.area if scores else None) for scores in found)
                cells = (f"{words}: {area}" for words, area in zip(one.words, areas, strict=True))
                rows.append([short(task), NAMES[one.algorithm] + ", learned" * one.on_learned, *cells])
    text = (
        "Areas, all else as in the paper's settings (`python paper/readings.py`, and with learned margins `python "
        "paper/learned_margins.py --ends`); returns of shorter episodes are smaller.\n\n"
    )
    head = ["task", "algorithm", "the preset", "another reading"]
    return f"### Other readings\n\n{text}" + table(head, rows) if rows else ""


def _other_code(evidence: Evidence, other: dict[str, Any]) -> str:
    """Mean returns of the other code base over its last quarter and over all of its steps, and of ours over these."""
    rows = []
    for task, name in dict.fromkeys(zip(other["task"], other["algorithm"], strict=True)):
        algorithm, settings = ARMS[name]
        found = evidence.reading(task, algorithm, settings)
        steps, cells = LONGER.get(name, STEPS), list[str]()
        for after in (LATE, 0.0):
            ours = [_return_after(run, after, steps) for run in found.runs] if found else []
            cells += [
                shown(other_returns(evidence, task, name, after)),
                shown(student_interval(ours) if ours else None),
            ]
        rows.append([short(task), name.replace(algorithm, NAMES[algorithm]), f"{steps:,}", *cells])
    head = [
        "task",
        "algorithm",
        "steps",
        "last quarter, on Stable-Baselines3",
        "this library",
        "all steps",
        "this library",
    ]
    text = (
        "Means of curves over a part of training, on equal steps (`python paper/independent.py`); areas above are by "
        "the trapezoid rule, so where both are over all of training they differ a little.\n\n"
    )
    return f"### The same on another code base\n\n{text}" + table(head, rows)


def _return_after(run: Run, after: float, last: int) -> float:
    """The mean height of the curve over a part of training, on the other code base's grid."""
    grid = step_grid(last, POINTS)
    curve = curve_on_grid(run.episodes["step"], run.episodes["return"], grid)
    return float(np.mean(curve[grid > after * last]))
