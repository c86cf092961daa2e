"""The Markov chain of states under one decision rule: its classes, frequencies and Poisson equation.

With a restart (see transitions.py) the chain gets one more state ⊥ that takes no time: a restart goes to ⊥, and ⊥
goes to μ. Watched only while it is outside ⊥ this is the chain itself, and the matrix stays sparse.

Frequencies ν and values h come from one factorisation. Let w be the time a visit takes (1 on states, 0 on ⊥) and u any
distribution. If the chain has one recurrent class, the bordered matrix

    K = [ I − P   w ]        Kᵀ (ν, 0) = (0, 1)      ν = ν P, w·ν = 1
        [   uᵀ    0 ]        K (h, g) = (c, 0)       h = c − g w + P h, u·h = 0

is nonsingular, whether the chain is periodic or not and with or without transient states; and it is as well conditioned
as the deviation matrix is small, because |h| ≤ 2 τ |c|.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mdcontest.arrays import Array, Ints
from mdcontest.components import recurrent_classes, with_bottom
from mdcontest.errors import InputError
from mdcontest.factors import LOST_IN_ROUNDING, Factors
from mdcontest.transitions import Transitions

FAR_VALUES = 1e4
"""Of the largest cumulant: values that differ by more are solved for relative to one state that is visited often."""
BUSY_STEPS = 30
"""Steps of a sparse chain after which the state visited most serves as reference."""


class Chain:
    """States under a rule. `num_states` excludes ⊥, which if present is the last index."""

    def __init__(self, transitions: Transitions, rule: Array, like: Chain | None = None) -> None:
        """`like` is a chain of the same contest; where it has the same arcs, its classes are taken over."""
        transitions = transitions.for_chains
        inner, restart = transitions.under(rule)
        self.num_states = transitions.num_states
        self.start = transitions.start
        if restart is not None:
            inner = with_bottom(inner, restart, self.start)
        if sp.issparse(inner):
            inner.eliminate_zeros()  # an action never taken is no arc
        self.matrix: Any = inner
        self.time = np.ones(self.matrix.shape[0])
        self.time[self.num_states :] = 0
        if like is not None and _same_arcs(self.matrix, like.matrix):
            self.recurrent_classes = like.recurrent_classes

    @cached_property
    def recurrent_classes(self) -> list[Ints]:
        """The recurrent classes, as sorted arrays of states (⊥ included in its class)."""
        if not sp.issparse(self.matrix) and self.matrix.min() > 0:
            return [np.arange(len(self.matrix))]
        return recurrent_classes(self.matrix)

    @property
    def classes_of_states(self) -> list[Ints]:
        """The recurrent classes without ⊥."""
        return [members[members < self.num_states] for members in self.recurrent_classes]

    @property
    def is_unichain(self) -> bool:
        return len(self.recurrent_classes) == 1

    @cached_property
    def frequencies(self) -> Array:
        """ν(s) = lim 1/T Σ_t Pr(S_t = s) from μ, shape [S]; zero on transient states."""
        nu = np.zeros(len(self.time))
        for members, weight in zip(self.recurrent_classes, self.absorption, strict=True):
            if weight > 0:
                nu[members] = weight * self.stationary(members)
        return nu[: self.num_states]

    def poisson(self, cumulant: Array) -> tuple[float, Array]:
        """(g, h) with c − g + P h = h and ν·h = 0, for a chain with one recurrent class. c, h: shape [S]."""
        _, h = self.relative_values(cumulant)
        return float(self.frequencies @ cumulant), h - self.frequencies @ h

    @property
    def values_norm(self) -> float:
        """How much larger than an error in the equations for values one in the values can be."""
        return self._bordered.inverse_norm

    def relative_values(self, cumulant: Array) -> tuple[float, Array]:
        """(g, h) with c − g + P h = h and u·h = 0: all that policy iteration needs, from one solve."""
        right = np.zeros(len(self.time) + 1)
        right[: self.num_states] = cumulant
        solution = self._bordered.solve(right)
        if not sp.issparse(self.matrix) and np.abs(solution).max() / FAR_VALUES > np.abs(cumulant).max():
            # States that take very long to leave have values so large that, in the mean over all states, digits of the
            # others are lost.
            solution = self._anchored.solve(right)
        return float(solution[-1]), solution[: self.num_states]

    @cached_property
    def _bordered(self) -> Factors:
        """K for the whole chain."""
        members = self.recurrent_classes[0]
        return Factors(_bordered(self.matrix, self._leaving, self.time, int(members[_busy(self.matrix, members)])))

    @cached_property
    def _anchored(self) -> Factors:
        """K for the whole chain, a dense one, with u on the state that is visited most."""
        K = self._bordered.matrix.copy()
        K[-1] = 0.0
        K[-1, int(np.argmax(self.frequencies))] = 1.0
        return Factors(K)

    @cached_property
    def _leaving(self) -> Array:
        return _leaving(self.matrix)

    def stationary(self, members: Ints, factors: Factors | None = None) -> Array:
        """Stationary law of one recurrent class, in the time of its states, shape [len(members)]."""
        K = factors or self.factors_of(members)
        visits = K.solve(np.append(np.zeros(len(members)), 1.0), transposed=True)[:-1]
        return self.in_time(members, np.maximum(visits, 0.0))

    def factors_of(self, members: Ints) -> Factors:
        """K for one recurrent class: transient states can take very long to leave, and would cost the others digits."""
        if len(members) == len(self.time):
            return self._bordered
        busy = _busy(self.matrix, members)
        return Factors(_bordered(self.within(members), self._leaving[members], self.time[members], busy))

    def within(self, members: Ints) -> Any:
        """The transitions among these states."""
        return _restrict(self.matrix, members)

    def in_time(self, members: Ints, visits: Array) -> Array:
        """Visits to states of a class as shares of the time that they take."""
        total = float((visits * self.time[members]).sum())
        if not total > 0:
            raise InputError(LOST_IN_ROUNDING)
        return visits / total

    @cached_property
    def absorption(self) -> Array:
        """The probability, from μ, of ending in each recurrent class."""
        classes = self.recurrent_classes
        if len(classes) == 1:
            return np.ones(1)
        arrives = self.first + self.matrix[self.transient].T @ self.passing
        absorbed = np.array([arrives[members].sum() for members in classes])
        return absorbed / absorbed.sum()

    @cached_property
    def passing(self) -> Array:
        """Visits to the transient states before one of the classes is reached."""
        if not len(self.transient):
            return np.zeros(0)
        return np.maximum(Factors(self.staying).solve(self.first[self.transient], transposed=True), 0.0)

    @cached_property
    def staying(self) -> Any:
        """I − P among the transient states."""
        return _identity_minus(self.within(self.transient), self._leaving[self.transient])

    @cached_property
    def transient(self) -> Ints:
        """The states in no recurrent class."""
        return np.setdiff1d(np.arange(len(self.time)), np.concatenate(self.recurrent_classes))

    @property
    def first(self) -> Array:
        """μ, and nothing on ⊥."""
        return np.concatenate([self.start, np.zeros(len(self.time) - self.num_states)])


def _leaving(matrix: Any) -> Array:
    """1 − P(s, s), summed from the other entries of the row: an exit of probability 1e-20 then counts as one."""
    if sp.issparse(matrix):
        return np.asarray((matrix - sp.diags_array(matrix.diagonal())).sum(axis=1)).reshape(-1)
    others = matrix.copy()
    np.fill_diagonal(others, 0.0)
    return np.asarray(others.sum(axis=1))


def _identity_minus(P: Any, leaving: Array) -> Any:
    """I − P with the diagonal given."""
    if sp.issparse(P):
        return sp.diags_array(leaving) - (P - sp.diags_array(P.diagonal()))
    difference = -P
    np.fill_diagonal(difference, leaving)
    return difference


def _bordered(P: Any, leaving: Array, time: Array, reference: int) -> Any:
    """K; u is uniform in dense matrices, and one recurrent state in sparse ones: a full row makes factors fill."""
    size = len(time)
    if sp.issparse(P):
        u, w = sp.csr_array(([1.0], ([0], [reference])), shape=(1, size)), sp.csr_array(time[:, None])
        return sp.block_array([[_identity_minus(P, leaving), w], [u, None]], format="csr")
    K = np.zeros((size + 1, size + 1))
    K[:size, :size] = _identity_minus(P, leaving)
    K[:size, size], K[size, :size] = time, 1 / size
    return K


def _busy(matrix: Any, members: Ints) -> int:
    """The place among the members of one that is visited often, roughly: values relative to a rare one lose digits."""
    if not sp.issparse(matrix):
        return 0
    mass = np.zeros(matrix.shape[0])
    mass[members] = 1 / len(members)
    total = mass.copy()
    for _ in range(BUSY_STEPS):
        mass = matrix.T @ mass
        total += mass
    return int(np.argmax(total[members]))


def _restrict(matrix: Any, members: Ints) -> Any:
    return matrix[members][:, members] if sp.issparse(matrix) else matrix[np.ix_(members, members)]


def _same_arcs(one: Any, other: Any) -> bool:
    """Whether two matrices of one contest are positive in the same places."""
    if sp.issparse(one):
        return np.array_equal(one.indptr, other.indptr) and np.array_equal(one.indices, other.indices)
    return bool(((one > 0) == (other > 0)).all())
