"""The interior point's parts against what they stand for; devices, memory, limits."""

import os

import numpy as np
import pytest

import mdcontest as mdc
from mdcontest.solution import Status
from mdcontest.solvers import InteriorPoint, memory, newton_device
from mdcontest.solvers.base import OutOfTime, silent
from mdcontest.solvers.interior_point import _visited
from mdcontest.solvers.newton_device import GpuSystem
from mdcontest.solvers.newton_step import Point, newton_step, residuals
from mdcontest.solvers.newton_system import CpuSystem
from proposals import proposed, relative_gap
from random_contests import random_contest

# --- the parts against what they stand for -----------------------------------------------------------------


def system_of(contest):
    uniform = np.full((contest.num_states, contest.num_actions), 1 / contest.num_actions)
    layout = _visited(contest, uniform)
    return layout, CpuSystem(layout)


@pytest.mark.parametrize("shape", ["dense", "garnet", "periodic", "lazy"])
def test_the_system_says_what_it_should(shape):
    """K₀ (x, y) = (g − (P h − h) − M x, A x) with (h, g) = B⁻ᵀ y, and A x = ν for the occupancy of every rule."""
    rng = np.random.default_rng(0)
    contest = random_contest(5, states=7, actions=3, shape=shape)
    layout, system = system_of(contest)
    rule = rng.dirichlet(np.ones(3), size=7)
    x, y = mdc.occupancy(contest, rule).reshape(-1), rng.normal(size=7)
    got = system.apply(np.concatenate([x, y]))
    h = system.balance.solve(y, transposed=True)
    g, h[layout.pin] = h[layout.pin], 0.0
    assert abs(g - layout.nu @ y) < 1e-12
    c = contest.margin.matrix() @ x / contest.margin.bound
    drift = contest.dynamics.full() @ h - np.repeat(h, 3)
    np.testing.assert_allclose(got[:21], g - drift - c, atol=1e-12)
    np.testing.assert_allclose(got[21:], layout.nu, atol=1e-12)


def test_factors_solve_the_matrix_written_out():
    rng = np.random.default_rng(1)
    _, system = system_of(random_contest(5, states=7, actions=3, shape="dense", margin="dense"))
    D = 10.0 ** rng.uniform(-8, 8, size=21)
    for rho in (0.0, 1e-3):
        assert system.factor(D, rho)
        K = system.K0 + np.diag(np.concatenate([D, np.full(7, -rho)]))
        v = rng.normal(size=28)
        np.testing.assert_allclose(system.solve(K @ v), v, rtol=1e-6, atol=1e-6)
    assert not np.shares_memory(system.K0, system._work)


def test_a_step_keeps_what_it_must():
    """x and z stay positive, and residuals shrink by 1 − α exactly: the equations are linear."""
    contest = random_contest(2, states=12, actions=3, shape="dense", margin="dense")
    layout, system = system_of(contest)
    at = Point(np.full(36, 1 / 36), np.ones(12), np.ones(36))
    for _ in range(8):
        off = residuals(system, layout.nu, at)
        following = newton_step(system, at, off)
        after = residuals(system, layout.nu, following)
        assert following.x.min() > 0
        assert following.z.min() > 0
        left = np.linalg.norm(after.r_z) / np.linalg.norm(off.r_z)
        np.testing.assert_allclose(after.r_z, left * off.r_z, atol=1e-13)
        np.testing.assert_allclose(after.r_x, left * off.r_x, atol=1e-13)
        if off.size < 1e-10:
            break
        at = following
    assert residuals(system, layout.nu, at).size < 1e-6


def test_a_singular_factor_is_regularised(monkeypatch):
    """Factors that fail at first, as they may where rounding has made K singular."""
    original, asked = CpuSystem.factor, []

    def failing(self, D, rho=0.0):
        asked.append(rho)
        return original(self, D, rho) and rho > 0

    monkeypatch.setattr(CpuSystem, "factor", failing)
    contest = random_contest(2, states=6, actions=3, shape="dense", margin="dense")
    assert mdc.solve(contest, InteriorPoint()).status == "solved"
    assert {0.0, 1e-12} <= set(asked)


# --- devices, memory, limits -------------------------------------------------------------------------------


