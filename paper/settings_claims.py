"""Claims about settings: HPI's learning rate, how long episodes are, and outcomes of the first policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import eta_search
import numpy as np
from evidence import Evidence, earned_a_step, earned_at_the_end, shown
from judging import NOTHING, SECOND, Claim, Finding, all_of, decided, named, short
from mujoco_suite import suite_command
from readings import FIRST, LIMITS
from selections import ETAS, NAMES

from mdcontest.experiments.stored import Run
from mdcontest.report import statistics as st
from mdcontest.report.statistics import HIGHER, LOWER, MIN_SEEDS
from mdcontest.report.study import Scores

ETA_COMMAND = f"python paper/eta_search.py --seeds 0-2; {suite_command(eta_search.FULL.tasks, ['hpi'])}"
READINGS_COMMAND = "python paper/readings.py"
TUNED_ON = eta_search.FULL.tasks
CHOSEN_ETA = 1.5
FIRST_OR_NOT: dict[str, dict[str, Any]] = {"without them": dict(FIRST.settings), "with them": {}}
"""Changes to the preset, which has samples of the first policy among the opponents."""
COLLAPSED = 0.5
"""A run that ends below this share of its own best tenth has collapsed."""


# --- the learning rate ------------------------------------------------------------------------------------


def eta_is_best(evidence: Evidence) -> Finding:
    """By reward a step at the end of training, as in the paper, averaged over the three tasks by seed.

    Plainly, and on a scale from a task's worst η to its best; beside it which η returns would choose.
    """
    if missing := [short(t) for t in TUNED_ON if any(_with_eta(evidence, t, eta) is None for eta in ETAS)]:
        return Finding(f"not all values were run on {', '.join(missing)}", decided(None))
    said, good = [], []
    for scaled, words in ((False, "as it is"), (True, "between a task's worst η (0) and its best (1)")):
        intervals = _averaged(evidence, earned_at_the_end, scaled)
        verdicts = {st.verdict(intervals[CHOSEN_ETA], one) for eta, one in intervals.items() if eta != CHOSEN_ETA}
        good.append(True if verdicts == {HIGHER} else False if LOWER in verdicts else None)
        said.append(f"{words}: " + ", ".join(f"η = {eta:g}: {shown(one)}" for eta, one in intervals.items()))
    by_return = [_averaged(evidence, lambda one: one.finals, scaled) for scaled in (False, True)]
    best = [f"{max(found, key=lambda eta: found[eta].mean):g}" for found in by_return]
    return Finding(
        f"reward a step in the last tenth of training, averaged over the tasks, {'; '.join(said)}. Returns instead "
        f"have their highest mean at η = {best[0]} as they are, at {best[1]} between worst and best",
        decided(all_of(good)),
    )


def _with_eta(evidence: Evidence, task: str, eta: float) -> Scores | None:
    return evidence.with_setting("learning rate", task, "eta", eta)


def _averaged(evidence: Evidence, score: Callable[[Scores], Sequence[float]], scaled: bool) -> dict[float, st.Interval]:
    """The mean over the tasks of a score, by η, over the seeds that were run on all of them."""
    by_task = [{eta: _by_seed(_with_eta(evidence, task, eta), score) for eta in ETAS} for task in TUNED_ON]
    if scaled:
        by_task = [_between_worst_and_best(found) for found in by_task]
    means = {}
    for eta in ETAS:
        seeds = set.intersection(*(set(found[eta]) for found in by_task))
        found = [float(np.mean([scores[eta][seed] for scores in by_task])) for seed in sorted(seeds)]
        interval = st.student_interval(found)
        means[eta] = replace(interval, mean=round(interval.mean, 12))  # the worst on a scale from worst to best is 0
    return means


def _by_seed(found: Scores | None, score: Callable[[Scores], Sequence[float]]) -> dict[int, float]:
    return dict(zip((run.seed for run in found.runs), score(found), strict=True)) if found else {}


def _between_worst_and_best(found: Mapping[float, Mapping[int, float]]) -> dict[float, dict[int, float]]:
    """Scores of a task, such that means over seeds go from 0 to 1."""
    means = [float(np.mean(list(seeds.values()))) for seeds in found.values()]
    low, spread = min(means), max(means) - min(means) or 1.0
    return {eta: {seed: (value - low) / spread for seed, value in seeds.items()} for eta, seeds in found.items()}


# --- the length of episodes ------------------------------------------------------------------------------


def length_matters(evidence: Evidence) -> Finding:
    """How much less SPPO earns a step than HPI-Clip: with episodes of 2048 steps, and at the registered limits."""
    said, good = [], []
    for task in LIMITS.tasks:
        short_of = [_shortfall(evidence, task, changed) for changed in ({}, LIMITS.settings)]
        if short_of[0] is None or short_of[1] is None:
            good.append(None)
            continue
        said.append(f"{short(task)}: {shown(short_of[0])} at 2048, {shown(short_of[1])} at the registered limit")
        good.append({LOWER: True, HIGHER: False}.get(st.verdict(short_of[1], short_of[0])))
    return Finding("; ".join(said), decided(all_of(good))) if said else NOTHING


def _shortfall(evidence: Evidence, task: str, changed: Mapping[str, Any]) -> st.Interval | None:
    """HPI-Clip's reward a step less SPPO's, seed by seed."""
    both = [evidence.reading(task, name, changed) for name in LIMITS.algorithms]
    rates = [{run.seed: earned_a_step(run) for run in one.runs} if one else {} for one in both]
    common = sorted(rates[0].keys() & rates[1].keys())
    return st.student_interval([rates[0][seed] - rates[1][seed] for seed in common]) if common else None


# --- outcomes of the first policy ---------------------------------------------------------------------------


def collapses(evidence: Evidence) -> Finding:
    """Collapses come late, so areas hardly show them: how a run ends is held against its own best tenth.

    The paper says it of all algorithms, so one of which no run collapses, of as many as an interval takes, is enough.
    """
    (task,), said, good = FIRST.tasks, [], []
    for name in FIRST.algorithms:
        known = {words: evidence.reading(task, name, changed) for words, changed in FIRST_OR_NOT.items()}
        if None in known.values():
            good.append(None)
            continue
        runs = {words: scores.runs for words, scores in known.items() if scores}
        said.append(f"{NAMES[name]} " + ", ".join(f"{_collapsed(found)} {words}" for words, found in runs.items()))
        good.append(_only_without(*(list(map(has_collapsed, found)) for found in runs.values())))
    if not said:
        return NOTHING
    measure = f"runs whose last tenth earns less than {COLLAPSED:g} of their best, and what last tenths earn"
    return Finding(f"on {short(task)}, {measure}: {'; '.join(said)}", decided(all_of(good)))


def _only_without(without: Sequence[bool], with_them: Sequence[bool]) -> bool | None:
    """Most collapse without, and none with them; some without is no answer, and few seeds are none."""
    if min(len(without), len(with_them)) < MIN_SEEDS:
        return None
    if not any(without) or any(with_them):
        return False
    return True if sum(without) > len(without) / 2 else None


def has_collapsed(run: Run) -> bool:
    """Whether it ends far below what it once did."""
    earned = tenths(run)
    return earned[-1] < COLLAPSED * max(earned)


def tenths(run: Run) -> list[float]:
    """Mean returns of the episodes that ended in each tenth of training, where some did."""
    steps, returns = (np.asarray(run.episodes[name], float) for name in ("step", "return"))
    places = np.clip(np.ceil(10 * steps / run.target).astype(int) - 1, 0, 9)
    return [float(np.mean(returns[places == place])) for place in np.unique(places)]


def _collapsed(runs: Sequence[Run]) -> str:
    ends = st.student_interval([tenths(run)[-1] for run in runs])
    return f"{sum(map(has_collapsed, runs))} of {len(runs)} ({shown(ends)})"


SETTINGS = [
    Claim(
        "sec:experiments",
        f"{SECOND} It is the length of problems that makes SPPO inefficient (our test: on {named(LIMITS.tasks)} what "
        "it earns less a step than HPI-Clip is strictly less at registered limits than with episodes of 2048 steps)",
        length_matters,
        f"{READINGS_COMMAND}; {suite_command(LIMITS.tasks, LIMITS.algorithms)}",
        by_us=True,
    ),
    Claim(
        "ap:algorithm-details",
        "Of η in {0.75, 1.5, 3, 6, 12}, 1.5 does best on average over Ant, HalfCheetah and InvertedDoublePendulum",
        eta_is_best,
        ETA_COMMAND,
    ),
    Claim(
        "ap:algorithm-details",
        "Without samples of the first policy among the opponents all algorithms collapse on easy tasks such as "
        "InvertedPendulum, and with them they do not",
        collapses,
        f"{READINGS_COMMAND}; {suite_command(FIRST.tasks, FIRST.algorithms)}",
    ),
]
