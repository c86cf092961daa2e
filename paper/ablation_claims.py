"""Claims about learned margins, the comparison horizon T_C, HPI's learning rate, and the length of episodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import eta_search
import numpy as np
from comparison_horizon import SHOWN
from evidence import NOT_RUN, Evidence, earned_a_step, shown
from judging import NOTHING, Claim, Finding, all_of, between, count, decided, every_task_is, short, still_open
from lemma_claims import LEMMAS_COMMAND, averaging_misjudges
from readings import LIMITS
from selections import ETAS, HORIZONS, LEARNED_ON, LEARNERS, NAMES, NT, PAPER_LEARNED
from sppo_claims import gap_claims, suite_claims

from mdcontest.report import statistics as st
from mdcontest.report.statistics import HIGHER, LOWER, MIN_SEEDS
from mdcontest.report.study import Scores

LEARNED_COMMAND = "python paper/learned_margins.py"
HORIZON_COMMAND = f"python paper/comparison_horizon.py --tasks {','.join(SHOWN)} --seeds 0-4"
ETA_COMMAND = "python paper/eta_search.py"
READINGS_COMMAND = "python paper/readings.py"
TUNED_ON = eta_search.FULL.tasks
CHOSEN_ETA = 1.5


# --- learned margins --------------------------------------------------------------------------------------


def gains_persist(evidence: Evidence, algorithm: str) -> Finding:
    """Strictly higher with learned margins wherever it is with the tasks' own, of those that are run with both."""
    own = {task: "nontransitive" if task in NT else "suite" for task in LEARNED_ON}
    ahead = [task for task, study in own.items() if evidence.verdict(study, task, algorithm) == HIGHER]
    found = every_task_is(evidence.verdicts("learned margins", algorithm, ahead)) if ahead else NOTHING
    said = f"on tasks where it is with the task's own margin: {found.numbers}"
    return found if found.numbers.startswith(NOT_RUN) else Finding(said, found.verdict)


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
    return Finding(f"T_C = 1 is HPI-Clip, the same run; {said}", decided(all_of(good)))


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
    """Final returns averaged over the three tasks by seed: on a scale from worst to best η of a task, and plainly."""
    scores = {eta: _averaged(evidence, eta) for eta in ETAS}
    if any(len(found) == 0 for found in scores.values()):
        missing = [short(t) for t in TUNED_ON if any(_with_eta(evidence, t, eta) is None for eta in ETAS)]
        return Finding(f"not all values were run on {', '.join(missing)}", decided(None))
    said, good = [], []
    for kind, words in enumerate(("between a task's worst η (0) and its best (1)", "as they are")):
        intervals = {eta: st.student_interval([seed[kind] for seed in found]) for eta, found in scores.items()}
        verdicts = {st.verdict(intervals[CHOSEN_ETA], one) for eta, one in intervals.items() if eta != CHOSEN_ETA}
        good.append(True if verdicts == {HIGHER} else False if LOWER in verdicts else None)
        said.append(f"{words}: " + ", ".join(f"η = {eta:g}: {shown(one)}" for eta, one in intervals.items()))
    return Finding(f"final returns averaged over the tasks, {'; '.join(said)}", decided(all_of(good)))


def _with_eta(evidence: Evidence, task: str, eta: float) -> Scores | None:
    return evidence.with_setting("learning rate", task, "eta", eta)


def _averaged(evidence: Evidence, eta: float) -> list[tuple[float, float]]:
    """Two means a seed that was run on all three tasks, scaled and plain; none where a value is missing."""
    by_task = []
    for task in TUNED_ON:
        found = {value: _with_eta(evidence, task, value) for value in ETAS}
        known = [one.final.mean for one in found.values() if one is not None]
        if (mine := found[eta]) is None or len(known) < len(ETAS):
            return []
        low, high = min(known), max(known)
        spread = high - low or 1.0
        seeds = (run.seed for run in mine.runs)
        by_task.append({seed: ((final - low) / spread, final) for seed, final in zip(seeds, mine.finals, strict=True)})
    common = set.intersection(*map(set, by_task))
    means = (np.mean([scores[seed] for scores in by_task], axis=0) for seed in sorted(common))
    return [(float(scaled), float(plain)) for scaled, plain in means]


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


def _named(tasks: Iterable[str]) -> str:
    return ", ".join(map(short, tasks))


ABOUT_HORIZONS = {
    "T_C = 1 is HPI-Clip, and T_C as long as the task is SPPO": ends_are_the_algorithms,
    "A T_C in between interpolates between the two": between_the_ends,
    "On most tasks a longer comparison horizon is worse, from end to end": longer_is_worse,
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
        "As it averages over a trajectory, SPPO may not evaluate policies correctly",
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
]
