"""Does every policy have one recurrent class? NP-hard to decide, so: cheap proofs first, then a bounded search.

Not unichain means two disjoint closed sets (graph.py). In turn:
1. Two maximal end components are two disjoint closed sets: no.
2. A state t that no policy can avoid lies in every recurrent class: yes. To find one, test a candidate; if some policy
   avoids it, that policy's recurrent class R rules out all candidates outside R, and if R is disjoint from a class
   found before, the answer is no.
3. Search: every state is missing from one of two disjoint closed sets A, B. Take the largest sets still allowed; where
   they overlap, branch on which of the two loses a common state; stop at a limit of nodes: unknown.
"""

from __future__ import annotations

import numpy as np

from mdcontest.arrays import Mask
from mdcontest.chain import Chain
from mdcontest.graph import ClosedSet, ContestGraph
from mdcontest.transitions import Transitions
from mdcontest.witnesses import DisjointClasses, ExhaustiveSearch, UnavoidableState, Verdict

SEARCH_NODES = 4096
"""Nodes the exact search may visit, fewer in large contests:"""
SEARCH_ARCS = 30_000_000
"""arcs it may look at in all, a few seconds."""
CANDIDATE_ARCS = 20_000
"""What testing one candidate costs beyond its arcs, counted in arcs."""
MAX_HUBS = 8
"""States that no policy can avoid, tried for the best bound on τ."""
MAX_HUB_STATES = 20_000
"""Contests with more states are not searched for several of them."""


def unichain_verdict(graph: ContestGraph) -> Verdict:
    """yes with a state no policy avoids or after an exhaustive search, no with two closed sets, or unknown."""
    components = graph.maximal_end_components()
    if len(components) > 1:
        return _refuted(*(_class_inside(graph, states) for states in components[:2]))
    return _by_candidates(graph, components[0]) or _by_search(graph)


def _refuted(one: ClosedSet, other: ClosedSet) -> Verdict:
    """No, by two disjoint classes, that of the first state first."""
    return Verdict("no", DisjointClasses(*sorted((one, other), key=lambda part: part.states)))


def _class_inside(graph: ContestGraph, states: np.ndarray) -> ClosedSet:
    allowed = np.zeros(graph.num_nodes, bool)
    allowed[states] = True
    inside, _, stays = graph.greatest_closed(allowed)
    return graph.recurrent_class(graph.policy_inside(inside, stays))


def _by_candidates(graph: ContestGraph, component: np.ndarray) -> Verdict | None:
    """Step 2. A state that no policy can avoid lies in every end component, hence in the maximal one."""
    candidates = np.zeros(graph.num_nodes, bool)
    candidates[component[component < graph.num_states]] = True
    popular = np.diff(graph.predecessors.indptr)
    classes: list[ClosedSet] = []
    budget = max(1, SEARCH_ARCS // (graph.successors.nnz + graph.num_nodes + CANDIDATE_ARCS))
    while candidates.any() and len(classes) < budget:
        t = int(np.argmax(np.where(candidates, popular, -1)))
        everything_else = np.ones(graph.num_nodes, bool)
        everything_else[t] = False
        inside, rank, stays = graph.greatest_closed(everything_else)
        if not inside.any():
            return Verdict("yes", _witness(graph, t, rank))
        found = graph.recurrent_class(graph.policy_inside(inside, stays))
        keep = np.zeros(graph.num_nodes, bool)
        keep[list(found.states)] = True
        if not candidates[keep].any():  # else all classes so far have a candidate in common
            for earlier in classes:
                if not keep[list(earlier.states)].any():
                    return _refuted(earlier, found)
        classes.append(found)
        candidates &= keep
    return None


def _witness(graph: ContestGraph, t: int, rank: np.ndarray) -> UnavoidableState:
    # ⊥ takes no time, so ranks stay strictly decreasing along its successors once it is left out.
    return UnavoidableState(t, tuple(int(r) for r in rank[: graph.num_states]))


def _by_search(graph: ContestGraph) -> Verdict:
    """Step 3, depth first."""
    nobody = np.ones(graph.num_nodes, bool)
    todo: list[tuple[Mask, Mask]] = [(nobody, nobody)]
    visited, limit = 0, min(SEARCH_NODES, 1 + SEARCH_ARCS // (graph.successors.nnz + graph.num_nodes))
    while todo:
        if visited == limit:
            return Verdict("unknown")
        visited += 1
        for_a, for_b = todo.pop()
        in_a, _, stays_a = graph.greatest_closed(for_a)
        in_b, _, stays_b = graph.greatest_closed(for_b)
        if not in_a.any() or not in_b.any():
            continue
        common = np.flatnonzero(in_a & in_b)
        if not len(common):
            parts = [(in_a, stays_a), (in_b, stays_b)]
            return _refuted(*(graph.recurrent_class(graph.policy_inside(*part)) for part in parts))
        state = common[np.argmax(np.diff(graph.predecessors.indptr)[common])]
        without = (_without(in_a, state), in_b), (in_a, _without(in_b, state))
        todo.extend(without[:1] if visited == 1 else without)  # at the root A and B may be swapped
    return Verdict("yes", ExhaustiveSearch(visited, "nodes", "unichain"))


def _without(mask: Mask, state: int) -> Mask:
    smaller = mask.copy()
    smaller[state] = False
    return smaller


def unavoidable_states(transitions: Transitions, graph: ContestGraph) -> list[int]:
    """Some states that no policy can avoid, those most visited by the uniform policy first."""
    if transitions.num_states > MAX_HUB_STATES:
        return []
    uniform = np.full((transitions.num_states, transitions.num_actions), 1 / transitions.num_actions)
    visits = Chain(transitions, uniform).frequencies
    hubs: list[int] = []
    for t in np.argsort(-visits, kind="stable")[: 4 * MAX_HUBS]:
        everything_else = np.ones(graph.num_nodes, bool)
        everything_else[t] = False
        if not graph.greatest_closed(everything_else)[0].any():
            hubs.append(int(t))
        if len(hubs) == MAX_HUBS:
            break
    return hubs
