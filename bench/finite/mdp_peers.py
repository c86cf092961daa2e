"""Solvers of Markov decision processes from the package index as peers, for margins that are reward differences.

mdpsolver (C++, modified policy iteration) and pymdptoolbox (NumPy, relative value iteration), `pip install '.[bench]'`.
A restart of equal probability ε is a discount of 1 − ε to both: the same policies are optimal, and P₀ stays sparse.
What is timed is their own solve; handing the model over to mdpsolver as lists of lists is not.
"""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from mdcontest import Contest, margins
from mdcontest.errors import InputError
from mdcontest.solvers.base import Progress, Proposal, Report
from mdcontest.values import one_hot

PACKAGES = {"mdpsolver": "mdpsolver", "pymdptoolbox": "mdptoolbox"}
"""The package on the index and the module it brings."""
TOLERANCE = 1e-9


@dataclass(frozen=True)
class MdpPackage:
    """One of the packages, at a tolerance of 1e-9."""

    package: str = "mdpsolver"
    threads: int = 1

    name: ClassVar[str] = "MDP package"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        """The deterministic rule the package finds best."""
        if not isinstance(contest.margin, margins.RewardDifference):
            raise InputError(f"{self.package} maximises rewards, and a {contest.margin.kind} margin is none")
        report(Progress(0))
        solve = {"mdpsolver": _mdpsolver, "pymdptoolbox": _toolbox}[self.package]
        actions, seconds = solve(contest, self.threads)
        return Proposal(one_hot(actions, contest.num_actions), info={"seconds_inside": seconds})


def installed() -> list[str]:
    """The packages that are there."""
    return [package for package, module in PACKAGES.items() if importlib.util.find_spec(module)]


def _model(contest: Contest) -> tuple[sp.csr_array, np.ndarray, float]:
    """P₀ with rows that sum to one, r divided by its range, and the probability of a restart."""
    e = contest.dynamics.restart
    eps = 0.0 if e is None else float(e[0])
    if e is not None and not (e == eps).all():
        raise InputError("restarts differ between pairs, so they are no discount")
    r = contest.margin.rows() / (contest.margin.bound or 1.0)
    return sp.csr_array(contest.dynamics.matrix) / (1 - eps), r.reshape(contest.num_states, -1), eps


def _mdpsolver(contest: Contest, threads: int) -> tuple[np.ndarray, float]:
    import mdpsolver

    P, r, eps = _model(contest)
    A = contest.num_actions
    entries, columns = (np.split(part, P.indptr[1:-1]) for part in (P.data, P.indices))

    def by_state(rows: list[Any]) -> list[list[list[Any]]]:
        return [[row.tolist() for row in rows[s : s + A]] for s in range(0, len(rows), A)]

    problem = mdpsolver.model()
    discount = 1 - eps if eps else 0.5  # unused without a restart, but it must lie below one
    problem.mdp(discount=discount, rewards=r.tolist(), tranMatProbs=by_state(entries), tranMatColumns=by_state(columns))
    began = time.perf_counter()
    criterion = "discounted" if eps else "average"
    problem.solve(algorithm="mpi", criterion=criterion, tolerance=TOLERANCE, parallel=threads > 1)
    return np.array(problem.getPolicy(), dtype=np.intp), time.perf_counter() - began


def _toolbox(contest: Contest, threads: int) -> tuple[np.ndarray, float]:
    import warnings

    from mdptoolbox import mdp

    P, r, eps = _model(contest)
    by_action = [sp.csr_matrix(P[a :: contest.num_actions]) for a in range(contest.num_actions)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its checks of sparse matrices are slow, and SciPy says so
        if eps:
            problem = mdp.PolicyIterationModified(by_action, r, 1 - eps, epsilon=TOLERANCE, max_iter=10**7)
        else:
            problem = mdp.RelativeValueIteration(by_action, r, epsilon=TOLERANCE, max_iter=10**7)
        began = time.perf_counter()
        problem.run()
    return np.array(problem.policy, dtype=np.intp), time.perf_counter() - began
