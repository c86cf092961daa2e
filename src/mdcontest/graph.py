"""The graph of a contest: which states can follow which pair. All that unichain and aperiodic depend on.

A set of states is *closed* if each of its states has an action that never leaves it; a policy that takes those
actions then has a recurrent class inside. A contest is unichain exactly if no two closed sets are disjoint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components

from mdcontest.arrays import Ints, Mask
from mdcontest.components import members_of, recurrent_classes, with_bottom
from mdcontest.transitions import Transitions


@dataclass(frozen=True)
class ClosedSet:
    """States with one action each that together never leave the set."""

    states: tuple[int, ...]
    actions: tuple[int, ...]


class ContestGraph:
    """Successors of every pair. A restart adds the state ⊥ (last index), whose one pair leads to μ in no time."""

    def __init__(self, transitions: Transitions) -> None:
        P = sp.csr_array(transitions.matrix)
        self.num_actions, self.has_restart = transitions.num_actions, transitions.restart is not None
        if transitions.restart is not None:
            P = with_bottom(P, transitions.restart, transitions.start)
        P.eliminate_zeros()
        self.successors = sp.csr_array((np.ones(P.nnz, np.int8), P.indices, P.indptr), shape=P.shape)
        self.predecessors = sp.csc_array(self.successors)
        pairs, self.num_nodes = P.shape
        self.owner: Ints = np.minimum(np.arange(pairs) // self.num_actions, self.num_nodes - 1)
        self.num_states = transitions.num_states

    def greatest_closed(self, allowed: Mask) -> tuple[Mask, NDArray[np.int64], Mask]:
        """The largest closed set inside `allowed`.

        Returns its mask, for the other states the layer in which they left (0: not allowed; k: every action has a
        successor in an earlier layer), and which pairs stay inside.
        """
        inside, rank = allowed.copy(), np.where(allowed, -1, 0)
        stays = np.ones(len(self.owner), bool)
        left = np.bincount(self.owner, minlength=self.num_nodes)
        frontier, layer = np.flatnonzero(~allowed), 0
        while len(frontier):
            layer += 1
            hit = self._pairs_into(frontier)
            hit = hit[stays[hit]]
            stays[hit] = False
            owners, lost = np.unique(self.owner[hit], return_counts=True)
            left[owners] -= lost
            frontier = owners[(left[owners] == 0) & inside[owners]]
            inside[frontier], rank[frontier] = False, layer
        return inside, rank, stays

    def _pairs_into(self, states: Ints) -> Ints:
        """Pairs with a successor among `states`, without repeats."""
        first, last = self.predecessors.indptr[states], self.predecessors.indptr[states + 1]
        total = int((last - first).sum())
        offsets = np.repeat(first - np.concatenate([[0], np.cumsum(last - first)[:-1]]), last - first)
        return np.unique(self.predecessors.indices[np.arange(total) + offsets])

    def policy_inside(self, inside: Mask, stays: Mask) -> Ints:
        """For each state of a closed set the first pair that stays in it (−1 elsewhere)."""
        chosen = np.full(self.num_nodes, -1)
        usable = np.flatnonzero(stays & inside[self.owner])[::-1]
        chosen[self.owner[usable]] = usable
        return chosen

    def recurrent_class(self, chosen: Ints) -> ClosedSet:
        """One recurrent class of a policy that takes pair chosen[s] in the states of a closed set."""
        members = np.flatnonzero(chosen >= 0)
        states = members[recurrent_classes(self.successors[chosen[members]][:, members])[0]]
        return self.as_closed_set(states, chosen[states])

    def as_closed_set(self, states: Ints, pairs: Ints) -> ClosedSet:
        """Plain numbers, without ⊥."""
        real = states < self.num_states
        return ClosedSet(tuple(states[real].tolist()), tuple((pairs[real] % self.num_actions).tolist()))

    def maximal_end_components(self) -> list[Ints]:
        """The maximal end components, as sorted arrays of states."""
        usable = np.ones(len(self.owner), bool)
        while True:
            edges = sp.csr_array(self.successors[usable])
            source = np.repeat(self.owner[usable], np.diff(edges.indptr))
            arcs = sp.csr_array((np.ones(len(source), np.int8), (source, edges.indices)), shape=(self.num_nodes,) * 2)
            _, label = connected_components(arcs, directed=True, connection="strong")
            crossing = label[source] != label[edges.indices]
            leaving = np.repeat(np.flatnonzero(usable), np.diff(edges.indptr))[crossing]
            if not len(leaving):
                break
            usable[leaving] = False
        alive = np.zeros(self.num_nodes, bool)
        alive[self.owner[usable]] = True
        # A component of a state that no usable pair belongs to is that state alone.
        return members_of(label, np.unique(label[alive]))

    def period(self, closed: ClosedSet) -> int:
        """The period of the recurrent class of a policy: gcd of the lengths of its cycles."""
        nodes = list(closed.states)
        pairs = [s * self.num_actions + a for s, a in zip(closed.states, closed.actions, strict=True)]
        if self.has_restart:
            nodes, pairs = [*nodes, self.num_nodes - 1], [*pairs, len(self.owner) - 1]
        step = sp.csr_array(self.successors[pairs][:, nodes])
        order, parent = breadth_first_order(step, 0, directed=True, return_predecessors=True)
        # ⊥ takes no time: a step that starts there has length 0.
        length = np.array([0 if node >= self.num_states else 1 for node in nodes])
        distance = np.zeros(len(nodes), np.int64)
        for node in order[1:]:
            distance[node] = distance[parent[node]] + length[parent[node]]
        source = np.repeat(np.arange(len(nodes)), np.diff(step.indptr))
        reached = np.isin(source, order)
        around = distance[source] + length[source] - distance[step.indices]
        return math.gcd(*(int(k) for k in np.unique(around[reached])))
