"""Claims about learned margins and the comparison horizon T_C."""

from __future__ import annotations

import itertools

from comparison_horizon import SHOWN
from evidence import NOT_RUN, Evidence, shown
from judging import (
    HOLDS,
    NOTHING,
    SECOND,
    UNKNOWN,
    Claim,
    Finding,
    all_of,
    between,
    count,
    decided,
    every_task_is,
    named,
    short,
    still_open,
)
from lemma_claims import LEMMAS_COMMAND, averaging_misjudges
from mujoco_suite import suite_command
from selections import HORIZONS, LEARNED_ON, LEARNERS, NAMES, NT, PAPER, PAPER_LEARNED, PAPER_NT
from sppo_claims import NT_COMMAND, SUITE_COMMAND, gap_claims, suite_claims

from mdcontest.report import statistics as st
from mdcontest.report.statistics import HIGHER, LOWER, MIN_SEEDS, OVERLAPS
from mdcontest.report.study import Scores
from mdcontest.tasks.suite import SUITE

LEARNED_COMMAND = (
    f"python paper/learned_margins.py --tasks {','.join(LEARNED_ON)} --algos hpi-clip,hpi,sppo --seeds 0-4"
)
HORIZON_COMMAND = (
    f"python paper/comparison_horizon.py --tasks {','.join(SHOWN)} --seeds 0-4; "
    f"{suite_command(SHOWN, ['hpi-clip', 'sppo'])}"
)
"""T_C = 1 is part of the suite, too, and has more seeds there."""


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
    said += f"; with its own margin it overlaps on {named(unsure)}" if unsure else ""
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


def sppo_is_worse(evidence: Evidence) -> Finding:
    """The ends are SPPO and HPI-Clip, which were run on the whole suite."""
    verdicts = {task: evidence.verdict("suite", task, "sppo", "hpi-clip") for task in SUITE}
    counts = count(verdicts)
    said = ", ".join(f"{word} on {counts[word]}" for word in (LOWER, OVERLAPS, HIGHER))
    most = between(counts[LOWER], len(SUITE) - counts[HIGHER], range(len(SUITE) // 2 + 1, len(SUITE) + 1))
    return Finding(f"SPPO's area is {said} of {len(SUITE)}{still_open(verdicts)}", decided(most))


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


ABOUT_HORIZONS = {
    "T_C = 1 is HPI-Clip, and T_C as long as the task is SPPO": ends_are_the_algorithms,
    "A T_C in between interpolates between the two (our test: none strictly beyond both)": between_the_ends,
    "In most environments a longer comparison horizon is worse (our test: every one than the one before, on most "
    "tasks)": every_longer_is_worse,
    f"{SECOND} On most tasks the longest comparison horizon is worse than the shortest": longer_is_worse,
}
ABLATIONS = [
    *suite_claims(
        "ap:learned-preference-model", "learned margins", PAPER_LEARNED, "with learned margins", LEARNED_COMMAND
    ),
    *gap_claims("learned margins", "with learned margins", "fig:mujoco-nt-offline", LEARNED_COMMAND),
    *(
        Claim(
            "ap:learned-preference-model",
            f"{NAMES[name]}'s gains over SPPO persist when margins are learned (on {named(LEARNED_ON)})",
            lambda e, name=name: gains_persist(e, name),
            f"{LEARNED_COMMAND}; {SUITE_COMMAND}; {NT_COMMAND}",
        )
        for name in LEARNERS
    ),
    Claim(
        "ap:sppo",
        "On most tasks SPPO, with the longest comparison horizon, is worse than HPI-Clip, with the shortest (all 11)",
        sppo_is_worse,
        SUITE_COMMAND,
    ),
    *(
        Claim("ap:sppo", f"{text} (on {named(SHOWN)})", judge, HORIZON_COMMAND, by_us=text.startswith(SECOND))
        for text, judge in ABOUT_HORIZONS.items()
    ),
    Claim(
        "ap:sppo",
        "Averaging over a trajectory can make SPPO misjudge a policy",
        averaging_misjudges,
        LEMMAS_COMMAND,
    ),
]
