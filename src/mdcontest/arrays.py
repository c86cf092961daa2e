"""Names for the array types used everywhere, and the one way in which numbers from outside are read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.errors import InputError

Array = NDArray[np.float64]
"""Real numbers."""
Ints = NDArray[np.intp]
"""Indices of states, actions or pairs."""
Mask = NDArray[np.bool_]
"""A set of states or pairs."""
Matrix = Any
"""A float64 array or a scipy.sparse array with the same meaning."""


def read_numbers(values: Any, what: str) -> Array:
    """A float64 copy of an array of real numbers; texts and complex numbers are no such thing."""
    try:
        given = np.asarray(values)
        if given.dtype.kind in "cSUMmV":
            raise TypeError(f"it holds {given.dtype} values")
        return np.array(given, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{what} must be an array of numbers: {error}") from None
