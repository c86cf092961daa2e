"""What a learned margin's report says, in words: the lines that `mdcontest fit` prints, and sentences for pages."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from mdcontest.preferences.diagnosis import most_cyclic

WIDTH = 80
LABEL = 15
"""Columns before the text of a line."""
CHANCE = 2.0
"""How much likelier than a coin, as a logarithm, all held-out answers together can become by luck."""
ORDERED, MOSTLY_ORDERED, MOSTLY_CYCLIC = 0.02, 0.2, 0.6
"""Cyclic shares at which the sentence about them changes."""


def percent(share: float) -> str:
    """A share as a reader likes it: 0.4 %, 31 %."""
    value = 100 * share
    return f"{value:.1f} %" if 0 < value < 9.95 else f"{value:.0f} %"


def signed(value: float) -> str:
    """Three digits with a proper minus."""
    return f"{value:.3f}".replace("-", "−")


def cyclic_sentence(report: Mapping[str, Any]) -> str:
    """What the cyclic share means for whoever wants a reward."""
    share = report["cycles"]["cyclic_share"]
    if is_chance(report):
        return "which says nothing, for this margin may be chance altogether"
    if report["settings"]["model"] == "reward":
        return "a reward cannot be cyclic; only --model skew or general can show whether people are"
    if share >= ORDERED and _reward_does_as_well(report):
        return "but a reward predicts the held-out answers as well, so the circles may be noise"
    if share < ORDERED:
        return "a ranking explains it all: a reward would say the same"
    if share < MOSTLY_ORDERED:
        return "a ranking explains most of it, and a reward would miss little"
    if share < MOSTLY_CYCLIC:
        return "a good part runs in circles, which no reward can express"
    return "most of it runs in circles: there is hardly a ranking, and a reward would miss the point"


def is_chance(report: Mapping[str, Any]) -> bool:
    """Whether a coin predicts the held-out answers hardly worse.

    Answers that are numbers near 0 have little to gain over it, however well they are predicted; then signs decide.
    """
    number, right = report["held_out"], report["accuracy"]
    gained = number * (report["log_likelihood"] - report["log_likelihood_chance"])
    return gained < CHANCE and (right is None or (right - 0.5) * 2 * number**0.5 < CHANCE)


def _reward_does_as_well(report: Mapping[str, Any]) -> bool:
    """Whether models were compared, and nothing was gained by being able to be cyclic."""
    rewards = [one["log_likelihood"] for one in report.get("models", []) if one["model"] == "reward"]
    return any(likelihood >= report["log_likelihood"] for likelihood in rewards)


def summary(report: Mapping[str, Any]) -> str:
    """The report as lines of at most 80 columns."""
    lines: list[str] = []
    for name, text in summary_rows(report):
        whole = text.replace(" %", "\u00a0%")  # a number stays on the line of its sign
        lines += textwrap.wrap(
            whole, WIDTH, initial_indent=name.ljust(LABEL), subsequent_indent=" " * LABEL, break_on_hyphens=False
        )
    return "\n".join(lines).replace("\u00a0", " ")


def summary_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is said about what, in reading order."""
    return [
        ("fitted", _fitted(report)),
        ("comparisons", _counts(report)),
        ("accuracy", _accuracy(report)),
        (
            "log-likelihood",
            f"{signed(report['log_likelihood'])} a held-out comparison; {signed(report['log_likelihood_fitted'])} one "
            f"fitted to, {signed(report['log_likelihood_chance'])} by chance"
            + (": no better than a coin" if is_chance(report) else ""),
        ),
        ("calibration", f"probabilities are off by {report['calibration']['error']:.3f} on average"),
        ("cyclic share", f"{percent(report['cycles']['cyclic_share'])}: {cyclic_sentence(report)}"),
        ("cyclic triples", _triples(report)),
        ("disagreement", _disagreement(report)),
        ("extrapolation", _extrapolation(report)),
        ("penalty", _penalty(report)),
    ]


def _fitted(report: Mapping[str, Any]) -> str:
    settings, data = report["settings"], report.get("data")
    members = "1 member" if settings["members"] == 1 else f"{settings['members']} members"
    text = f"the {settings['model']} model, {members}, {report['updates']} updates each, seed {report['seed']}"
    return text if not data else f"{text}, on {data['task']}"


def _counts(report: Mapping[str, Any]) -> str:
    incomparable = report["incomparable"]
    left_out = f", {incomparable} left out as incomparable" if incomparable else ", none incomparable"
    text = f"{report['fitted_to']} fitted to, {report['held_out']} held out{left_out}"
    if few := report.get("few_pairs"):
        text += f"; of {few} pairs, too few to hold whole ones out: both parts are about the same ones"
    return text


def _accuracy(report: Mapping[str, Any]) -> str:
    if report["accuracy"] is None:
        return "unknown: no held-out comparison says which is preferred"
    members: Sequence[float | None] = report["accuracy_members"]
    each = ", ".join("–" if one is None else percent(one) for one in members)
    alone = f" (members alone: {each})" if len(members) > 1 else ""
    return f"{percent(report['accuracy'])} of the held-out preferences{alone}"


def _triples(report: Mapping[str, Any]) -> str:
    share, most = percent(report["cycles"]["cyclic_triples"]), percent(most_cyclic(report["cycles"]["outcomes"]))
    return f"{share} of the triples of held-out outcomes; of so many outcomes at most {most} can be cyclic"


def _disagreement(report: Mapping[str, Any]) -> str:
    if len(report["accuracy_members"]) == 1:
        return "unknown: one member has nobody to disagree with"
    return f"members' probabilities deviate by {report['disagreement']:.3f} on average"


def _extrapolation(report: Mapping[str, Any]) -> str:
    about = report["extrapolation"]
    text = f"{percent(about['share_outside'])} of held-out outcomes lie outside the data it was fitted to"
    most = [f"{one['name']} {percent(one['share_outside'])}" for one in about["inputs"]]
    return f"{text} ({', '.join(most)})" if most else text


def _penalty(report: Mapping[str, Any]) -> str:
    tried = report["penalties"]
    if not tried:
        return f"{report['penalty']:g}, as asked for"
    each = ", ".join(f"{one['penalty']:g}: {signed(one['log_likelihood'])}" for one in tried)
    return f"{report['penalty']:g}, the likeliest on held-out comparisons ({each})"


def model_rows(report: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """The models that were compared: name, accuracy, log-likelihood, calibration error, cyclic share."""
    return [
        (
            one["model"],
            "—" if one["accuracy"] is None else percent(one["accuracy"]),
            signed(one["log_likelihood"]),
            f"{one['calibration_error']:.3f}",
            percent(one["cyclic_share"]),
        )
        for one in report.get("models", [])
    ]


def model_table(report: Mapping[str, Any]) -> str:
    """The compared models side by side; the one that was saved is marked."""
    heads = ("model", "accuracy", "log-likelihood", "calibration", "cyclic share")
    lines = ["  ".join([f"{heads[0]:<9}", *(head.rjust(14) for head in heads[1:])])]
    for name, *cells in model_rows(report):
        mark = f"{name} *" if name == report["settings"]["model"] else name
        lines.append("  ".join([f"{mark:<9}", *(cell.rjust(14) for cell in cells)]))
    return "\n".join([*lines, "* saved; all were judged on the same held-out comparisons"])
