"""Every claim of the paper's sections 6 to 8 and of its appendix A, and how the recorded results judge it.

The sentences are ours, about what the paper says; the numbers and verdicts come from the tables in results/.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import behaviour
from evidence import Evidence, number, shown
from finite_claims import FINITE
from judging import Claim, Finding, decided, every_task_is, more_often_higher, rarely_lower, short
from selections import NAMES, NT, PAPER, PAPER_LEARNED, PAPER_NT

from mdcontest.report import statistics as st
from mdcontest.report.statistics import HIGHER, LOWER, OVERLAPS, TOO_FEW
from mdcontest.tasks.suite import SUITE

SUITE_COMMAND = "python paper/mujoco_suite.py"
NT_COMMAND = "python paper/mujoco_nt.py"
LEARNED_COMMAND = "python paper/learned_margins.py"
HORIZON_COMMAND = "python paper/comparison_horizon.py"
ETA_COMMAND = "python paper/eta_search.py"


# --- verdicts against SPPO --------------------------------------------------------------------------------


def _on(
    evidence: Evidence, study: str, algorithm: str, paper: Mapping[str, str], wanted: str | None = None
) -> dict[str, str]:
    """Our verdicts on the tasks on which the paper has the wanted one; None: on all."""
    return evidence.verdicts(study, algorithm, [task for task, v in paper.items() if wanted in (None, v)])


def _all_thirteen(algorithm: str, evidence: Evidence) -> dict[str, str]:
    return _on(evidence, "suite", algorithm, PAPER[algorithm]) | _on(
        evidence, "nontransitive", algorithm, PAPER_NT[algorithm]
    )


def _against_sppo(
    where: str, study: str, paper: Mapping[str, Mapping[str, str]], what: str, command: str
) -> list[Claim]:
    """The claims that an appendix makes about areas of returns: where higher, where lower, and on the whole."""
    found = []
    for algorithm, verdicts in paper.items():
        for wanted in (HIGHER, LOWER):
            tasks = [short(task) for task, verdict in verdicts.items() if verdict == wanted]
            text = f"{NAMES[algorithm]}'s area {what} is {wanted} than SPPO's on {', '.join(tasks)}"
            found.append(
                Claim(
                    where,
                    text,
                    lambda e, a=algorithm, v=verdicts, w=wanted: every_task_is(_on(e, study, a, v, w), w),
                    command,
                )
            )
        text = (
            f"{NAMES[algorithm]} learns more efficiently than SPPO on the suite {what}: better on more tasks than worse"
        )
        found.append(
            Claim(where, text, lambda e, a=algorithm, v=verdicts: more_often_higher(_on(e, study, a, v)), command)
        )
    return found


ON_ALL = {
    "On 12 of the 13 tasks the interval of {}'s area exceeds or overlaps SPPO's": rarely_lower,
    "{} is significantly more learning-efficient than SPPO in long problems": more_often_higher,
}
"""What is said of both algorithms on all tasks together."""
EXPERIMENTS = [
    Claim(
        "sec:experiments",
        text.format(NAMES[name]),
        lambda e, name=name, judge=judge: judge(_all_thirteen(name, e)),
        f"{SUITE_COMMAND}; {NT_COMMAND}",
    )
    for text, judge in ON_ALL.items()
    for name in ("hpi", "hpi-clip")
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
    said = f"strictly higher by return and strictly lower by reward a step: {'; '.join(turned) or 'nowhere'}"
    return Finding(f"{said}, of {len(known)} tasks", decided(False if turned else None))


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


def _nt_claims(study: str, what: str, where: str, command: str) -> list[Claim]:
    return [
        Claim(
            where,
            f"{NAMES[name]}'s area of the inverted gap {what} is strictly higher than SPPO's on {' and '.join(NT)}",
            lambda e, name=name: every_task_is(e.verdicts(study, name, NT)),
            command,
        )
        for name in ("hpi-clip", "hpi")
    ]


NONTRANSITIVE = [
    *_nt_claims("nontransitive", "with the given margin", "ap:mujoco-nt", NT_COMMAND),
    Claim(
        "fig:reacher-trajectories",
        "On Reacher-NT the fingertip comes to draw a large circle",
        behaviour.circle,
        NT_COMMAND,
    ),
    Claim(
        "fig:walker2d-trajectories",
        "On Walker2d-NT policies come to spend a third of their time in each class",
        behaviour.thirds,
        NT_COMMAND,
    ),
    Claim(
        "ap:mujoco-nt",
        "The estimated gaps fall as the behaviour approaches the solution's",
        behaviour.trends,
        NT_COMMAND,
    ),
]


# --- ablations --------------------------------------------------------------------------------------------


def _at_horizon(evidence: Evidence, task: str, horizon: int) -> st.Interval | None:
    found = evidence.with_setting("comparison horizon", task, "comparison_horizon", horizon)
    return found.area if found else None


def longer_is_worse(evidence: Evidence) -> Finding:
    """T_C = 2048 against T_C = 1, on every task where both were run."""
    verdicts, said = {}, []
    for task in SUITE:
        short_one, long_one = _at_horizon(evidence, task, 1), _at_horizon(evidence, task, 2048)
        if short_one is not None and long_one is not None:
            verdicts[task] = st.verdict(long_one, short_one)
            said.append(f"{short(task)} {shown(short_one)} at 1, {shown(long_one)} at 2048")
    judged = [verdict for verdict in verdicts.values() if verdict != TOO_FEW]
    worse = judged.count(LOWER)
    holds = None if not judged else worse > len(judged) / 2
    return Finding("; ".join(said) or "not run", decided(holds))


def ends_are_the_algorithms(evidence: Evidence) -> Finding:
    """The longest horizon against SPPO itself; the shortest is HPI-Clip, the very same run."""
    verdicts = {}
    for task in SUITE:
        whole, long_one = evidence.scores("suite", task, "sppo"), _at_horizon(evidence, task, 2048)
        if whole is not None and long_one is not None:
            verdicts[task] = st.verdict(long_one, whole.area)
    if not verdicts:
        return Finding("not run; T_C = 1 is HPI-Clip, the same run", decided(None))
    found = every_task_is(verdicts, OVERLAPS)
    return Finding(f"T_C = 1 is HPI-Clip, the same run; T_C = 2048 against SPPO: {found.numbers}", found.verdict)


def eta_is_best(evidence: Evidence) -> Finding:
    """The mean rank of each η by final return, over tasks with all of them."""
    ranks: dict[float, list[int]] = {}
    for task in evidence.study("learning rate").tasks:
        finals = {one.runs[0].settings["eta"]: one.final.mean for one in task.scores.values()}
        if len(finals) == 5:
            for rank, eta in enumerate(sorted(finals, key=lambda eta: -finals[eta]), start=1):
                ranks.setdefault(eta, []).append(rank)
    if not ranks:
        return Finding("not run", decided(None))
    means = {eta: sum(found) / len(found) for eta, found in sorted(ranks.items())}
    said = "mean rank by final return: " + ", ".join(f"η = {eta:g}: {number(mean)}" for eta, mean in means.items())
    return Finding(said, decided(min(means, key=means.__getitem__) == 1.5))


ABLATIONS = [
    *_against_sppo(
        "ap:learned-preference-model", "learned margins", PAPER_LEARNED, "with learned margins", LEARNED_COMMAND
    ),
    *_nt_claims("learned margins", "with learned margins", "fig:mujoco-nt-offline", LEARNED_COMMAND),
    Claim(
        "ap:sppo",
        "Between T_C = 1 and the task's horizon one goes from HPI-Clip to SPPO",
        ends_are_the_algorithms,
        HORIZON_COMMAND,
    ),
    Claim("ap:sppo", "On most tasks a longer comparison horizon is worse", longer_is_worse, HORIZON_COMMAND),
    Claim(
        "ap:algorithm-details",
        "Of η in {0.75, 1.5, 3, 6, 12}, 1.5 does best on Ant, HalfCheetah and InvertedDoublePendulum",
        eta_is_best,
        ETA_COMMAND,
    ),
]

CLAIMS: dict[str, list[Claim]] = {
    "Exact and approximate solution methods (sections 6 and 7)": FINITE,
    "Experiments (section 8)": EXPERIMENTS,
    "The Mujoco-v5 suite (appendix A)": _against_sppo(
        "ap:mujoco-suite", "suite", PAPER, "over training", SUITE_COMMAND
    ),
    "Nontransitive tasks (appendix A)": NONTRANSITIVE,
    "Ablations (appendix A), and the search for η": ABLATIONS,
}
