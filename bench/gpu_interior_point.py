"""The interior point on a GPU: `python bench/gpu_interior_point.py` (needs JAX with CUDA; `--device cpu` for LAPACK).

A contest without structure in its margin: a Garnet chain (five successors a pair, restart 0.01) and a dense random skew
M, 8000 states × 4 actions by default, so that every step factors a matrix of 40 000 rows. Prints the time, the share of
the device's float64 peak that the factorisations reach, and the gap, which is bounded anew here from the rule, x and h:

    gap ≤ max_sa[c + P h − h] + ‖M‖max·‖F x‖₁/ε,     c = M x,   x = ν ∘ rule,

since the occupancy of the rule differs from x by at most the flow's residual over the restart probability ε.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from mdcontest.contest import Contest
from mdcontest.margins.base import Margin
from mdcontest.occupancy import flow_residual
from mdcontest.solvers.base import Progress, Proposal
from mdcontest.solvers.interior_point import InteriorPoint

RESTART = 0.01
SUCCESSORS = 5
PEAKS = {"H200": (67.0, 34.0), "H100": (67.0, 34.0), "A100": (19.5, 9.7)}
"""Float64 TFLOP/s by the makers' data sheets: tensor cores, and vector units."""
BLOCK = 1000


class HeldMatrix(Margin):
    """A matrix that is skew by construction: nothing of it is checked or copied, which at 8 GB takes a while."""

    kind: ClassVar[str] = "held"

    def __init__(self, M: Any) -> None:
        self.M = M
        self._hold(np.arange(len(M)))

    def kernel(self, f: Any, g: Any) -> Any:
        return self.M[f] if len(g) == len(self.M) else self.M[np.ix_(f, g)]

    def kernel_against(self, f: Any, g: Any, weights: Any) -> Any:
        return (self.M @ weights)[f] if len(f) == len(g) == len(self.M) else self.kernel(f, g) @ weights

    def rows_bound(self, f: Any) -> float:
        return max(float(np.abs(self.M[i : i + BLOCK]).max()) for i in range(0, len(self.M), BLOCK))


def random_skew(n: int, seed: int) -> Any:
    """M(z, z') ~ N(0, 1) above the diagonal, block by block, each block with its own seed; the mirror image below."""
    M = np.zeros((n, n))
    firsts = range(0, n, BLOCK)

    def fill(i: int) -> None:
        rng = np.random.default_rng([seed, i])
        for j in firsts[i // BLOCK :]:
            block = rng.standard_normal((min(BLOCK, n - i), min(BLOCK, n - j)))
            if i == j:
                block = np.triu(block, 1)
                M[i : i + BLOCK, j : j + BLOCK] = block - block.T
            else:
                M[i : i + BLOCK, j : j + BLOCK] = block
                M[j : j + BLOCK, i : i + BLOCK] = -block.T

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, firsts))
    return M


def garnet(states: int, actions: int, seed: int) -> Any:
    """Transitions to a few random successors, sparse, one row a pair."""
    rng = np.random.default_rng(seed)
    n = states * actions
    successors = rng.integers(states, size=(n, SUCCESSORS))  # drawn twice, they add up
    weights = rng.dirichlet(np.ones(SUCCESSORS), size=n)
    rows = np.repeat(np.arange(n), SUCCESSORS)
    return sp.csr_array((weights.reshape(-1), (rows, successors.reshape(-1))), shape=(n, states))


def bounded_gap(contest: Contest, proposal: Proposal) -> float:
    """The bound of the module's docstring, relative to max |M|."""
    x, h, bound = proposal.x, proposal.h, contest.margin.bound
    assert x is not None
    assert h is not None
    mass = x.sum(axis=1)
    assert np.abs(x - mass[:, None] * proposal.rule).sum() < 1e-12  # x is the rule's, state by state
    gained = contest.dynamics.expect(h).reshape(x.shape) - h[:, None]
    excess = float((contest.margin.apply(x) + gained).max())
    return excess / bound + float(np.abs(flow_residual(contest, x)).sum()) / RESTART


def versions() -> str:
    """Python and what was used of it."""
    found = [f"python {platform.python_version()}"]
    for name in ("numpy", "scipy", "jax", "jaxlib", "mdcontest"):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} (not installed)")
    return ", ".join(found)


def main() -> None:
    """Build, solve, bound, print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--states", type=int, default=8000)
    options.add_argument("--actions", type=int, default=4)
    options.add_argument("--tol", type=float, default=1e-9, help="the gap asked for, relative to max |M|")
    options.add_argument("--device", choices=("gpu", "cpu", "auto"), default="gpu")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()

    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {versions()}", flush=True)
    began = time.perf_counter()
    margin = HeldMatrix(random_skew(given.states * given.actions, given.seed))
    start = np.full(given.states, 1 / given.states)
    contest = Contest(garnet(given.states, given.actions, given.seed), start, margin).with_restart(RESTART)
    print(f"{contest}\nbuilt in {time.perf_counter() - began:.1f} s", flush=True)

    began = time.perf_counter()

    def report(progress: Progress) -> None:
        gap = "" if progress.gap is None else f": gap ≤ {progress.gap / contest.margin.bound:.2e}"
        print(f"  step {progress.iteration}, {time.perf_counter() - began:.1f} s{gap}", flush=True)

    proposal = InteriorPoint(device=given.device).propose(contest, given.tol * contest.margin.bound, report)
    seconds, info = time.perf_counter() - began, proposal.info
    rate = info["factorisation_gflops"] / 1e3
    print(f"solved in {seconds:.1f} s on {info['device']}, {info['steps']} steps, matrix of {info['rows']} rows")
    print(f"factorisations: {info['factorisation_seconds']:.1f} s, {rate:.3g} TFLOP/s in float64")
    for name, (tensor, vector) in PEAKS.items():
        if name in str(info["device"]):
            print(f"  {rate / tensor:.0%} of the {tensor:g} TFLOP/s of tensor cores, {rate / vector:.0%} of {vector:g}")
    print(f"certified gap, relative to max |M|: {bounded_gap(contest, proposal):.3g}")


if __name__ == "__main__":
    main()
