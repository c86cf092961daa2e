"""lem:deviation: the deviation matrix H, the limiting matrix P*, and the bound τ."""

import numpy as np
from hypothesis import given

import mdcontest as mdc
from mdcontest.chain import Chain
from strategies import chain_of, contests_with_rules


def deviation_matrix(P, nu):
    """H = (I − P + P*)⁻¹ (I − P*) in row-stochastic form, P* = 1 νᵀ."""
    limit = np.tile(nu, (len(P), 1))
    return np.linalg.solve(np.eye(len(P)) - P + limit, np.eye(len(P)) - limit)


@given(contests_with_rules(shapes=("dense", "restart", "lazy")))
def test_deviation_matrix_is_the_series(case):
    """Part 1: H = Σ_t (P^t − P*), which converges for aperiodic chains."""
    contest, rule = case
    P, nu = chain_of(contest, rule), mdc.occupancy(contest, rule).sum(axis=1)
    # P^t − P* = Dᵗ(I − P*) with D = P − P*, and Σ_{t<2T} Dᵗ = (I + Dᵀ) Σ_{t<T} Dᵗ: 40 doublings are 10¹² terms.
    limit = np.tile(nu, (len(P), 1))
    total, power = np.eye(len(P)), P - limit
    for _ in range(40):
        total, power = total + power @ total, power @ power
    H = deviation_matrix(P, nu)
    np.testing.assert_allclose(total @ (np.eye(len(P)) - limit), H, atol=1e-9 * (1 + np.abs(H).max()) ** 2)


@given(contests_with_rules())
def test_rows_of_the_limit_are_the_state_frequencies(case):
    """Part 2, corrected: P*[s, s'] = ν(s') = Σ_a x(s', a). P* P = P* is checked, and uniqueness is lem:unichain."""
    contest, rule = case
    P, nu = chain_of(contest, rule), mdc.occupancy(contest, rule).sum(axis=1)
    np.testing.assert_allclose(nu @ P, nu, atol=1e-12)


@given(contests_with_rules())
def test_tau_bounds_every_deviation_matrix(case):
    """Part 3 with ‖·‖_∞ (rows), as row-stochastic code needs: ‖H_π‖_∞ ≤ τ, and τ ≥ 1."""
    contest, rule = case
    tau = mdc.check_conditions(contest).tau
    H = deviation_matrix(chain_of(contest, rule), mdc.occupancy(contest, rule).sum(axis=1))
    assert np.isfinite(tau)
    assert tau >= 1
    assert np.abs(H).sum(axis=1).max() <= tau * (1 + 1e-8)


@given(contests_with_rules())
def test_poisson_solution_is_the_deviation_matrix_times_the_cumulant(case):
    """Our V solves V = c − g + P V with ν·V = 0; that is H c, for periodic chains and transient states as well."""
    contest, rule = case
    rng = np.random.default_rng(0)
    c = rng.normal(size=contest.num_states)
    chain = Chain(contest.dynamics, rule)
    gain, V = chain.poisson(c)
    nu = mdc.occupancy(contest, rule).sum(axis=1)
    assert abs(gain - nu @ c) < 1e-12
    np.testing.assert_allclose(V, deviation_matrix(chain_of(contest, rule), nu) @ c, atol=1e-9 * (1 + np.abs(V).max()))
