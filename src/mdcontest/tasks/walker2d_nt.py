"""Walker2d-NT: high beats fast, fast beats stable, stable beats high (app. mujoco-nt).

Each observation is scored on three scales from 0 to 1, height, speed and stability, and belongs to the class of its
largest score; ties go to the first, so a walker that lies still counts as high. The solution spends a third of its
time in each class.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from mdcontest.arrays import Array, Ints, read_numbers
from mdcontest.errors import InputError
from mdcontest.margins import Classes
from mdcontest.outcomes import Outcomes
from mdcontest.tasks.task import Task

CLASSES = "high", "fast", "stable"
BEATS = np.array([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])
"""Rows against columns, in the order of CLASSES. The vector (⅓, ⅓, ⅓) is its null vector."""


def scores(obs: Array) -> Array:
    """Height, speed and stability in [0, 1], shape [B, 3]; obs[0] is the height, obs[1] the angle, obs[8] the speed."""
    height = (obs[:, 0] - 1.0) / 0.3
    speed = obs[:, 8] / 2.0
    stability = (0.5 - np.abs(obs[:, 1])) / 0.5
    return np.clip(np.stack([height, speed, stability], axis=1), 0.0, 1.0)


def dominant_class(z: Outcomes, weights: Sequence[float] = (1.0, 1.0, 1.0)) -> Ints:
    """The index into CLASSES of each outcome's largest weighted score."""
    return np.argmax(scores(z.obs) * np.asarray(weights), axis=1)


def walker2d_nt(
    direction: str = "high-fast-stable",
    weights: Sequence[float] = (1.0, 1.0, 1.0),
    horizon: int | None = None,
    ended: float | None = None,
) -> Task:
    """The task; `ended` is the margin of a walking outcome over having fallen, 0 unless given.

    `direction` is high-fast-stable or its reverse, `weights` multiply the scores first.
    """
    if direction not in ("high-fast-stable", "stable-fast-high"):
        raise InputError(f"direction must be high-fast-stable or stable-fast-high, got {direction!r}")
    given = read_numbers(weights, "weights")
    if given.shape != (3,) or not (np.isfinite(given).all() and (given > 0).all()):
        raise InputError(f"weights must be three positive numbers, got {weights}")
    matrix = BEATS if direction == "high-fast-stable" else -BEATS
    margin = Classes(functools.partial(dominant_class, weights=tuple(given.tolist())), matrix)
    return Task("Walker2d-v5", margin, ended, name="Walker2d-NT", horizon=horizon, group="nt", class_names=CLASSES)
