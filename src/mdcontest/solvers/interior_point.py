"""A primal–dual interior point for dense margins.

Because M is skew, a contest is its own dual: the linear program of thm:lp is one monotone complementarity system

    z = g 1 − (P h − h) − M x ≥ 0,    F x = 0,   1ᵀx = 1,   x ≥ 0,    x ∘ z = 0,

in x, h and g, with xᵀz = g as soon as the rest holds: g bounds the gap, and goes to zero. Every step is Mehrotra's
predictor and corrector with Gondzio's centrality correctors, which cost a back-substitution each, on one factorisation
(newton_step.py, newton_system.py). The start satisfies no equation: z is constant, and x between the uniform
rule's occupancy and 1/n. From the former, which is feasible, the method gets stuck where that rule hardly ever visits
some states; from the latter, where every rule spends most of the time in a few of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mdcontest.arrays import Array
from mdcontest.chain import Chain
from mdcontest.contest import Contest
from mdcontest.errors import InputError, NotUnichainError
from mdcontest.occupancy import require_unichain
from mdcontest.solution import Status
from mdcontest.solvers.base import STOPPED, Progress, Proposal, Report, certify, require_iterations, status_when_stopped
from mdcontest.solvers.certifying import RESPONSE_STATES
from mdcontest.solvers.marks import Marks
from mdcontest.solvers.newton_device import Device, choose_device, newton_system
from mdcontest.solvers.newton_rule import Certified, certified, frequencies
from mdcontest.solvers.newton_step import Point, newton_step, residuals
from mdcontest.solvers.newton_system import Layout, NewtonSystem

PATIENCE = 6
"""Steps in a row that bring neither the products x·z nor the residuals down by a fifth: rounding has won."""
SPREAD = 0.75
"""The part of x that is spread evenly over the pairs at the start (0.3 to 0.9 take about as many steps)."""
SMALLEST_START = 1e-3
"""z at the start, relative to the margin's bound, is at least this much, even where the uniform rule solves it all."""
NOTHING_LEFT = 1e-18
"""Products and residuals this small, relative to the margin's bound, are far below the rounding of any gap."""
WORTH_CERTIFYING = 0.1
"""A point is certified if its bound is this share of the last one that was: it takes a solve of |S| equations."""


@dataclass(frozen=True)
class InteriorPoint:
    """Primal–dual interior point: 10 to 20 factorisations of a matrix of |S||A| + |S| rows."""

    iterations: int = 100
    """The limit on steps."""
    device: Device = "auto"
    """Where to factor: "cpu", "gpu" (through JAX, in double precision), or "auto", a GPU if one is there and pays."""

    name: ClassVar[str] = "InteriorPoint"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        steps = require_iterations(self.iterations)
        uniform = np.full((contest.num_states, contest.num_actions), 1 / contest.num_actions)
        if contest.num_actions == 1 or contest.margin.bound <= contest.margin.noise:
            return Proposal(uniform, info={"steps": 0, "device": "cpu"})  # every rule is a solution
        began = time.perf_counter()
        gpu = choose_device(contest, self.device)
        report(Progress(0, steps))  # what follows takes a while, and a time limit may be over already
        layout = _visited(contest, uniform, lambda: report(Progress(0, steps)))
        system = newton_system(layout, gpu)
        search = _Search(layout, system, gap)
        marks = Marks()
        status, k = Status.ITERATION_LIMIT, 0
        try:
            for k in range(1, steps + 1):
                going = search.step()
                if search.due() and (proved := search.certify()) < np.inf:
                    marks.record(k, proved)
                report(Progress(k, steps, marks.newest))
                if not going or search.least <= gap * (1 - 1e-9):
                    status = Status.INACCURATE  # if it is: the gap is certified anew
                    break
        except STOPPED as error:
            if not marks.gaps:
                raise
            status = status_when_stopped(error)
        info: dict[str, Any] = {"steps": k, "device": "cpu" if gpu is None else str(gpu.device_kind)}
        info |= _rates(system, time.perf_counter() - began)
        return _proposal(search, gap, status, marks, info)


