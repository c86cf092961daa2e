"""The restart chain is unichain and aperiodic; with ε = 1 − γ it is the discounted contest. Finite horizons too."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from random_contests import random_margin, random_rule
from strategies import seeds


def any_contest(seed, S, A, sparse):
    """No condition on the chain at all: deterministic jumps, many closed classes."""
    rng = np.random.default_rng(seed)
    P = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        later = rng.choice(S, size=rng.integers(1, min(S, 2) + 1), replace=False)
        P[s, a, later] = rng.dirichlet(np.ones(len(later)))
    start = rng.dirichlet(np.ones(S) * rng.choice([0.1, 1.0]))
    given_ = sp.csr_array(P.reshape(S * A, S)) if sparse else P
    return mdc.Contest(given_, start, random_margin(rng, S, A, "low rank")), P, rng


shapes = st.tuples(seeds, st.integers(1, 7), st.integers(1, 4), st.booleans())


@given(shapes, st.floats(0.0, 0.99))
def test_discounted_occupancy(shape, gamma):
    """x^{π,γ} = (1 − γ) Σ_t γ^t Pr(S_t = s, A_t = a), solved as (I − γ Pᵀ) ν = (1 − γ) μ."""
    contest, P, rng = any_contest(*shape)
    made = contest.discounted(gamma)
    rule = random_rule(rng, made)
    chain = np.einsum("sa,sat->st", rule, P)
    nu = np.linalg.solve(np.eye(len(chain)) - gamma * chain.T, (1 - gamma) * contest.start)
    np.testing.assert_allclose(mdc.occupancy(made, rule), nu[:, None] * rule, atol=1e-11)


@given(shapes, st.floats(0.05, 0.99))
def test_discounted_advantages(shape, gamma):
    """Q − V of the restart chain are the discounted advantages of the cumulant c."""
    contest, P, rng = any_contest(*shape)
    made = contest.discounted(gamma)
    rule = random_rule(rng, made)
    V, Q = mdc.marginal_values(made, rule)
    c = mdc.cumulant(made, rule)
    chain = np.einsum("sa,sat->st", rule, P)
    v = np.linalg.solve(np.eye(len(chain)) - gamma * chain, (rule * c).sum(axis=1))
    q = c + gamma * np.einsum("sat,t->sa", P, v)
    np.testing.assert_allclose(Q - V[:, None], q - v[:, None], atol=1e-9 * (1 + np.abs(q).max()))


@given(shapes, st.floats(0.001, 1.0))
def test_restart_is_unichain_and_aperiodic(shape, eps):
    contest, P, _ = any_contest(*shape)
    made = contest.with_restart(eps)
    conditions = mdc.check_conditions(made)
    assert conditions.unichain == conditions.aperiodic == "yes"
    assert conditions.unichain.witness.holds(made)
    assert conditions.tau <= max(1, 2 / eps) * (1 + 1e-9)
    full = made.transitions
    full = full if isinstance(full, np.ndarray) else full.toarray().reshape(P.shape)
    np.testing.assert_allclose(full, (1 - eps) * P + eps * contest.start, atol=1e-14)


@given(shapes)
def test_solution_of_the_discounted_contest_is_optimal_for_the_discounted_criterion(shape):
    """No deterministic rule beats it under discounted occupancies computed apart from the library."""
    from strategies import deterministic_rules

    contest, P, _ = any_contest(shape[0], min(shape[1], 4), min(shape[2], 3), shape[3])
    made, gamma = contest.discounted(0.8), 0.8

    def discounted(rule):
        chain = np.einsum("sa,sat->st", rule, P)
        nu = np.linalg.solve(np.eye(len(chain)) - gamma * chain.T, (1 - gamma) * contest.start)
        return (nu[:, None] * rule).reshape(-1)

    solution = mdc.solve(made)
    x, M = discounted(made.original_policy(solution.rule)), contest.margin.matrix()
    assert all(
        x @ M @ discounted(rival) >= -1e-8 * (1 + contest.margin.bound) for rival in deterministic_rules(contest)
    )


@given(shapes, st.integers(1, 4))
def test_finite_horizon_occupancy(shape, horizon):
    """The time-expanded chain spends 1/N of its time in layer t, with the law of (S_t, A_t) from μ."""
    contest, P, rng = any_contest(*shape)
    made = contest.finite_horizon(horizon)
    rule = random_rule(rng, made)
    policy = made.original_policy(rule)
    assert policy.shape == (horizon, contest.num_states, contest.num_actions)
    law, expected = contest.start, []
    for t in range(horizon):
        pairs = law[:, None] * policy[t]
        expected.append(pairs / horizon)
        law = np.einsum("sa,sat->t", pairs, P)
    x = mdc.occupancy(made, rule).reshape(horizon, contest.num_states, contest.num_actions)
    np.testing.assert_allclose(x, expected, atol=1e-12)
    M = made.margin.matrix()
    np.testing.assert_allclose(M, np.tile(contest.margin.matrix(), (horizon, horizon)), atol=1e-12)


@given(shapes, st.integers(2, 3))
def test_finite_horizon_is_unichain_and_periodic(shape, horizon):
    contest, _, _ = any_contest(*shape)
    made = contest.finite_horizon(horizon)
    conditions = mdc.check_conditions(made)
    assert conditions.unichain == "yes"
    assert conditions.aperiodic == "no"
    assert conditions.unichain.witness.holds(made)
    assert conditions.aperiodic.witness.holds(made)
    assert mdc.solve(made).status == "solved"


def test_a_long_horizon_of_an_array_takes_memory_linear_in_its_steps(monkeypatch):
    """T layers of the entries of P, in place of T² layers of zeros; what comes of it is what the array gives."""
    contest, P, rng = any_contest(1, 6, 3, False)
    steps = 100
    long = contest.finite_horizon(steps)
    assert long.transitions.nnz == (steps - 1) * np.count_nonzero(P) + 18 * np.count_nonzero(contest.start)
    assert contest.finite_horizon(2000).dynamics.matrix.nnz == 1999 * np.count_nonzero(P)

    assert isinstance(contest.finite_horizon(20).transitions, np.ndarray)
    monkeypatch.setattr("mdcontest.transitions.EXPANDED_ENTRIES", np.inf)
    array = contest.finite_horizon(steps)
    assert isinstance(array.transitions, np.ndarray)
    np.testing.assert_array_equal(long.transitions.toarray(), array.transitions.reshape(18 * steps, -1))
    rule = random_rule(rng, long)
    np.testing.assert_allclose(mdc.occupancy(long, rule), mdc.occupancy(array, rule), atol=1e-14)
    assert mdc.optimality_gap(long, rule) == pytest.approx(mdc.optimality_gap(array, rule), abs=1e-12)
    assert mdc.verify(array, mdc.solve(long))  # solved as one, verified as the other


def test_two_restarts_are_one():
    contest, _, _ = any_contest(3, 5, 2, True)
    twice, once = contest.with_restart(0.2).with_restart(0.5), contest.with_restart(0.6)
    np.testing.assert_allclose(twice.transitions.toarray(), once.transitions.toarray(), atol=1e-15)


@pytest.mark.parametrize("eps", [0, -0.1, 1.5, float("nan"), "0.1"])
def test_bad_restart(eps):
    with pytest.raises(mdc.InputError, match="restart probability"):
        mdc.examples.corridor().with_restart(eps)


@pytest.mark.parametrize("gamma", [1, -0.1, float("nan")])
def test_bad_discount(gamma):
    with pytest.raises(mdc.InputError, match="discount"):
        mdc.examples.corridor().discounted(gamma)


@pytest.mark.parametrize("horizon", [0, -1, 2.5])
def test_bad_horizon(horizon):
    with pytest.raises(mdc.InputError, match="horizon"):
        mdc.examples.corridor().finite_horizon(horizon)