def test_the_same_through_jax(monkeypatch):
    """JAX's CPU in the place of a GPU: the same points, up to rounding."""
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(newton_device, "gpus", lambda: jax.devices("cpu"))
    contest = random_contest(5, states=12, actions=3, shape="garnet", margin="dense")
    here, there = (proposed(contest, 1e-11, device=device) for device in ("cpu", "gpu"))
    np.testing.assert_allclose(here.rule, there.rule, atol=1e-7)
    np.testing.assert_allclose(here.history.gaps[:4], there.history.gaps[:4], rtol=1e-5)
    assert relative_gap(contest, there) <= 1e-10
    layout, system = system_of(contest)
    vector = np.random.default_rng(0).normal(size=system.size)
    np.testing.assert_allclose(GpuSystem(layout, jax.devices("cpu")[0]).apply(vector), system.apply(vector), atol=1e-13)


def test_jax_is_not_imported_for_small_contests(monkeypatch):
    def looked():
        raise AssertionError("looked for a GPU")

    monkeypatch.setattr(newton_device, "gpus", looked)
    assert mdc.solve(mdc.examples.make("corridor"), InteriorPoint()).info["device"] == "cpu"


def test_what_does_not_fit_is_refused_before_it_starts(monkeypatch):
    class SmallGpu:
        def memory_stats(self):
            return {"bytes_limit": 2000, "bytes_in_use": 1000}

    contest = mdc.examples.make("marriage")
    monkeypatch.setattr(newton_device, "gpus", lambda: [SmallGpu()])
    with pytest.raises(mdc.SizeError, match=r"12 pairs.*the GPU has 1e-06 GB free; use methods"):
        mdc.solve(contest, InteriorPoint(device="gpu"))
    monkeypatch.setattr(newton_device, "GPU_PAIRS", 1)
    assert mdc.solve(contest, InteriorPoint()).info["device"] == "cpu"  # "auto" falls back
    monkeypatch.setattr(memory, "available_memory", lambda: 1000.0)
    with pytest.raises(mdc.SizeError, match=r"12 pairs.*this machine has 1e-06 GB free"):
        mdc.solve(contest, InteriorPoint(device="cpu"))


def test_available_memory_is_less_than_there_is():
    assert 0 < memory.available_memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"iterations": 0}, "at least 1, got 0"),
        ({"iterations": 1.5}, "whole number"),
        ({"device": "tpu"}, "device must be 'auto', 'cpu' or 'gpu', got 'tpu'"),
        ({"device": "gpu"}, "JAX sees no GPU"),
    ],
)
def test_bad_settings(settings, message, monkeypatch):
    monkeypatch.setattr(newton_device, "gpus", list)
    with pytest.raises(mdc.InputError, match=message):
        mdc.solve(mdc.examples.make("marriage"), InteriorPoint(**settings))


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt, "interrupted"), (OutOfTime, "time_limit")])
def test_stopping_leaves_the_best_so_far(error, status):
    contest = random_contest(1, states=30, actions=4, shape="dense", margin="dense")

    def stop(progress):
        if progress.iteration == 4:
            raise error

    proposal = InteriorPoint().propose(contest, 0.0, stop)
    assert proposal.status == status
    assert proposal.info["steps"] == 4
    assert relative_gap(contest, proposal) <= proposal.history.gaps[-1] / contest.margin.bound + 1e-12


def test_limits_progress_and_history():
    contest = random_contest(1, states=30, actions=4, shape="dense", margin="dense")
    seen = []
    short = InteriorPoint(3).propose(contest, 0.0, seen.append)
    assert short.status is Status.ITERATION_LIMIT
    assert [(p.iteration, p.of) for p in seen] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    full = proposed(contest, 0.0)
    assert full.status is Status.INACCURATE
    assert full.info["steps"] < 40
    history = full.history
    assert (np.diff(history.iterations) >= 0).all()
    assert (np.diff(history.seconds) >= 0).all()
    assert history.gaps[-1] <= 1e-13 * contest.margin.bound
    assert {"steps", "device", "rows", "factorisation_seconds", "factorisation_gflops"} <= set(full.info)
    assert full.info["rows"] == 150


def test_the_history_holds_certified_gaps():
    """After k steps the policy that would be returned has at most the gap that the history claims."""
    contest = random_contest(6, states=15, actions=3, shape="dense", margin="dense")
    for k in (1, 2, 4, 6):
        stopped = InteriorPoint(k).propose(contest, 0.0, silent)
        assert mdc.optimality_gap(contest, stopped.rule) <= stopped.history.gaps[-1] + 1e-12 * contest.margin.bound


def test_the_same_contest_gives_the_same_answer():
    contest = random_contest(8, states=20, actions=3, shape="dense", margin="dense")
    np.testing.assert_array_equal(proposed(contest).rule, proposed(contest).rule)
