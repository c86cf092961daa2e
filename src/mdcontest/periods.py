"""Is every recurrent class of every policy aperiodic?

Yes, if all policies can meet in one state after the same number of steps; no, with a policy that goes round in phases.
Tried in turn: meeting points, cycles of sure transitions, the policies themselves (all of them where they are few
enough, counting actions with the same successors once).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from mdcontest.components import recurrent_classes
from mdcontest.graph import ClosedSet, ContestGraph
from mdcontest.witnesses import ExhaustiveSearch, MeetingPoint, PeriodicClass, Verdict

MAX_POLICIES = 4096
"""All policies are looked at where there are at most this many that differ."""
SAMPLED_POLICIES = 64
"""Else this many, drawn at random with a fixed seed, and fewer in large contests:"""
SAMPLED_NODES = 200_000
"""states that are looked at in all of them, about two seconds."""
MAX_NODES = 100_000
"""Beyond this many states no policies are tried."""
WORK = 20_000_000
"""Arcs the search for a meeting point may look at."""


def aperiodic_verdict(graph: ContestGraph, hubs: list[int]) -> Verdict:
    """yes with a meeting point or after trying all policies, no with a periodic class, or unknown."""
    quick = _sure_cycle(graph) or _meeting_point(graph, hubs)
    if quick is not None:
        return quick
    if graph.num_nodes > MAX_NODES:
        return Verdict("unknown")
    choices = _distinct_choices(graph)
    number = math.prod(len(pairs) for pairs in choices)
    if number <= MAX_POLICIES:
        policies: Iterable[tuple[int, ...]] = itertools.product(*choices)
    else:
        policies = itertools.islice(_sampled(choices), max(1, SAMPLED_NODES // graph.num_nodes))
    for chosen in policies:
        for closed in _classes(graph, np.array(chosen)):
            if (period := graph.period(closed)) > 1:
                return Verdict("no", PeriodicClass(closed, period, _phases(graph, closed, period)))
    return (
        Verdict("yes", ExhaustiveSearch(number, "policies", "aperiodic"))
        if number <= MAX_POLICIES
        else Verdict("unknown")
    )


def _sampled(choices: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """Policies drawn with a fixed seed, one pair a node."""
    rng = np.random.default_rng(0)
    sizes, flat = np.array([len(pairs) for pairs in choices]), np.concatenate([np.array(pairs) for pairs in choices])
    first = np.cumsum(sizes) - sizes
    for _ in range(SAMPLED_POLICIES):
        yield tuple(flat[first + rng.integers(sizes)])


def _distinct_choices(graph: ContestGraph) -> list[list[int]]:
    """For each node the pairs that differ in their successors."""
    choices: list[dict[bytes, int]] = [{} for _ in range(graph.num_nodes)]
    for pair, owner in enumerate(graph.owner):
        row = graph.successors.indices[graph.successors.indptr[pair] : graph.successors.indptr[pair + 1]]
        choices[owner].setdefault(np.sort(row).tobytes(), pair)
    return [list(pairs.values()) for pairs in choices]


def _classes(graph: ContestGraph, chosen: np.ndarray) -> list[ClosedSet]:
    """All recurrent classes of a policy."""
    classes = recurrent_classes(graph.successors[chosen])
    return [graph.as_closed_set(states, chosen[states]) for states in classes]


def _sure_cycle(graph: ContestGraph) -> Verdict | None:
    """A cycle of at least two states through transitions of probability one."""
    sure = np.flatnonzero(np.diff(graph.successors.indptr) == 1)
    sure = sure[graph.owner[sure] < graph.num_states]
    later = graph.successors.indices[graph.successors.indptr[sure]]
    arcs = sp.csr_array((np.ones(len(sure)), (graph.owner[sure], later)), shape=(graph.num_nodes,) * 2)
    _, label = connected_components(arcs, directed=True, connection="strong")
    sizes = np.bincount(label)
    together = (label[graph.owner[sure]] == label[later]) & (graph.owner[sure] != later)
    if not (sizes > 1).any():
        return None
    step = dict(zip(graph.owner[sure[together]].tolist(), sure[together].tolist(), strict=True))
    state, seen = int(graph.owner[sure[together][0]]), list[int]()
    while state not in seen:
        seen.append(state)
        state = int(graph.successors.indices[graph.successors.indptr[step[state]]])
    cycle = np.array(seen[seen.index(state) :])
    closed = graph.as_closed_set(cycle, np.array([step[int(s)] for s in cycle]))
    return Verdict("no", PeriodicClass(closed, len(cycle), tuple(range(len(cycle)))))


def _meeting_point(graph: ContestGraph, hubs: list[int]) -> Verdict | None:
    """Some t and m with Pr(S_m = t) > 0 under every policy and from every state."""
    if not hubs or len(graph.owner) > WORK // 100:
        return None
    limit = min(graph.num_states**2 + 1, WORK // (len(hubs) * (graph.successors.nnz + 1)))
    starts = graph.successors[[len(graph.owner) - 1]].indices if graph.has_restart else np.zeros(0, int)
    for t in hubs:
        here, seen = np.zeros(graph.num_nodes, bool), set[bytes]()
        here[t] = True
        for steps in range(1, limit + 1):
            if graph.has_restart:  # ⊥ takes no time: whoever is there is already at the start
                here[-1] = here[starts].any()
            hits = graph.successors @ here.astype(np.int32) > 0
            here = np.ones(graph.num_nodes, bool)
            here[graph.owner[~hits]] = False
            if here[: graph.num_states].all():
                return Verdict("yes", MeetingPoint(t, steps))
            if here.tobytes() in seen:
                break
            seen.add(here.tobytes())
    return None


def _phases(graph: ContestGraph, closed: ClosedSet, period: int) -> tuple[int, ...]:
    """The phase of each state of a periodic class."""
    phase = {closed.states[0]: 0}
    action = dict(zip(closed.states, closed.actions, strict=True))
    frontier = [closed.states[0]]
    bottom = graph.successors[[len(graph.owner) - 1]].indices.tolist() if graph.has_restart else []
    while frontier:
        s = frontier.pop()
        row = graph.successors[[s * graph.num_actions + action[s]]].indices.tolist()
        for later in (t for node in row for t in (bottom if node >= graph.num_states else [node])):
            if later not in phase:
                phase[later] = (phase[s] + 1) % period
                frontier.append(later)
    return tuple(phase[s] for s in closed.states)
