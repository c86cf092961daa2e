"""Pairs of segments to ask about, drawn at random: every possible pair is equally likely, and none is drawn twice.

Segments of a trajectory that ended by itself may begin at any of its steps and at ⊥, the step after; what lies behind
the end is ⊥. Those of a trajectory that was cut off stay inside it. Two segments that are ⊥ throughout are not paired.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdcontest.arrays import Ints, is_whole
from mdcontest.errors import InputError
from mdcontest.preferences.references import Segment
from mdcontest.preferences.trajectories import TrajectoryInfo


def sample_pairs(
    index: Mapping[str, TrajectoryInfo], count: int, length: int = 1, seed: int = 0
) -> list[tuple[Segment, Segment]]:
    """`count` different pairs of segments of `length` steps; the same for the same index and seed."""
    if not (is_whole(count) and count >= 1):
        raise InputError(f"the number of pairs must be at least 1 and whole, got {count!r}")
    if not (is_whole(length) and 1 <= length < 2**62):
        raise InputError(f"the length of segments must be at least 1 and whole, got {length!r:.60}")
    if not (is_whole(seed) and seed >= 0):
        raise InputError(f"seed must be a whole number, not negative, got {seed!r}")
    count, length = int(count), int(length)
    infos = [index[id] for id in sorted(index)]
    starts = np.array([max(info.length - (0 if info.terminated else length - 1), 0) for info in infos], int)
    ends = [info for info in infos if info.terminated]
    inside, beyond = int(starts.sum()), len(ends)
    possible = inside * (inside - 1) // 2 + inside * beyond
    if count > possible:
        raise InputError(
            f"{len(infos)} trajectories have {possible} pairs of segments of {length} steps, fewer than {count}: ask "
            "for fewer, or collect more trajectories"
        )
    rng = np.random.default_rng(seed)
    drawn = _decode(rng.choice(possible, count, replace=False), inside)
    drawn = np.where(rng.random(count)[:, None] < 0.5, drawn, drawn[:, ::-1])
    place = np.searchsorted(np.cumsum(starts), drawn, side="right")
    first = np.cumsum(starts) - starts

    def segment(number: int, owner: int) -> Segment:
        if number >= inside:
            return Segment(ends[number - inside].id, ends[number - inside].length, length)
        return Segment(infos[owner].id, number - int(first[owner]), length)

    return [(segment(a, i), segment(b, j)) for (a, b), (i, j) in zip(drawn.tolist(), place.tolist(), strict=True)]


def _decode(codes: Ints, inside: int) -> Ints:
    """Numbers of pairs → two numbers of segments each, shape [n, 2]; segments from `inside` on are ⊥ throughout.

    The pairs (i, j) with j < i < inside come first, in the order of i, then those of ⊥ with every other segment.
    """
    among = inside * (inside - 1) // 2
    one = np.floor((1 + np.sqrt(1 + 8 * codes.astype(float))) / 2).astype(np.int64)
    one -= one * (one - 1) // 2 > codes  # the root of a large number may be off by one
    one += one * (one + 1) // 2 <= codes
    other = codes - one * (one - 1) // 2
    rest, is_ended = codes - among, codes >= among
    width = max(inside, 1)
    return np.stack([np.where(is_ended, inside + rest // width, one), np.where(is_ended, rest % width, other)], axis=1)
