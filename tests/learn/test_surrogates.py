"""Surrogates: hand-computed values, where their optimum lies, where they are flat."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdcontest.learn.surrogates import LOG_RATIO_LIMIT, clipped, hedge_corrected, hedge_printed
from strategies import seeds

GRID = np.linspace(-6, 6, 24001)
"""Log ratios 0.0005 apart."""


def on_grid(surrogate, advantage, parameter):
    return np.asarray(surrogate(GRID.astype(np.float32), np.float32(advantage), parameter), float)


def test_clipped_by_hand():
    # ε = 0.2. A = 2: min(2ρ, 2·clip(ρ)) = 2·min(ρ, 1.2). A = −1: min(−ρ, −clip(ρ)) = −max(ρ, 0.8).
    ratio = np.array([0.5, 0.9, 1.0, 1.1, 1.5])
    np.testing.assert_allclose(clipped(np.log(ratio), 2.0, 0.2), [1.0, 1.8, 2.0, 2.2, 2.4], rtol=1e-6)
    np.testing.assert_allclose(clipped(np.log(ratio), -1.0, 0.2), [-0.8, -0.9, -1.0, -1.1, -1.5], rtol=1e-6)
    np.testing.assert_allclose(clipped(np.log(ratio), 0.0, 0.2), np.zeros(5), atol=0)


def test_hedge_printed_by_hand():
    # ρ(A − log ρ / η) with η = 2: at ρ = e and A = 1, e(1 − ½) = e/2; at ρ = 1, A; at ρ = 1/e and A = 0, e⁻¹·½.
    found = hedge_printed(np.array([1.0, 0.0, -1.0]), np.array([1.0, 3.0, 0.0]), 2.0)
    np.testing.assert_allclose(found, [np.e / 2, 3.0, 0.5 / np.e], rtol=1e-6)


def test_hedge_corrected_by_hand():
    # ρA − (ρ log ρ − ρ + 1)/η with η = 2: at ρ = e and A = 1, e − ½; at ρ = 1, A;
    # at ρ = 1/e and A = 0, −(−1/e − 1/e + 1)/2 = 1/e − ½.
    found = hedge_corrected(np.array([1.0, 0.0, -1.0]), np.array([1.0, 3.0, 0.0]), 2.0)
    np.testing.assert_allclose(found, [np.e - 0.5, 3.0, 1 / np.e - 0.5], rtol=1e-6)


@pytest.mark.parametrize("eta", [0.5, 1.5])
@pytest.mark.parametrize("advantage", [-2.0, -0.3, 0.0, 1.0, 2.5])
def test_optima_of_the_hedge_surrogates(advantage, eta):
    # The tops are flat: within 0.02 of it in log ρ the value changes by 2·10⁻⁴ of ρ/η, float32 sees 10⁻⁷.
    printed = GRID[np.argmax(on_grid(hedge_printed, advantage, eta))]
    corrected = GRID[np.argmax(on_grid(hedge_corrected, advantage, eta))]
    assert printed == pytest.approx(eta * advantage - 1, abs=0.02)
    assert corrected == pytest.approx(eta * advantage, abs=0.02)


@given(st.floats(-2, 2), st.floats(0.2, 2.0))
def test_gradients_vanish_at_the_optima(advantage, eta):
    for surrogate, top in ((hedge_printed, eta * advantage - 1), (hedge_corrected, eta * advantage)):
        slope = jax.grad(lambda log_ratio, f=surrogate: f(log_ratio, advantage, eta))(top)
        assert abs(float(slope)) < 1e-5 * np.exp(top) * (1 + abs(advantage) + 1 / eta) + 1e-6


def test_at_the_start_the_surrogates_push_alike():
    # d/d log ρ at ρ = 1: A for the clipped and the corrected one, A − 1/η for the printed.
    slopes = [float(jax.grad(f)(0.0, 0.7, 0.5)) for f in (hedge_corrected, hedge_printed)]
    np.testing.assert_allclose(slopes, [0.7, 0.7 - 2.0], rtol=1e-6)
    np.testing.assert_allclose(jax.grad(clipped)(0.001, 0.7, 0.2), 0.7, rtol=2e-3)


@given(st.floats(0.05, 3), st.floats(0.05, 0.5))
def test_the_clipped_surrogate_is_flat_beyond_the_clip_on_the_side_of_the_advantage(size, epsilon):
    beyond = np.log([1.01 * (1 + epsilon), 2 * (1 + epsilon), 20.0])
    before = np.log([0.99 * (1 - epsilon), 0.5 * (1 - epsilon), 0.01])
    np.testing.assert_allclose(clipped(beyond, size, epsilon), (1 + epsilon) * size, rtol=1e-5)
    np.testing.assert_allclose(clipped(before, -size, epsilon), -(1 - epsilon) * size, rtol=1e-5)
    slope = jax.vmap(jax.grad(clipped), in_axes=(0, None, None))
    np.testing.assert_array_equal(slope(beyond, size, epsilon), np.zeros(3))
    np.testing.assert_array_equal(slope(before, -size, epsilon), np.zeros(3))
    # On the other side the way back stays open: the slope is ρA.
    np.testing.assert_allclose(slope(before, size, epsilon), np.exp(before) * size, rtol=1e-5)
    np.testing.assert_allclose(slope(beyond, -size, epsilon), -np.exp(beyond) * size, rtol=1e-5)


@given(seeds, st.floats(0.1, 3))
def test_both_hedge_forms_have_the_same_mean_where_ratios_have_mean_one(seed, eta):
    # They differ by (ρ − 1)/η, whose mean is 0 if E_{d_k}[ρ] = Σ_a d_k(a) d_θ(a)/d_k(a) = 1.
    rng = np.random.default_rng(seed)
    old, new = rng.dirichlet(np.ones(5)) + 1e-3, rng.dirichlet(np.ones(5)) + 1e-3
    old, new = old / old.sum(), new / new.sum()
    log_ratio, advantage = np.log(new / old).astype(np.float32), rng.normal(size=5).astype(np.float32)
    printed = old @ np.asarray(hedge_printed(log_ratio, advantage, eta), float)
    corrected = old @ np.asarray(hedge_corrected(log_ratio, advantage, eta), float)
    assert printed == pytest.approx(corrected, abs=1e-5 * (1 + 1 / eta))


@pytest.mark.parametrize("surrogate", [hedge_printed, hedge_corrected])
def test_ratios_that_have_run_away_stay_finite(surrogate):
    for log_ratio in (-1e4, -LOG_RATIO_LIMIT - 1, LOG_RATIO_LIMIT + 1, 1e4):
        assert np.isfinite(float(surrogate(log_ratio, 2.0, 1.5)))
        assert float(jax.grad(surrogate)(log_ratio, 2.0, 1.5)) == 0.0
