"""Which method suits a contest, and why.

Measured on 2 cores (docs/benchmarks.md). A linear program on HiGHS gives a vertex and is quickest on small contests. A
margin without structure is best met by the interior point, n³ as it is. A structured margin has low complexity: a few
best responses generate the solution, and each costs a few sweeps over the transitions.
"""

from __future__ import annotations

from mdcontest.contest import Contest
from mdcontest.errors import SizeError
from mdcontest.margins import BestTwoOfThree, Dense, Margin, Pairwise, RewardDifference
from mdcontest.solvers.base import Solver
from mdcontest.solvers.extragradient import Extragradient
from mdcontest.solvers.interior_point import InteriorPoint
from mdcontest.solvers.linear_program import LinearProgram
from mdcontest.solvers.newton_device import choose_device
from mdcontest.solvers.policy_generation import PolicyGeneration

MAX_LP_PAIRS = 150
"""Up to here the linear program takes a few hundredths of a second, and its vertex has few actions."""
FEW_ROUNDS = 150
"""Rounds of policy generation after which a margin counts as hard for it, where another method would do."""
MANY_PAIRS = 6000
"""Up to here the interior point takes a minute or two, so it can be what follows policy generation."""

Plan = list[tuple[Solver, str]]
"""Methods in the order in which they are tried, each with its reason."""


def choose_solver(contest: Contest) -> tuple[Solver, str]:
    """A solver for the contest, and the reason in a sentence."""
    return plan(contest)[0]


def plan(contest: Contest) -> Plan:
    """The method that suits a contest, and what to try if it ends above the tolerance."""
    n = contest.num_pairs
    if isinstance(contest.margin, RewardDifference):
        why = "a difference of rewards is a Markov decision process, which one best response solves"
        return [(PolicyGeneration(), why), *_dense_methods(contest, "policy iteration was not accurate enough")]
    if n <= MAX_LP_PAIRS:
        why = f"{n} pairs, at most {MAX_LP_PAIRS}: the linear program is exact and quick"
        return [(LinearProgram(), why), (InteriorPoint(), f"{n} pairs: the linear program was not accurate enough")]
    if has_structure(contest.margin):
        kind = type(contest.margin).__name__
        why = f"{n} pairs and a {kind} margin, of which few best responses generate the solution"
        if n > MANY_PAIRS:
            return [(PolicyGeneration(), why)]
        after = f"{n} pairs, few enough to factor, and policy generation did not get there in {FEW_ROUNDS} rounds"
        return [(PolicyGeneration(FEW_ROUNDS), why), *_dense_methods(contest, after)]
    dense = _dense_methods(contest, f"{n} pairs and a margin without structure: one factorisation a step")
    if dense:
        return dense
    return [(Extragradient(), f"{n} pairs without structure, too many to factor: it only multiplies by M")]


def has_structure(margin: Margin) -> bool:
    """Whether M x costs much less than n² operations, which margins of low complexity have in common."""
    return not isinstance(margin, Dense | Pairwise | BestTwoOfThree)


def _dense_methods(contest: Contest, why: str) -> Plan:
    """The interior point, if it fits into memory; nothing otherwise."""
    try:
        choose_device(contest, "auto")
    except SizeError:
        return []
    return [(InteriorPoint(), why)]
