"""LU factors of the matrices of chains, dense or sparse."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.linalg import lapack  # called directly: the wrappers cost more than a small solve

from mdcontest.arrays import Array
from mdcontest.errors import InputError

LOST_IN_ROUNDING = (
    "the chain of this rule hardly ever leaves some of its states, so that its frequencies are lost in rounding; "
    "set tiny transition probabilities to zero, or use contest.with_restart(eps)"
)


class Factors:
    """LU factors of a matrix, dense or sparse, with one step of iterative refinement a solve."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        try:
            self.factors = spla.splu(sp.csc_array(matrix)) if sp.issparse(matrix) else lapack.dgetrf(matrix)[:2]
        except RuntimeError:  # SuperLU: exactly singular
            raise InputError(LOST_IN_ROUNDING) from None

    def solve(self, right: Array, transposed: bool = False) -> Array:
        """K⁻¹ b or K⁻ᵀ b."""
        first = self.once(right, transposed)
        with np.errstate(invalid="ignore", over="ignore"):  # what is no number is an error below
            missing = right - (self.matrix.T if transposed else self.matrix) @ first
        solution = first + self.once(missing, transposed)
        if not np.isfinite(solution).all():
            raise InputError(LOST_IN_ROUNDING)
        return solution

    @cached_property
    def inverse_norm(self) -> float:
        """‖K⁻ᵀ‖₁, estimated: how much larger than an error in the equations one in the frequencies can be."""
        if not sp.issparse(self.matrix):
            inverse = float(lapack.dgecon(self.factors[0], 1.0, norm="I")[0])  # of ‖K‖ = 1
            return 1 / inverse if inverse > 0 else np.inf
        transposed, plain = (lambda right, trans=trans: self.factors.solve(right, trans=trans) for trans in "TN")
        inverse = spla.LinearOperator(self.matrix.shape, matvec=transposed, rmatvec=plain, dtype=float)
        return float(spla.onenormest(inverse, t=1))

    def once(self, right: Array, transposed: bool) -> Array:
        """The same without refinement."""
        if sp.issparse(self.matrix):
            return np.asarray(self.factors.solve(right, trans="T" if transposed else "N"))
        return np.asarray(lapack.dgetrs(*self.factors, right, trans=int(transposed))[0])
