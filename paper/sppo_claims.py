"""Claims about areas against SPPO's: on the suite, on the nontransitive tasks, with given and with learned margins."""

from __future__ import annotations

from collections.abc import Mapping

from evidence import NOT_RUN, Evidence, over_seeds, shown
from judging import Claim, Finding, all_of, better_on, decided, every_task_is, more_often_higher, rarely_lower, short
from mujoco_suite import suite_command
from selections import LEARNERS, NAMES, NT, PAPER, PAPER_NT

from mdcontest.report import statistics as st
from mdcontest.report.statistics import HIGHER, LOWER
from mdcontest.report.study_gaps import GapSeries, gap_series

SUITE_COMMAND = suite_command()
NT_COMMAND = "python paper/mujoco_nt.py --seeds 0-4"
RETURNED = {"hpi-clip": "cloned", "hpi": "cloned", "sppo": "last"}
"""What the paper takes from a run, as far as it says: it clones for HPI and HPI-Clip only."""


def on_tasks(
    evidence: Evidence, study: str, algorithm: str, paper: Mapping[str, str], wanted: str | None = None
) -> dict[str, str]:
    """Our verdicts on the tasks on which the paper has the wanted one; None: on all."""
    return evidence.verdicts(study, algorithm, [task for task, v in paper.items() if wanted in (None, v)])


def all_thirteen(evidence: Evidence, algorithm: str) -> tuple[dict[str, str], list[str]]:
    """Our verdicts on all tasks, and those where an overlap may turn out to be a defeat."""
    verdicts, doubtful = {}, []
    for study, paper in (("suite", PAPER), ("nontransitive", PAPER_NT)):
        verdicts |= on_tasks(evidence, study, algorithm, paper[algorithm])
        doubtful += evidence.lean_lower(study, algorithm, paper[algorithm])
    return verdicts, doubtful


# --- areas of returns -------------------------------------------------------------------------------------


Paper = Mapping[str, Mapping[str, str]]
"""Algorithm → task → the paper's verdict."""


def suite_claims(where: str, study: str, paper: Paper, what: str, command: str) -> list[Claim]:
    """What an appendix says about both algorithms: where higher, where lower, on how many, and on the whole."""
    return [claim for name, v in paper.items() for claim in _of_algorithm(where, study, name, v, what, command)]


def _of_algorithm(
    where: str, study: str, algorithm: str, paper: Mapping[str, str], what: str, command: str
) -> list[Claim]:
    name, found = NAMES[algorithm], []
    higher = list(paper.values()).count(HIGHER)
    for wanted in (HIGHER, LOWER):
        tasks = ", ".join(short(task) for task, verdict in paper.items() if verdict == wanted)
        text = f"{name}'s area {what} is {wanted} than SPPO's on {tasks}"
        if (algorithm, wanted) == ("hpi", LOWER):
            text += " (the paper's sentence names HPI-Clip, which must be a slip)"
        found.append(
            Claim(where, text, lambda e, w=wanted: every_task_is(on_tasks(e, study, algorithm, paper, w), w), command)
        )

    def on_so_many(evidence: Evidence) -> Finding:
        doubtful = evidence.lean_lower(study, algorithm, paper)
        return better_on(on_tasks(evidence, study, algorithm, paper), higher, doubtful)

    text = f"{name}'s area {what} is strictly higher than SPPO's on {higher} of {len(paper)} tasks, and lower on 1 only"
    found.append(Claim(where, text, on_so_many, command))
    text = (
        f"{name} learns more efficiently than SPPO on the suite {what} (our test: strictly higher on more tasks than "
        "strictly lower, p ≤ 0.05 by a sign test)"
    )
    found.append(
        Claim(where, text, lambda e: more_often_higher(on_tasks(e, study, algorithm, paper), paper.values()), command)
    )
    return found


def rarely_behind(evidence: Evidence, algorithm: str) -> Finding:
    """On all tasks of the paper."""
    return rarely_lower(*all_thirteen(evidence, algorithm))


def ahead_on_the_whole(evidence: Evidence, algorithm: str) -> Finding:
    """On all tasks of the paper."""
    theirs = PAPER[algorithm] | PAPER_NT[algorithm]
    return more_often_higher(all_thirteen(evidence, algorithm)[0], theirs.values())


# --- gaps -------------------------------------------------------------------------------------------------


def gap_claims(study: str, what: str, where: str, command: str) -> list[Claim]:
    """Areas of the inverted gap along training."""
    return [
        Claim(
            where,
            f"{NAMES[name]}'s area of the inverted gap {what} is strictly higher than SPPO's on {' and '.join(NT)} "
            "(here: of what best responses win against the mixtures of iterates)",
            lambda e, name=name: every_task_is(e.verdicts(study, name, NT)),
            command,
        )
        for name in LEARNERS
    ]


def returned_at_the_end(evidence: Evidence, algorithm: str) -> Finding:
    """What best responses win against the policies that the paper returns, when training is over."""
    series = gap_series(evidence.store("nontransitive").runs)
    said, good = [], []
    for task in NT:
        mine, other = (_at_the_end(series, task, name) for name in (algorithm, "sppo"))
        verdict = NOT_RUN if mine is None or other is None else st.verdict(mine, other)
        said.append(f"{task}: {shown(mine)} against {shown(other)}")
        good.append({LOWER: True, HIGHER: False}.get(verdict))
    return Finding("; ".join(said), decided(all_of(good)))


def _at_the_end(series: list[GapSeries], task: str, algorithm: str) -> st.Interval | None:
    wanted = (task, algorithm, RETURNED[algorithm])
    found = [one for one in series if (one.task, one.variant.split()[0], one.returned) == wanted]
    return over_seeds(found[0].values[:, -1]) if found else None


def end_claims(where: str, command: str) -> list[Claim]:
    """At the end of training, by the policies the paper returns."""
    return [
        Claim(
            where,
            f"(A second reading of these rows) The policy cloned from {NAMES[name]}'s iterates is harder to beat than "
            f"SPPO's last one at the end of training, on {' and '.join(NT)}",
            lambda e, name=name: returned_at_the_end(e, name),
            command,
            by_us=True,
        )
        for name in LEARNERS
    ]
