"""One step of the interior point: predictor, corrector and centrality correctors on one factorisation.

Towards products x ∘ z = r the Newton equations of the system in newton_system.py are, with z eliminated,

    (D − M) dx + Aᵀ dy = (r − x ∘ z)/x − r_z,    A dx = r_x,    dz = (r − x ∘ z)/x − D dx,

r_z = Aᵀ y − M x − z and r_x = ν − A x. M couples x and z, so both take the same step length
(Mehrotra 1992; Gondzio 1996 for the correctors).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdcontest.arrays import Array
from mdcontest.solvers.newton_system import NewtonSystem

CORRECTORS = 3
"""Centrality correctors a step at most; each costs a back-substitution."""
NEIGHBOURHOOD = 0.1
"""Correctors bring products x·z between this share of their target and its inverse."""
LONGER = 0.3
"""A corrector aims at a step longer by so much, and is kept if a tenth of that is gained."""
TO_THE_BOUNDARY = 0.999
"""The share of the way to the boundary that is gone."""
REGULARISATION = (0.0, 1e-12, 1e-8)
"""Subtracted from the empty block of K, in this order, until its factors give finite directions."""


@dataclass(frozen=True)
class Point:
    """An iterate: x and z a pair, y a state."""

    x: Array
    y: Array
    z: Array

    @property
    def mu(self) -> float:
        """The mean product x·z."""
        return float(self.x @ self.z) / len(self.x)

    def towards(self, way: Point, length: float) -> Point:
        """The point so far along a direction."""
        return Point(self.x + length * way.x, self.y + length * way.y, self.z + length * way.z)

    def room(self, way: Point) -> float:
        """How far one can go along a direction before x or z is zero; infinite if one can for ever."""
        return min(_room(self.x, way.x), _room(self.z, way.z))


def _room(values: Array, change: Array) -> float:
    falls = change < 0
    return float((-values[falls] / change[falls]).min()) if falls.any() else np.inf


@dataclass(frozen=True)
class Residuals:
    """How far a point is from satisfying the linear equations."""

    r_z: Array
    r_x: Array
    bound: float
    """What no policy earns more of against x, plus what the flow's residual may hide; relative to max |M|."""

    @property
    def size(self) -> float:
        return max(float(np.abs(self.r_z).max()), float(np.abs(self.r_x).sum()))


def residuals(system: NewtonSystem, nu: Array, at: Point) -> Residuals:
    """r_z and r_x, and with them max_sa[c + P h − h] = g − min(Aᵀ y − M x), where g = ν·y."""
    n = len(at.x)
    linear = system.apply(np.concatenate([at.x, at.y]))
    r_x = nu - linear[n:]
    # Far from feasible, the first part can be anything; it must not make up for the second.
    bound = max(0.0, float(nu @ at.y - linear[:n].min())) + 2 * float(np.abs(r_x).sum())
    return Residuals(linear[:n] - at.z, r_x, bound)


def newton_step(system: NewtonSystem, at: Point, off: Residuals) -> Point | None:
    """The next point, or None if no factorisation gives a direction."""
    with np.errstate(all="ignore"):  # what overflows is not finite, and refused
        D = at.z / at.x
        for rho in REGULARISATION:
            if system.factor(D, rho):
                way = _direction(_Equations(system, at, off, D))
                following = at.towards(way, min(1.0, TO_THE_BOUNDARY * at.room(way)))
                if all(np.isfinite(part).all() for part in (following.x, following.y, following.z)):
                    return following
    return None


@dataclass(frozen=True)
class _Equations:
    """The Newton equations at a point, with the factors of their matrix."""

    system: NewtonSystem
    at: Point
    off: Residuals
    D: Array

    def right(self, change: Array) -> Array:
        """The right-hand side, for products that are to change by so much."""
        return np.concatenate([change / self.at.x - self.off.r_z, self.off.r_x])

    def direction(self, v: Array, change: Array) -> Point:
        """(dx, dy, dz) from the solution v = (dx, dy)."""
        dx, dy = v[: len(change)], v[len(change) :]
        return Point(dx, dy, change / self.at.x - self.D * dx)

    def refined(self, v: Array, change: Array) -> Array:
        """v after a step of iterative refinement."""
        missing = self.right(change) - self.system.apply(v)
        missing[: len(change)] -= self.D * v[: len(change)]
        return v + self.system.solve(missing)


def _direction(equations: _Equations) -> Point:
    """Mehrotra's direction, corrected for centrality as long as that lengthens the step."""
    at, solve = equations.at, equations.system.solve
    products = at.x * at.z
    affine = equations.direction(solve(equations.right(-products)), -products)
    end = at.towards(affine, min(1.0, at.room(affine)))
    target = at.mu * min(1.0, max(0.0, end.mu / at.mu)) ** 3
    change = target - products - affine.x * affine.z
    v = solve(equations.right(change))
    way = equations.direction(v, change)
    for _ in range(CORRECTORS):
        length = at.room(way)
        if not length < 1:
            break
        extra = _towards_centre(at.towards(way, min(1.0, length + LONGER)), target)
        longer_v = v + solve(np.concatenate([extra / at.x, np.zeros(len(at.y))]))
        longer = equations.direction(longer_v, change + extra)
        if not at.room(longer) > length + LONGER / 10:
            break
        v, change, way = longer_v, change + extra, longer
    return equations.direction(equations.refined(v, change), change)


def _towards_centre(trial: Point, target: float) -> Array:
    """What brings the products of a trial point near their target; not all of it where they are far above."""
    products = trial.x * trial.z
    wanted = np.clip(products, NEIGHBOURHOOD * target, target / NEIGHBOURHOOD)
    return np.maximum(wanted - products, -target / NEIGHBOURHOOD)
