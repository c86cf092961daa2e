"""Reacher-NT: far from the origin, and ahead of the other counter-clockwise (app. mujoco-nt).

    M(z, z') = w_r sgn(ρ − ρ') + w_a sgn_θ(α − α')

ρ is the fingertip's distance from the origin, α the first arm's angle. sgn_θ is circular: +1 when α is ahead of α' by
less than θ, −1 when it is behind by less than θ, 0 at ties and beyond. With θ = π someone is always ahead and nobody
can be ahead of everybody. A solution stretches the arm and is at every angle equally often; it is not the only one, as
two opposite angles, half the time each, leave nobody anything to win either.

The paper's pseudo-code is not skew (its remainder has the sign of its argument, ties count against both, and it
prefers clockwise); this is the skew margin its text describes.
"""

from __future__ import annotations

import functools

import numpy as np

from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.margins import Signs
from mdcontest.outcomes import Outcomes
from mdcontest.tasks.task import Task

LINKS = 0.1, 0.11
"""Length of the first arm, and from the elbow to the fingertip, in metres (reacher.xml)."""


def fingertip(obs: Array) -> Array:
    """The fingertip's position, shape [B, 2]: the target's position plus the vector from there to the fingertip."""
    return obs[:, 4:6] + obs[:, 8:10]


def radius_and_angle(z: Outcomes, sense: float = 1.0) -> Array:
    """ρ and α of each outcome, shape [B, 2]; observations begin with cos q₀, cos q₁, sin q₀, sin q₁."""
    cos_elbow, (upper, lower) = z.obs[:, 1], LINKS
    radius = np.sqrt(np.maximum(upper**2 + lower**2 + 2 * upper * lower * cos_elbow, 0.0))
    return np.stack([radius, sense * np.arctan2(z.obs[:, 2], z.obs[:, 0])], axis=1)


def reacher_nt(
    theta: float = np.pi,
    direction: str = "counter-clockwise",
    radius_weight: float = 0.3,
    angle_weight: float = 0.7,
    horizon: int | None = None,
) -> Task:
    """The task. `theta` ≤ π is how far ahead still counts, `direction` counter-clockwise or clockwise."""
    if not (isinstance(theta, int | float) and 0 < theta <= np.pi):
        raise InputError(f"theta must lie in (0, π], got {theta}")
    if direction not in ("counter-clockwise", "clockwise"):
        raise InputError(f"direction must be counter-clockwise or clockwise, got {direction!r}")
    sense = 1.0 if direction == "counter-clockwise" else -1.0
    margin = Signs(
        functools.partial(radius_and_angle, sense=sense),
        weights=[radius_weight, angle_weight],
        period=[None, 2 * np.pi],
        arc=[None, theta],
    )
    return Task(
        "Reacher-v5",
        margin,
        name="Reacher-NT",
        horizon=horizon,
        group="nt",
        positions=_fingertip_of,
        reach=sum(LINKS),
    )


def _fingertip_of(z: Outcomes) -> Array:
    return fingertip(z.obs)
