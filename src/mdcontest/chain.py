"""The Markov chain of states under one decision rule: its classes, frequencies and Poisson equation.

With a restart (see transitions.py) the chain gets one more state ⊥ that takes no time: a restart goes to ⊥, and ⊥
goes to μ. Watched only while it is outside ⊥ this is the chain itself, and the matrix stays sparse.

Both quantities come from one factorisation. Let j be a recurrent state and B the matrix I − P without row and column
j; B is nonsingular because every state reaches j. Then
    ν ∝ (B⁻ᵀ P[j, ·], 1)                      expected visits between two returns to j,
    h = (B⁻¹ (c − g w), 0)                    h = c − g w + P h with h(j) = 0 (w = 1 on states, 0 on ⊥).
It holds for periodic chains and with transient states alike.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from numpy.typing import NDArray
from scipy.linalg import lapack  # called directly: the wrappers cost more than a small solve
from scipy.sparse.csgraph import connected_components

from mdcontest.errors import InputError
from mdcontest.transitions import Transitions

Array = NDArray[np.float64]
LOST_IN_ROUNDING = (
    "the chain of this rule hardly ever leaves some of its states, so that its frequencies are lost in rounding; "
    "set tiny transition probabilities to zero, or use contest.with_restart(eps)"
)


class Chain:
    """States under a rule. `num_states` excludes ⊥, which if present is the last index."""

    def __init__(self, transitions: Transitions, rule: Array, like: Chain | None = None) -> None:
        """`like` is a chain of the same contest; where it has the same arcs, its classes and pivot are taken over."""
        transitions = transitions.for_chains
        inner, restart = transitions.under(rule)
        self.num_states = transitions.num_states
        self.start = transitions.start
        if restart is not None:
            inner = sp.block_array(
                [[inner, sp.csr_array(restart[:, None])], [sp.csr_array(self.start[None, :]), None]], format="csr"
            )
        if sp.issparse(inner):
            inner.eliminate_zeros()  # an action never taken is no arc
        self.matrix: Any = inner
        self.has_restart = restart is not None
        self.time = np.ones(self.matrix.shape[0])
        self.time[self.num_states :] = 0
        if like is not None and _same_arcs(self.matrix, like.matrix):
            self.recurrent_classes, self._pivot = like.recurrent_classes, like._pivot

    @cached_property
    def recurrent_classes(self) -> list[NDArray[np.intp]]:
        """The recurrent classes, as sorted arrays of states (⊥ included in its class)."""
        if not sp.issparse(self.matrix) and self.matrix.min() > 0:
            return [np.arange(len(self.matrix))]
        graph = sp.csr_array(self.matrix)
        count, label = connected_components(graph, directed=True, connection="strong")
        source = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
        leaves = (label[source] != label[graph.indices]) & (graph.data > 0)
        closed = np.ones(count, bool)
        closed[label[source[leaves]]] = False
        return [np.flatnonzero(label == k) for k in np.flatnonzero(closed)]

    @property
    def classes_of_states(self) -> list[NDArray[np.intp]]:
        """The recurrent classes without ⊥."""
        return [members[members < self.num_states] for members in self.recurrent_classes]

    @property
    def is_unichain(self) -> bool:
        return len(self.recurrent_classes) == 1

    @cached_property
    def frequencies(self) -> Array:
        """ν(s) = lim 1/T Σ_t Pr(S_t = s) from μ, shape [S]; zero on transient states."""
        nu = np.zeros(len(self.time))
        for members, weight in zip(self.recurrent_classes, self._absorption, strict=True):
            if weight > 0:
                nu[members] = weight * self._stationary(members)
        return nu[: self.num_states]

    def poisson(self, cumulant: Array) -> tuple[float, Array]:
        """(g, h) with c − g + P h = h and ν·h = 0, for a chain with one recurrent class. c, h: shape [S]."""
        c = np.concatenate([cumulant, np.zeros(len(self.time) - self.num_states)])
        g = float(self.frequencies @ cumulant)
        h = np.zeros(len(self.time))
        keep = self._others
        h[keep] = self._solve(c[keep] - g * self.time[keep])
        h = h[: self.num_states]
        return g, h - self.frequencies @ h

    # --- linear algebra -----------------------------------------------------------------------------------

    @cached_property
    def _pivot(self) -> int:
        """j: ⊥ where it recurs, else an often visited state, so that B is as well conditioned as it can be."""
        members = self.recurrent_classes[0]
        if self.has_restart and members[-1] == self.num_states:
            return self.num_states
        inner = (
            self.matrix[np.ix_(members, members)] if not sp.issparse(self.matrix) else self.matrix[members][:, members]
        )
        mass = np.full(len(members), 1 / len(members))
        for _ in range(min(10, len(members))):
            mass = 0.5 * mass + 0.5 * (inner.T @ mass)
        return int(members[np.argmax(mass)])

    @cached_property
    def _others(self) -> NDArray[np.intp]:
        return np.delete(np.arange(len(self.time)), self._pivot)

    @cached_property
    def _system(self) -> tuple[Any, Any]:
        """B and its factorisation."""
        return _factor(self.matrix, self._others)

    def _solve(self, right: Array, transposed: bool = False) -> Array:
        B, factors = self._system
        return _refined_solve(B, factors, right, transposed)

    def _stationary(self, members: NDArray[np.intp]) -> Array:
        """Stationary law of one recurrent class in the time of the states, shape [len(members)]."""
        if self.is_unichain:
            j, others = self._pivot, self._others
            visits = np.ones(len(self.time))
            visits[others] = self._solve(_dense(self.matrix[[j]])[0][others], transposed=True)
            visits = visits[members]
        else:
            j, others = members[-1], members[:-1]
            B, factors = _factor(self.matrix, others)
            into = _dense(self.matrix[[j]])[0][others]
            visits = np.append(_refined_solve(B, factors, into, transposed=True), 1.0)
        visits = np.maximum(visits, 0.0)
        return visits / (visits * self.time[members]).sum()

    @cached_property
    def _absorption(self) -> Array:
        """The probability, from μ, of ending in each recurrent class."""
        classes = self.recurrent_classes
        if len(classes) == 1:
            return np.ones(1)
        mu = np.concatenate([self.start, np.zeros(len(self.time) - self.num_states)])
        transient = np.setdiff1d(np.arange(len(mu)), np.concatenate(classes))
        direct = np.array([mu[members].sum() for members in classes])
        if len(transient):
            B, factors = _factor(self.matrix, transient)
            visits = np.maximum(_refined_solve(B, factors, mu[transient], transposed=True), 0.0)
            arrives = self.matrix[transient].T @ visits
            direct += np.array([arrives[members].sum() for members in classes])
        return direct / direct.sum()


def _same_arcs(one: Any, other: Any) -> bool:
    """Whether two matrices of one contest are positive in the same places."""
    if sp.issparse(one):
        return np.array_equal(one.indptr, other.indptr) and np.array_equal(one.indices, other.indices)
    return bool(((one > 0) == (other > 0)).all())


def _dense(matrix: Any) -> Array:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def _factor(matrix: Any, keep: NDArray[np.intp]) -> tuple[Any, Any]:
    """B = I − P on `keep`, with its LU factors (None when nothing is kept).

    The diagonal 1 − P(s, s) is summed from the other entries of the row: a state that is left with probability 1e-20
    is then left with that probability, and not never.
    """
    if len(keep) == 0:
        return np.zeros((0, 0)), None
    if sp.issparse(matrix):
        elsewhere = sp.csr_array(matrix - sp.diags_array(matrix.diagonal()))[keep]
        B = sp.csc_array(sp.diags_array(elsewhere.sum(axis=1)) - elsewhere[:, keep])
        try:
            return B, spla.splu(B)
        except RuntimeError:  # exactly singular
            raise InputError(LOST_IN_ROUNDING) from None
    elsewhere = matrix[keep]
    elsewhere[np.arange(len(keep)), keep] = 0.0
    B = -elsewhere[:, keep]
    np.fill_diagonal(B, elsewhere.sum(axis=1))
    lu, pivots, _ = lapack.dgetrf(B)
    return B, (lu, pivots)


def _refined_solve(B: Any, factors: Any, right: Array, transposed: bool) -> Array:
    """B⁻¹ b or B⁻ᵀ b, with one step of iterative refinement."""
    if factors is None:
        return np.zeros(0)

    def once(b: Array) -> Array:
        if sp.issparse(B):
            return np.asarray(factors.solve(b, trans="T" if transposed else "N"))
        return np.asarray(lapack.dgetrs(*factors, b, trans=int(transposed))[0])

    solution = once(right)
    solution = solution + once(right - (B.T if transposed else B) @ solution)
    if not np.isfinite(solution).all():
        raise InputError(LOST_IN_ROUNDING)
    return solution
