"""The numbers behind the nontransitive tasks and the ablations, as sections of RESULTS.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evidence import Evidence, earned_at_the_end, over_seeds, shown
from judging import beside, short
from selections import ETAS, HORIZONS, NAMES, NT, PAPER_LEARNED, PAPER_NT, SUITE
from tables_as_text import table

from mdcontest.report.statistics import Interval, student_interval
from mdcontest.report.study import Scores
from mdcontest.report.study_gaps import GapSeries, gap_series


def sections(evidence: Evidence) -> list[str]:
    """Those there is something to say in."""
    horizons = by_setting(evidence, "comparison horizon", ("T_C", "comparison_horizon"), HORIZONS, lambda one: one.area)
    eta = ("η", "eta")
    rewards = by_setting(evidence, "learning rate", eta, ETAS, lambda one: student_interval(earned_at_the_end(one)))
    returns = by_setting(evidence, "learning rate", eta, ETAS, lambda one: one.final)
    parts = {
        "What best responses win on the nontransitive tasks": gaps(evidence),
        "HPI-Clip with margins averaged over T_C steps": "Areas, the paper's settings.\n\n" + horizons,
        "HPI's learning rate": "Reward a step in the last tenth of training, the paper's settings.\n\n"
        f"{rewards}\nReturns of the same episodes.\n\n{returns}",
        "On learned margins": learned(evidence),
    }
    return [f"## {title}\n\n{text}" for title, text in parts.items() if "| --- |" in text]


# --- nontransitive tasks ----------------------------------------------------------------------------------


def gaps(evidence: Evidence) -> str:
    """Lower bounds of the gap along training, and of other policies at its end."""
    series = gap_series(evidence.store("nontransitive").runs)
    mixtures = [one for one in series if one.returned == "mixture"]
    if not mixtures:
        return ""
    steps = sorted({int(step) for one in mixtures for step in one.steps})
    along = [
        [*_names(one), *(shown(over_seeds(one.values[:, one.steps == step])) for step in steps), _area(evidence, one)]
        for one in mixtures
    ]
    ends = [
        [*_names(one), one.returned, *(shown(over_seeds(numbers[:, -1])) for numbers in (one.values, one.uppers))]
        for one in series
    ]
    return (
        "The average margin a step that a trained best response wins, a lower bound of the optimality gap: the better "
        "of two of up to 300 000 steps each, which stop early where they win about all that can be won, on fresh "
        "episodes (the paper's have the settings of its runs, so a million). Where both lose, less than zero is won, "
        "and counts as it is. Means over seeds of the mixture of all iterates; the last column is the area of the "
        "inverted gap.\n\n"
        + table(["task", "algorithm", *(f"{step:,} steps" for step in steps), "inverted, area"], along)
        + "\nAt the end of training, by policy; the last column is an upper bound, what the best outcome there is "
        "would win.\n\n"
        + table(["task", "algorithm", "policy", "best response wins", "no policy wins more than"], ends)
    )


def _names(one: GapSeries) -> tuple[str, str]:
    return one.task, NAMES[one.variant.split()[0]]


def _area(evidence: Evidence, one: GapSeries) -> str:
    found = evidence.scores("nontransitive", one.task, one.variant.split()[0])
    return shown(found.area if found else None)


# --- ablations --------------------------------------------------------------------------------------------


def by_setting(
    evidence: Evidence, study: str, names: tuple[str, str], values: Sequence[float], score: Callable[[Scores], Interval]
) -> str:
    """Tasks in rows, values of a setting (its symbol, its name) in columns; only tasks where more than one was run."""
    rows, (symbol, setting) = [], names
    for task in SUITE:
        found = [evidence.with_setting(study, task, setting, value) for value in values]
        if sum(one is not None for one in found) > 1:
            rows.append([short(task), *(shown(score(one) if one else None) for one in found)])
    return table(["task", *(f"{symbol} = {value:g}" for value in values)], rows) if rows else ""


def learned(evidence: Evidence) -> str:
    """Areas with learned margins beside those with the task's own, and verdicts beside the paper's."""
    rows = []
    for task in (*SUITE, *NT):
        own = "nontransitive" if task in NT else "suite"
        paper = PAPER_NT if task in NT else PAPER_LEARNED
        for name in NAMES:
            areas = [evidence.scores(study, task, name) for study in (own, "learned margins")]
            if areas[1] is not None:
                verdict = beside(evidence.verdict("learned margins", task, name), paper.get(name, {}).get(task))
                rows.append([short(task), NAMES[name], *(shown(one.area if one else None) for one in areas), verdict])
    if not rows:
        return ""
    return (
        "Areas by the task's own rewards, and on nontransitive tasks of the inverted gap by its own margin. Tasks that "
        "are not named were not run, or have no brackets.\n\n"
        + table(["task", "algorithm", "own margin", "learned margin", "against SPPO, both learned"], rows)
    )
