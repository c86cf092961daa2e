"""Everything that was ever said in a dataset: part files that are only added to, and what of it holds now.

A comparison is revised or withdrawn by a later row with the same id. Of the rows of an id the newest holds; of several
at the same moment a withdrawal, and else the one whose text comes last, so that the order of files never matters.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mdcontest.errors import FileFormatError, InputError, preview
from mdcontest.folders import make_folder
from mdcontest.preferences.labels import LABELS, Label
from mdcontest.preferences.references import WITHDRAWN, Comparison, Segment
from mdcontest.tables import read_table, write_table

FORMAT = "mdcontest/comparisons"
COLUMNS = {
    "id": "string",
    "first_trajectory": "string",
    "first_start": "int64",
    "first_length": "int64",
    "second_trajectory": "string",
    "second_start": "int64",
    "second_length": "int64",
    "label": "string",
    "strength": "float64",
    "annotator": "string",
    "source": "string",
    "time": "float64",
}
STRENGTH = "strength"
"""The label of rows whose answer is a number, which is in the column of that name."""


class ComparisonLog:
    """The rows of a folder of part files; files are read once, new ones when they are there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: set[str] = set()
        self._newest: dict[str, Comparison] = {}
        self._older: dict[str, list[Comparison]] = {}

    def refresh(self) -> None:
        """Read what other processes added meanwhile."""
        for path in sorted(self.folder.glob("*.parquet")):
            if path.name not in self._read:
                self._take(read_rows(path))
                self._read.add(path.name)

    def _take(self, rows: Iterable[Comparison]) -> None:
        for row in rows:
            known = self._newest.setdefault(row.id, row)
            if known is row or self._has(row):
                continue
            older, newer = sorted((known, row), key=_rank)
            self._newest[row.id] = newer
            self._older.setdefault(row.id, []).append(older)

    def _has(self, row: Comparison) -> bool:
        return self._newest.get(row.id) == row or row in self._older.get(row.id, ())

    def holds(self, row: Comparison) -> bool:
        """Whether this was said already and still holds, at whatever time."""
        return self._counts(row.id) and self._newest[row.id].said() == row.said()

    def require_told_apart(self, rows: list[Comparison]) -> None:
        """An error for an answer to a question that was answered otherwise at the very same time: neither is newer."""
        seen = dict[tuple[str, float], Comparison]()
        for row in rows:
            newest = self._newest.get(row.id)
            known = seen.setdefault((row.id, row.time), newest if newest and newest.time == row.time else row)
            if known.label != WITHDRAWN and known.said() != row.said():
                raise InputError(
                    f"the comparison {row.id!r} was answered otherwise at the same time, {row.time:g}; to revise an "
                    "answer, give the new one a later time"
                )

    def rows(self) -> list[Comparison]:
        """Every row, those that no longer hold included."""
        self.refresh()
        return [*self._newest.values(), *(row for rows in self._older.values() for row in rows)]

    def entries(self) -> list[Comparison]:
        """What holds now, by time and id."""
        self.refresh()
        kept = [row for row in self._newest.values() if row.label != WITHDRAWN]
        return sorted(kept, key=lambda row: (row.time, row.id))

    def append(self, rows: list[Comparison]) -> int:
        """Store those rows that are not there yet, in one part; how many comparisons hold now that did not before."""
        new = [row for row in dict.fromkeys(rows) if not self._has(row)]
        if not new:
            return 0
        before = {row.id for row in new if self._counts(row.id)}
        make_folder(self.folder, parents=False)  # an empty one does not survive every copy of a dataset
        path = self.folder / f"{_name(new)}.parquet"
        write_table(path, FORMAT, COLUMNS, _columns(new))
        self._take(new)
        self._read.add(path.name)
        return len({row.id for row in new if self._counts(row.id)} - before)

    def _counts(self, id: str) -> bool:
        return id in self._newest and self._newest[id].label != WITHDRAWN

    def withdrawals(self, ids: Iterable[str], time: float) -> list[Comparison]:
        """Rows that take these comparisons back; never older than what they take back."""
        self.refresh()
        wanted = list(dict.fromkeys(ids))
        if missing := [id for id in wanted if id not in self._newest]:
            raise InputError(f"there are no comparisons {preview(missing)} in {self.folder.parent} to withdraw")
        known = [self._newest[id] for id in wanted]
        return [replace(row, label=WITHDRAWN, time=max(time, row.time)) for row in known if row.label != WITHDRAWN]


def _rank(row: Comparison) -> tuple[float, bool, str]:
    return row.time, row.label == WITHDRAWN, repr(row.said())


def _name(rows: list[Comparison]) -> str:
    """A file's name by its content: the same rows stored twice are one file."""
    digest = hashlib.blake2b(digest_size=8)
    for row in rows:
        digest.update(f"{row.id} {row.time!r} {row.said()}\n".encode())
    return digest.hexdigest()


def _columns(rows: list[Comparison]) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {"id": [row.id for row in rows]}
    for side in ("first", "second"):
        segments = [getattr(row, side) for row in rows]
        for name in ("trajectory", "start", "length"):
            values[f"{side}_{name}"] = [getattr(segment, name) for segment in segments]
    values["label"] = [row.label if isinstance(row.label, str) else STRENGTH for row in rows]
    values["strength"] = [None if isinstance(row.label, str) else row.label for row in rows]
    for name in ("annotator", "source", "time"):
        values[name] = [getattr(row, name) for row in rows]
    return values


def read_rows(path: Path) -> list[Comparison]:
    """The rows of one part."""
    table = read_table(path, FORMAT, COLUMNS)
    values = [column if isinstance(column, list) else column.tolist() for column in table.values()]
    return [_row(path, number, row) for number, row in enumerate(zip(*values, strict=True))]


def _row(path: Path, number: int, row: tuple[Any, ...]) -> Comparison:
    id, t, start, length, u, begin, size, label, strength, annotator, source, time = row
    value: Label = strength if label == STRENGTH else label
    number_is_fine = label != STRENGTH or (isinstance(strength, float) and -1 <= strength <= 1)
    if None in row[:8] or None in row[9:] or not (number_is_fine and label in (*LABELS, STRENGTH, WITHDRAWN)):
        raise FileFormatError(f"{path} was changed or damaged: row {number} is no comparison, its label is {value!r}")
    if not math.isfinite(time):
        raise FileFormatError(f"{path} was changed or damaged: the time of row {number} is {time}")
    if min(start, begin) < 0 or min(length, size) < 1:
        raise FileFormatError(f"{path} was changed or damaged: row {number} is about no steps of a trajectory")
    return Comparison(Segment(t, start, length), Segment(u, begin, size), value, annotator, source, time, id)
