"""Which method suits a contest, and why.

Measured on 2 cores (docs/benchmarks.md). A linear program on HiGHS gives a vertex and is quickest on small contests. A
margin without structure is best met by the interior point, n³ as it is. A structured margin has low complexity: a few
best responses generate the solution, and each costs a few sweeps over the transitions.
"""

from __future__ import annotations

from collections.abc import Iterator

from mdcontest.contest import Contest
from mdcontest.errors import SizeError
from mdcontest.margins import Dense, Margin, RewardDifference
from mdcontest.solvers.base import Solver
from mdcontest.solvers.extragradient import Extragradient
from mdcontest.solvers.interior_point import InteriorPoint
from mdcontest.solvers.linear_program import LinearProgram
from mdcontest.solvers.newton_device import choose_device
from mdcontest.solvers.policy_generation import PolicyGeneration

PAIRS_A_ROW = 20
"""A matrix has structure if so many pairs share a row of it. Random ones take policy generation three to five rounds a
row: with 20 pairs a row it is as quick as the interior point at 1500 and 2000 pairs, with 50 ten times as quick."""
MAX_LP_PAIRS = 150
"""Up to here the linear program takes a few hundredths of a second, and its vertex has few actions."""
FEW_ROUNDS = 150
"""Rounds of policy generation after which a margin counts as hard for it, where another method would do."""
MOST_PAIRS_AFTER = 6000
"""Up to here the interior point takes a minute or two, so it can be what follows policy generation."""

Plan = Iterator[tuple[Solver, str]]
"""Methods in the order in which they are tried, each with its reason; the later ones are looked for when needed."""


def choose_solver(contest: Contest) -> tuple[Solver, str]:
    """A solver for the contest, and the reason in a sentence."""
    return next(plan(contest))


def plan(contest: Contest) -> Plan:
    """The method that suits a contest, and what to try if it ends above the tolerance."""
    n = contest.num_pairs
    if isinstance(contest.margin, RewardDifference):
        yield PolicyGeneration(), "a difference of rewards is a Markov decision process, which one best response solves"
        if n <= MOST_PAIRS_AFTER:
            yield from _dense_methods(contest, "policy iteration was not accurate enough")
    elif n <= MAX_LP_PAIRS:
        yield LinearProgram(), f"{n} pairs, at most {MAX_LP_PAIRS}: the linear program is exact and quick"
        yield InteriorPoint(), f"{n} pairs: the linear program was not accurate enough"
    elif has_structure(contest.margin):
        kind = type(contest.margin).__name__
        limit = {"iterations": FEW_ROUNDS} if n <= MOST_PAIRS_AFTER else {}
        yield (
            PolicyGeneration(**limit),
            f"{n} pairs and a {kind} margin, of which few best responses generate the solution",
        )
        if limit:
            why = f"{n} pairs, few enough to factor, and policy generation did not get there in {FEW_ROUNDS} rounds"
            yield from _dense_methods(contest, why)
    else:
        dense = f"{n} pairs and a margin without structure: one factorisation a step"
        fits = list(_dense_methods(contest, dense))
        yield from fits
        if not fits:
            yield Extragradient(), f"{n} pairs without structure, too many to factor: it only multiplies by M"


def has_structure(margin: Margin) -> bool:
    """Whether the margin knows a faster way to M x than through its matrix."""
    if isinstance(margin, Dense):  # a faster way where pairs share rows, as those of all time steps do
        return len(margin.rows()) >= PAIRS_A_ROW * len(margin.M)
    return type(margin).kernel_against is not Margin.kernel_against


def _dense_methods(contest: Contest, why: str) -> Plan:
    """The interior point, if it fits into memory; nothing otherwise."""
    try:
        choose_device(contest, "auto")
    except SizeError:
        return
    yield InteriorPoint(), why
