"""What somebody says about a pair: one of four words, or how strongly the first is preferred.

    first | second | equal | incomparable      "can't say" is incomparable
    a number in [−1, 1]                        1: surely the first, 0: no preference, −1: surely the second

A number changes its sign when the pair is turned round, as a margin does. A model reads a label as the target
probability y that the first is preferred: 1, 0, ½, and (1 + number)/2; incomparable says nothing and is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdcontest.arrays import Array
from mdcontest.errors import InputError, did_you_mean

FIRST, SECOND, EQUAL, INCOMPARABLE = "first", "second", "equal", "incomparable"
LABELS = (FIRST, SECOND, EQUAL, INCOMPARABLE)
TARGETS = {FIRST: 1.0, SECOND: 0.0, EQUAL: 0.5, INCOMPARABLE: np.nan}

Label = str | float


def read_label(label: Any) -> Label:
    """A label as this library keeps it, or an error that says what one is."""
    if isinstance(label, str):
        if label not in TARGETS:
            raise InputError(f"{label[:40]!r} is no label{did_you_mean(label, list(LABELS), 'labels')}")
        return str(label)
    if isinstance(label, bool | np.bool_):
        return FIRST if label else SECOND
    if isinstance(label, int | float | np.number) and -1 <= label <= 1:
        return float(label)
    raise InputError(
        f"{label!r:.60} is no label: say {', '.join(LABELS)}, or how strongly the first is preferred, from -1 to 1"
    )


def targets(labels: Sequence[Label] | Any) -> Array:
    """y = P(first ≻ second) of each label, shape [n]; NaN for incomparable."""
    try:
        array = np.asarray(labels)
    except ValueError:  # lists of several lengths
        raise InputError("label must have one entry a pair, got lists among them") from None
    if array.ndim != 1:
        raise InputError(f"label must have one entry a pair, got shape {array.shape}")
    if array.dtype.kind == "b":
        return array.astype(float)
    # Beside numbers NumPy makes numbers of truth values, and False would mean no preference.
    mixed = not isinstance(labels, np.ndarray) and any(isinstance(label, bool | np.bool_) for label in labels)
    if mixed or array.dtype.kind not in "iuf":
        kept = [read_label(label) for label in labels]
        if SECOND not in kept:
            _warn_of_probabilities(np.array([label for label in kept if not isinstance(label, str)]))
        return np.array([TARGETS[label] if isinstance(label, str) else (1 + label) / 2 for label in kept])
    outside = np.flatnonzero(~((array >= -1) & (array <= 1)))
    if len(outside):
        raise InputError(
            f"label[{outside[0]}] is {array[outside[0]]:g}; a number says how strongly the first is preferred, from "
            "-1 to 1: divide margins by their bound"
        )
    _warn_of_probabilities(array)
    return (1.0 + array.astype(float)) / 2


def _warn_of_probabilities(numbers: Any) -> None:
    if len(numbers) >= 20 and (numbers >= 0).all() and (numbers > 0).any():
        warnings.warn(
            "no label is negative: a number says how strongly the first is preferred, from -1 to 1; if these are "
            "probabilities of preferring the first, pass 2 * p - 1",
            stacklevel=4,
        )
