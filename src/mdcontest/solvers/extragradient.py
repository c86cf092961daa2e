"""Restarted extragradient: solves a contest with nothing but products by M, P and Pᵀ.

(x, h) certifies a solution where x is the best reply in the simplex Δ to its own slope, and flow is conserved:

    x ∈ argmax over Δ of (M x + Fᵀ h)·x',     F x = 0,        Fᵀ h = P h − h.

That is a variational inequality with the operator G(x, h) = (−M x − Fᵀ h, F x), which is monotone because it is skew,
as M is. A step looks ahead by η G and then moves by what it finds there, in the metric ω‖x‖² + ‖h‖²/ω:

    z½ = Π(z − η G(z)),     z' = Π(z − η G(z½)),     stable while η‖G(z½) − G(z)‖ ≤ ‖z½ − z‖.

Averages of the z½ converge at rate 1/K; started again from them the method converges at a linear rate, because the
solutions are those of a linear program (Applegate, Hinder, Lu and Lubin 2023). Step sizes, the weight ω and the tests
for a restart follow the ones of PDLP (Applegate et al. 2021), with the residual ‖Π(z − η G(z)) − z‖/η as the measure of
progress. The step size needs no norm of M: it is measured in every step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mdcontest.arrays import Array
from mdcontest.contest import Contest
from mdcontest.solution import Status
from mdcontest.solvers.base import STOPPED, Progress, Proposal, Report, require_iterations, status_when_stopped
from mdcontest.solvers.bounding import Bounded, Bounding
from mdcontest.solvers.marks import Marks
from mdcontest.solvers.optimistic import Iterate, require_iterate

CHECK = 40
"""Residuals are looked at every so many iterations, and at powers of two before: each costs half an iteration."""
GROWTH = 1.25
"""Gaps are certified at iterations that grow by this factor, and when the residuals promise one small enough."""
SUFFICIENT, NECESSARY, LONGEST = 0.2, 0.8, 0.36
"""Start again once the residual fell to the first of these; to the second and it rises; or after that part of all."""


@dataclass(frozen=True)
class Extragradient:
    """Restarted extragradient on occupancies and values at once."""

    iterations: int = 100_000
    """The iteration limit; an iteration multiplies by M twice."""
    iterate: Iterate = "best"
    """What it restarts from and returns: the average since the last restart, the last iterate, or the better one."""

    name: ClassVar[str] = "Extragradient"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        measured = _Measured(contest, gap)
        K = require_iterations(self.iterations)
        run = _Run(contest, require_iterate(self.iterate))
        status, k = Status.ITERATION_LIMIT, 0
        try:
            for k in range(1, K + 1):
                moving = run.step()
                if run.check_due() or not moving or k == K:
                    z, estimate = run.check(k) if moving else (run.z, 0.0)
                    done = measured.due(k, K if moving else k, estimate) and measured.enough(k, z, estimate)
                    # Not moving, it is a solution of the inequality up to rounding, whatever its gap.
                    if done or not moving:
                        status = Status.INACCURATE  # if it is: the gap is certified anew, with rounding
                        break
                report(Progress(k, K, measured.marks.newest))
        except STOPPED as reason:
            if measured.best is None:
                raise
            status = status_when_stopped(reason)
        best = measured.best
        assert best is not None, "the last iteration is always measured"
        info = {"iterations": k, "restarts": run.restarts, "products": run.saddle.products}
        return Proposal(best.rule, status, measured.marks.history(), info, best.x, best.h)


class _Measured:
    """The best rule so far by its certified gap, and when to certify another."""

    def __init__(self, contest: Contest, gap: float) -> None:
        self.marks, self.bounding = Marks(GROWTH), Bounding(contest)
        self.gap = gap
        self.shape = (contest.num_states, contest.num_actions)
        self.unit = contest.margin.bound or 1.0
        self.best: Bounded | None = None
        self._promised = np.inf

    def due(self, k: int, last: int, estimate: float) -> bool:
        """Now and then; and where a small enough gap is promised, unless hardly more than before, when it was not."""
        promising = self.unit * estimate <= self.gap / 2 and estimate <= self._promised / 2
        return promising or self.marks.due(k, last)

    def enough(self, k: int, z: Point, estimate: float) -> bool:
        """Certify the rule of z; whether the best gap so far is the one asked for."""
        self._promised = min(self._promised, estimate)
        found = self.bounding.bound(z.x.reshape(self.shape), self.unit * z.h, self.gap)
        if self.best is None or found.gap < self.best.gap:
            self.best = found
        return self.marks.record(k, self.best.gap) <= self.gap * (1 - 1e-9)


@dataclass(frozen=True, slots=True)
class Point:
    """(x, h), or a slope at such a point: shapes [n] and [S]."""

    x: Array
    h: Array

    def __sub__(self, other: Point) -> Point:
        return Point(self.x - other.x, self.h - other.h)

    def plus(self, factor: float, other: Point) -> Point:
        """This point plus a multiple of another."""
        return Point(self.x + factor * other.x, self.h + factor * other.h)


class Saddle:
    """The operator of a contest, margins in units of their bound, with the metric ω‖x‖² + ‖h‖²/ω."""

    def __init__(self, contest: Contest) -> None:
        self.contest = contest
        self.unit = contest.margin.bound or 1.0
        self.products = 0
        """Products by M so far."""
        # ‖h‖/‖x‖ if every |h(s)| is about 1 and every x(z) about 1/n
        self.weight = math.sqrt(contest.num_states * contest.num_pairs)
        self._level = 0.0
        self._ones = np.ones(contest.num_actions)

    def slope(self, z: Point) -> Point:
        """(M x + P h − h, P^T x − Σ_a x): the direction in which x is to rise, and the one in which h is to fall."""
        self.products += 1
        states, dynamics = self.contest.num_states, self.contest.dynamics
        leaves = z.x.reshape(states, -1) @ self._ones  # ten times as fast as a sum over a short axis
        c = self.contest.margin.apply(z.x).reshape(states, -1) / self.unit
        rise = c + dynamics.expect(z.h).reshape(states, -1) - z.h[:, None]
        return Point(rise.reshape(-1), dynamics.flow(z.x) - leaves)

    def move(self, z: Point, slope: Point, eta: float) -> Point:
        """Π(z − η G), with x back in the simplex."""
        x, self._level = project_to_simplex(z.x + (eta / self.weight) * slope.x, self._level)
        return Point(x, z.h - (eta * self.weight) * slope.h)

    def length(self, step: Point) -> float:
        """The norm of a difference of points."""
        return math.sqrt(self.weight * (step.x @ step.x) + (step.h @ step.h) / self.weight)

    def slope_length(self, slope: Point) -> float:
        """The dual norm, that of a difference of slopes."""
        return math.sqrt((slope.x @ slope.x) / self.weight + self.weight * (slope.h @ slope.h))


def project_to_simplex(v: Array, level: float = 0.0) -> tuple[Array, float]:
    """The nearest point of the simplex, max(v − λ, 0) with sum 1, and λ; `level` is a guess of λ.

    Newton's method on Σ max(v − λ, 0) = 1. The left side is convex and piecewise linear in λ, so that from the second
    step on λ rises, over at most n pieces; from the λ of a point nearby it takes two or three steps.
    """
    below = float(np.nextafter(v.max(), -np.inf))  # 1 can be lost in rounding beside the entries of v
    level = level if level <= below else below - 1.0
    for step in range(len(v) + 2):
        above = v[v > level]
        better = min((float(above.sum()) - 1.0) / len(above), below)
        if step > 0 and better <= level:
            break
        level = better
    x = np.maximum(v - level, 0.0)
    return x / x.sum(), level


@dataclass
class _Run:
    """Where the method is, and what it has averaged since the last restart."""

    contest: Contest
    iterates: tuple[str, ...]
    eta: float = 1.0
    trials: int = 0
    restarts: int = 0
    saddle: Saddle = field(init=False)

    def __post_init__(self) -> None:
        n, states = self.contest.num_pairs, self.contest.num_states
        self.saddle = Saddle(self.contest)
        self.z = Point(np.full(n, 1 / n), np.zeros(states))
        self._begin(self.z, np.inf)

    def _begin(self, z: Point, residual: float) -> None:
        self.z = self.start = z
        self.start_residual, self.residual = residual, np.inf
        self.sum, self.total, self.steps = Point(np.zeros_like(z.x), np.zeros_like(z.h)), 0.0, 0

    def step(self) -> bool:
        """One iteration with the largest step size that is stable, or nearly; False where there is nowhere to go."""
        saddle, slope = self.saddle, self.saddle.slope(self.z)
        while True:
            ahead = saddle.move(self.z, slope, self.eta)
            there = saddle.slope(ahead)
            moved, turned = saddle.length(ahead - self.z), saddle.slope_length(there - slope)
            eta, limit = self.eta, moved / turned if turned > 0 else np.inf
            self.trials += 1
            shrink, grow = 1 - (self.trials + 1) ** -0.3, 1 + (self.trials + 1) ** -0.6
            self.eta = min(shrink * limit, grow * eta)
            if eta <= limit or moved == 0:
                break
        self.z = saddle.move(self.z, there, eta)
        self.sum, self.total, self.steps = self.sum.plus(eta, ahead), self.total + eta, self.steps + 1
        return moved > 0

    def check_due(self) -> bool:
        """Whether to look at the residuals now."""
        return self.steps % CHECK == 0 or (self.steps < CHECK and self.steps & (self.steps - 1) == 0)

    def check(self, k: int) -> tuple[Point, float]:
        """The better point, with roughly the gap it promises in units of the bound; starts again from it if it is time.

        max_sa[c + P h − h] + ‖F x‖₁ is no bound: flow that is lost can cost up to 1/ε times as much.
        """
        average = Point(self.sum.x / self.total, self.sum.h / self.total)
        found = [self._residual(z) for name, z in (("average", average), ("last", self.z)) if name in self.iterates]
        residual, estimate, z = min(found, key=lambda entry: entry[0])
        if self.start_residual == np.inf:
            self.start_residual = residual
        if (
            residual <= SUFFICIENT * self.start_residual
            or self.residual < residual <= NECESSARY * self.start_residual
            or self.steps >= max(CHECK, LONGEST * k)
        ):
            self._restart(z, residual)
        else:
            self.residual = residual
        return z, estimate

    def _residual(self, z: Point) -> tuple[float, float, Point]:
        slope = self.saddle.slope(z)
        residual = self.saddle.length(self.saddle.move(z, slope, self.eta) - z) / self.eta
        return residual, max(0.0, float(slope.x.max())) + float(np.abs(slope.h).sum()), z

    def _restart(self, z: Point, residual: float) -> None:
        """Begin again at z, with ω half way (in logarithms) to the ratio of the distances that h and x went."""
        z = Point(z.x, z.h - z.h.mean())
        far_x, far_h = np.linalg.norm(z.x - self.start.x), np.linalg.norm(z.h - self.start.h)
        if min(far_x, far_h) > 1e-14:
            self.saddle.weight = math.sqrt(self.saddle.weight * float(far_h / far_x))
        self.restarts += 1
        self._begin(z, residual)
