"""`solve`: run a method or the chosen ones, certify what they propose, keep the best, within a time limit."""

from __future__ import annotations

import math
import time
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from mdcontest.arrays import is_number
from mdcontest.conditions import refuse_if_not_unichain
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.solution import Solution, Status, require_tolerance
from mdcontest.solvers.base import OutOfTime, Progress, Proposal, Report, Solver, silent
from mdcontest.solvers.certifying import certified, hidden, uniform_proposal
from mdcontest.solvers.choose import Plan, plan


def solve(
    contest: Contest,
    solver: Solver | None = None,
    *,
    tol: float = 1e-9,
    time_limit: float | None = None,
    progress: Report = silent,
) -> Solution:
    """Solve a finite contest.

    Args:
        contest: the contest. One that is provably not unichain is refused.
        solver: a method from `mdcontest.solvers`; None chooses from structure, size, memory and device.
        tol: the gap asked for, relative to `contest.margin.bound`.
        time_limit: seconds after which the best so far is returned, certified like any other. That takes the margin's
            bound and a product with M, so a function of two outcomes is asked about all pairs however short the limit.
        progress: called now and then with a `Progress`.

    Returns:
        A `Solution` whose gap is certified by one bound whatever the solver claimed; its status says whether the gap is
        within `tol`. Ctrl-C returns the best so far.

    Raises:
        NotUnichainError: some policy has two recurrent classes; the error names them.
    """
    if not isinstance(contest, Contest):
        raise InputError(f"solve takes a contest, got a {type(contest).__name__}; load_contest reads one from a file")
    require_tolerance(tol)
    if time_limit is not None and not (is_number(time_limit) and time_limit > 0):
        raise InputError(f"time_limit must be a positive number of seconds, got {time_limit!r}")
    watch = _Watch(progress, time_limit)
    watch.target = tol * contest.margin.bound  # on the clock: a function is asked about all pairs for it
    refuse_if_not_unichain(contest)
    best: Solution | None = None
    for method, why in plan(contest) if solver is None else _asked_for(solver):
        try:
            found = _run(contest, method, why if best is None else f"{why} ({best.solver}: {best.gap:.2g})", tol, watch)
        except (KeyboardInterrupt, InputError) as reason:
            if best is None:
                raise
            # What an earlier method found is not lost because a later one was stopped early, or cannot go on.
            return replace(best, status=Status.INTERRUPTED) if isinstance(reason, KeyboardInterrupt) else best
        best = found if best is None or found.gap < best.gap else best
        if found.status in (Status.SOLVED, Status.INTERRUPTED, Status.TIME_LIMIT):
            return replace(best, status=found.status)
    assert best is not None
    return best


def _asked_for(solver: Solver) -> Plan:
    if isinstance(solver, type) or not hasattr(solver, "propose"):
        raise InputError(f"solver must be a solver such as solvers.HPI(1000), got {solver!r}")
    settings: Any = fields(solver) if is_dataclass(solver) else ()  # somebody's own method need not be one
    given = ", ".join(f"{one.name}={getattr(solver, one.name)!r}" for one in settings)
    yield solver, f"asked for, with {given}" if given else "asked for"


def _run(contest: Contest, solver: Solver, why: str, tol: float, watch: _Watch) -> Solution:
    """One method's answer, certified."""
    try:
        watch.stop_in_time()
        proposal: Proposal = solver.propose(contest, _aim(contest, watch.target), watch.report)
    except OutOfTime:
        proposal = replace(uniform_proposal(contest), status=Status.TIME_LIMIT)
    proof, gap = certified(contest, proposal, watch.target)
    # Without any preference every rule is a solution, whatever rounding left of the gap.
    solved = gap <= watch.target or contest.margin.bound <= contest.margin.noise
    return Solution(
        rule=proposal.rule,
        occupancy=proof.x,
        gap=gap,
        certificate=proof,
        status=Status.SOLVED if solved else proposal.status,
        solver=solver.name,
        why=why,
        tol=tol,
        history=proposal.history,
        info=proposal.info,
    )


def _aim(contest: Contest, target: float) -> float:
    """The gap a method is asked for: it measures without the rounding of M x, which is to fit in as well."""
    return max(target - hidden(contest, np.full(contest.num_pairs, 1 / contest.num_pairs)), target / 2)


class _Watch:
    """Passes progress on with the time used and an estimate of what is left; raises once the time is over."""

    def __init__(self, progress: Report, limit: float | None, target: float = 0.0) -> None:
        self.progress, self.limit, self.target = progress, limit, target
        self._began = time.perf_counter()
        self._marks: list[tuple[float, float]] = []

    def report(self, progress: Progress) -> None:
        seconds = time.perf_counter() - self._began
        self.progress(replace(progress, seconds=seconds, left=self._left(seconds, progress.gap)))
        self.stop_in_time()

    def stop_in_time(self) -> None:
        """Nothing while there is time."""
        if self.limit is not None and time.perf_counter() - self._began > self.limit:
            raise OutOfTime

    def _left(self, seconds: float, gap: float | None) -> float | None:
        """From the line through log gap against time over the last half of the solve."""
        if gap is None or not 0 < gap < math.inf or self.target <= 0:
            return None
        if not self._marks or gap < self._marks[-1][1]:
            self._marks.append((seconds, gap))
        then, before = next((mark for mark in self._marks if mark[0] >= seconds / 2), self._marks[-1])
        fallen = math.log(before / gap) if before > gap else 0.0
        if gap <= self.target or fallen <= 0 or seconds <= then:
            return None
        return (seconds - then) * math.log(gap / self.target) / fallen
