"""P(s'|s, a): one row a pair, dense or sparse, with an optional restart.

A restart returns to the start distribution μ. Written into a sparse matrix it would fill every row, so it is kept
apart: P = P₀ + e μᵀ, where row (s, a) of P₀ sums to 1 − e(s, a). With e = ε this is `with_restart`; with e = 1 on the
last layer it is the reset of a finite horizon. Dense matrices have the restart written in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from mdcontest.arrays import TOLERANCE, Array, read_numbers, tolerance_of
from mdcontest.errors import InputError, SizeError

EPS = float(np.finfo(float).eps)
MAX_RESTART_ENTRIES = 50_000_000
"""Entries that a restart may be written into a sparse matrix with (600 MB)."""
MAX_ENTRIES = 2_000_000_000
"""Transitions of a contest of several steps (24 GB)."""
SMALL_ENTRIES = 40_000
"""Sparse transitions of up to this many entries (320 kB) are solved as arrays, which is ten times as fast."""
EXPANDED_ENTRIES = 200_000
"""An array of several steps stays one up to here (1.6 MB). Mostly zeros, it takes as long as the sparse form there; at
five times as many entries, conditions and solves take three to five times as long, and an array grows like T²."""


@dataclass(frozen=True, eq=False)
class Transitions:
    """The transition probabilities of a contest."""

    matrix: Any
    """P₀, shape [n, S]: a float64 array or a scipy.sparse.csr_array."""
    restart: Array | None
    """e, shape [n]: the probability of returning to μ; None without restarts."""
    start: Array
    """μ, shape [S]."""

    def __post_init__(self) -> None:
        # Results are remembered for each contest, so what they were computed from must not change.
        for values in (self.matrix, self.start, self.restart):
            if isinstance(values, np.ndarray):
                values.setflags(write=False)

    @property
    def num_states(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def num_actions(self) -> int:
        return int(self.matrix.shape[0]) // self.num_states

    @property
    def is_sparse(self) -> bool:
        return bool(sp.issparse(self.matrix))

    def expect(self, h: Array) -> Array:
        """P h: the expected h one step after each pair, shape [n]."""
        later = self.matrix @ h
        return later if self.restart is None else later + self.restart * (self.start @ h)

    def flow(self, x: Array) -> Array:
        """Pᵀ x: the mass that arrives in each state, shape [S]."""
        arrives = self.matrix.T @ x
        return arrives if self.restart is None else arrives + self.start * (self.restart @ x)

    def under(self, rule: Array) -> tuple[Any, Array | None]:
        """P₀ and e of the chain of states under a rule, shapes [S, S] and [S]."""
        states, actions = rule.shape
        if self.is_sparse:
            pairs = np.arange(states * actions)
            mix = sp.csr_array((rule.reshape(-1), pairs, np.append(pairs[::actions], len(pairs))))
            chain: Any = mix @ self.matrix
        else:
            chain = np.matmul(rule[:, None, :], self.matrix.reshape(states, actions, states))[:, 0, :]
        restart = None if self.restart is None else (rule * self.restart.reshape(states, actions)).sum(axis=1)
        return chain, restart

    @cached_property
    def for_chains(self) -> Transitions:
        """The same transitions in the form in which chains are solved fastest: small ones as a plain array."""
        if not self.is_sparse or self.matrix.shape[0] * self.num_states > SMALL_ENTRIES:
            return self
        return Transitions(self.full().toarray(), None, self.start)

    def full(self) -> Any:
        """P with the restart written in: [n, S], sparse if P₀ is (a restart then fills rows)."""
        if self.restart is None:
            return self.matrix
        rows, reached = np.count_nonzero(self.restart), np.count_nonzero(self.start)
        if rows * reached > MAX_RESTART_ENTRIES:
            raise SizeError(
                f"P with the restart written in has {rows * reached:.3g} entries more, {reached} in each of {rows} "
                f"rows, over the limit of {MAX_RESTART_ENTRIES:.3g}; contest.dynamics keeps the restart apart: "
                "dynamics.expect(h) is P h, dynamics.flow(x) is Pᵀ x"
            )
        jumps = sp.csr_array(self.restart[:, None]) @ sp.csr_array(self.start[None, :])
        return sp.csr_array(self.matrix + jumps)

    def with_restart(self, eps: float) -> Transitions:
        """(1 − ε) P + ε 1 μᵀ."""
        if not self.is_sparse:
            return Transitions((1 - eps) * self.matrix + eps * self.start[None, :], None, self.start)
        before = 0.0 if self.restart is None else self.restart
        e = np.broadcast_to(eps + (1 - eps) * before, (self.matrix.shape[0],)).copy()
        return Transitions(_with_data(self.matrix, (1 - eps) * self.matrix.data), e, self.start)

    def time_expanded(self, horizon: int) -> Transitions:
        """The chain on (t, s), t = 0 … horizon − 1, that restarts from (0, s) ~ μ after the last layer.

        Sparse, unless P is an array and what comes of it is a small one.
        """
        n, states = self.matrix.shape
        entries = horizon * (self.matrix.nnz if self.is_sparse else self.matrix.size)
        if entries > MAX_ENTRIES:
            raise SizeError(
                f"a horizon of {horizon} makes {entries:.3g} transitions, over the limit of {MAX_ENTRIES:.3g}; "
                "a discount of 1 − 1/horizon costs nothing"
            )
        start = np.concatenate([self.start, np.zeros((horizon - 1) * states)])
        if horizon == 1:
            empty = sp.csr_array((n, states))
            return _written_in(Transitions(empty, np.ones(n), start), self.is_sparse)
        if self.restart is not None and n * np.count_nonzero(self.start) > MAX_RESTART_ENTRIES:
            raise SizeError(
                f"a horizon on top of a restart writes the start into {n} rows of the sparse matrix; "
                "take the horizon first and the restart after it, which keeps it sparse"
            )
        one_layer = sp.csr_array(self.full())
        ahead = sp.csr_array(sp.diags_array(np.ones(horizon - 1), offsets=1, shape=(horizon, horizon)))
        e = np.repeat(np.arange(horizon) == horizon - 1, n).astype(float)
        sparse = self.is_sparse or horizon**2 * n * states > EXPANDED_ENTRIES
        return _written_in(Transitions(sp.csr_array(sp.kron(ahead, one_layer)), e, start), sparse)


def _with_data(matrix: Any, data: Array) -> Any:
    """Other entries in the same places, which the two matrices share."""
    other = sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
    other.has_sorted_indices = other.has_canonical_format = True
    return other


def _written_in(transitions: Transitions, sparse: bool) -> Transitions:
    """Sparse stays as it is; dense has the restart written into the matrix."""
    if sparse:
        return transitions
    return Transitions(transitions.full().toarray(), None, transitions.start)


def read_start(start: Any, num_states: int) -> Array:
    """μ as a distribution over the states, or an error."""
    mu = read_numbers(start, "start")
    if mu.shape != (num_states,):
        raise InputError(f"start must have shape ({num_states},), one probability a state, got {mu.shape}")
    return _normalised_rows(mu[None, :], lambda row: "start", tolerance=tolerance_of(start))[0]


def read_transitions(transitions: Any, start: Any, restart: Any = None) -> Transitions:
    """Checked transitions from an array [S, A, S] or a sparse matrix [S·A, S]."""
    if sp.issparse(transitions):
        if transitions.ndim != 2 or transitions.dtype.kind not in "fiub":
            got = f"{transitions.ndim} dimensions of {transitions.dtype}"
            raise InputError(f"sparse transitions must be a matrix of numbers, got {got}")
        matrix = _own_copy(transitions)
        rows, states = cast(tuple[int, int], matrix.shape)
        if states == 0 or rows == 0 or rows % states:
            raise InputError(
                f"sparse transitions must have shape (S*A, S), got {matrix.shape}: "
                + ("no states or actions" if 0 in matrix.shape else f"{rows} rows are no multiple of {states} states")
            )
        actions = rows // states
        _check_entries(matrix.data, lambda k: _pair(int(np.searchsorted(matrix.indptr, k, "right")) - 1, actions))
    else:
        array = read_numbers(_with_equal_actions(transitions), "transitions")
        if array.ndim != 3 or array.shape[0] != array.shape[2]:
            raise InputError(f"transitions must have shape (S, A, S) or be sparse (S*A, S), got {array.shape}")
        states, actions, _ = array.shape
        if states == 0 or actions == 0:
            raise InputError(f"a contest needs at least one state and one action, got {states} and {actions}")
        matrix = array.reshape(states * actions, states)
        _check_entries(matrix.reshape(-1), lambda k: _pair(k // states, actions))
    mu = read_start(start, states)
    e = None if restart is None else _read_restart(restart, states * actions)
    matrix = _normalised_rows(matrix, lambda row: f"transitions of {_pair(row, actions)}", e, tolerance_of(transitions))
    if e is not None and not sp.issparse(matrix):
        return Transitions(matrix + e[:, None] * mu, None, mu)
    return Transitions(matrix, e, mu)


def _with_equal_actions(transitions: Any) -> Any:
    """The same, or an error where they are lists, and some states have fewer actions than others."""
    if isinstance(transitions, list | tuple) and all(isinstance(rows, list | tuple) for rows in transitions):
        counts = [len(rows) for rows in transitions]
        if len(set(counts)) > 1:
            few = counts.index(min(counts))
            raise InputError(
                f"state 0 has {counts[0]} actions and state {few} has {counts[few]}; every state needs the same "
                "number: repeat an action where there are fewer"
            )
    return transitions


def _own_copy(given: Any) -> Any:
    """A float64 CSR copy in canonical form: sorted, each place once, no zeros, narrow indices."""
    rows = sp.csr_array(given)
    narrow = np.int32 if max(rows.nnz, *rows.shape) < 2**31 else np.int64
    indices, indptr = (array.astype(narrow) for array in (rows.indices, rows.indptr))
    matrix = sp.csr_array((rows.data.astype(float), indices, indptr), shape=rows.shape)
    matrix.sum_duplicates()
    if not matrix.data.all():
        matrix.eliminate_zeros()
    return matrix


def _read_restart(restart: Any, n: int) -> Array:
    e = read_numbers(restart, "restart")
    if e.shape != (n,) or not ((e >= 0) & (e <= 1)).all():
        raise InputError(f"restart must hold {n} probabilities, one a pair")
    return e


def _pair(index: int, actions: int) -> str:
    return f"(s={index // actions}, a={index % actions})"


def _check_entries(entries: Array, where: Any) -> None:
    """No NaN, infinity or negative probability."""
    if len(entries) and not (entries.min() >= 0 and entries.max() < np.inf):  # NaN is neither
        bad = np.flatnonzero(~np.isfinite(entries) | (entries < 0))
        value = entries[bad[0]]
        kind = "negative" if value < 0 and np.isfinite(value) else "not a finite number"
        raise InputError(f"transitions of {where(int(bad[0]))} have the entry {value}, which is {kind}")


def _normalised_rows(matrix: Any, name: Any, restart: Array | None = None, tolerance: float = TOLERANCE) -> Any:
    """Rows divided by their sums (1 − e with a restart), or an error naming the row furthest from one."""
    if not sp.issparse(matrix) and not (np.isfinite(matrix) & (matrix >= 0)).all():
        row = int(np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))[0, 0])
        raise InputError(f"{name(row)} has a negative, NaN or infinite entry: {matrix[row].tolist()}")
    with np.errstate(over="ignore"):
        mass = np.asarray(matrix.sum(axis=1)).reshape(-1)
    wanted = np.ones_like(mass) if restart is None else 1 - restart
    off = np.abs(mass - wanted)
    off[(mass == 0) & (off > 4 * EPS)] = np.inf  # no factor makes one of the other
    worst = int(np.argmax(off))
    if off[worst] > tolerance:
        advice = (
            "divide it by its sum if you mean proportions"
            if mass[worst] > 0
            else "an action that a state does not have is best made a copy of one that it has"
        )
        said = f"{name(worst)} sums to {mass[worst]:.10g}, it must sum to {wanted[worst]:g} (within {tolerance:g})"
        raise InputError(f"{said}; {advice}")
    # Rows that are off by rounding only are left alone, so that a file read and written again does not change.
    scale = np.divide(wanted, mass, out=np.ones_like(mass), where=off > 4 * EPS)
    if sp.issparse(matrix):
        if (off > 4 * EPS).any():
            matrix.data *= np.repeat(scale, np.diff(matrix.indptr))
        return matrix
    return matrix * scale[:, None]
