"""The numbers behind the pictures of a learned margin: matrices, cycles and maps.

Outcomes shown are those of held-out comparisons, on maps all there are. Which were held out follows from the seed of
the fit, as long as the dataset is the one that was fitted to; otherwise outcomes of all comparisons are shown, and the
page says so.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdcontest.arrays import Array, Ints
from mdcontest.errors import InputError
from mdcontest.margins import Classes
from mdcontest.preferences.comparisons import Comparisons
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.diagnosis import best_cycles
from mdcontest.preferences.fit import split
from mdcontest.preferences.learned import Learned
from mdcontest.tasks import Task

SHOWN = 120
"""Outcomes of the matrix, in which cycles are looked for."""
MAPPED = 8000
"""Outcomes drawn on a map."""
EXAMPLES = 3
FEWEST = 3
"""Outcomes without which there are no cycles to look for."""


@dataclass(frozen=True)
class View:
    """A learned margin beside the comparisons it is shown on."""

    margin: Learned
    data: Comparisons
    """Those it was fitted to and judged on, the incomparable ones left out."""
    rows: Ints
    """Outcomes of held-out comparisons, as rows of the table."""
    fitted_rows: Ints
    held_out_known: bool
    """Whether `rows` are those of held-out comparisons; otherwise of all."""
    task: Task | None

    @property
    def own(self) -> Any:
        """The task's own margin, or None where the task is not known."""
        return None if self.task is None else self.task.true.margin


def make_view(margin: Learned, dataset: Dataset) -> View:
    """Find what was held out, and the task."""
    about = margin.report.get("data") or {}
    data = dataset.comparisons(annotator=about.get("annotators"), source=about.get("source")).decided()
    if not len(data):
        raise InputError(f"no comparison in {dataset.path} says anything: all are incomparable")
    settings, seed = margin.report["settings"], margin.report["seed"]
    fitted, held_out = data, data
    with contextlib.suppress(InputError):  # one pair only
        # The split of the fit, which drew it first of all from its seed.
        fitted, held_out = split(data, settings["held_out"], np.random.default_rng([seed, 0]))
    known = (len(fitted), len(held_out)) == (margin.report["fitted_to"], margin.report["held_out"])
    rows = [_outcomes_of(part) for part in ((fitted, held_out) if known else (data, data))]
    if not len(rows[1]):
        raise InputError(f"the comparisons in {dataset.path} show nothing but ended episodes")
    return View(margin, data, rows[1], rows[0] if len(rows[0]) else rows[1], known, _task(dataset))


def _task(dataset: Dataset) -> Task | None:
    try:
        return dataset.task()
    except InputError:  # one that the registry does not know: the pictures that need it are left out
        return None


def _outcomes_of(data: Comparisons) -> Ints:
    count = len(data.outcomes)
    return np.flatnonzero(data.first.covered(count) | data.second.covered(count))


def some_rows(rows: Ints, count: int, seed: int) -> Ints:
    """At most `count` of them, drawn at random, in order."""
    return np.sort(np.random.default_rng(seed).choice(rows, min(count, len(rows)), replace=False))


# --- cycles -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CycleView:
    """M between some outcomes, the best-liked first, and cycles among them."""

    rows: Ints
    M: Array
    g: Array
    """Mean margin against the others."""
    cycles: list[tuple[int, int, int]]
    """Places in `rows`: each is preferred to the next, and the last to the first."""
    own: Array | None
    """The task's own margin between the same outcomes."""

    @property
    def remainder(self) -> Array:
        """What no reward explains: M − (gᵢ − gⱼ)."""
        return self.M - (self.g[:, None] - self.g[None, :])

    def really_cyclic(self) -> int | None:
        """How many of the cycles are cycles of the task's own margin, too."""
        if self.own is None:
            return None
        return sum(min(self.own[i, j], self.own[j, k], self.own[k, i]) > 0 for i, j, k in self.cycles)


