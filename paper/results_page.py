"""RESULTS.md as text: claims in rows, then the numbers behind them, all from the recorded results."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from ablation_tables import sections
from claims import CLAIMS
from evidence import BASELINE, Evidence, number, shown
from figures import caption
from judging import FAILS, HOLDS, UNKNOWN, Claim, Finding, beside, short
from quoting import quoted
from second_look import second_look
from selections import LEARNERS, NAMES, PAPER, STUDIES, SUITE
from tables_as_text import table

from mdcontest.report import statistics as st
from mdcontest.report.statistics import HIGHER, LOWER

TITLE = """# What the paper claims, and what we measured

Its sections 6 to 8, its appendix A, and three sentences of its appendix on algorithms. This page is written by `make
paper` from the tables in [results](results), without training anything; a test checks that it is what those tables say.
"""
HEADLINE = Path(__file__).parent / "headline.md"
"""What a hurried reader should know; it stands in the README as well."""
FIRST = "suite"
"""The figure beside it."""
TERMS = """## How to read it

Areas are areas under the curve of returns, as the curve's mean height; after each mean stand the ends of Student's 95 %
interval over seeds and their number n. "Strictly higher" means that two intervals do not overlap, and is said with five
seeds or more only. If two intervals overlap with fewer than the paper's ten seeds, ten might separate them: a claim
that depends on it is left open. With ten seeds each an overlap stands. SPPO is what Swamy et al. 2024 call SPO. A
trained best response gives a lower bound of the optimality gap, never the gap, so an order of what best responses win
is no proof of an order of gaps. Where the paper leaves something open, verdicts are about our reading of it, which
[LOG.md](LOG.md) states; those on learned margins depend on it most: on what is asked, who answers, and how answers are
fitted.

Some rows ask whether an algorithm is ahead on more tasks than it is behind, by a one-sided sign test: tasks on which
intervals overlap are left out, and p ≤ 0.05 counts as clearly more. More, but not clearly, "cannot be told"; not more
"does not hold".

Labels are the paper's: `sec:exact-solution-methods` and `sec:approximate-solution-methods` are its sections 6 and 7,
`thm:lp` and `thm:hpi-convergence` their theorems, `prop:` and `lem:` propositions and lemmas, `sec:experiments` is
section 8, `fig:` are figures, and `ap:` parts of the appendix.

