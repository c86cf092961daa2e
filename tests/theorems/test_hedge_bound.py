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
    _rounds, n = z.shape
    log_p, earned = np.full((1, n), -np.log(n)), 0.0
    for z_k in z:
        p = np.exp(log_p[0])
        np.testing.assert_allclose(p.sum(), 1)
        earned += float(p @ z_k)
        log_p = hedge_step((log_p, z_k[None, :], np.full((1, 1), eta)))
    regret = z.sum(axis=0).max() - earned
    assert regret <= np.log(n) / eta + eta * (z**2).max(axis=1).sum() + 1e-9


@given(scores)
def test_regret_is_bounded_against_an_adversary(z):
    """Scores that punish the likeliest action, scaled to the limit |η z| = 1."""
    _rounds, n = z.shape
    eta, log_p, earned, total, squares = 1.0, np.full((1, n), -np.log(n)), 0.0, np.zeros(n), 0.0
    for z_k in z:
        p = np.exp(log_p[0])
        z_k = np.where(np.arange(n) == p.argmax(), -np.abs(z_k).max(), z_k)
        earned, total, squares = earned + float(p @ z_k), total + z_k, squares + (z_k**2).max()
        log_p = hedge_step((log_p, z_k[None, :], np.full((1, 1), eta)))
    assert total.max() - earned <= np.log(n) / eta + eta * squares + 1e-9


@given(st.floats(1e3, 1e6), st.integers(2, 5))
def test_what_underflows_can_come_back(size, n):
    """Large scores one way and then the other: probabilities reach exact zeros on the way, the last rule is uniform."""
    log_p, z, eta = np.full((1, n), -np.log(n)), size * np.arange(n)[None, :], np.ones((1, 1))
    for sign in (1, 1, -1, -1):
        log_p = hedge_step((log_p, sign * z, eta))
        assert np.isfinite(log_p).all()
    np.testing.assert_allclose(np.exp(log_p), 1 / n, rtol=1e-6)
