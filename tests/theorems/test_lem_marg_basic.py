"""lem:marg-basic: bounds and equations of the marginal values."""

import numpy as np
from hypothesis import given

import mdcontest as mdc
from strategies import chain_of, contests_with_rules, dense_transitions


@given(contests_with_rules())
def test_values_are_bounded_by_tau(case):
    """Part 1: |V| ≤ M_max τ and |Q| ≤ 2 M_max τ, for periodic contests too."""
    contest, rule = case
    V, Q = mdc.marginal_values(contest, rule)
    tau = mdc.check_conditions(contest).tau
    assert np.abs(V).max() <= contest.margin.bound * tau * (1 + 1e-9)
    assert np.abs(Q).max() <= 2 * contest.margin.bound * tau * (1 + 1e-9)


@given(contests_with_rules())
def test_q_is_cumulant_plus_expected_v(case):
    """Part 2: Q(s, a) = c(s, a) + Σ P(s'|s, a) V(s')."""
    contest, rule = case
    V, Q = mdc.marginal_values(contest, rule)
    expected = mdc.cumulant(contest, rule) + np.einsum("sat,t->sa", dense_transitions(contest), V)
    np.testing.assert_allclose(Q, expected, atol=1e-12 * (1 + np.abs(Q).max()))


@given(contests_with_rules())
def test_v_is_expected_q(case):
    """Part 3: V(s) = Σ_a d(a|s) Q(s, a)."""
    contest, rule = case
    V, Q = mdc.marginal_values(contest, rule)
    np.testing.assert_allclose((rule * Q).sum(axis=1), V, atol=1e-12 * (1 + np.abs(Q).max()))


@given(contests_with_rules(shapes=("dense", "restart", "lazy")))
def test_v_is_the_sum_of_expected_cumulants(case):
    """The definition, eq. marg-s-defn: Σ_t P^t c, summed until the terms vanish (aperiodic shapes)."""
    contest, rule = case
    V, _ = mdc.marginal_values(contest, rule)
    P = chain_of(contest, rule)
    term = (rule * mdc.cumulant(contest, rule)).sum(axis=1)
    total = np.zeros_like(term)
    for _ in range(20000):
        total += term
        term = P @ term
        if np.abs(term).max() < 1e-16 * contest.margin.bound:
            break
    np.testing.assert_allclose(total, V, atol=1e-9 * (1 + np.abs(V).max()))


@given(contests_with_rules())
def test_cumulant_averages_to_zero(case):
    """eq. 0-cum: Σ x c = xᵀ M x = 0 because M is skew."""
    contest, rule = case
    x, c = mdc.occupancy(contest, rule), mdc.cumulant(contest, rule)
    assert abs((x * c).sum()) <= 1e-12 * (1 + contest.margin.bound)
