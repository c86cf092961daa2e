"""The small skew game among the policies found so far."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np

from mdcontest.arrays import Array


def optimal_mixture(G: Array) -> Array:
    """p ≥ 0 with Σp = 1 and G p ≤ 0, for the payoffs G of policies against each other (G skew), shape [k].

    A symmetric game is worth nothing to both sides, so such a p exists. It is a vertex, hence few policies have weight.
    """
    k = len(G)
    scale = np.abs(G).max()
    if k == 1 or scale == 0:
        return np.eye(k)[0]
    highs = highspy.Highs()
    highs.silent()
    for option, value in {
        "solver": "simplex",
        "primal_feasibility_tolerance": 1e-10,
        "dual_feasibility_tolerance": 1e-10,
        "threads": 1,
        "small_matrix_value": 1e-14,
    }.items():
        highs.setOptionValue(option, value)
    highs.passModel(_program(G / scale))
    highs.run()
    p = np.maximum(np.array(highs.getSolution().col_value)[:k], 0.0)
    return p / p.sum() if p.sum() > 0 else np.eye(k)[0]


def _program(G: Array) -> Any:
    """Minimise v subject to G p ≤ v, Σp = 1, p ≥ 0."""
    k, infinity = len(G), highspy.kHighsInf
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = k + 1, k + 1
    program.col_cost_ = np.append(np.zeros(k), 1.0)
    program.col_lower_ = np.append(np.zeros(k), -infinity)
    program.col_upper_ = np.full(k + 1, infinity)
    program.row_lower_ = np.append(np.full(k, -infinity), 1.0)
    program.row_upper_ = np.append(np.zeros(k), 1.0)
    rows = np.zeros((k + 1, k + 1))
    rows[:k, :k], rows[:k, k], rows[k, :k] = G, -1.0, 1.0
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.arange(k + 2) * (k + 1)
    program.a_matrix_.index_ = np.tile(np.arange(k + 1), k + 1)
    program.a_matrix_.value_ = rows.reshape(-1)
    return program
