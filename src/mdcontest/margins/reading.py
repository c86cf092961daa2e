"""Features and matrices from outside, checked: errors name the first entry, or the pair, that is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdcontest.arrays import TOLERANCE, Array, read_numbers, tolerance_of
from mdcontest.errors import InputError


def as_scalars(values: Any, what: str) -> Array:
    """One number a pair from [n], [S, A] or [n, 1]; finite."""
    array = as_finite(values, what)
    if array.ndim not in (1, 2):
        raise InputError(f"{what} must have shape (n,) or (S, A), got {array.shape}")
    return array.reshape(-1)


def as_labels(values: Any, what: str, number: int, of: str) -> NDArray[np.int64]:
    """One whole number from 0 to number − 1 a pair."""
    labels = as_scalars(values, what)
    wrong = np.flatnonzero((labels != np.floor(labels)) | (labels < 0) | (labels >= number))
    if len(wrong):
        raise InputError(f"{what}[{wrong[0]}] is {labels[wrong[0]]:g}; there are {number} {of}, 0 to {number - 1}")
    return labels.astype(np.int64)


def as_columns(values: Any, what: str, columns: int | None = None) -> Array:
    """d numbers a pair from [n, d] or [S, A, d]; finite."""
    array = as_finite(values, what)
    if array.ndim not in (2, 3):
        raise InputError(f"{what} must have shape (n, d) or (S, A, d), got {array.shape}")
    array = array.reshape(-1, array.shape[-1])
    if columns is not None and array.shape[1] != columns:
        raise InputError(f"{what} must have {columns} columns, got {array.shape[1]}")
    return array


def as_finite(values: Any, what: str) -> Array:
    """A float64 array without NaN or infinity, or an error that names the first bad entry."""
    array = read_numbers(values, what)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"{what}{list(where)} is {array[where]}; every entry must be a finite number")
    if array.size == 0:
        raise InputError(f"{what} is empty")
    return array


def antisymmetrise(M: ArrayLike) -> Array:
    """The skew part (M − Mᵀ)/2 of a square matrix; of shape [S, A, S, A], with pairs as its rows and columns."""
    array = as_finite(M, "M")
    size = math.prod(array.shape[: array.ndim // 2])
    if array.ndim not in (2, 4) or array.shape != array.shape[: array.ndim // 2] * 2:
        raise InputError(f"M must have shape (n, n) or (S, A, S, A), got {array.shape}")
    square = array.reshape(size, size)
    # Halves first: the difference of two large numbers could overflow.
    return (square / 2 - square.T / 2).reshape(array.shape)


def read_skew(values: Any, what: str) -> Array:
    """A skew matrix from outside, with its rounding errors removed; they may be as large as its precision has them."""
    return require_skew(as_finite(values, what), what, tolerance=tolerance_of(values))


def require_skew(M: Array, what: str = "M", name: Callable[[int], str] = str, tolerance: float = TOLERANCE) -> Array:
    """M with its rounding errors removed, or an error that names the worst pair; they are measured by max |M|."""
    if M.ndim != 2 or M.shape[0] != M.shape[1]:
        raise InputError(f"{what} must be a square matrix, got shape {M.shape}")
    excess = np.abs(M / 2 + M.T / 2)
    worst = np.unravel_index(np.argmax(excess), M.shape)
    if excess[worst] > tolerance * np.abs(M).max() / 2:
        i, j = int(worst[0]), int(worst[1])
        both = float(M[i, j]) + float(M[j, i])  # floats of Python overflow in silence
        raise InputError(
            f"margin is not skew-symmetric: {what}[{name(i)},{name(j)}] + {what}[{name(j)},{name(i)}] = "
            f"{both:.6g}; pass margins.antisymmetrise({what}) if you mean its skew part"
        )
    return antisymmetrise(M)


def chosen_rows(z: Any, n: int) -> Any:
    """A slice as it is, whole numbers as an array of indices, a truth value for each of n rows as those it chooses."""
    if isinstance(z, slice):
        return z
    try:
        chosen = np.atleast_1d(np.asarray(z))
    except ValueError:  # rows of unequal length
        chosen = np.zeros(1)
    if chosen.dtype.kind == "b" and chosen.shape == (n,):
        return np.flatnonzero(chosen)
    if chosen.ndim != 1 or (len(chosen) and chosen.dtype.kind not in "iu"):
        raise InputError(f"pairs are chosen by whole numbers, 0 to {n - 1}, or by a slice, got {z!r:.60}")
    if len(chosen) and not (-n <= chosen.min() and chosen.max() < n):
        wrong = chosen.min() if chosen.min() < -n else chosen.max()
        raise InputError(f"there is no pair {wrong}: the margin compares {n} pairs, 0 to {n - 1}")
    return chosen.astype(np.intp)
