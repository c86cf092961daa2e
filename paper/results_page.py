"""RESULTS.md as text: claims in rows, then the numbers behind them, all from the recorded results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from claims import CLAIMS, NAMES
from evidence import Evidence, number, shown
from judging import FAILS, HOLDS, UNKNOWN, Claim, short
from selections import PAPER, SUITE

from mdcontest.report.statistics import TOO_FEW, student_interval
from mdcontest.report.study import Scores, TaskStudy

NOTES = Path(__file__).parent / "second-look.md"
"""What was looked at again, written by hand."""
HEAD = """# What the paper claims, and what we measured

This page is written by `make paper` from the tables in [results](results), without training anything; a test checks
that it is what those tables say. Areas are areas under the curve of returns, as the curve's mean height; after each
mean stand the ends of Student's 95 % interval over seeds and their number n. "Strictly higher" means that two
intervals do not overlap, and is said with five seeds or more only. SPPO is what Swamy et al. 2024 call SPO. A trained
best response gives a lower bound of the optimality gap, never the gap. Labels such as `thm:lp` are the paper's.
"""


def results_page(evidence: Evidence, figures: Sequence[str]) -> str:
    """The whole page; `figures` are the names of those that were drawn."""
    found = {part: [(claim, claim.judge(evidence)) for claim in claims] for part, claims in CLAIMS.items()}
    counts = Counter(finding.verdict for rows in found.values() for _, finding in rows)
    total = f"{counts[HOLDS]} hold, {counts[FAILS]} do not, {counts[UNKNOWN]} cannot be told yet"
    parts = [HEAD, f"Of {counts.total()} claims {total}.\n", _recorded(evidence)]
    for part, rows in found.items():
        lines = [_claim_row(claim, finding.numbers, finding.verdict) for claim, finding in rows]
        parts.append(f"## {part}\n\n" + table(["claim", "where", "measured here", "verdict", "command"], lines))
    parts += [_sizes(evidence), _suite(evidence), _own(evidence), _second_look(evidence), _figures(figures)]
    return "\n".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown; a bar in a text would end its cell."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _claim_row(claim: Claim, numbers: str, verdict: str) -> list[str]:
    return [claim.text, f"`{claim.where}`", numbers, f"**{verdict}**", f"`{claim.command}`"]


def _recorded(evidence: Evidence) -> str:
    """How much there is, and where it was made."""
    hours = sum(run.seconds for run in evidence.runs) / 3600
    made = Counter(
        f"{run.versions.get('processor', 'unknown')}, Python {run.versions['python']}, jax {run.versions['jax']}"
        for run in evidence.runs
    )
    rows = [[kind, str(count)] for kind, count in made.most_common()]
    return (
        f"{len(evidence.runs)} runs of a million steps are recorded, {hours:.1f} hours of one core:\n\n"
        + table(["made on", "runs"], rows)
        + "\n`python paper/retrain.py` trains some of them again and compares every episode, bit for bit.\n"
    )


def _sizes(evidence: Evidence) -> str:
    """The linear program against the game, two actions, medians over contests."""
    found = evidence.finite("sizes")
    if found is None:
        return ""
    columns = ("states", "actions", "policies", "lp_seconds", "game_seconds")
    rows = [row for row in zip(*(found[name] for name in columns), strict=True) if row[1] == 2]
    lines = []
    for states in sorted({row[0] for row in rows}):
        alike = [row for row in rows if row[0] == states]
        game = [row[4] for row in alike if row[4] is not None]
        seconds = [number(float(np.median([row[3] for row in alike]))), number(float(np.median(game))) if game else "–"]
        lines.append([str(states), f"{alike[0][2]:.4g}", *seconds])
    head = ["states", "deterministic policies", "linear program, s", "game over policies, s"]
    text = "Random dense contests with two actions, median of three, processor seconds.\n\n"
    return f"## The linear program and the game over policies\n\n{text}" + table(head, lines)


def _suite(evidence: Evidence) -> str:
    """Areas and verdicts by task, beside the paper's."""
    rows = []
    for task in SUITE:
        cells = [short(task)]
        for name in NAMES:
            one = evidence.scores("suite", task, name)
            cells.append(shown(one.area if one else None))
        for name in ("hpi-clip", "hpi"):
            ours, theirs = evidence.verdict("suite", task, name), PAPER[name][task]
            cells.append(ours if ours in (theirs, TOO_FEW) else f"**{ours}** (paper: {theirs})")
        rows.append(cells)
    head = ["task", *NAMES.values(), "HPI-Clip against SPPO", "HPI against SPPO"]
    text = (
        "Episodes of up to 2048 steps, so that returns are larger than those of public tables. Bold is where the paper "
        "found something else.\n\n"
    )
    return f"## Areas on the suite, the paper's settings\n\n{text}" + table(head, rows)


def _own(evidence: Evidence) -> str:
    """Reward a step in our settings and in the paper's."""
    rows = []
    for task in SUITE:
        names = ("hpi-clip", "hpi")
        ours = [shown(evidence.reward_a_step("own settings", task, name)) for name in names]
        theirs = [shown(evidence.reward_a_step("suite", task, name)) for name in names]
        areas = [evidence.scores("own settings", task, name) for name in names]
        rows.append(
            [short(task), ours[0], theirs[0], ours[1], theirs[1], *(shown(a.area if a else None) for a in areas)]
        )
    head = [
        "task",
        "HPI-Clip, ours",
        "HPI-Clip, paper's",
        "HPI, ours",
        "HPI, paper's",
        "area, HPI-Clip ours",
        "area, HPI ours",
    ]
    text = (
        "This library's defaults keep the registered limit of an episode (1000 steps, Reacher 50, Pusher 100), so "
        "returns do not compare with those above; reward a step, averaged over training, does. It does not charge for "
        "an episode that ends early, so on Hopper, Walker2d and the pendulums it says little.\n\n"
    )
    return f"## Our settings\n\n{text}" + table(head, rows)


def _second_look(evidence: Evidence) -> str:
    """What was written by hand, then SPPO's two readings, then the other code base."""
    parts = [NOTES.read_text(encoding="utf-8")]
    both = evidence.study("rollout averages")
    rows = [
        [short(task.name), *(_area(task, across) for across in (False, True))]
        for task in both.tasks
        if any(_across(one) for one in task.scores.values())
    ]
    if rows:
        head = ["task", "SPPO, margins averaged over an episode", "SPPO, averaged over the rollout"]
        parts.append("### SPPO in two readings\n\n" + table(head, rows))
    if (other := evidence.independent) is not None:
        parts.append(_other_code(evidence, other))
    return "\n".join(parts)


def _across(one: Scores) -> bool:
    return bool(one.runs[0].settings["across_episodes"])


def _area(task: TaskStudy, across: bool) -> str:
    return next((shown(one.area) for one in task.scores.values() if _across(one) == across), "not run")


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
            rows.append([short(task), NAMES[name], *(shown(student_interval(found)) for found in (means, ours))])
    head = ["task", "algorithm", "Stable-Baselines3 with the cumulant", "this library"]
    text = f"Return between {0.75 * last:,.0f} and {last:,} steps (`python paper/independent.py`).\n\n"
    return f"### The same on another code base\n\n{text}" + table(head, rows)


def _figures(names: Sequence[str]) -> str:
    return "## Figures\n\n" + "\n".join(f"![{name}](figures/{name}.png)\n" for name in names)
