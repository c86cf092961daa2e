"""The Newton systems of the interior point: held once, scaled and factored at every step, on the CPU or a GPU.

In variables x (pairs) and y (one a state) the optimality system of a contest is linear up to complementarity:

    z = Aᵀ y − M x,   A x = ν,   x ≥ 0,   z ≥ 0,   x ∘ z = 0,

M divided by its bound. A x = ν says that x is an occupancy: A = B⁻¹ E, where E holds the balance equations,
E[s'] = 1[s = s'] − P(s'|s, a), but for one state, the pin, whose balance follows from the others and whose row is the
total mass; B is E under the uniform rule, whose frequencies are ν. Dividing by B costs little and takes slow mixing out
of the steps: chains that hardly ever leave half of their states make E nearly singular, but not A. With (h, g) = B⁻ᵀ y,
g at the pin, Aᵀ y = g − (P h − h). Every step solves with

    K = K₀ + diag(D, 0),      K₀ = [ −M  Aᵀ ]      D = z/x > 0,
                                   [  A  0  ]

nonsingular because D is positive, M skew and A of full rank. Rows are divided by √max(D, 1) before the factorisation:
a pair on its way out of the solution has a huge D, and must be eliminated through it and nothing else. What is kept is
T = K₀ᵀ row by row, which is K₀ column by column, the order LAPACK and cuSOLVER work in.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

from mdcontest.arrays import Array, Ints
from mdcontest.contest import Contest
from mdcontest.margins.sums import BLOCK_PAIRS, blocks


class NewtonSystem(Protocol):
    """K₀ on some device, and the factors of the newest K."""

    seconds: float
    """Spent in factorisations so far."""
    factorisations: int
    size: int
    balance: Balance

    def apply(self, vector: Array) -> Array:
        """K₀ v."""

    def factor(self, D: Array, rho: float = 0.0) -> bool:
        """Factor K − diag(0, ρ); False if a pivot was zero."""

    def solve(self, right: Array) -> Array:
        """K⁻¹ r with the newest factors."""


class Layout:
    """Which pairs and states the system is about, and how its matrix is read off the contest."""

    def __init__(
        self, contest: Contest, states: Ints, frequencies: Array, between: Callable[[], None] = lambda: None
    ) -> None:
        """`states` are those that the uniform rule visits, a closed set, and how often it does.

        `between` is called between two blocks of rows: it may raise where reading them takes too long.
        """
        self.between = between
        self.contest, self.states, self.pin = contest, states, int(np.argmax(frequencies))
        self.pairs = (states[:, None] * contest.num_actions + np.arange(contest.num_actions)).reshape(-1)
        self.nu = frequencies / frequencies.sum()
        self.scale = contest.margin.bound or 1.0
        self.size = len(self.pairs) + len(states)

    def rows(self, threads: int = 1) -> Iterator[tuple[slice, Array, Array]]:
        """(M, Eᵀ) in blocks of rows, those of some pairs each; M is not divided by its bound yet.

        With several threads the next blocks are copied while one is used; a few at a time, as all would be gigabytes.
        """
        waiting: deque[Future[tuple[slice, Array, Array]]] = deque()
        with ThreadPoolExecutor(threads) as pool:
            for block in blocks(len(self.pairs), self.size, 4 * BLOCK_PAIRS):
                if block.start:
                    self.between()
                waiting.append(pool.submit(self._rows_of, block))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _rows_of(self, block: slice) -> tuple[slice, Array, Array]:
        chosen = self.pairs[block]
        E = dense_rows(self.contest, chosen)
        if len(self.states) < self.contest.num_states:  # a copy of gigabytes, where it is needed
            E = E[:, self.states]
        E = np.negative(E)
        E[np.arange(len(chosen)), np.arange(len(self.pairs))[block] // self.contest.num_actions] += 1.0
        E[:, self.pin] = 1.0
        return block, self.contest.margin.matrix(chosen, self.pairs), E

    def every(self, values: Array, elsewhere: float) -> Array:
        """Values of the system's pairs among those of all, shape [S, A]."""
        spread = np.full(self.contest.num_pairs, elsewhere)
        spread[self.pairs] = values
        return spread.reshape(self.contest.num_states, self.contest.num_actions)


def dense_rows(contest: Contest, pairs: Ints) -> Array:
    """P of some pairs with the restart written in, shape [len(pairs), S]."""
    dynamics = contest.dynamics
    P = dynamics.matrix[pairs]
    P = P.toarray() if sp.issparse(P) else P
    return P if dynamics.restart is None else P + np.outer(dynamics.restart[pairs], dynamics.start)


class Balance:
    """B, the balance equations under the uniform rule, factored when first needed."""

    def __init__(self, B: Array) -> None:
        self.B = B

    @cached_property
    def _factors(self) -> tuple[Array, Ints]:
        return lapack.dgetrf(self.B)[:2]

    def solve(self, right: Array, transposed: bool = False) -> Array:
        """B⁻¹ R or B⁻ᵀ R with a step of iterative refinement."""
        first = lapack.dgetrs(*self._factors, right, trans=int(transposed))[0]
        missing = right - (self.B.T if transposed else self.B) @ first
        return np.asarray(first + lapack.dgetrs(*self._factors, missing, trans=int(transposed))[0])


def scaled_diagonal(D: Array, size: int, rho: float) -> tuple[Array, Array]:
    """What rows are multiplied by, 1/√max(D, 1) and 1 for the states, and (D, −ρ) after that; both of shape [size]."""
    rows, diagonal = np.ones(size), np.full(size, -rho)
    rows[: len(D)] = 1 / np.sqrt(np.maximum(D, 1.0))
    diagonal[: len(D)] = D * rows[: len(D)]
    return rows, diagonal


class CpuSystem:
    """LAPACK's LU in place: one copy of T, one of the factors."""

    def __init__(self, layout: Layout) -> None:
        n = len(layout.pairs)
        self.size = layout.size
        T = np.zeros((layout.size, layout.size))
        for block, M, rows in layout.rows():
            np.divide(M, layout.scale, out=T[block, :n])
            T[block, n:] = rows
        E = T[:n, n:].T
        self.balance = Balance(E.reshape(len(E), len(E), -1).mean(axis=2))
        T[n:, :n] = self.balance.solve(E)
        T[:n, n:] = T[n:, :n].T
        self.K0 = T.T
        self._work = np.empty_like(T).T
        self.seconds, self.factorisations = 0.0, 0

    def apply(self, vector: Array) -> Array:
        return self.K0 @ vector

    def factor(self, D: Array, rho: float = 0.0) -> bool:
        self._rows, diagonal = scaled_diagonal(D, self.size, rho)
        np.multiply(self.K0, self._rows[:, None], out=self._work)
        np.einsum("ii->i", self._work)[:] += diagonal
        began = time.perf_counter()
        self._work, self._pivots, singular = lapack.dgetrf(self._work, overwrite_a=True)
        self.seconds += time.perf_counter() - began
        self.factorisations += 1
        return singular == 0

    def solve(self, right: Array) -> Array:
        return np.asarray(lapack.dgetrs(self._work, self._pivots, right * self._rows)[0])