The commands write runs under `build/paper`, or tables into `paper/results`; runs come into these tables with
`python paper/record.py FOLDER`, and `make paper` writes this page.
"""


Judged = Mapping[str, Sequence[tuple[Claim, Finding]]]
"""By part of the page."""


def results_page(evidence: Evidence, figures: Sequence[str]) -> str:
    """The whole page; `figures` are the names of those that were drawn."""
    found = {part: [(claim, claim.judge(evidence)) for claim in claims] for part, claims in CLAIMS.items()}
    parts = [TITLE, _in_short(evidence, figures), _totals(found), TERMS, _recorded(evidence)]
    for part, rows in found.items():
        lines = [_claim_row(claim, finding) for claim, finding in rows]
        parts.append(f"## {part}\n\n" + table(["claim", "where", "measured here", "verdict", "command"], lines))
    parts += [_sizes(evidence), _suite(evidence), _own(evidence), *sections(evidence)]
    parts += [second_look(evidence), _figures(figures)]
    return "\n".join(parts)


def headline(evidence: Evidence) -> str:
    """One paragraph."""
    return textwrap.fill(quoted(HEADLINE.read_text(encoding="utf-8"), evidence), 120, break_on_hyphens=False)


def _in_short(evidence: Evidence, figures: Sequence[str]) -> str:
    shown = f"{_figure(FIRST)}\n" if FIRST in figures else ""
    return f"## In short\n\n{shown}{headline(evidence)}\n"


def _totals(found: Judged) -> str:
    """How many claims of the paper hold, by part of the page; readings of ours are counted apart."""
    judged = [one for rows in found.values() for one in rows]
    theirs, ours = ([finding for claim, finding in judged if claim.by_us == by_us] for by_us in (False, True))
    open_ones = [finding for finding in theirs if finding.verdict == UNKNOWN]
    nothing, in_part = sum(one.is_not_run for one in open_ones), sum(one.is_run_in_part for one in open_ones)
    by_part = []
    for part, rows in found.items():
        counts = Counter(finding.verdict for claim, finding in rows if not claim.by_us)
        by_part.append([part, str(counts.total()), *(str(counts[verdict]) for verdict in (HOLDS, FAILS, UNKNOWN))])
    return (
        f"Of {len(theirs)} claims {_counts(theirs)} yet: {nothing} as nothing was run for them, {in_part} as some of "
        "their tasks were not, the rest as their numbers leave it open. "
        f"Of {len(ours)} second readings of ours beside them {_counts(ours)}.\n\n"
        + table(["claims of the paper", "all", HOLDS, FAILS, UNKNOWN], by_part)
    )


def _counts(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings)
    return f"{counts[HOLDS]} hold, {counts[FAILS]} do not, {counts[UNKNOWN]} cannot be told"


def _claim_row(claim: Claim, finding: Finding) -> list[str]:
    return [claim.text, f"`{claim.where}`", finding.numbers, f"**{finding.said}**", f"`{claim.command}`"]


def _recorded(evidence: Evidence) -> str:
    """How much there is, and where it was made."""
    hours = sum(run.seconds for run in evidence.runs) / 3600
    made = Counter(
        f"{run.versions.get('processor', 'unknown')}, Python {run.versions['python']}, jax {run.versions['jax']}"
        for run in evidence.runs
    )
    rows = [[kind, str(count)] for kind, count in made.most_common()]
    return (
        f"{len(evidence.runs)} runs are recorded, {hours:.1f} hours of one core:\n\n"
        + table(["made on", "runs"], rows)
        + "\n`python paper/retrain.py` trains some of them again and compares every episode, bit for bit.\n"
        + _left_out(evidence)
    )


def _left_out(evidence: Evidence) -> str:
    """What the studies say of runs that they could not use; verdicts here do not rest on their choice of a baseline."""
    notes = [f"- {name}: {note}" for name in STUDIES for note in evidence.study(name).notes if "baseline" not in note]
    return "\nNot all of them could be used:\n\n" + "\n".join(notes) + "\n" if notes else ""


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
        rows.append(cells + [beside(evidence.verdict("suite", task, name), PAPER[name][task]) for name in PAPER])
    head = ["task", *NAMES.values(), "HPI-Clip against SPPO", "HPI against SPPO"]
    text = (
        "Episodes of up to 2048 steps, so that returns are larger than those of public tables. Bold is where the paper "
        "found something else.\n\n"
    )
    return f"## Areas on the suite, the paper's settings\n\n{text}" + table(head, rows) + f"\n{_a_step(evidence)}\n"


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
        "returns do not compare with those above. Reward a step, averaged over training, does better, but not where "
        "the limit is short: on Reacher and Pusher the way to the goal is then more of an episode, and the limit alone "
        "lowers it (second looks, episodes as long as registered). Nor does it charge for an episode that ends early, "
        "so where episodes can, on Ant, Hopper, Humanoid, Walker2d and the pendulums, it is about the task's margin, "
        f"and not about staying up. {_ours_against_theirs(evidence)}\n\n"
    )
    return f"## Our settings\n\n{text}" + table(head, rows)


def _a_step(evidence: Evidence) -> str:
    """The same algorithms by what the paper's gap is about."""
    said = _where_a_step(evidence, lambda name: (("suite", name), ("suite", BASELINE)))
    measure = "Reward a step over training is what the paper's gap is up to constants. Against SPPO's it is"
    return f"{measure} {said}." if said else ""


def _ours_against_theirs(evidence: Evidence) -> str:
    """The same algorithm in our settings and in the paper's."""
    said = _where_a_step(evidence, lambda name: (("own settings", name), ("suite", name)))
    return f"In our settings it is {said}." if said else ""


def _where_a_step(evidence: Evidence, pair: Callable[[str], tuple[tuple[str, str], tuple[str, str]]]) -> str:
    """Where reward a step is strictly higher, and lower; `pair` are the two studies and algorithms of a comparison."""
    said = []
    for name in LEARNERS:
        found: dict[str, list[str]] = {HIGHER: [], LOWER: []}
        for task in SUITE:
            mine, other = (evidence.reward_a_step(study, task, algorithm) for study, algorithm in pair(name))
            if mine and other and (verdict := st.verdict(mine, other)) in found:
                found[verdict].append(short(task))
        said += [f"{verdict} for {NAMES[name]} on {', '.join(tasks)}" for verdict, tasks in found.items() if tasks]
    return "; ".join(said)


def _figures(names: Sequence[str]) -> str:
    """Those that do not stand further up."""
    return "## Figures\n\n" + "\n".join(f"{_figure(name)}\n{caption(name)}\n" for name in names if name != FIRST)


def _figure(name: str) -> str:
    return f"![{name}](figures/{name}.png)\n"
