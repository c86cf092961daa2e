"""The chain of one policy in a contest in which every step returns to μ with some probability.

P = P₀ + (ε + more) μᵀ with ε > 0. Frequencies ν = νP come from power sweeps; where these are slow, and for values, the
linear system I − P₀ is solved by BiCGSTAB with its diagonal as preconditioner, or by sparse LU where the graph of
states is long and thin, so that factors fill in little. Errors are bounded without a solve: νP and ν*P = ν* are closer
by 1 − ε than ν and ν*, so ‖ν − ν*‖₁ ≤ ‖νP − ν‖₁ / ε.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from mdcontest.arrays import Array
from mdcontest.errors import InputError

POWER_SWEEPS = 1500
"""Power sweeps before a chain is solved by other means, if they go on converging."""
POWER_CHECK = 50
"""Sweeps after which their rate is judged."""
KRYLOV_STEPS = 600
LU_STATES = 3000
"""Up to here a chain is factored straight away: that takes milliseconds."""
ROUNDING = 4e-16
"""The L1 flow residual below which sweeps only move rounding errors."""

LOST = "a restart of {:.3g} is lost in rounding; use contest.with_restart(eps) with a larger eps"


@dataclass
class RestartChain:
    """States under one policy: P₀ in CSR form, and restarts ε + more."""

    P0: Any
    eps: float
    more: Array
    """Shape [S], or empty."""
    mu: Array
    is_thin: Callable[[], bool] = bool
    """Whether LU is expected to fill in little; asked only where a chain has to be solved."""

    def flow(self, nu: Array) -> Array:
        """νP, shape [S]."""
        back = self.eps * nu.sum() + (self.more @ nu if len(self.more) else 0.0)
        return np.asarray(self.P0.T @ nu + back * self.mu)

    def frequencies(self, error: float, nu: Array | None = None, rough: bool = False) -> tuple[Array, float]:
        """ν and a bound on ‖ν − ν*‖₁, at most `error` where rounding allows.

        The bound is ‖νP − ν‖₁ / ε. A `rough` answer stops where the rate of convergence suggests that error, which on
        chains that mix fast is sooner.
        """
        nu = self.mu.copy() if nu is None else nu
        accuracy, residuals = max(error * self.eps, ROUNDING), [np.inf]
        for k in range(1, POWER_SWEEPS + 1):
            moved = self.flow(nu)
            residuals.append(float(np.abs(moved - nu).sum()))
            nu = moved
            rate = residuals[-1] / residuals[-2]
            if residuals[-1] <= accuracy or (rough and k >= 5 and rate < 1 and residuals[-1] <= error * (1 - rate)):
                break
            if k >= POWER_CHECK and _too_slow(residuals, accuracy):
                nu = self._solved_frequencies(nu, accuracy)
                break
        nu = np.maximum(nu, 0.0)
        nu /= nu.sum()
        return nu, float(np.abs(self.flow(nu) - nu).sum()) / self.eps

    def poisson(self, cumulant: Array, nu: Array) -> tuple[float, Array]:
        """(g, h) with c − g + P h = h and ν·h = 0; c, h: shape [S].

        (I − P₀) h = c − g has μ·h = 0, because μ (I − P₀)⁻¹ is proportional to ν: restarts bring nothing.
        """
        gain = float(nu @ cumulant)
        h = self.solve(cumulant - gain, np.zeros_like(cumulant), 1e-14)
        return gain, h - nu @ h

    def _solved_frequencies(self, nu: Array, accuracy: float) -> Array:
        """Mass a restart sends through the chain, Σ_t μ P₀^t, normalised; restarts beyond ε only change its total."""
        visits = self.solve(self.mu, nu / self.eps, accuracy, transposed=True)
        return visits / visits.sum()

    def solve(self, right: Array, guess: Array, accuracy: float, transposed: bool = False) -> Array:
        """(I − P₀) v = right, or with P₀ᵀ, with ‖residual‖₁ ≤ accuracy·‖right‖₁ where rounding allows."""
        K = self.P0.T.tocsr() if transposed else self.P0
        wanted = max(accuracy, ROUNDING) * np.abs(right).sum()

        def missing(v: Array) -> Array:
            return right - (v - K @ v)

        if len(right) > LU_STATES and not self.is_thin():
            found = self._krylov(K, right, guess, wanted)
            if np.abs(missing(found)).sum() <= 2 * wanted:
                return found
        lu, trans = self._factors(), "T" if transposed else "N"
        first = lu.solve(right, trans)
        return np.asarray(first + lu.solve(missing(first), trans))

    def _krylov(self, K: Any, right: Array, guess: Array, wanted: float) -> Array:
        shape, diagonal = K.shape, 1.0 - K.diagonal()
        operator = spla.LinearOperator(shape, matvec=lambda v: v - K @ v, dtype=float)
        scaled = spla.LinearOperator(shape, matvec=lambda v: v / diagonal, dtype=float)
        with np.errstate(all="ignore"):  # a breakdown is noticed by its result
            # Its norm is Euclidean: ‖·‖₁ ≤ √S ‖·‖₂.
            found, _ = spla.bicgstab(
                *(operator, right, guess), rtol=0.0, atol=wanted / np.sqrt(len(right)), maxiter=KRYLOV_STEPS, M=scaled
            )
        return np.asarray(found)

    def _factors(self) -> Any:
        """LU with the ordering that suits symmetric patterns: a third of the fill of COLAMD on grids."""
        if not hasattr(self, "_lu"):
            if self.eps < ROUNDING:  # 1 − ε is 1, and BLAS complains on standard output before SuperLU does
                raise InputError(LOST.format(self.eps))
            matrix = sp.csc_array(sp.eye_array(len(self.mu)) - self.P0)
            try:
                self._lu = spla.splu(
                    matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
                )
            except RuntimeError:  # singular in float64
                raise InputError(LOST.format(self.eps)) from None
        return self._lu


def _too_slow(residuals: list[float], accuracy: float) -> bool:
    """Whether at the rate of the last sweeps the limit would be passed first."""
    rate = (residuals[-1] / residuals[-POWER_CHECK // 2]) ** (2 / POWER_CHECK)
    if rate >= 1:
        return True
    return bool(len(residuals) + np.log(accuracy / residuals[-1]) / np.log(rate) > POWER_SWEEPS)
