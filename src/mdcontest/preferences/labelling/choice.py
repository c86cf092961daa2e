"""Which pairs to ask about: at random, or those about which a fitted margin's members disagree most."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mdcontest.arrays import Array, Ints
from mdcontest.errors import InputError
from mdcontest.preferences.dataset import Dataset, segments_of
from mdcontest.preferences.labelling.pairs import Pair
from mdcontest.preferences.references import Segment
from mdcontest.preferences.trajectories import TrajectoryInfo

CANDIDATES = 20
"""Random pairs looked at for each one that is asked about, where a margin chooses."""
TRIES = 20
"""Random pairs drawn for each one wanted before a dataset is taken to have no new ones."""


class Choice:
    """Draws pairs from a dataset that may grow meanwhile."""

    def __init__(self, dataset: Dataset, length: int, margin: Path | None = None, seed: int = 0) -> None:
        if length < 1:
            raise InputError(f"a clip needs at least one step, got a length of {length}")
        self._dataset, self._length, self._folder = dataset, length, margin
        self._rng = np.random.default_rng(seed)
        self._margin: Any = None
        self._read_at: tuple[int, ...] = ()
        if margin is not None and not margin.is_dir():
            raise InputError(f"{margin} is no folder; --margin takes the folder that a fitted margin was saved to")
        self.places = 0
        """How many segments there are to choose from, as of the last draw."""

    def draw(self, count: int, known: Callable[[Pair], bool]) -> list[Pair]:
        """At most `count` pairs that are not known, the most wanted first; none where there are no more."""
        infos = {id: info for id, info in self._dataset.index().items() if info.seed is not None}
        starts = {id: starts_of(info, self._length) for id, info in infos.items()}
        self.places = sum(starts.values())
        if self.places < 2:
            return []
        wanted = count if self._folder is None else CANDIDATES * count
        found = self._random(starts, wanted, known)
        if self._folder is None or not found:
            return found[:count]
        scores = self._disagreement(found, infos)
        return [found[i] for i in np.argsort(-scores, kind="stable")[:count]]

    def _random(self, starts: dict[str, int], count: int, known: Callable[[Pair], bool]) -> list[Pair]:
        """Different pairs, every one equally likely: all of them where there are few, else drawn until enough."""
        ids, ends = list(starts), np.cumsum(list(starts.values()))
        total = int(ends[-1])
        every = total * (total - 1) // 2
        if every <= TRIES * count:
            one, other = np.triu_indices(total, 1)
            order = self._rng.permutation(every)
            drawn = zip(one[order], other[order], strict=True)
        else:
            numbers = self._rng.integers(0, total, (TRIES * count, 2))
            drawn = zip(numbers[:, 0], numbers[:, 1], strict=True)
        found: dict[str, Pair] = {}
        for a, b in drawn:
            if len(found) >= count:
                break
            pair = Pair(self._segment(ids, ends, int(a)), self._segment(ids, ends, int(b)))
            if a != b and not known(pair):
                found[pair.id] = pair
        return list(found.values())

    def _segment(self, ids: list[str], ends: Ints, place: int) -> Segment:
        which = int(np.searchsorted(ends, place, side="right"))
        return Segment(ids[which], place - (int(ends[which - 1]) if which else 0), self._length)

    def _disagreement(self, pairs: list[Pair], infos: dict[str, TrajectoryInfo]) -> Array:
        """How much the margin's members differ about each pair."""
        used = dict.fromkeys(s.trajectory for pair in pairs for s in (pair.one, pair.other))
        outcomes, rows = self._dataset.table(used)
        one, other = (segments_of([getattr(pair, side) for pair in pairs], rows, infos) for side in ("one", "other"))
        return np.asarray(self._fitted().disagreement(outcomes, one, other), float)

    def _fitted(self) -> Any:
        """The margin, read again when its files have changed: it is fitted anew while people label."""
        from mdcontest.preferences.margin_files import load_margin  # JAX, which random pairs do without

        if self._folder is None:
            raise AssertionError("only asked where a margin was given")
        now = tuple(sorted(path.stat().st_mtime_ns for path in self._folder.iterdir() if path.is_file()))
        if self._margin is None or now != self._read_at:
            self._margin, self._read_at = load_margin(self._folder), now
        return self._margin


def starts_of(info: TrajectoryInfo, length: int) -> int:
    """At how many steps a segment may begin: it fits, or the episode ended by itself and half of it is shown."""
    inside = info.length - (length // 2 if info.terminated else length)
    return max(inside + 1, 1 if info.terminated else 0)
