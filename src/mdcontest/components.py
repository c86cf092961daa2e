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
    return [np.flatnonzero(label == k) for k in np.flatnonzero(closed)]


def with_bottom(matrix: Matrix, restart: Matrix, start: Matrix) -> Matrix:
    """[[P₀, e], [μ, 0]]: restarts lead to one more node ⊥, and ⊥ leads to μ. Sparse."""
    into, out = sp.csr_array(restart[:, None]), sp.csr_array(start[None, :])
    return sp.csr_array(sp.block_array([[matrix, into], [out, None]]))
