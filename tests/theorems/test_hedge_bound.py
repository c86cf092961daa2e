"""The Hedge bound: regret ≤ log(n)/η + η Σ ‖z_k²‖_∞ whenever |η z_k| ≤ 1, whatever the scores."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mdcontest.solvers.hpi import hedge_step

scores = st.integers(2, 6).flatmap(
    lambda n: arrays(float, st.tuples(st.integers(1, 60), st.just(n)), elements=st.floats(-1, 1, width=32))
)


@given(scores, st.floats(0.001, 1.0))
def test_regret_is_bounded(z, eta):
    rounds, n = z.shape
    p, earned = np.full((1, n), 1 / n), 0.0
    for z_k in z:
        earned += float(p[0] @ z_k)
        p = hedge_step(p, z_k[None, :], np.full((1, 1), eta), None)
        np.testing.assert_allclose(p.sum(), 1)
    regret = z.sum(axis=0).max() - earned
    assert regret <= np.log(n) / eta + eta * (z**2).max(axis=1).sum() + 1e-9


@given(scores)
def test_regret_is_bounded_against_an_adversary(z):
    """Scores that punish the likeliest action, scaled to the limit |η z| = 1."""
    rounds, n = z.shape
    eta, p, earned, total, squares = 1.0, np.full((1, n), 1 / n), 0.0, np.zeros(n), 0.0
    for z_k in z:
        z_k = np.where(np.arange(n) == p[0].argmax(), -np.abs(z_k).max(), z_k)
        earned, total, squares = earned + float(p[0] @ z_k), total + z_k, squares + (z_k**2).max()
        p = hedge_step(p, z_k[None, :], np.full((1, 1), eta), None)
    assert total.max() - earned <= np.log(n) / eta + eta * squares + 1e-9


@given(st.floats(1e3, 1e6), st.integers(2, 5))
def test_large_scores_do_not_overflow(size, n):
    p = np.full((1, n), 1 / n)
    for _ in range(5):
        p = hedge_step(p, size * np.arange(n)[None, :], np.ones((1, 1)), None)
    np.testing.assert_allclose(p, np.eye(n)[[n - 1]])
