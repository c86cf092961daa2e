"""Every claim of the paper's sections 6 to 8 and of its appendix A, and how the recorded results judge it.

The sentences are ours, about what the paper says; the numbers and verdicts come from the tables in results/.
"""

from __future__ import annotations

import itertools

import behaviour
import numpy as np
from ablation_claims import ABLATIONS
from evidence import BASELINE, NOT_RUN, PAPER_SEEDS, SETTLED, Evidence, number, shown
from finite_claims import FINITE
from judging import NOTHING, Claim, Finding, decided, more_often_higher, short
from lemma_claims import LEMMAS, MARGINS
from selections import LEARNERS, NAMES, PAPER
from settings_claims import SETTINGS
from sppo_claims import (
    NT_COMMAND,
    SUITE_COMMAND,
    ahead_on_the_whole,
    end_claims,
    gap_claims,
    rarely_behind,
    suite_claims,
)

from mdcontest.report import statistics as st
from mdcontest.report.statistics import HIGHER, LOWER, OVERLAPS
from mdcontest.tasks.suite import SUITE

ON_ALL = {
    "On 12 of the 13 tasks the interval of {}'s area exceeds or overlaps SPPO's": rarely_behind,
    "{} needs clearly fewer samples than SPPO, all thirteen taken together (our test: strictly higher on more of them "
    "than strictly lower, p ≤ 0.05 by a sign test)": ahead_on_the_whole,
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
        if evidence.verdict("suite", task, a, b) == HIGHER and _a_step(evidence, task, a, b) == LOWER
    ]
    said = "the first named is strictly higher by return, and strictly lower by reward a step: "
    said += "; ".join(turned) or "nowhere"
    return Finding(f"{said}, of {len(known)} tasks with all algorithms", decided(False if turned else None))


def _a_step(evidence: Evidence, task: str, a: str, b: str) -> str:
    return st.verdict(*(evidence.reward_a_step("suite", task, name) for name in (a, b)))


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
        mine, other = (evidence.reward_a_step("suite", task, name) for name in (algorithm, BASELINE))
        verdicts[task] = st.verdict(mine, other) if mine and other else NOT_RUN
        if verdicts[task] == OVERLAPS and mine and other and min(mine.n, other.n) >= PAPER_SEEDS:
            verdicts[task] = SETTLED
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
        f"Horizons of the suite's tasks are long (our test: {HORIZON // 2} steps or more an episode, for all)",
        long_episodes,
        SUITE_COMMAND,
    ),
]


# --- nontransitive tasks ----------------------------------------------------------------------------------


def seconds_of_runs(evidence: Evidence) -> dict[str, float]:
    """Median seconds by task on the machine that made most tasks.

    Of the paper's own algorithms only: not every task has runs of the others there.
    """
    runs = [run for run in evidence.store("suite").runs if run.algorithm in LEARNERS]
    if not runs:
        return {}
    machines = [run.versions.get("processor") for run in runs]
    made = {m: {run.task for run, its in zip(runs, machines, strict=True) if its == m} for m in set(machines)}
    usual = max(made, key=lambda machine: (len(made[machine]), machines.count(machine)))
    return {
        task: float(np.median(found))
        for task in SUITE
        if (found := [r.seconds for r, m in zip(runs, machines, strict=True) if m == usual and r.task == task])
    }


def relatively_fast(evidence: Evidence, task: str) -> Finding:
    """Faster than most."""
    seconds = seconds_of_runs(evidence)
    if not seconds:
        return NOTHING
    middle = float(np.median(list(seconds.values())))
    listed = sorted(seconds, key=seconds.__getitem__)
    said = ", ".join(f"{short(other)} {number(seconds[other])}" for other in listed)
    holds = seconds[task] < middle if len(seconds) == len(SUITE) else None
    return Finding(f"seconds of one core for a run: {said} (fast: faster than most)", decided(holds))


NONTRANSITIVE = [
    *MARGINS,
    *(
        Claim(
            "ap:mujoco-nt",
            f"{short(task)} is relatively fast to run",
            lambda e, task=task: relatively_fast(e, task),
            SUITE_COMMAND,
        )
        for task in ("Reacher-v5", "Walker2d-v5")
    ),
    Claim(
        "ap:mujoco-nt",
        "Estimates of the gap are more reliable on Reacher than on Ant with such a margin",
        lambda evidence: Finding("not run: this library has no Ant with a nontransitive margin", decided(None)),
        NT_COMMAND,
    ),
    *gap_claims("nontransitive", "with the given margin", "ap:mujoco-nt", NT_COMMAND),
    *end_claims("ap:mujoco-nt", NT_COMMAND),
    Claim(
        "fig:reacher-trajectories",
        "On Reacher-NT the fingertip comes to draw a large circle",
        behaviour.circle,
        NT_COMMAND,
    ),
    Claim(
        "fig:walker2d-trajectories",
        "On Walker2d-NT policies come to spend their time more evenly over the classes",
        behaviour.more_even,
        NT_COMMAND,
    ),
    Claim(
        "ap:mujoco-nt",
        "The estimated gaps fall as the behaviour approaches the solution's",
        behaviour.trends,
        NT_COMMAND,
    ),
]

CLAIMS: dict[str, list[Claim]] = {
    "Exact and approximate solution methods (sections 6 and 7)": [*FINITE, *LEMMAS],
    "Experiments (section 8)": EXPERIMENTS,
    "The Mujoco-v5 suite (appendix A)": [
        *suite_claims("ap:mujoco-suite", "suite", PAPER, "over training", SUITE_COMMAND),
        *(
            Claim(
                "ap:mujoco-suite",
                f"(A second reading) By reward a step, as the gap is defined, {NAMES[name]} learns more efficiently "
                "than SPPO on the suite (our test: the same)",
                lambda e, name=name: ahead_a_step(e, name),
                SUITE_COMMAND,
                by_us=True,
            )
            for name in LEARNERS
        ),
    ],
    "Nontransitive tasks (section 8 and appendix A)": NONTRANSITIVE,
    "Ablations (appendix A), and the search for η": [*ABLATIONS, *SETTINGS],
}
