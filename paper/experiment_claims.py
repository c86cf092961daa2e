"""Claims of section 8 on all tasks together, and what it says of returns, gaps and the length of problems."""

from __future__ import annotations

import itertools

import numpy as np
from evidence import PAPER_SEEDS, SETTLED, Evidence, shown
from judging import NOTHING, Claim, Finding, decided, more_often_higher, short
from selections import LEARNERS, NAMES, NT
from sppo_claims import NT_COMMAND, SUITE_COMMAND, ahead_on_the_whole, rarely_behind

from mdcontest.report.statistics import HIGHER, LOWER, OVERLAPS
from mdcontest.tasks.suite import SUITE

ON_ALL = {
    "On 12 of the 13 tasks the interval of {}'s area exceeds or overlaps SPPO's": rarely_behind,
    "{} is significantly more learning-efficient than SPPO, by the area, on the thirteen tasks (our test: strictly "
    "higher on more of them than strictly lower, p ≤ 0.05 by a sign test)": ahead_on_the_whole,
}
"""What is said of both algorithms on all tasks together."""
EXPERIMENTS = [
    Claim(
        "sec:experiments, fig:experiment-summary",
        text.format(NAMES[name]),
        lambda e, name=name, judge=judge: judge(e, name),
        f"{SUITE_COMMAND}; {NT_COMMAND}",
    )
    for text, judge in ON_ALL.items()
    for name in reversed(LEARNERS)
]


# --- returns and gaps -------------------------------------------------------------------------------------


def returns_are_gaps(evidence: Evidence) -> Finding:
    """Whether two algorithms are in one strict order by return, and in the other by reward a step, as the gap is."""
    known = [task for task in SUITE if all(evidence.scores("suite", task, name) for name in NAMES)]
    turned = [
        f"{short(task)} ({NAMES[a]} {shown(evidence.reward_a_step('suite', task, a))} a step, "
        f"{NAMES[b]} {shown(evidence.reward_a_step('suite', task, b))})"
        for task in known
        for a, b in itertools.permutations(NAMES, 2)
        if evidence.verdict("suite", task, a, b) == HIGHER and evidence.verdict_a_step(task, a, b) == LOWER
    ]
    said = "the first named is strictly higher by return, and strictly lower by reward a step: "
    said += "; ".join(turned) or "nowhere"
    return Finding(f"{said}, of {len(known)} tasks with all algorithms", decided(False if turned else None))


def long_limits(evidence: Evidence) -> Finding:
    """How long an episode may be, by the settings of the runs."""
    runs = [*evidence.store("suite").runs, *evidence.store("nontransitive").runs]
    if not runs:
        return NOTHING
    limits = {run.settings["horizon"] for run in runs}
    tasks, wanted = len({run.task for run in runs} & {*SUITE, *NT}), len(SUITE) + len(NT)
    said = f"the limit is {', '.join(map(str, sorted(limits)))} steps in all runs of {tasks} of {wanted} tasks"
    return Finding(said, decided(limits == {HORIZON} if tasks == wanted or limits != {HORIZON} else None))


def never_ending(evidence: Evidence) -> list[str]:
    """Tasks of the suite on which no recorded episode ended before the limit."""
    shortest: dict[str, int] = {}
    for run in evidence.store("suite").runs:
        shortest[run.task] = min(shortest.get(run.task, HORIZON), *run.episodes["length"])
    return [task for task in SUITE if shortest.get(task) == HORIZON]


def ahead_if_never_ending(evidence: Evidence, algorithm: str) -> Finding:
    """Where problems are as long as they can be."""
    tasks = never_ending(evidence)
    return more_often_higher(evidence.verdicts("suite", algorithm, tasks)) if tasks else NOTHING


def long_episodes(evidence: Evidence) -> Finding:
    """Mean lengths over training, where some algorithm's are less than half of the longest possible."""
    runs = evidence.store("suite").runs
    if not runs:
        return NOTHING
    said, tasks = [], [task for task in SUITE if any(run.task == task for run in runs)]
    for task in tasks:
        lengths = {
            NAMES[name]: float(np.mean([np.mean(r.episodes["length"]) for r in runs if (r.task, r.algorithm) == key]))
            for name in NAMES
            if any((run.task, run.algorithm) == (key := (task, name)) for run in runs)
        }
        if min(lengths.values()) < HORIZON / 2:
            said.append(f"{short(task)} " + ", ".join(f"{name} {length:.0f}" for name, length in lengths.items()))
    listed = f"; {'; '.join(said)}" if said else ""
    numbers = f"mean episodes over training are that long on {len(tasks) - len(said)} of {len(tasks)}{listed}"
    return Finding(numbers, decided(False if said else True if len(tasks) == len(SUITE) else None))


HORIZON = 2048
"""Steps of an episode that nothing ends."""


def ahead_a_step(evidence: Evidence, algorithm: str) -> Finding:
    """By what the gap is, up to constants, where returns are not; few seeds say nothing."""
    verdicts = {}
    for task in SUITE:
        verdict = evidence.verdict_a_step(task, algorithm)
        settled = verdict == OVERLAPS and evidence.seeds("suite", task, algorithm) >= PAPER_SEEDS
        verdicts[task] = SETTLED if settled else verdict
    return more_often_higher(verdicts)


EXPERIMENTS += [
    Claim(
        "sec:experiments",
        "On the suite the optimality gap is the return of an episode, up to constants",
        returns_are_gaps,
        SUITE_COMMAND,
    ),
    Claim(
        "sec:experiments, fig:experiment-summary",
        f"Horizons of the tasks are long: {HORIZON} steps by default, though some tasks can end early",
        long_limits,
        f"{SUITE_COMMAND}; {NT_COMMAND}",
    ),
    Claim(
        "sec:experiments, fig:experiment-summary",
        f"(A second reading) Episodes on the suite are long (our test: {HORIZON // 2} steps or more on average, for "
        "all algorithms)",
        long_episodes,
        SUITE_COMMAND,
        by_us=True,
    ),
    *(
        Claim(
            "sec:experiments",
            f"(A second reading) Where no episode ended early, {NAMES[name]} learns more efficiently than SPPO (our "
            "test: as for all thirteen)",
            lambda e, name=name: ahead_if_never_ending(e, name),
            SUITE_COMMAND,
            by_us=True,
        )
        for name in reversed(LEARNERS)
    ),
]
