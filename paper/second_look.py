"""What was looked at again: a page written by hand, other readings of the paper, and another code base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from evidence import Evidence, shown
from judging import short
from selections import NAMES, SUITE
from tables_as_text import table

from mdcontest.report.statistics import student_interval

NOTES = Path(__file__).parent / "second-look.md"
READINGS = {
    "SPPO, margins averaged over an episode": ("rollout averages", "across_episodes", False),
    "SPPO, averaged over the rollout": ("rollout averages", "across_episodes", True),
    "HPI-Clip, an end is worth nothing": ("terminations", "termination", "paper"),
    "HPI-Clip, an end is an outcome": ("terminations", "termination", "ended"),
}
"""Study, setting and value; the first of each two is the preset's."""


def second_look(evidence: Evidence) -> str:
    """All of it."""
    parts = [NOTES.read_text(encoding="utf-8"), _readings(evidence)]
    if (other := evidence.independent) is not None:
        parts.append(_other_code(evidence, other))
    return "\n".join(part for part in parts if part)


def _readings(evidence: Evidence) -> str:
    """Areas of tasks on which more than the preset's readings were run."""
    rows = []
    for task in SUITE:
        found = [evidence.with_setting(study, task, name, value) for study, name, value in READINGS.values()]
        if found[1] is not None or found[3] is not None:
            rows.append([short(task), *(shown(one.area if one else None) for one in found)])
    text = "Areas, all else as in the paper's settings (`python paper/readings.py`).\n\n"
    return f"### Other readings\n\n{text}" + table(["task", *READINGS], rows) if rows else ""


def _other_code(evidence: Evidence, other: dict[str, Any]) -> str:
    """Mean returns of the other code base over its last quarter, and of ours over the same steps."""
    rows, last = [], max(other["step"])
    for task in dict.fromkeys(other["task"]):
        for name in dict.fromkeys(other["algorithm"]):
            theirs: dict[int, list[float]] = {}
            for key in zip(*(other[column] for column in ("task", "algorithm", "seed", "step", "return")), strict=True):
                if key[:2] == (task, name) and key[3] > 0.75 * last:
                    theirs.setdefault(key[2], []).append(key[4])
            ours = [
                np.mean(
                    [
                        r
                        for s, r in zip(run.episodes["step"], run.episodes["return"], strict=True)
                        if 0.75 * last < s <= last
                    ]
                )
                for run in evidence.store("suite").runs
                if (run.task, run.algorithm) == (task, name)
            ]
            means = [float(np.mean(found)) for found in theirs.values()]
            cells = (shown(student_interval(found) if found else None) for found in (means, ours))
            rows.append([short(task), NAMES[name], *cells])
    head = ["task", "algorithm", "Stable-Baselines3 with the cumulant", "this library"]
    text = f"Return between {0.75 * last:,.0f} and {last:,} steps (`python paper/independent.py`).\n\n"
    return f"### The same on another code base\n\n{text}" + table(head, rows)
