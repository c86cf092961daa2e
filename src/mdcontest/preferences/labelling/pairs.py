"""Pairs of segments, and pairs in somebody's hands."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from mdcontest.preferences.references import Segment

Place = tuple[str, int, int]
"""A segment as trajectory, start and length."""
Key = tuple[Place, Place]


def pair_key(one: Place, other: Place) -> Key:
    """The same for both orders."""
    return (one, other) if one <= other else (other, one)


@dataclass(frozen=True)
class Pair:
    """Two segments, in no particular order."""

    one: Segment
    other: Segment

    @functools.cached_property
    def key(self) -> Key:
        """What tells it from other pairs; the same for both orders."""
        return pair_key(*((side.trajectory, side.start, side.length) for side in (self.one, self.other)))


@dataclass
class Given:
    """A pair in somebody's hands; what is left and what is right is settled."""

    id: str
    annotator: str
    left: Segment
    right: Segment
    repeat_of: str | None
    """The id of the earlier giving of which this is the repetition."""
    time: float
    expires: float
    """When its lease runs out."""
    label: str | None = None
    """What was answered: first is the left one."""
    answered: float = 0.0
    """When."""
    lapsed: bool = False
    """It is no longer shown: somebody else has the pair after its lease ran out, or its clips cannot be made."""

    @functools.cached_property
    def pair(self) -> Pair:
        """What it is about."""
        return Pair(self.left, self.right)

    def runs(self, now: float) -> bool:
        """Whether it is still waited for."""
        return self.label is None and not self.lapsed and self.expires > now
