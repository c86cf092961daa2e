"""The section about cycles on the page of a learned margin."""

from __future__ import annotations

import numpy as np

from mdcontest.preferences.report_text import cyclic_sentence, percent
from mdcontest.report.page import InlineFigure, Section, Table
from mdcontest.report.preference_plots import NAMES, cycles_figure, inline, matrix_figure
from mdcontest.report.preference_views import CycleView, View, classes_of, cycle_view, positions_of

MOST_INPUTS = 8
"""Inputs of a cycle's outcomes that are listed: those in which they differ most."""


def cycle_section(view: View) -> Section | None:
    """The matrix with and without its reward part, and the clearest cycles; None for too few outcomes."""
    found = cycle_view(view)
    if found is None:
        return None
    report = view.margin.report
    share = percent(report["cycles"]["cyclic_share"])
    about = (
        f"{share} of the margin is what no reward explains: {cyclic_sentence(report)}. Left: every outcome against "
        "every other, sorted by how well it does on average, gᵢ. Right: the same without gᵢ\u00a0−\u00a0gⱼ, the "
        "nearest reward difference. A margin that is a reward leaves nothing on the right."
    )
    text = (
        f"Two matrices of margins between {len(found.rows)} outcomes, sorted from best-liked to worst: all of it, and "
        f"what is left without the nearest reward, {share} of the squares"
    )
    figures, tables = [inline(text, matrix_figure(found))], []
    if found.cycles:
        pictured = _pictured(view, found)
        figures += [pictured] if pictured is not None else []
        tables += [_cycle_table(view, found)] if pictured is None else []
    return Section("How cyclic it is", about, _cycles_told(found), figures, tables, even=True)


def _cycles_told(found: CycleView) -> str:
    if not found.cycles:
        return f"Among {len(found.rows)} outcomes there is no cycle of three."
    text = (
        f"The {len(found.cycles)} clearest cycles of three outcomes, none sharing one: A is preferred to B, B to C, "
        "and C to A, each with its probability."
    )
    really = found.really_cyclic()
    if really is None:
        return text
    counted = {0: "None of them is a cycle", len(found.cycles): "All are cycles"}.get(really, f"{really} are cycles")
    return f"{text} {counted} of the task's own margin{', too' if really else ''}."


def _pictured(view: View, found: CycleView) -> list[InlineFigure] | None:
    """The cycles drawn, where the task says where or what outcomes are."""
    classes = classes_of(view, found.rows)
    positions, reach = None, 1.0
    if view.task is not None and view.task.positions is not None:
        positions, reach = positions_of(view.task, view.data, found.rows), view.task.reach
    if positions is None and classes is None:
        return None
    named = [" over ".join(_name(classes, i) for i in (*cycle, cycle[0])) for cycle in found.cycles]
    text = f"Cycles of three outcomes {'in the plane' if positions is not None else 'by their classes'}: "
    return inline(text + "; ".join(named), cycles_figure(found, positions, reach, classes))


def _name(classes: list[str] | None, place: int) -> str:
    return f"outcome {place + 1}" if classes is None else classes[place]


def _cycle_table(view: View, found: CycleView) -> Table:
    """The outcomes of cycles by the inputs in which they differ most."""
    reader = view.margin.ensemble.reader
    where = [i for cycle in found.cycles for i in cycle]
    names = reader.names()
    inputs = reader.read(view.data.outcomes[found.rows[where]])[:, : len(names)]
    apart = inputs.reshape(len(found.cycles), 3, -1).std(axis=1).mean(axis=0)
    shown = np.sort(np.argsort(-apart, kind="stable")[:MOST_INPUTS])
    rows = []
    for number, cycle in enumerate(found.cycles):
        for s in range(3):
            chance = 1 / (1 + np.exp(-found.M[cycle[s], cycle[(s + 1) % 3]]))
            values = inputs[3 * number + s, shown] * reader.deviation[shown] + reader.mean[shown]
            rows.append(
                (f"{number + 1}", NAMES[s], f"{NAMES[(s + 1) % 3]} ({chance:.2f})", *(f"{v:.3g}" for v in values))
            )
    heads = ("cycle", "outcome", "is preferred to", *(names[i] for i in shown))
    return Table(heads, rows, caption="The clearest cycles, by the inputs in which their outcomes differ most")
