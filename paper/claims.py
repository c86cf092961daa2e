"""Every claim of the paper's sections 6 to 8 and of its appendix A, and how the recorded results judge it.

The sentences are ours, about what the paper says; the numbers and verdicts come from the tables in results/.
"""

from __future__ import annotations

import itertools

import behaviour
import numpy as np
from ablation_claims import ABLATIONS
from evidence import Evidence, number, shown
from finite_claims import FINITE
from judging import NOTHING, Claim, Finding, decided, short
from lemma_claims import LEMMAS, MARGINS
from selections import LEARNERS, NAMES, PAPER
from sppo_claims import ahead_on_the_whole, end_claims, gap_claims, rarely_behind, suite_claims

from mdcontest.report import statistics as st
from mdcontest.report.statistics import HIGHER, LOWER
from mdcontest.tasks.suite import SUITE

SUITE_COMMAND = "python paper/mujoco_suite.py --seeds 0-4"
NT_COMMAND = "python paper/mujoco_nt.py --seeds 0-4"

ON_ALL = {
    "On 12 of the 13 tasks the interval of {}'s area exceeds or overlaps SPPO's": rarely_behind,
    "{} is significantly more learning-efficient than SPPO on these tasks (here: on more of them strictly higher than "
    "strictly lower, whatever overlaps turn out to be)": ahead_on_the_whole,
}
"""What is said of both algorithms on all tasks together."""
EXPERIMENTS = [
    Claim(
        "sec:experiments",
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


EXPERIMENTS.append(
    Claim(
        "sec:experiments",
        "On the suite the optimality gap is the return of an episode, up to constants",
        returns_are_gaps,
        SUITE_COMMAND,
    )
)


# --- nontransitive tasks ----------------------------------------------------------------------------------


def relatively_fast(evidence: Evidence) -> Finding:
    """Median seconds of a run in the paper's settings, on the machine that made most tasks, against the median task."""
    runs = evidence.store("suite").runs
    if not runs:
        return NOTHING
    machines = [run.versions.get("processor") for run in runs]
    made = {m: {run.task for run, its in zip(runs, machines, strict=True) if its == m} for m in set(machines)}
    usual = max(made, key=lambda machine: (len(made[machine]), machines.count(machine)))
    seconds = {
        task: float(np.median(found))
        for task in SUITE
        if (found := [r.seconds for r, m in zip(runs, machines, strict=True) if m == usual and r.task == task])
    }
    middle = float(np.median(list(seconds.values())))
    listed = sorted(seconds, key=seconds.__getitem__)
    said = ", ".join(f"{short(task)} {number(seconds[task])}" for task in listed)
    chosen = [seconds.get(task) for task in ("Reacher-v5", "Walker2d-v5")]
    holds = None if None in chosen or len(seconds) < len(SUITE) else all(one < middle for one in chosen if one)
    return Finding(f"seconds of one core for a run: {said} (fast: faster than most)", decided(holds))


NONTRANSITIVE = [
    *MARGINS,
    Claim("ap:mujoco-nt", "Reacher and Walker2d are relatively fast to run", relatively_fast, SUITE_COMMAND),
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
    "The Mujoco-v5 suite (appendix A)": suite_claims("ap:mujoco-suite", "suite", PAPER, "over training", SUITE_COMMAND),
    "Nontransitive tasks (section 8 and appendix A)": NONTRANSITIVE,
    "Ablations (appendix A), and the search for η": ABLATIONS,
}
