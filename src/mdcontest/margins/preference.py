"""Margins from probabilities of preferring one outcome to another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mdcontest.arrays import TOLERANCE, Array, tolerance_of
from mdcontest.errors import InputError
from mdcontest.margins.base import Margin
from mdcontest.margins.function import Pairwise
from mdcontest.margins.pairwise import Dense
from mdcontest.margins.reading import antisymmetrise, as_finite


def FromPreference(P: Any, outcomes: Any = None) -> Margin:
    """M = P − ½ for a pairwise-preference function, P(z, z') = 1 − P(z', z) in [0, 1].

    P is a matrix over the pairs, or a function `P(z, w)` like that of `Pairwise`. Note the scale: P − ½ lies in
    [−½, ½]. 2P − 1 is twice that, with the same solutions; the logit is another margin with, in general, other
    solutions (app. BT).
    """
    if callable(P):

        def margin_of(z: Any, w: Any) -> Any:
            given = P(z, w)
            margins = _probabilities(given) - 0.5
            return margins.astype(np.float32) if tolerance_of(given) > TOLERANCE else margins

        return Pairwise(margin_of, outcomes)
    probabilities = _probabilities(P)
    if probabilities.ndim not in (2, 4) or probabilities.shape != probabilities.shape[: probabilities.ndim // 2] * 2:
        raise InputError(f"P must have shape (n, n) or (S, A, S, A), got {probabilities.shape}")
    n = math.prod(probabilities.shape[: probabilities.ndim // 2])
    square = probabilities.reshape(n, n)
    excess = np.abs(square + square.T - 1)
    i, j = (int(k) for k in np.unravel_index(np.argmax(excess), excess.shape))
    if excess[i, j] > tolerance_of(P):
        raise InputError(
            f"P is no pairwise-preference function: P[{i},{j}] + P[{j},{i}] = {square[i, j] + square[j, i]:.6g}, "
            f"it must be 1, and is off by {excess[i, j]:.3g}"
        )
    return Dense(antisymmetrise(probabilities - 0.5))


def _probabilities(values: Any) -> Array:
    array = as_finite(values, "P")
    if array.min() < 0 or array.max() > 1:
        worst = array.min() if array.min() < 0 else array.max()
        raise InputError(f"P has the entry {worst:.6g}; probabilities lie between 0 and 1")
    return array
