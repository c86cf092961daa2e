"""lem:unichain: stationary policies have occupancies, they are the flow polytope X, and rules come back from them."""

import numpy as np
from hypothesis import given
from scipy.optimize import linprog, nnls

import mdcontest as mdc
from mdcontest.occupancy import flow_residual
from strategies import chain_of, contests, contests_with_rules, deterministic_rules, seeds


@given(contests_with_rules())
def test_occupancy_is_the_limit_of_average_frequencies(case):
    """Part 1, against the definition: (1/T) Σ_t Pr(S_t = s, A_t = a), with T = 2^30 by repeated squaring.

    A_{2T} = (A_T + P^T A_T)/2 for A_T = (1/T) Σ_{t<T} P^t. The error of A_T is O(1/T) for every unichain chain.
    """
    contest, rule = case
    P = chain_of(contest, rule)
    average, power = np.eye(len(P)), P.copy()
    for _ in range(30):
        average, power = (average + power @ average) / 2, power @ power
    expected = (contest.start @ average)[:, None] * rule
    np.testing.assert_allclose(mdc.occupancy(contest, rule), expected, atol=1e-6)


@given(contests_with_rules())
def test_occupancies_satisfy_the_flow_equations(case):
    """Part 2, X^SR ⊆ X: mass one, nonnegative, eq. flow."""
    contest, rule = case
    x = mdc.occupancy(contest, rule)
    assert x.min() >= 0
    assert abs(x.sum() - 1) < 1e-12
    assert np.abs(flow_residual(contest, x)).max() < 1e-12


@given(contests_with_rules())
def test_the_rule_of_an_occupancy_has_that_occupancy(case):
    """Part 4: x → d → x is the identity, and d → x → d is it on visited states (uniform on the others)."""
    contest, rule = case
    x = mdc.occupancy(contest, rule)
    back = mdc.decision_rule(x)
    np.testing.assert_allclose(mdc.occupancy(contest, back), x, atol=1e-11)
    visited = x.sum(axis=1) > 1e-6
    np.testing.assert_allclose(back[visited], rule[visited], atol=1e-8)
    never = x.sum(axis=1) == 0
    np.testing.assert_allclose(back[never], 1 / contest.num_actions)


@given(contests(), seeds)
def test_every_point_of_the_polytope_is_an_occupancy(contest, seed):
    """Part 2, X ⊆ X^SR: a random vertex of X, found by linear programming, is the occupancy of its own rule."""
    rng = np.random.default_rng(seed)
    F = flow_matrix(contest)
    constraints = np.vstack([F, np.ones((1, contest.num_pairs))])
    right = np.append(np.zeros(contest.num_states), 1.0)
    found = linprog(rng.normal(size=contest.num_pairs), A_eq=constraints, b_eq=right)
    assert found.status == 0
    x = np.maximum(found.x, 0).reshape(contest.num_states, contest.num_actions)
    np.testing.assert_allclose(mdc.occupancy(contest, mdc.decision_rule(x)), x, atol=1e-7)


@given(contests_with_rules(max_policies=64, max_states=6))
def test_occupancies_lie_in_the_hull_of_the_deterministic_ones(case):
    """Part 3: x = Σ p_i x^i is solvable with p ≥ 0, Σp = 1 over all |A|^|S| deterministic policies."""
    contest, rule = case
    vertices = np.array([mdc.occupancy(contest, d).reshape(-1) for d in deterministic_rules(contest)])
    x = mdc.occupancy(contest, rule).reshape(-1)
    system = np.vstack([vertices.T, np.ones((1, len(vertices)))])
    p, distance = nnls(system, np.append(x, 1.0))
    assert p.min() >= 0
    assert distance < 1e-10


@given(contests_with_rules(rules=2))
def test_occupancies_do_not_depend_on_the_start(case):
    """The remark after the lemma: under the unichain condition x^{π,μ} does not depend on μ.

    The restart shapes are excluded by construction of the comparison: there μ is part of the transitions.
    """
    contest, rule, _ = case
    x = mdc.occupancy(contest, rule)
    moved = mdc.Contest(contest.transitions, np.eye(contest.num_states)[0], contest.margin)
    np.testing.assert_allclose(mdc.occupancy(moved, rule), x, atol=1e-10)


def flow_matrix(contest):
    """F[s', (s, a)] = P(s'|s, a) − 1[s = s'] from its definition."""
    from strategies import dense_transitions

    P = dense_transitions(contest)
    F = np.zeros((contest.num_states, contest.num_pairs))
    for s, a, later in np.ndindex(*P.shape):
        F[later, s * contest.num_actions + a] = P[s, a, later] - (s == later)
    return F
