"""Names for the array types used everywhere, and the one way in which numbers from outside are read."""

from __future__ import annotations

import math
import numbers
from typing import Any, TypeGuard

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


TOLERANCE, SINGLE_TOLERANCE = 1e-8, 1e-5
"""How far a sum that should be one, or zero, may be off; in single precision or less it cannot be any better."""


def tolerance_of(values: Any) -> float:
    """By the precision in which an array came; whatever is no array yet was written by hand, in double precision."""
    kind = getattr(values, "dtype", None)
    if kind is None:
        return TOLERANCE
    if not isinstance(kind, np.dtype):  # of another library
        kind = np.asarray(values).dtype
    return SINGLE_TOLERANCE if kind.kind == "f" and kind.itemsize <= 4 else TOLERANCE


def is_number(value: Any) -> bool:
    """Whether a value is a real number, of Python or of NumPy; truth values are none, and texts of digits neither."""
    return isinstance(value, numbers.Real | np.number) and not isinstance(value, bool | np.complexfloating)


def is_finite(value: Any) -> TypeGuard[float]:
    """Whether a value is a real number as above that is finite as a float; 10**400 is not."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:
        return False


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number, of Python or of NumPy; truth values are none, and 2.0 neither."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def read_numbers(values: Any, what: str) -> Array:
    """A float64 copy of an array of real numbers; texts, complex numbers and masked entries are no such thing."""
    if np.ma.is_masked(values):
        hidden = int(np.ma.getmaskarray(values).sum())
        raise InputError(
            f"{what} has {hidden} masked entries, and every entry counts; every state has all actions, so one that is "
            "not there is best made a copy of another"
        )
    try:
        given = np.asarray(values)
        if given.dtype.kind in "cSUMmV":
            raise TypeError(f"it holds {given.dtype} values")
        for value in given.flat if given.dtype.kind == "O" else ():
            if value is None or isinstance(value, str | bytes):
                raise TypeError("it holds None" if value is None else f"it holds the text {value!r:.40}")
        return np.array(given, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{what} must be an array of numbers: {error}") from None
