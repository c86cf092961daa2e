"""Every claim of the paper's sections 6 to 8 and of its appendix A, and how the recorded results judge it.

The sentences are ours, about what the paper says; the numbers and verdicts come from the tables in results/.
"""

from __future__ import annotations

import behaviour
import numpy as np
from ablation_claims import ABLATIONS
from evidence import Evidence, number
from experiment_claims import EXPERIMENTS, ahead_a_step
from finite_claims import FINITE
from judging import NOTHING, Claim, Finding, decided, short
from lemma_claims import LEMMAS, MARGINS
from selections import LEARNERS, NAMES, PAPER
from settings_claims import SETTINGS
from sppo_claims import NT_COMMAND, SUITE_COMMAND, end_claims, gap_claims, suite_claims

from mdcontest.tasks.suite import SUITE

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
    return Finding(f"seconds of one core for a run: {said} (median runs; fast: faster than most)", decided(holds))


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
        "As gaps shrink on Reacher-NT the fingertip comes to make a large circle (our test: by the end of training)",
        behaviour.circle,
        NT_COMMAND,
    ),
    Claim(
        "fig:walker2d-trajectories",
        "As gaps shrink on Walker2d-NT policies spend their time more evenly over the classes (our test: the same)",
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
