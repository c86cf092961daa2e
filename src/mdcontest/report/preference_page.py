"""A page about one learned margin: what it is worth, whether it is cyclic, where it knows, and who was asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mdcontest.errors import InputError
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.learned import Learned
from mdcontest.preferences.report_text import model_rows, percent, signed, summary_rows
from mdcontest.preferences.summary import summarise
from mdcontest.report.page import MISSING, Section, Table, write_page
from mdcontest.report.preference_cycles import cycle_section
from mdcontest.report.preference_distance import distance_view
from mdcontest.report.preference_plots import calibration_figure, distance_figure, inline, map_figure, short_title
from mdcontest.report.preference_views import View, make_view, map_view, own_view

FEW_HELD_OUT = 50
"""With fewer held-out comparisons every number here is a guess."""


def write_margin_page(page: Path, margin: Learned, dataset: Dataset | None = None, title: str | None = None) -> None:
    """Write the page. Pictures of outcomes need the dataset that the margin was fitted to."""
    if page.is_dir():
        raise InputError(f"{page} is a folder; name a page in it, such as {page / 'margin.html'}")
    report = margin.report
    if "cycles" not in report:
        raise InputError("this margin has no report: it was not made by fit_margin or mdcontest fit")
    view = None if dataset is None else make_view(margin, dataset)
    sections = [_number_section(margin, view), _calibration_section(margin)]
    if view is not None and dataset is not None:
        found = [cycle_section(view), _map_section(view), _distance_section(view), _people_section(dataset)]
        sections += [section for section in found if section is not None]
    about = (report.get("data") or {}).get("task")
    named = title or ("Learned margin" + (f" on {short_title(about)}" if about else ""))
    write_page(page, named, sections, _lead(margin), _minding(margin, view))


def _lead(margin: Learned) -> str:
    data = margin.report.get("data") or {}
    where = f" from the dataset {short_title(data['dataset'])}" if data.get("dataset") else ""
    return (
        f"A {margin.report['settings']['model']} model fitted to {margin.report['fitted_to']:,} comparisons{where} and "
        f"judged on {margin.report['held_out']:,} others."
    )


def _minding(margin: Learned, view: View | None) -> list[str]:
    """What to know before any number."""
    report, found = margin.report, []
    if report["held_out"] < FEW_HELD_OUT:
        found.append(f"only {report['held_out']} comparisons were held out: these numbers are rough")
    if view is None:
        found.append("no dataset was given, so there are no pictures of outcomes: add --data DATASET")
    elif not view.held_out_known:
        found.append(
            "the dataset is not, or no longer, the one it was fitted to: pictures show outcomes of all its "
            "comparisons, and some may have been fitted to"
        )
    if view is not None and view.task is None:
        found.append("the task is not one of the registry's, so what needs it is left out")
    return found


# --- sections ---------------------------------------------------------------------------------------------


def _number_section(margin: Learned, view: View | None) -> Section:
    """Everything that `mdcontest fit` prints, and the models beside each other."""
    report = margin.report
    rows = [(name, text.replace(" %", "\u00a0%")) for name, text in summary_rows(report)]
    tables = [Table(("", "what was measured"), rows, prose=True)]
    if report.get("models"):
        tables.insert(0, _model_table(report))
    own = None if view is None else own_view(view)
    about = (
        "A margin is worth what it says about comparisons that it has not seen. Log-likelihood counts how sure it was "
        "of what people then said; chance is what a coin achieves."
    )
    if own is not None and own.same_sign is not None:
        fits = "" if own.correlation is None else f", and the correlation is {signed(own.correlation)}"
        about += (
            f" The task's own margin is known here: over {own.pairs:,} random pairs of outcomes both prefer the same "
            f"one in {percent(own.same_sign)}{fits}."
        )
    return Section("In numbers", about, tables=tables)


def _model_table(report: Any) -> Table:
    saved = report["settings"]["model"]
    rows = [(f"{name}, this one" if name == saved else name, *cells) for name, *cells in model_rows(report)]
    heads = ("model", "accuracy", "log-likelihood", "calibration error", "cyclic share")
    return Table(heads, rows, caption="Three models, judged on the same held-out comparisons")


def _calibration_section(margin: Learned) -> Section:
    found = margin.report["calibration"]
    told = ", ".join(
        f"{was:.2f} at {said:.2f}" for said, was in zip(found["predicted"], found["observed"], strict=True)
    )
    about = (
        "Where it said that the first is preferred with some probability, how often was it? Points on the dashed "
        f"line are as good as their word; on average they are {found['error']:.3f} away from it. Bars are one standard "
        "error."
    )
    text = f"Calibration: share that preferred the first, against the probability it gave: {told}"
    small = f"{sum(found['count']):,} held-out comparisons in tenths of the probability. “Equal” counts half."
    return Section("Calibration", about, small, [inline(text, calibration_figure(found))])


def _map_section(view: View) -> Section | None:
    found = map_view(view)
    if found is None:
        return None
    figures, said = [], []
    for which, what in enumerate(("the mean margin against all outcomes", "the margin over one outcome")):
        correlation = found.correlation(which)
        fits = "" if correlation is None else f"; correlation {signed(correlation)}"
        said += [] if correlation is None else [f"{signed(correlation)} for {what}"]
        text = f"Maps of {what}, learned and the task's own{fits}"
        figures.append(inline(text, map_figure(found, which)))
    about = (
        "Outcomes by where they are in the plane; purple places are preferred, orange ones are not. First against all "
        "outcomes together, which is what a reward could say; then over the one outcome that is ringed."
    )
    small = f"Correlation with the task's own margin: {', '.join(said)}." if said else ""
    return Section("Where it is good to be", about, small, figures, even=True)


def _distance_section(view: View) -> Section | None:
    found = distance_view(view)
    if found is None:
        return None
    near, far = (float(np.median(found.disagreement[i])) for i in (0, -1))
    about = (
        "Members of the ensemble were fitted to different samples; where they disagree, nobody knows. Held-out "
        "outcomes as they are, and pushed away from the middle of the data: the further out, the less they should "
        "agree."
    )
    text = f"Disagreement of members against distance from the data: median {near:.3f} held out, {far:.3f} far outside"
    small = f"The median disagreement is {near:.3f} on held-out outcomes and {far:.3f} three times as far out."
    return Section("Where it knows", about, small, [inline(text, distance_figure(found))])


def _people_section(dataset: Dataset) -> Section:
    found = summarise(dataset)
    labels = list(found["labels"])
    rows = []
    for name, about in found["annotators"].items():
        counts = [str(about["labels"].get(word, 0)) for word in labels]
        again = about["agreement"]
        share = MISSING if again["share"] is None else f"{percent(again['share'])} of {again['compared']}"
        rows.append((short_title(name) or "(nobody named)", str(about["comparisons"]), *counts, share))
    between = found["agreement_between"]
    told = ""
    if between["share"] is not None:
        both = f"{percent(between['share'])} of {between['compared']}"
        told = f" Different people say the same about {both} pairs they were both asked about."
    about = f"Everything that holds in the dataset, whether or not this margin was fitted to it.{told}"
    heads = ("annotator", "comparisons", *labels, "says the same when asked again")
    return Section("Who said what", about, tables=[Table(heads, rows, sortable=len(rows) > 1)])
