"""`solve`: choose a method where none is given, run it, certify what it returns."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from mdcontest.conditions import refuse_if_not_unichain
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.solution import Solution, Status
from mdcontest.solvers.base import Report, Solver, certify, silent
from mdcontest.solvers.hpi import HPI
from mdcontest.solvers.linear_program import LinearProgram

MAX_LP_PAIRS = 1500
"""Up to here the linear program takes at most a minute (7 s at 800 dense pairs, 48 s at 1500, on one core)."""


def choose_solver(contest: Contest) -> tuple[Solver, str]:
    """A solver for the contest, and the reason in a sentence."""
    n = contest.num_pairs
    if n <= MAX_LP_PAIRS:
        return LinearProgram(), f"{n} pairs, at most {MAX_LP_PAIRS}: the linear program is exact and quick"
    return (
        HPI(),
        f"{n} pairs, over {MAX_LP_PAIRS}: HPI only multiplies by M, where the linear program would hold {n}² margins",
    )


def solve(contest: Contest, solver: Solver | None = None, *, tol: float = 1e-9, progress: Report = silent) -> Solution:
    """Solve a finite contest.

    Args:
        contest: the contest. One that is provably not unichain is refused.
        solver: a method from `mdcontest.solvers`; None chooses one from the contest's size.
        tol: the gap asked for, relative to `contest.margin.bound`.
        progress: called now and then with a `Progress`.

    Returns:
        A `Solution` whose gap is certified from its rule alone, whatever the solver claimed; its status says whether
        the gap is within `tol`.

    Raises:
        NotUnichainError: some policy has two recurrent classes; the error names them.
    """
    if not (np.isfinite(tol) and tol >= 0):
        raise InputError(f"tol must be a nonnegative number, got {tol}")
    refuse_if_not_unichain(contest)
    if solver is None:
        solver, why = choose_solver(contest)
    else:
        if isinstance(solver, type) or not hasattr(solver, "propose"):
            raise InputError(f"solver must be a solver such as solvers.HPI(1000), got {solver!r}")
        given = ", ".join(f"{f.name}={getattr(solver, f.name)!r}" for f in fields(solver))  # type: ignore[arg-type]
        why = f"asked for, with {given}"
    target = tol * contest.margin.bound
    proposal = solver.propose(contest, target, progress)
    proof = certify(contest, proposal.rule)
    gap = max(0.0, -proof.kappa)
    return Solution(
        rule=proposal.rule,
        occupancy=proof.x,
        gap=gap,
        certificate=proof,
        # Without any preference every rule is a solution, whatever rounding left of the gap.
        status=Status.SOLVED if gap <= target or contest.margin.bound <= contest.margin.noise else proposal.status,
        solver=solver.name,
        why=why,
        tol=tol,
        history=proposal.history,
        info=proposal.info,
    )
