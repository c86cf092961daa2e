"""Comparisons in memory: pairs of outcomes or of segments, and what was said about each.

    Comparisons(first, second, label)

`first` and `second` are two equally long batches: arrays of features [n, d], of segments [n, L, d], or `Outcomes`.
Inside, all outcomes stand in one table and a segment is a stretch of its rows, so that a thousand comparisons of the
same trajectory hold it once. A segment may run beyond the end of an episode that terminated: those of its steps are ⊥.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdcontest.arrays import Array, Ints, Mask, is_whole
from mdcontest.errors import InputError
from mdcontest.margins.reading import as_finite
from mdcontest.outcomes import Outcomes, concatenate
from mdcontest.preferences.labels import targets


@dataclass(frozen=True)
class Segments:
    """n stretches of rows of a table of outcomes, each followed by some steps of ⊥."""

    start: Ints
    """The first row of each, shape [n]."""
    length: Ints
    """How many rows, shape [n]; 0 for a segment that is ⊥ throughout."""
    ended: Ints
    """How many steps of ⊥ come after them, shape [n]."""

    @classmethod
    def of_single(cls, rows: Ints) -> Segments:
        """Segments of one outcome each."""
        return cls(rows, np.ones_like(rows), np.zeros_like(rows))

    @property
    def steps(self) -> Ints:
        """Steps of each, those of ⊥ included."""
        return self.length + self.ended

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, which: Any) -> Segments:
        return Segments(self.start[which], self.length[which], self.ended[which])

    def rows(self, width: int | None = None) -> Ints:
        """Rows of the table, shape [n, most steps]: −1 where a step is ⊥, −2 beyond the segment's end."""
        step = np.arange(max(int(self.steps.max(initial=1)), 1) if width is None else width)
        inside = step < self.length[:, None]
        rows = np.where(inside, self.start[:, None] + step, -1)
        return np.where(step < self.steps[:, None], rows, -2)

    def covered(self, count: int) -> Mask:
        """Which of a table's rows are in some segment, shape [count]."""
        changes = np.bincount(self.start, minlength=count + 1) - np.bincount(
            self.start + self.length, minlength=count + 1
        )
        return np.cumsum(changes)[:count] > 0

    def require_within(self, count: int, what: str) -> None:
        """An error for segments that are empty or leave the table."""
        wrong = (self.start < 0) | (self.length < 0) | (self.ended < 0) | (self.start + self.length > count)
        wrong |= self.steps < 1
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InputError(
                f"{what}[{i}] is the rows {self.start[i]} to {self.start[i] + self.length[i]} of {count} outcomes"
            )


class Comparisons:
    """n labelled pairs; see the module's docstring."""

    outcomes: Outcomes | Array
    """Every outcome that is compared, N rows."""
    first: Segments
    second: Segments
    target: Array
    """P(first ≻ second) as labelled, shape [n]; NaN where somebody could not say."""
    by_content = False
    """Whether every entry has rows of its own, so that only what they hold tells that segments are the same."""

    def __init__(self, first: Any, second: Any, label: Any) -> None:
        one, other = _batch(first, "first"), _batch(second, "second")
        if len(one[1]) != len(other[1]):
            raise InputError(f"first has {len(one[1])} entries, second {len(other[1])}; they are compared one by one")
        later = Segments(other[1].start + len(one[0]), other[1].length, other[1].ended)
        self._hold(_joined(one[0], other[0]), one[1], later, label)
        self.by_content = True

    @classmethod
    def of_segments(cls, outcomes: Outcomes | Array, first: Segments, second: Segments, label: Any) -> Comparisons:
        """Comparisons of stretches of one table of outcomes."""
        made = cls.__new__(cls)
        made._hold(outcomes, first, second, label)
        return made

    def _hold(self, outcomes: Outcomes | Array, first: Segments, second: Segments, label: Any) -> None:
        self.outcomes, self.first, self.second = outcomes, first, second
        self.target = targets(label)
        if len(self.target) != len(first) or len(first) != len(second):
            raise InputError(f"{len(first)} pairs need {len(first)} labels, got {len(self.target)}")
        if not len(first):
            raise InputError("there are no comparisons")
        first.require_within(len(outcomes), "first")
        second.require_within(len(outcomes), "second")

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, rows: Any) -> Comparisons:
        """Some of the pairs, or one, over the same table."""
        rows = [rows] if is_whole(rows) else rows
        made = Comparisons.__new__(Comparisons)
        made.outcomes, made.first, made.second = self.outcomes, self.first[rows], self.second[rows]
        made.target, made.by_content = self.target[rows], self.by_content
        return made

    @functools.cached_property
    def pair_numbers(self) -> Ints:
        """Numbers from 0, the same for comparisons of the same two segments, whichever way round, shape [n]."""
        by = _numbers_by_content if self.by_content else _numbers_by_rows
        ids = np.reshape(by(self.outcomes, self.first, self.second), (2, -1))
        return np.unique(np.sort(ids, axis=0), axis=1, return_inverse=True)[1].reshape(-1)

    def used(self) -> Ints:
        """Rows of the table that some comparison is about."""
        count = len(self.outcomes)
        return np.flatnonzero(self.first.covered(count) | self.second.covered(count))

    def decided(self) -> Comparisons:
        """Those about which something was said."""
        return self[np.flatnonzero(np.isfinite(self.target))]

    def __repr__(self) -> str:
        left_out = int(np.isnan(self.target).sum())
        return f"Comparisons({len(self)} pairs of {len(self.outcomes)} outcomes, {left_out} incomparable)"


