"""Claims about learned margins, the comparison horizon T_C, HPI's learning rate, and the length of episodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import eta_search
import numpy as np
from comparison_horizon import SHOWN
from evidence import NOT_RUN, Evidence, earned_a_step, earned_at_the_end, shown
from judging import (
    HOLDS,
    NOTHING,
    UNKNOWN,
    Claim,
    Finding,
    all_of,
    between,
    count,
    decided,
    every_task_is,
    short,
    still_open,
)
from lemma_claims import LEMMAS_COMMAND, averaging_misjudges
from readings import FIRST, LIMITS
from selections import ETAS, HORIZONS, LEARNED_ON, LEARNERS, NAMES, NT, PAPER, PAPER_LEARNED, PAPER_NT
from sppo_claims import gap_claims, suite_claims

from mdcontest.report import statistics as st
from mdcontest.report.statistics import HIGHER, LOWER, MIN_SEEDS, OVERLAPS
from mdcontest.report.study import Scores

LEARNED_COMMAND = (
    f"python paper/learned_margins.py --tasks {','.join(LEARNED_ON)} --algos hpi-clip,hpi,sppo --seeds 0-4"
)
HORIZON_COMMAND = f"python paper/comparison_horizon.py --tasks {','.join(SHOWN)} --seeds 0-4"
ETA_COMMAND = "python paper/eta_search.py --seeds 0-2; python paper/mujoco_suite.py --algos hpi --seeds 0-9"
READINGS_COMMAND = "python paper/readings.py"
TUNED_ON = eta_search.FULL.tasks
CHOSEN_ETA = 1.5
FIRST_OR_NOT: tuple[dict[str, Any], ...] = ({}, dict(FIRST.settings))
"""The preset, and the same without samples of the first policy."""


# --- learned margins --------------------------------------------------------------------------------------


def gains_persist(evidence: Evidence, algorithm: str) -> Finding:
    """Strictly higher with learned margins wherever it is with the tasks' own, of those that are run with both.

    Where the paper has it ahead on a task's own margin and we cannot tell, nobody knows whether there is a gain.
    """
    own = {task: evidence.verdict("nontransitive" if task in NT else "suite", task, algorithm) for task in LEARNED_ON}
    ahead = [task for task, verdict in own.items() if verdict == HIGHER]
    claimed = PAPER[algorithm] | PAPER_NT[algorithm]
    unsure = [task for task, verdict in own.items() if verdict == OVERLAPS and claimed[task] == HIGHER]
    found = every_task_is(evidence.verdicts("learned margins", algorithm, ahead)) if ahead else NOTHING
    if found.numbers.startswith(NOT_RUN):
        return found
    said = f"on tasks where it is with the task's own margin: {found.numbers}"
    said += f"; with its own margin it overlaps on {_named(unsure)}" if unsure else ""
    return Finding(said, UNKNOWN if unsure and found.verdict == HOLDS else found.verdict)


# --- the comparison horizon -------------------------------------------------------------------------------


def _at_horizon(evidence: Evidence, task: str, horizon: int) -> Scores | None:
    return evidence.with_setting("comparison horizon", task, "comparison_horizon", horizon)


def longer_is_worse(evidence: Evidence) -> Finding:
    """T_C = 2048 against T_C = 1 on most of the tasks, and where something in between is better than 1."""
    verdicts, said = {}, []
    for task in SHOWN:
        found = {horizon: one.area for horizon in HORIZONS if (one := _at_horizon(evidence, task, horizon))}
        if not {1, 2048} <= set(found):
            verdicts[task] = NOT_RUN
            continue
        verdicts[task] = st.verdict(found[2048], found[1])
        better = [f"{h}" for h, area in found.items() if st.verdict(area, found[1]) == HIGHER]
        beyond = f", strictly higher than at 1 at {', '.join(better)}" if better else ""
        said.append(f"{short(task)} {shown(found[1])} at 1, {shown(found[2048])} at 2048{beyond}")
    counts = count(verdicts)
    most = between(counts[LOWER], len(SHOWN) - counts[HIGHER], range(len(SHOWN) // 2 + 1, len(SHOWN) + 1))
    return Finding("; ".join(said) + still_open(verdicts), decided(most)) if said else NOTHING


def every_longer_is_worse(evidence: Evidence) -> Finding:
    """Means that fall from each T_C to the next, on most of the tasks; a longer one strictly higher settles a task."""
    said, falls = [], []
    for task in SHOWN:
        areas = [one.area if (one := _at_horizon(evidence, task, horizon)) else None for horizon in HORIZONS]
        pairs = [(a, b) for a, b in itertools.combinations(areas, 2) if a is not None and b is not None]
        if not pairs:
            falls.append(None)
            continue
        lower = sum(a is not None and b is not None and b.mean < a.mean for a, b in itertools.pairwise(areas))
        rises = sum(st.verdict(b, a) == HIGHER for a, b in pairs)
        said.append(
            f"{short(task)}: the mean is lower at {lower} of {len(areas) - 1} next longer ones, and "
            f"{rises} of {len(pairs)} pairs are strictly higher at the longer one"
        )
        sure = lower == len(areas) - 1 and min(area.n for area in areas if area) >= MIN_SEEDS
        falls.append(False if rises else True if sure else None)
    least, open_ones = falls.count(True), falls.count(None)
    most = between(least, least + open_ones, range(len(SHOWN) // 2 + 1, len(SHOWN) + 1))
    return Finding("; ".join(said), decided(most)) if said else NOTHING


def ends_are_the_algorithms(evidence: Evidence) -> Finding:
    """The longest horizon against SPPO itself, episode for episode; the shortest is HPI-Clip, the very same run."""
    same, good = 0, []
    for task in SHOWN:
        whole, long_one = evidence.scores("suite", task, "sppo"), _at_horizon(evidence, task, 2048)
        pairs = [
            one.fingerprint == other.fingerprint
            for one in (whole.runs if whole else ())
            for other in (long_one.runs if long_one else ())
            if (one.seed, one.versions) == (other.seed, other.versions)  # another machine rounds otherwise
        ]
        same, good = same + sum(pairs), [*good, all(pairs) if pairs else None]
    if good == [None] * len(SHOWN):
        return NOTHING
    said = f"T_C = 2048 and SPPO, the same seed on the same kind of machine: {same} pairs of runs the same, bit for bit"
    return Finding(f"T_C = 1 is HPI-Clip by construction; {said}", decided(all_of(good)))


def between_the_ends(evidence: Evidence) -> Finding:
    """Whether areas at intermediate T_C lie between those at the ends; strictly beyond both of them, they do not."""
    said, good = [], []
    for task in SHOWN:
        areas = [one.area if (one := _at_horizon(evidence, task, horizon)) else None for horizon in HORIZONS]
        known = [area for area in areas if area is not None]
        if len(known) < 3 or areas[0] is None or areas[-1] is None:
            good.append(None)
            continue
        ends, inner = (areas[0], areas[-1]), [area for area in areas[1:-1] if area is not None]
        low, high = sorted(end.mean for end in ends)
        beyond = [a for a in inner for v in (HIGHER, LOWER) if all(st.verdict(a, end) == v for end in ends)]
        inside = sum(low <= area.mean <= high for area in inner)
        said.append(f"{short(task)}: {inside} of {len(inner)} means between, {len(beyond)} strictly beyond both")
        sure = len(known) == len(areas) and min(area.n for area in known) >= MIN_SEEDS
        good.append(False if beyond else True if sure and inside == len(inner) else None)
    return Finding("; ".join(said), decided(all_of(good))) if said else NOTHING


# --- settings ---------------------------------------------------------------------------------------------


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


def collapses(evidence: Evidence) -> Finding:
    """The paper says it of all algorithms, so one that does better without samples of the first policy is enough."""
    (task,), said, good = FIRST.tasks, [], []
    for name in FIRST.algorithms:
        seen, unseen = (one.area if one else None for one in (evidence.reading(task, name, c) for c in FIRST_OR_NOT))
        if seen is None or unseen is None:
            good.append(None)
            continue
        said.append(f"{NAMES[name]} {shown(unseen)} without them, {shown(seen)} with them")
        good.append({HIGHER: False, LOWER: True}.get(st.verdict(unseen, seen)))
    return Finding(f"on {short(task)}: {'; '.join(said)}", decided(all_of(good))) if said else NOTHING


def _named(tasks: Iterable[str]) -> str:
    return ", ".join(map(short, tasks))


ABOUT_HORIZONS = {
    "T_C = 1 is HPI-Clip, and T_C as long as the task is SPPO": ends_are_the_algorithms,
    "A T_C in between interpolates between the two (our test: none strictly beyond both)": between_the_ends,
    "On most tasks a longer comparison horizon is worse, from end to end": longer_is_worse,
    "On most tasks every longer comparison horizon is worse than the one before": every_longer_is_worse,
}
ABLATIONS = [
    *suite_claims(
        "ap:learned-preference-model", "learned margins", PAPER_LEARNED, "with learned margins", LEARNED_COMMAND
    ),
    *gap_claims("learned margins", "with learned margins", "fig:mujoco-nt-offline", LEARNED_COMMAND),
    *(
        Claim(
            "ap:learned-preference-model",
            f"{NAMES[name]}'s gains over SPPO persist when margins are learned (on {_named(LEARNED_ON)})",
            lambda e, name=name: gains_persist(e, name),
            LEARNED_COMMAND,
        )
        for name in LEARNERS
    ),
    *(
        Claim("ap:sppo", f"{text} (on {_named(SHOWN)})", judge, HORIZON_COMMAND)
        for text, judge in ABOUT_HORIZONS.items()
    ),
    Claim(
        "ap:sppo",
        "Averaging over a trajectory can make SPPO misjudge a policy",
        averaging_misjudges,
        LEMMAS_COMMAND,
    ),
    Claim(
        "sec:experiments",
        f"It is the length of problems that makes SPPO inefficient (our test: on {_named(LIMITS.tasks)} what it earns "
        "less a step than HPI-Clip is strictly less at the registered limits than with episodes of 2048 steps)",
        length_matters,
        READINGS_COMMAND,
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
        READINGS_COMMAND,
    ),
]
