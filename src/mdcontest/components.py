"""Recurrent classes of a chain from its arcs alone."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from mdcontest.arrays import Ints, Matrix


def recurrent_classes(arcs: Matrix) -> list[Ints]:
    """The strongly connected components that no arc leaves, as sorted arrays. Every stored entry is an arc."""
    graph = sp.csr_array(arcs)
    count, label = connected_components(graph, directed=True, connection="strong")
    source = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    closed = np.ones(count, bool)
    closed[label[source[label[source] != label[graph.indices]]]] = False
    return members_of(label, np.flatnonzero(closed))


def members_of(label: Ints, wanted: Ints) -> list[Ints]:
    """For each wanted label, ascending, the sorted places that have it; one pass however many labels there are."""
    places = np.flatnonzero(np.isin(label, wanted))
    places = places[np.argsort(label[places], kind="stable")]
    ends = np.searchsorted(label[places], wanted, side="right")
    return np.split(places, ends[:-1]) if len(wanted) else []


def with_bottom(matrix: Matrix, restart: Matrix, start: Matrix) -> Matrix:
    """[[P₀, e], [μ, 0]]: restarts lead to one more node ⊥, and ⊥ leads to μ. Sparse."""
    into, out = sp.csr_array(restart[:, None]), sp.csr_array(start[None, :])
    return sp.csr_array(sp.block_array([[matrix, into], [out, None]]))
