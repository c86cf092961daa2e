"""Comparisons as JSON lines, for other tools and other labs: one comparison a line.

    {"id": "…", "first": {"trajectory": "…", "start": 3, "length": 1}, "second": {…}, "label": "first",
     "annotator": "ann", "source": "page", "time": 1700000000.0}

`label` is a word or a number, as in labels.py. Only first, second and label have to be there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from mdcontest.errors import FileFormatError, InputError, did_you_mean
from mdcontest.files import atomic_write
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.references import Comparison, Segment

FIELDS = ("id", "first", "second", "label", "annotator", "source", "time")
SEGMENT_FIELDS = ("trajectory", "start", "length")
MAX_LINE = 1 << 20
"""Bytes of a line; a longer one is no comparison."""


def export_comparisons(dataset: Dataset, path: str | PathLike[str]) -> int:
    """Write all comparisons that hold; how many there are."""
    entries = dataset.entries()
    with atomic_write(path) as file:
        for entry in entries:
            file.write(json.dumps(_record(entry), ensure_ascii=False).encode() + b"\n")
    return len(entries)


def import_comparisons(dataset: Dataset, path: str | PathLike[str]) -> int:
    """Add the comparisons of a file to a dataset that has their trajectories; how many were new.

    Nothing is added unless every line can be read and everything it refers to is there.
    """
    found, index = [], dataset.index()
    for number, line in _lines(Path(path)):
        try:
            found.append(dataset.checked(_comparison(line), index))
        except InputError as error:
            raise FileFormatError(f"{path}, line {number}: {error}") from None
    return dataset.add_comparisons(found)


def _record(entry: Comparison) -> dict[str, Any]:
    segments = {
        side: {name: getattr(getattr(entry, side), name) for name in SEGMENT_FIELDS} for side in ("first", "second")
    }
    said = {"label": entry.label, "annotator": entry.annotator, "source": entry.source, "time": entry.time}
    return {"id": entry.id, **segments, **said}


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1 on."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise FileFormatError(
                        f"{path}, line {number}: it has over {MAX_LINE} bytes, so it is no comparison"
                    )
                if line.strip():
                    yield number, line
    except (OSError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _comparison(line: bytes) -> Comparison:
    try:
        record = json.loads(line.decode("utf-8-sig"), parse_constant=_refuse, object_pairs_hook=_once)
    except UnicodeDecodeError:
        raise InputError("it is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"it is truncated or not JSON: {error}") from None
    _require_fields(record, FIELDS, ("first", "second", "label"), "a comparison")
    sides = {side: _segment(record[side], side) for side in ("first", "second")}
    return Comparison(**{**record, **sides})


def _segment(record: Any, side: str) -> Segment:
    _require_fields(record, SEGMENT_FIELDS, ("trajectory", "start"), f"the segment {side}")
    return Segment(**record)


def _require_fields(record: Any, known: tuple[str, ...], needed: tuple[str, ...], what: str) -> None:
    if not isinstance(record, dict):
        raise InputError(f"{what} must be an object in braces, got {record!r:.60}")
    for name in record:
        if name not in known:
            raise InputError(f"{what} has no field {name[:40]!r}{did_you_mean(name, list(known), 'fields')}")
    for name in needed:
        if name not in record:
            raise InputError(f"{what} needs the field {name!r}")


def _once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; two values under one name contradict each other."""
    record = dict(fields)
    if len(record) < len(fields):
        names = [name for name, _ in fields]
        raise InputError(f"the field {next(n for n in names if names.count(n) > 1)[:40]!r} comes twice")
    return record


def _refuse(constant: str) -> None:
    raise InputError(f"it holds the number {constant}; every number must be finite")
