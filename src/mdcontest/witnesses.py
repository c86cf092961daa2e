"""Verdicts with witnesses: what proves a yes or a no, in plain numbers, each able to check itself.

`witness.holds(contest)` goes back to the contest's probabilities and uses none of the code that found the witness.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mdcontest.arrays import Mask
from mdcontest.contest import Contest
from mdcontest.errors import preview
from mdcontest.graph import ClosedSet
from mdcontest.transitions import Transitions


class Witness(Protocol):
    """Something that proves a verdict."""

    def holds(self, contest: Contest) -> bool: ...


class Verdict(str):
    """ "yes", "no" or "unknown", with the witness that proves it (None for unknown)."""

    witness: Any

    def __new__(cls, answer: str, witness: Witness | None = None) -> Self:
        verdict = super().__new__(cls, answer)
        verdict.witness = witness
        return verdict


@dataclass(frozen=True)
class DisjointClasses:
    """Not unichain: two disjoint sets of states, and for each state an action that never leaves its set."""

    first: ClosedSet
    second: ClosedSet

    def holds(self, contest: Contest) -> bool:
        apart = not set(self.first.states) & set(self.second.states)
        return apart and all(_is_closed(contest, part) for part in (self.first, self.second))

    def __str__(self) -> str:
        one, two = (preview([str(s) for s in part.states]) for part in (self.first, self.second))
        return f"a policy can stay in {one} for ever, or in {two}"


@dataclass(frozen=True)
class UnavoidableState:
    """Unichain: every policy reaches `state` from everywhere.

    `rank` proves it: it is 0 at the state only, and every action elsewhere has a successor of smaller rank.
    """

    state: int
    rank: tuple[int, ...]

    def holds(self, contest: Contest) -> bool:
        rank = np.asarray(self.rank)
        if len(rank) != contest.num_states or not 0 <= self.state < len(rank):
            return False
        if rank[self.state] != 0 or (np.delete(rank, self.state) <= 0).any():
            return False
        for pair in range(contest.num_pairs):
            s = pair // contest.num_actions
            if s != self.state and rank[_row(contest, pair) > 0].min() >= rank[s]:
                return False
        return True

    def __str__(self) -> str:
        return (
            f"no policy can avoid state {self.state} (reached within {max(self.rank)} steps with positive probability)"
        )


@dataclass(frozen=True, eq=False)
class Minorisation:
    """Unichain and aperiodic: every row of P is at least ε·measure, a common part all pairs share."""

    epsilon: float
    measure: ArrayLike
    """A distribution over the states, shape [S]."""

    def holds(self, contest: Contest) -> bool:
        measure = np.asarray(self.measure, float)
        common = self.epsilon * measure * (1 - 1e-9)
        if not (self.epsilon > 0 and (measure >= 0).all() and math.isclose(measure.sum(), 1, rel_tol=1e-9)):
            return False
        restart = contest.dynamics.restart
        if restart is not None and (restart.min() * contest.start >= common).all():
            return True  # what every pair has from the restart alone is enough
        return all((_row(contest, pair) >= common).all() for pair in range(contest.num_pairs))

    def __str__(self) -> str:
        return f"all pairs share a part of mass {self.epsilon:.6g} of their next-state distributions"


@dataclass(frozen=True)
class ExhaustiveSearch:
    """Yes by trying everything: `checked` cases, none of which was a counterexample."""

    checked: int
    what: str
    question: Literal["unichain", "aperiodic"]

    def holds(self, contest: Contest) -> bool:
        """Search once more, with code of its own."""
        rows = np.array([_row(contest, pair) > 0 for pair in range(contest.num_pairs)])
        arcs = rows.reshape(contest.num_states, contest.num_actions, contest.num_states)
        if self.question == "unichain":
            return _no_two_closed_sets(arcs)
        # Actions with the same successors are the same to this question.
        choices = (np.unique(successors, axis=0) for successors in arcs)
        return all(_is_aperiodic(np.array(chosen)) for chosen in itertools.product(*choices))

    def __str__(self) -> str:
        return f"searched exhaustively, {self.checked} {self.what}"


def _no_two_closed_sets(arcs: Mask) -> bool:
    """Whether no two disjoint sets are closed, by branching on which of the two misses a state both could have."""

    def largest_closed(inside: Mask) -> Mask:
        while True:
            stays = ~np.any(arcs & ~inside, axis=2)
            smaller = inside & stays.any(axis=1)
            if (smaller == inside).all():
                return inside
            inside = smaller

    popular = arcs.sum(axis=(0, 1))
    todo = [(np.ones(len(arcs), bool), np.ones(len(arcs), bool))]
    while todo:
        one, other = (largest_closed(allowed) for allowed in todo.pop())
        common = np.flatnonzero(one & other)
        if not one.any() or not other.any():
            continue
        if not len(common):
            return False
        missing = np.arange(len(arcs)) == common[np.argmax(popular[common])]
        todo += [(one & ~missing, other), (one, other & ~missing)]
    return True


def _is_aperiodic(arcs: Mask) -> bool:
    """Whether every recurrent class of a chain is aperiodic.

    In an aperiodic class of m states every state reaches every other in exactly m² steps (Wielandt 1950).
    """
    reach = np.linalg.matrix_power(arcs | np.eye(len(arcs), dtype=bool), len(arcs))
    recurrent = [s for s in range(len(arcs)) if all(reach[t, s] for t in np.flatnonzero(reach[s]))]
    classes = {tuple(np.flatnonzero(reach[s])) for s in recurrent}
    return all(_after(arcs[np.ix_(members, members)], len(members) ** 2).all() for members in classes)


def _after(arcs: Mask, steps: int) -> Mask:
    """Which state can be where after exactly so many steps, by repeated squaring."""
    result, power = np.eye(len(arcs), dtype=bool), arcs
    while steps:
        if steps & 1:
            result = result @ power
        power, steps = power @ power, steps >> 1
    return result


@dataclass(frozen=True)
class PeriodicClass:
    """Not aperiodic: under these actions the states recur with this period; phase[i] is the phase of states[i]."""

    closed: ClosedSet
    period: int
    phase: tuple[int, ...]

    def holds(self, contest: Contest) -> bool:
        phase = dict(zip(self.closed.states, self.phase, strict=True))
        return (
            self.period > 1
            and _is_closed(contest, self.closed)
            and all(
                phase[later] == (phase[s] + 1) % self.period
                for s, a in zip(self.closed.states, self.closed.actions, strict=True)
                for later in _successors(contest, s, a)
            )
        )

    def __str__(self) -> str:
        states = preview([str(s) for s in self.closed.states])
        return f"a policy goes round {states} with period {self.period}"


@dataclass(frozen=True)
class MeetingPoint:
    """Aperiodic: after exactly `steps` steps every policy is in `state` with positive probability, from everywhere."""

    state: int
    steps: int

    def holds(self, contest: Contest) -> bool:
        here = np.zeros(contest.num_states, bool)
        here[self.state] = True
        for _ in range(self.steps):
            here = np.array(
                [
                    all(any(here[t] for t in _successors(contest, s, a)) for a in range(contest.num_actions))
                    for s in range(contest.num_states)
                ]
            )
        return bool(here.all())

    def __str__(self) -> str:
        return f"after {self.steps} steps every policy can be in state {self.state}, wherever it began"


def _row(contest: Contest, pair: int) -> NDArray[np.float64]:
    """P(·|s, a) as an array."""
    row = contest.dynamics.matrix[[pair]]
    row = (row.toarray() if sp.issparse(row) else row)[0]
    if contest.dynamics.restart is not None:
        row = row + contest.dynamics.restart[pair] * contest.start
    return np.asarray(row)


def _successors(contest: Contest, state: int, action: int) -> list[int]:
    row = _row(contest, state * contest.num_actions + action)
    return [int(s) for s in np.flatnonzero(row > 0)]


def _is_closed(contest: Contest, part: ClosedSet) -> bool:
    inside = set(part.states)
    return bool(inside) and all(
        set(_successors(contest, s, a)) <= inside for s, a in zip(part.states, part.actions, strict=True)
    )


def overlap_of_rows(transitions: Transitions) -> tuple[float, NDArray[np.float64]]:
    """ε = Σ_s' min_sa P(s'|s, a) and the common part divided by ε; a lower bound of it with a sparse restart."""
    P = transitions.matrix
    if transitions.is_sparse:
        full = np.bincount(P.indices, minlength=P.shape[1]) == P.shape[0]  # states that every pair can lead to
        least = np.where(full, 1.0, 0.0)
        if full.any():
            counts = full[P.indices]
            np.minimum.at(least, P.indices[counts], P.data[counts])
    else:
        least = P.min(axis=0)
    if transitions.restart is not None:
        least = least + transitions.restart.min() * transitions.start
    epsilon = float(least.sum())
    return epsilon, least / epsilon if epsilon > 0 else least
