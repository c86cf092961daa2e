"""The cases of `bench/solvers.py`, and who takes part in which.

A series is a model with a margin at several sizes; a contender takes part up to the size beyond which its method is
known to be hopeless, so that nobody waits for it. A case is one size of a series.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highs
import mdp_peers

from mdcontest import solvers

OURS: dict[str, tuple[str, dict[str, Any], int]] = {
    "InteriorPoint": ("InteriorPoint", {}, 4000),
    "PolicyGeneration": ("PolicyGeneration", {}, 10**8),
    "Extragradient": ("Extragradient", {}, 20_000),
    "OptimisticHPI": ("OptimisticHPI", {}, 500),
    "HPI": ("HPI", {}, 500),
    "LinearProgram ipm": ("LinearProgram", {"method": "ipm"}, 500),
    "LinearProgram simplex": ("LinearProgram", {"method": "simplex"}, 500),
}
"""Solvers of this package: class, settings, most pairs. `solve` itself, which chooses one, comes on top."""
HIGHS: dict[str, tuple[str, bool]] = {
    "HiGHS simplex": ("simplex", True),
    "HiGHS ipx": ("ipx", True),
    "HiGHS ipx, no crossover": ("ipx", False),
    "HiGHS HiPO": ("hipo", True),
    "HiGHS HiPO, no crossover": ("hipo", False),
}
"""HiGHS's methods: the name of each in HiGHS, and whether a vertex is looked for after the interior point."""
AUTO = "solve"
"""The contender that calls `solve(contest)` and lets it choose."""
QUICK = (AUTO, "InteriorPoint", "PolicyGeneration", "HiGHS simplex", "HiGHS ipx, no crossover", "mdpsolver")
"""Who takes part in the quick version."""
DENSE_MOST = {"HiGHS simplex": 400, "HiGHS HiPO": 1600, "HiGHS HiPO, no crossover": 1600, "PolicyGeneration": 400}
"""Most pairs of a dense margin, where that is less."""


@dataclass(frozen=True)
class Series:
    """A model with a margin at growing sizes (numbers of pairs, about)."""

    model: str
    margin: str
    quick: tuple[int, ...]
    full: tuple[int, ...]
    highs_most: int = 200_000
    """HiGHS takes part up to here."""

    @property
    def title(self) -> str:
        return f"{self.model}, {self.margin}"


@dataclass(frozen=True)
class Case:
    """One contest and who solves it."""

    name: str
    series: Series
    pairs: int
    contenders: tuple[str, ...]


SERIES = (
    Series("garnet", "dense", (400, 1200), (400, 800, 1200, 1600, 4000), highs_most=1600),
    Series("garnet", "low rank", (1000, 10_000, 100_000), (1000, 10_000, 100_000, 1_000_000, 10_000_000), 100_000),
    Series("grid", "low rank", (1000, 10_000), (1000, 10_000, 100_000, 1_000_000), 100_000),
    Series("garnet", "reward", (1000, 10_000, 100_000), (1000, 10_000, 100_000, 1_000_000), 100_000),
    Series("garnet", "classes", (10_000,), (1000, 10_000, 100_000, 1_000_000), 100_000),
    Series("garnet", "signs", (1000,), (1000, 10_000, 100_000, 1_000_000), 10_000),
    Series("queue", "reward", (4000,), (400, 4000, 40_000)),
    Series("queue", "low rank", (), (400, 4000, 40_000)),
    Series("routing", "reward", (10_000,), (1000, 10_000, 100_000)),
    Series("routing", "low rank", (1000,), (1000, 10_000, 100_000)),
    Series("inventory", "reward", (4000,), (400, 4000, 40_000)),
    Series("inventory", "low rank", (), (400, 4000, 40_000)),
)


def cases(quick: bool, only: str = "") -> list[Case]:
    """All cases, the small ones of a series first; `only` keeps those whose name contains it."""
    found = []
    for series in SERIES:
        for pairs in series.quick if quick else series.full:
            name = f"{series.title}, {pairs // 4}x4" if series.margin == "dense" else f"{series.title}, n={pairs:.0e}"
            name = name.replace("e+0", "e")
            if only in name:
                who = contenders(series, pairs)
                found.append(Case(name, series, pairs, tuple(w for w in who if w in QUICK) if quick else who))
    return found


def contenders(series: Series, pairs: int) -> tuple[str, ...]:
    """Who takes part at a size: ours and the peers by turns, so that whatever else the machine does hits both."""
    dense = series.margin == "dense"
    ours = [name for name, (kind, _, most) in OURS.items() if hasattr(solvers, kind) and pairs <= most]
    peers = list(HIGHS) if pairs <= series.highs_most else []
    if not highs.has_hipo():
        peers = [name for name in peers if "HiPO" not in name]
    if dense:
        ours = [name for name in ours if pairs <= DENSE_MOST.get(name, pairs)]
        peers = [name for name in peers if pairs <= DENSE_MOST.get(name, pairs)]
    if series.margin == "reward":
        peers += [name for name in mdp_peers.installed() if name == "mdpsolver" or pairs <= 10_000]
    ours = [AUTO, *ours]
    turns = [name for pair in zip(ours, peers, strict=False) for name in pair]
    return tuple(turns + ours[len(peers) :] + peers[len(ours) :])


def make_solver(name: str, threads: int) -> Any:
    """The solver of a contender; None lets `solve` choose."""
    if name == AUTO:
        return None
    if name in OURS:
        kind, settings, _ = OURS[name]
        return getattr(solvers, kind)(**settings)
    if name in HIGHS:
        method, crossover = HIGHS[name]
        return highs.Highs(method, crossover, threads)
    return mdp_peers.MdpPackage(name, threads)


def is_peer(name: str) -> bool:
    """Whether a contender is somebody else's."""
    return name in HIGHS or name in mdp_peers.PACKAGES