def _proposal(search: _Search, gap: float, status: Status, marks: Marks, info: dict[str, Any]) -> Proposal:
    """The best rule, with the values that prove its gap where they are the best there are."""
    found, rule, x, h = search.proof()
    contest = search.layout.contest
    if found > gap and status is Status.INACCURATE and contest.num_states > RESPONSE_STATES:
        # What rounding spoiled may be the values only: policy iteration finds others for the same rule, and up to so
        # many states `solve` looks for them itself.
        with suppress(InputError), np.errstate(all="ignore"):  # or it loses frequencies in rounding itself
            proof = certify(contest, rule)
            if -proof.kappa < found:
                found, x, h = max(0.0, -proof.kappa), proof.x, proof.h
    if marks.newest is None or found < marks.newest:
        marks.record(info["steps"], found)
    return Proposal(rule, status, marks.history(), info, x, h)


def _rates(system: NewtonSystem, seconds: float) -> dict[str, float]:
    """How the time was spent, and how fast the factorisations were."""
    work = system.factorisations * 2 / 3 * system.size**3
    return {
        "rows": system.size,
        "factorisations": system.factorisations,
        "seconds": seconds,
        "factorisation_seconds": system.seconds,
        "factorisation_gflops": work / 1e9 / max(system.seconds, 1e-9),
    }


def _visited(contest: Contest, uniform: Array, between: Callable[[], None] = lambda: None) -> Layout:
    """The states that are visited: one that is transient under the uniform rule is so under every rule.

    Their occupancies are zero, and a set without interior is none for an interior point. Which ones they are is read
    off the arcs: frequencies of 1e-17 and less, which long queues have, may be rounded to zero or below.
    """
    chain = require_unichain(contest, Chain(contest.dynamics, uniform))
    states = chain.classes_of_states[0]
    return Layout(contest, states, frequencies(contest, uniform)[states], between)


class _Search:
    """The iterates, the best of them by its bound, and what was certified along the way."""

    def __init__(self, layout: Layout, system: NewtonSystem, gap: float) -> None:
        self.layout, self.system = layout, system
        self.target = gap / layout.scale
        n, states = len(layout.pairs), len(layout.states)
        x = (1 - SPREAD) * np.repeat(layout.nu, n // states) / (n // states) + SPREAD / n
        c = system.apply(np.concatenate([x, np.zeros(states)]))[:n]
        g = max(float(np.abs(c).max()), SMALLEST_START)
        self.at = Point(x, np.full(states, g), np.full(n, g))  # Aᵀ y = g
        self.off = residuals(system, layout.nu, self.at)
        self.best, self.bound = self.at, self.off.bound
        self._merit, self._waited, self._measured = np.inf, 0, np.inf
        self._tried: Point | None = None
        self._proof: Certified | None = None
        self._lost: InputError | None = None

    def step(self) -> bool:
        """Take a step; False once there is none, or rounding lets them lead nowhere."""
        following = newton_step(self.system, self.at, self.off)
        if following is None:
            return False
        self.at, self.off = following, residuals(self.system, self.layout.nu, following)
        if self.off.bound < self.bound:
            self.best, self.bound = following, self.off.bound
        merit = max(len(following.x) * following.mu, self.off.size)
        self._waited = 0 if merit < 0.8 * self._merit else self._waited + 1
        self._merit = min(self._merit, merit)
        return self._waited < PATIENCE and merit > NOTHING_LEFT

    def due(self) -> bool:
        """Whether the best point is worth certifying: far better than the last one certified, or good enough."""
        due = self.bound <= max(WORTH_CERTIFYING * self._measured, self.target)
        self._measured = self.bound if due else self._measured
        return due

    @property
    def least(self) -> float:
        """The least gap proved so far."""
        return np.inf if self._proof is None else self._proof.gap

    def certify(self) -> float:
        """Certify the best point, unless that has been done; the least gap proved so far."""
        if self._tried is not self.best:
            self._tried = self.best
            try:
                proof = certified(self.layout, self.system, self.best, self.bound * self.layout.scale)
            except NotUnichainError:
                raise
            except InputError as error:
                self._lost = error
            else:
                # A smaller bound of the point does not imply a smaller gap of its rule.
                self._proof = proof if proof.gap < self.least else self._proof
        return self.least

    def proof(self) -> Certified:
        """The rule with the least gap proved; an error if the frequencies of every rule were lost in rounding."""
        self.certify()
        if self._proof is None:
            assert self._lost is not None
            raise self._lost
        return self._proof
