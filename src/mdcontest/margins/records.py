"""Margins as plain records of arrays, the form in which files hold them."""

from __future__ import annotations

from typing import Any

from mdcontest.errors import FileFormatError, SizeError
from mdcontest.margins.base import Margin
from mdcontest.margins.function import Pairwise
from mdcontest.margins.pairwise import BestTwoOfThree, Dense
from mdcontest.margins.signs import Aggregated, Signs
from mdcontest.margins.structured import Classes, LowRank, RewardDifference

KINDS: dict[str, type[Margin]] = {
    margin.kind: margin for margin in (Dense, LowRank, RewardDifference, Classes, Signs, BestTwoOfThree, Aggregated)
}
MAX_TABULATED_PAIRS = 5000
"""A Python function of two outcomes is stored as its matrix up to this many pairs (200 MB)."""


def margin_to_record(margin: Margin) -> dict[str, Any]:
    """{"kind": …, argument: array, …}; functions and margins of other kinds become the matrix of their values."""
    if isinstance(margin, Pairwise):
        margin = margin.tabulated(MAX_TABULATED_PAIRS)
    elif margin.kind not in KINDS:
        margin = _tabulated(margin)
    return {"kind": margin.kind} | {name: getattr(margin, where) for name, where in margin.fields.items()}


def _tabulated(margin: Margin) -> Dense:
    """A margin of another package, or one that was learned, as its matrix."""
    pairs = len(margin.rows())
    if pairs > MAX_TABULATED_PAIRS:
        raise SizeError(
            f"a {type(margin).__name__} is stored as its matrix, and {pairs} pairs are over the limit of "
            f"{MAX_TABULATED_PAIRS}"
        )
    return Dense(margin.matrix())


def margin_from_record(record: Any) -> Margin:
    """The margin a record describes; nothing in it is ever run."""
    if not isinstance(record, dict) or record.get("kind") not in KINDS:
        kind = record.get("kind") if isinstance(record, dict) else record
        raise FileFormatError(f"unknown margin {kind!r}; this version knows {', '.join(sorted(KINDS))}")
    kind = KINDS[record["kind"]]
    arguments = {name: value for name, value in record.items() if name != "kind"}
    if set(arguments) - set(kind.fields):
        raise FileFormatError(f"margin {kind.kind!r} has no field {sorted(set(arguments) - set(kind.fields))[0]!r}")
    try:
        return kind(**arguments)
    except TypeError as error:
        raise FileFormatError(f"margin {kind.kind!r} is incomplete or of a wrong type: {error}") from None
