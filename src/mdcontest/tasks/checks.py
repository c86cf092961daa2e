"""What a task is told about itself, checked when it is made: errors that name the argument."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdcontest.arrays import is_number
from mdcontest.errors import InputError, did_you_mean
from mdcontest.margins import Margin

GROUPS = ("suite", "nt")
"""The paper's groups of tasks."""


def finite_number(value: Any, what: str, wanted: str = "a finite number") -> float:
    """As Python has it: files hold no numbers of NumPy."""
    if not (is_number(value) and np.isfinite(value)):
        raise InputError(f"{what} must be {wanted}, got {value!r}")
    return float(value)


def require_probability(value: Any, what: str) -> None:
    """Of something that does not happen for certain."""
    if not (is_number(value) and 0 <= value < 1):
        raise InputError(f"{what} is a probability below 1, got {value!r}")


def require_text(value: Any, what: str) -> None:
    """It goes into names of folders and columns of tables."""
    if not isinstance(value, str):
        raise InputError(f"{what} must be a text, got {value!r}")


def require_group(group: Any) -> None:
    """The empty text, or one of the paper's: what the paper preset sets depends on it."""
    if group != "" and group not in GROUPS:
        raise InputError(
            f"group must be a group of the paper's tasks, got {group!r}{did_you_mean(group, list(GROUPS), 'groups')}"
        )


def require_comparing(margin: Margin) -> None:
    """A margin on outcomes nobody has met yet, which fixed features say nothing about."""
    if not margin.compares_outcomes:
        raise InputError(
            f"the margin {margin!r} has features of pairs that are numbered, and a task's outcomes have no numbers; "
            f"let them be a function of a batch of outcomes, such as lambda z: z.obs[:, 0], in {type(margin).__name__}"
        )


def require_pictured(class_names: Any, positions: Any, reach: Any) -> None:
    """What pictures of a policy are made of."""
    if not isinstance(class_names, list | tuple) or not all(isinstance(name, str) for name in class_names):
        raise InputError(f"class_names must be a list of texts, got {class_names!r}")
    if not (positions is None or callable(positions)):
        raise InputError(f"positions must be a function of outcomes, got {positions!r}")
    if finite_number(reach, "reach") <= 0:
        raise InputError(f"reach must be positive, got {reach!r}")
