"""Which pairs to ask about: at random, or those about which a fitted margin's members disagree most."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.preferences.dataset import Dataset, segments_of
from mdcontest.preferences.labelling.pairs import Key, Pair, pair_key
from mdcontest.preferences.references import Segment
from mdcontest.preferences.trajectories import TrajectoryInfo

CANDIDATES = 20
"""Random pairs looked at for each one that is asked about, where a margin chooses."""
MARGIN_FILE = "margin.json"
"""What a folder with a fitted margin has."""
LONGEST = 2000
"""Steps of a clip; its pictures are in memory while it is filmed."""
TRIES = 20
"""Random pairs drawn for each one wanted before a dataset is taken to have no new ones."""


class Choice:
    """Draws pairs from a dataset that may grow meanwhile."""

    def __init__(self, dataset: Dataset, length: int, margin: Path | None = None, seed: int = 0) -> None:
        if not 1 <= length <= LONGEST:
            raise InputError(f"a clip has 1 to {LONGEST} steps, got a length of {length}")
        self._dataset, self._length, self._folder = dataset, length, margin
        self._rng = np.random.default_rng(seed)
        self._margin: Any = None
        self._read_at = 0
        if margin is not None and not margin.is_dir():
            raise InputError(f"{margin} is no folder; --margin takes the folder that a fitted margin was saved to")
        self.places = 0
        """How many segments there are to choose from, as of the last draw."""
        self.left_out = ""
        """What could not be chosen, as of the last draw, in words; empty where everything could."""

    def draw(self, count: int, known: Callable[[Key], bool]) -> list[Pair]:
        """At most `count` pairs that are not known, the most wanted first; none where there are no more."""
        index = self._dataset.index()
        infos = {id: info for id, info in index.items() if info.seed is not None}
        starts = {id: starts_of(info, self._length) for id, info in infos.items()}
        self.places = sum(starts.values())
        short = sum(count == 0 for count in starts.values())
        reasons = {
            "cannot be played again, for they have no seed": len(index) - len(infos),
            f"are cut off before a clip of {self._length} steps is over (--length makes clips shorter)": short,
        }
        said = (f"{count} of {len(index)} trajectories {reason}" for reason, count in reasons.items() if count)
        self.left_out = "; ".join(said)
        if self.places < 2:
            return []
        chooses = self._folder is not None and (self._folder / MARGIN_FILE).is_file()  # the first fit may be to come
        found = self._random(starts, CANDIDATES * count if chooses else count, known)
        if not chooses or not found:
            return found[:count]
        scores = self._disagreement(found, infos)
        return [found[i] for i in np.argsort(-scores, kind="stable")[:count]]

    def _random(self, starts: dict[str, int], count: int, known: Callable[[Key], bool]) -> list[Pair]:
        """Different pairs, every one equally likely: all of them where there are few, else drawn until enough."""
        ids, ends = list(starts), np.cumsum(list(starts.values()))
        total = int(ends[-1])
        every = total * (total - 1) // 2
        if every <= TRIES * count:
            numbers = np.stack(np.triu_indices(total, 1), axis=1)[self._rng.permutation(every)]
        else:
            numbers = self._rng.integers(0, total, (TRIES * count, 2))
        owner = np.searchsorted(ends, numbers, side="right")
        start = numbers - (ends - list(starts.values()))[owner]
        found: dict[Key, None] = {}
        for (i, j), (s, t) in zip(owner.tolist(), start.tolist(), strict=True):
            if len(found) >= count:
                break
            key = pair_key((ids[i], s, self._length), (ids[j], t, self._length))
            if key[0] != key[1] and not known(key):
                found[key] = None
        return [Pair(Segment(*one), Segment(*other)) for one, other in found]

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
        now = (self._folder / MARGIN_FILE).stat().st_mtime_ns
        if self._margin is None or now != self._read_at:
            self._margin, self._read_at = load_margin(self._folder), now
        return self._margin


def starts_of(info: TrajectoryInfo, length: int) -> int:
    """At how many steps a segment may begin: it fits, or the episode ended by itself and half of it is shown."""
    inside = info.length - (length // 2 if info.terminated else length)
    return max(inside + 1, 1 if info.terminated else 0)