def cycle_view(view: View) -> CycleView | None:
    """The matrix, or None for too few outcomes."""
    if len(view.rows) < FEWEST:
        return None
    rows = some_rows(view.rows, SHOWN, seed=0)
    z = view.data.outcomes[rows]
    M = view.margin.matrix(z, z)
    order = np.argsort(-M.mean(axis=1), kind="stable")
    rows, M = rows[order], M[np.ix_(order, order)]
    z = view.data.outcomes[rows]
    own = None if view.own is None else view.own.matrix(z, z)
    return CycleView(rows, M, M.mean(axis=1), best_cycles(M, EXAMPLES)[0], own)


def classes_of(view: View, rows: Ints) -> list[str] | None:
    """The class of each outcome, for a task whose own margin has classes."""
    if view.task is None or not isinstance(view.own, Classes):
        return None
    names = list(view.task.class_names)
    found = view.own.rows(view.data.outcomes[rows]).astype(int).tolist()
    return [names[k] if k < len(names) else f"class {k}" for k in found]


# --- maps -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MapView:
    """Outcomes in the plane, and what is preferred there."""

    positions: Array
    learned: list[Array]
    """Mean margin against all outcomes, and margin over one of them."""
    own: list[Array]
    """The same of the task's own margin."""
    marked: Array
    """Where that one is."""
    reach: float

    def correlation(self, which: int) -> float | None:
        """Between learned and own; None where one of them is constant."""
        learned, own = self.learned[which], self.own[which]
        if min(np.ptp(learned), np.ptp(own)) < 1e-12:
            return None
        return float(np.corrcoef(learned, own)[0, 1])


def positions_of(task: Task, data: Comparisons, rows: Ints) -> Array:
    """Where outcomes are in the plane, shape [n, 2]."""
    if task.positions is None:
        raise InputError(f"{task.name} does not say where outcomes are")
    z: Any = data.outcomes[rows]
    found: Array = np.asarray(task.positions(z)).astype(float)
    if found.shape != (len(rows), 2):
        raise InputError(f"positions must have shape ({len(rows)}, 2), got {found.shape}")
    return found


def map_view(view: View) -> MapView | None:
    """The map, for tasks with positions."""
    if view.task is None or view.task.positions is None or len(view.rows) < FEWEST:
        return None
    rows = some_rows(np.arange(len(view.data.outcomes)), MAPPED, seed=1)
    z, opponents = view.data.outcomes[rows], view.data.outcomes[some_rows(view.rows, 500, seed=2)]
    positions = positions_of(view.task, view.data, rows)
    # One that is far out, where an angle means something.
    marked = int(np.argsort(np.hypot(*positions.T))[(3 * len(rows)) // 4])
    one = z[np.array([marked])]
    margins: tuple[Any, Any] = (view.margin, view.own)
    learned, own = ([margin.against(z, opponents), margin.matrix(z, one)[:, 0]] for margin in margins)
    return MapView(positions, learned, own, positions[marked], view.task.reach)


# --- agreement with the task's own margin -----------------------------------------------------------------


@dataclass(frozen=True)
class OwnView:
    """How the learned margin and the task's own go together over random pairs of outcomes."""

    pairs: int
    same_sign: float | None
    """Share of pairs with a clear own margin about which both say the same."""
    correlation: float | None


def own_view(view: View, pairs: int = 20_000) -> OwnView | None:
    """Compare the two margins; None where the task's own is not known."""
    if view.own is None:
        return None
    rng = np.random.default_rng(3)
    one, other = (view.data.outcomes[rng.choice(view.rows, pairs)] for _ in range(2))
    learned, own = view.margin.between(one, other), view.own.between(one, other)
    clear = own != 0
    same = float((np.sign(learned) == np.sign(own))[clear].mean()) if clear.any() else None
    varied = min(np.ptp(learned), np.ptp(own)) > 1e-12
    return OwnView(pairs, same, float(np.corrcoef(learned, own)[0, 1]) if varied else None)
