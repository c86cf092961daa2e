"""One measurement of `bench/solvers.py`, in a process of its own: build, warm up, solve, certify.

Each stage that is over is a line of JSON on standard output, so that the parent knows whose time is running.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import replace
from typing import Any, ClassVar

import cases
import contests
import numpy as np

import mdcontest as mdc
from mdcontest.regenerative import Regenerative
from mdcontest.solvers import choose_solver
from mdcontest.solvers.base import Proposal, Report
from mdcontest.solvers.responders import make_responder

WARM_UP_PAIRS, WARM_UP_SECONDS = 200, 10.0
FACTORED_STATES = 2500
"""Up to here a peer's rule is certified by factoring, a second or two where the factors fill up."""
TOL = 1e-9
"""Gap asked for, relative to the margin's bound."""


def work(model: str, margin: str, pairs: int, contender: str, threads: int, limit: float) -> None:
    """Measure one contender on one contest."""
    contest = contests.make(model, margin, pairs)
    scale = contest.margin.bound or 1.0  # remembered by the margin, and none of the solver's business
    solver = cases.make_solver(contender, threads) or choose_solver(contest)[0]
    began = time.perf_counter()
    warm_up(model, margin, solver)
    say("ready", warm_up=time.perf_counter() - began, megabytes_before=megabytes(), pairs=contest.num_pairs)
    if cases.is_peer(contender):
        found = peer(contest, solver)
    else:
        found = ours(contest, None if contender == cases.AUTO else solver, limit)
    say("certified", gap=max(0.0, found["gap"]) / scale, **{key: found[key] for key in ("status", "solver", "info")})
    if "factorisations" in found["info"]:
        say("lu", lu_seconds=factorisation(found["info"]["rows"]))


def warm_up(model: str, margin: str, solver: Any) -> None:
    """Compile whatever the solver compiles, on a tiny contest of the same kind, to the same tolerance."""
    mdc.solve(contests.make(model, margin, WARM_UP_PAIRS), solver, tol=TOL, time_limit=WARM_UP_SECONDS)


def ours(contest: mdc.Contest, solver: Any, limit: float) -> dict[str, Any]:
    """The whole of `solve`: choosing, solving, certifying."""
    began = time.perf_counter()
    solution = mdc.solve(contest, solver, tol=TOL, time_limit=limit)
    say("solved", seconds=time.perf_counter() - began, megabytes=megabytes())
    info = {key: value for key, value in solution.info.items() if isinstance(value, int | float | str)}
    return {"gap": solution.gap, "status": str(solution.status), "solver": solution.solver, "info": info}


def peer(contest: mdc.Contest, solver: Any) -> dict[str, Any]:
    """The peer's own time alone; its answer is certified by the same code afterwards."""
    solution = mdc.solve(contest, Timed(solver), tol=TOL)
    return {"gap": solution.gap, "status": str(solution.status), "solver": solution.solver, "info": solution.info}


class Timed:
    """A peer that says how long it took before anybody certifies its answer."""

    __dataclass_fields__: ClassVar[dict[str, Any]] = {}  # `solve` names the settings of a solver

    def __init__(self, peer: Any) -> None:
        self.peer, self.name = peer, peer.name

    def propose(self, contest: mdc.Contest, gap: float, report: Report) -> Proposal:
        """What the peer proposes."""
        began = time.perf_counter()
        proposal: Proposal = self.peer.propose(contest, gap, report)
        seconds = proposal.info.get("seconds_inside", time.perf_counter() - began)
        say("solved", seconds=seconds, megabytes=megabytes())
        return with_proof(contest, proposal, gap)


def with_proof(contest: mdc.Contest, proposal: Proposal, gap: float) -> Proposal:
    """A peer's rule with the tightest x and h there are, after its clock has stopped.

    Its own have residuals of 1e-9, which a restart of 0.001 would multiply by a thousand. Without any, `solve` factors
    the rule's chain, which small ones and those without restarts allow.
    """
    if contest.num_states <= FACTORED_STATES or not Regenerative.serves(contest.dynamics):
        return replace(proposal, x=None, h=None)
    x = mdc.occupancy(contest, proposal.rule)
    best = make_responder(contest).respond(contest.margin.apply(x), 0.1 * gap, exact=True)
    return replace(proposal, x=x, h=best.h)


def factorisation(size: int) -> float:
    """Seconds of LAPACK's dgetrf on a random matrix of that size: the least that one Newton step can cost."""
    from scipy.linalg import lapack

    matrix = np.asfortranarray(np.random.default_rng(0).standard_normal((size, size)))
    began = time.perf_counter()
    lapack.dgetrf(matrix, overwrite_a=1)
    return time.perf_counter() - began


def megabytes() -> float:
    """Peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def say(stage: str, **values: Any) -> None:
    """One line for the parent."""
    print(json.dumps({"stage": stage, **values}), flush=True)


if __name__ == "__main__":
    work(**json.loads(sys.argv[1]))
