"""What is compared, by reference: stretches of stored trajectories, and what was said about two of them."""

from __future__ import annotations

import contextlib
import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdcontest.errors import InputError
from mdcontest.preferences.labels import Label, read_label

WITHDRAWN = "withdrawn"
"""The label of a row that takes an earlier row of the same id back."""


@dataclass(frozen=True)
class Segment:
    """`length` steps of a trajectory from step `start` on.

    It may run over the end of a trajectory only if that terminated; its steps after the end are ⊥.
    """

    trajectory: str
    """The trajectory's id."""
    start: int
    """The first step, counted from 0; the trajectory's length for a segment that is ⊥ throughout."""
    length: int = 1


@dataclass(frozen=True)
class Comparison:
    """Two segments, what was said about them, and by whom."""

    first: Segment
    second: Segment
    label: Label
    """first, second, equal, incomparable, or a number in [−1, 1]; see labels.py."""
    annotator: str = ""
    """The person or the teacher that said it."""
    source: str = ""
    """Where the pair came from, such as a question page or a command with its settings."""
    time: float = 0.0
    """When it was said, in seconds since 1970 (UTC)."""
    id: str = ""
    """Under which it can be revised or withdrawn; made of everything but the time where none is given."""

    def checked(self) -> Comparison:
        """With a label as it is stored, and an id; or an error that says what is wrong."""
        first, second = _checked_segment(self.first, "first"), _checked_segment(self.second, "second")
        for text in (self.first.trajectory, self.second.trajectory, self.annotator, self.source, self.id):
            if not isinstance(text, str):
                raise InputError(f"names and ids of a comparison are texts, got {text!r:.60}")
            if not _is_unicode(text):
                raise InputError(f"names and ids of a comparison are Unicode texts, got {text!r:.60}: half a character")
        said = (first, second, read_label(self.label), self.annotator, self.source, _seconds(self.time))
        return Comparison(*said, self.id or derived_id(Comparison(*said)))

    def said(self) -> tuple[Any, ...]:
        """Everything but the time and the id."""
        one, other = self.first, self.second
        ends = (one.trajectory, one.start, one.length, other.trajectory, other.start, other.length)
        return (*ends, self.label, self.annotator, self.source)


def _is_unicode(text: str) -> bool:
    """Whether it can be written to a file: JSON's \\ud800 alone is half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _seconds(time: Any) -> float:
    with contextlib.suppress(OverflowError):  # a whole number of hundreds of digits
        if isinstance(time, int | float) and not isinstance(time, bool) and math.isfinite(time):
            return float(time)
    raise InputError(f"time must be seconds since 1970, got {time!r:.60}")


def _checked_segment(segment: Any, side: str) -> Segment:
    if not isinstance(segment, Segment):
        raise InputError(f"{side} must be a Segment, got {type(segment).__name__}")
    if type(segment.start) is not int or type(segment.length) is not int:
        segment = Segment(segment.trajectory, _plain(segment.start), _plain(segment.length))
    for name, value, least in (("start", segment.start, 0), ("length", segment.length, 1)):
        if type(value) is not int or not least <= value < 2**62:
            raise InputError(f"the {side} segment's {name} must be a whole number from {least} on, got {value!r:.60}")
    return segment


def _plain(number: Any) -> Any:
    """NumPy's whole numbers as Python's; anything else as it is."""
    return int(number) if isinstance(number, np.integer) else number


def derived_id(comparison: Comparison) -> str:
    """16 hexadecimal digits made of everything but the time, so that the same answer given twice is one."""
    return hashlib.blake2b(repr(comparison.said()).encode(), digest_size=8).hexdigest()