def _batch(values: Any, what: str) -> tuple[Outcomes | Array, Segments]:
    """A batch as a table and the segments in it."""
    if isinstance(values, Outcomes):
        _require_equal_lengths(values, what)
        return values, Segments.of_single(np.arange(len(values)))
    array = as_finite(values, what)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim == 2:
        return array, Segments.of_single(np.arange(len(array)))
    if array.ndim == 3:
        n, length, columns = array.shape
        start = np.arange(n) * length
        return array.reshape(n * length, columns), Segments(start, np.full(n, length), np.zeros(n, int))
    raise InputError(f"{what} must be Outcomes or have shape (n, d) or (n, steps, d), got {array.shape}")


def _require_equal_lengths(outcomes: Outcomes, what: str) -> None:
    """An error for a field that has not one row an outcome."""
    for name, values in outcomes.columns().items():
        if np.ndim(values) == 0 or len(values) != len(outcomes):
            found = f"{len(values)} rows" if np.ndim(values) else "no rows"
            raise InputError(f"{what}'s {name} has {found}, its obs {len(outcomes)}; there must be one an outcome")


def _require_same_columns(one: Outcomes, other: Outcomes) -> None:
    """An error for outcomes that cannot stand in one table."""
    ours, theirs = ({name: np.shape(values)[1:] for name, values in side.columns().items()} for side in (one, other))
    if ours.keys() != theirs.keys():
        raise InputError(
            f"first's outcomes have {', '.join(ours)}, second's {', '.join(theirs)}; leave out what one side lacks"
        )
    for name, shape in ours.items():
        if theirs[name] != shape:
            raise InputError(f"first's {name} has the shape {shape} an outcome, second's {theirs[name]}")


def _joined(one: Outcomes | Array, other: Outcomes | Array) -> Outcomes | Array:
    if isinstance(one, Outcomes) and isinstance(other, Outcomes):
        _require_same_columns(one, other)
        return concatenate([one, other])
    if isinstance(one, Outcomes) or isinstance(other, Outcomes):
        raise InputError("first and second must both be Outcomes, or both arrays")
    if one.shape[1] != other.shape[1]:
        raise InputError(f"first has {one.shape[1]} features an outcome, second {other.shape[1]}")
    return np.concatenate([one, other])


def _numbers_by_rows(outcomes: Outcomes | Array, first: Segments, second: Segments) -> Ints:
    """Numbers of all segments, the same for the same rows of the table, shape [2n]."""
    sides = [np.stack([side.start, side.length, side.ended], axis=1) for side in (first, second)]
    return np.unique(np.concatenate(sides), axis=0, return_inverse=True)[1].reshape(-1)


def _numbers_by_content(outcomes: Outcomes | Array, first: Segments, second: Segments) -> Ints:
    """Numbers of all segments in order of appearance, the same where their steps hold the same, shape [2n]."""
    row = _row_numbers(outcomes)
    seen: dict[tuple[bytes, int], int] = {}
    keys = (
        (row[start : start + length].tobytes(), ended)
        for side in (first, second)
        for start, length, ended in zip(side.start, side.length, side.ended, strict=True)
    )
    return np.array([seen.setdefault(key, len(seen)) for key in keys])


def _row_numbers(outcomes: Outcomes | Array) -> Ints:
    """Numbers of the rows of a table, the same for rows that hold the same in all their columns."""
    number = np.zeros(len(outcomes), np.int64)
    for values in outcomes.columns().values() if isinstance(outcomes, Outcomes) else [outcomes]:
        array = np.asarray(values).reshape(len(outcomes), -1)
        if array.size and not array.dtype.hasobject:  # objects have no content to look at, and are read by no margin
            array = np.ascontiguousarray(array + 0.0 if array.dtype.kind == "f" else array)  # -0.0 is 0.0
            whole = array.view(np.dtype((np.void, array.itemsize * array.shape[1])))[:, 0]
            each = np.unique(whole, return_inverse=True)[1]
            number = np.unique(number * len(outcomes) + each, return_inverse=True)[1]
    return number


def concatenate_comparisons(parts: Sequence[Comparisons]) -> Comparisons:
    """One set of all pairs, over one table."""
    table, first, second = parts[0].outcomes, [parts[0].first], [parts[0].second]
    for part in parts[1:]:
        shift = len(table)
        table = _joined(table, part.outcomes)
        for mine, theirs in ((first, part.first), (second, part.second)):
            mine.append(Segments(theirs.start + shift, theirs.length, theirs.ended))
    made = Comparisons.__new__(Comparisons)
    made.outcomes, made.target = table, np.concatenate([part.target for part in parts])
    made.by_content = any(part.by_content for part in parts)
    made.first, made.second = (
        Segments(*(np.concatenate([getattr(s, name) for s in side]) for name in ("start", "length", "ended")))
        for side in (first, second)
    )
    return made
