"""lem:omm: a rule has occupancy x exactly if it maximises Σ x(s, a) log d(a|s)."""

import numpy as np
from hypothesis import given

import mdcontest as mdc
from mdcontest.solvers.hpi_pg import HPIPG, likelihood_objective
from strategies import contests_with_rules


def likelihood(x, d):
    """Σ x log d with 0·log 0 = 0."""
    return float(np.where(x > 0, x * np.log(np.maximum(d, 1e-300)), 0.0).sum())


@given(contests_with_rules(rules=2))
def test_the_rule_of_x_maximises_the_likelihood(case):
    contest, rule, other = case
    x = mdc.occupancy(contest, rule)
    best = likelihood(x, mdc.decision_rule(x))
    assert best >= likelihood(x, other) - 1e-12
    # Only if: a rule that is strictly worse has another occupancy.
    if likelihood(x, other) < best - 1e-9:
        assert np.abs(mdc.occupancy(contest, other) - x).max() > 1e-9


@given(contests_with_rules())
def test_gradient_ascent_finds_it(case):
    """Step 4 of Algorithm 2 from θ = 0 reaches the closed form x/Σx on visited states, uniform elsewhere."""
    contest, rule = case
    x = mdc.occupancy(contest, np.maximum(rule, 1e-3) / np.maximum(rule, 1e-3).sum(axis=1, keepdims=True))
    found = HPIPG()._ascend_likelihood(x)
    np.testing.assert_allclose(found, mdc.decision_rule(x), atol=1e-6)
    np.testing.assert_allclose(mdc.occupancy(contest, found), x, atol=1e-5)


@given(contests_with_rules())
def test_gradient_of_the_likelihood(case):
    """Against central differences."""
    contest, rule = case
    rng = np.random.default_rng(1)
    objective = likelihood_objective(mdc.occupancy(contest, rule))
    theta = rng.normal(size=rule.shape)
    direction = rng.normal(size=rule.shape)
    _, gradient = objective(theta)
    step = 1e-6
    slope = (objective(theta + step * direction)[0] - objective(theta - step * direction)[0]) / (2 * step)
    assert abs(slope - (gradient * direction).sum()) < 1e-6 * (1 + abs(slope))


@given(contests_with_rules(rules=2, shapes=("transient",)))
def test_what_a_maximiser_does_in_unvisited_states_does_not_matter(case):
    """Two maximisers that differ only where x is zero have the same likelihood and the same occupancy."""
    contest, rule, other = case
    x = mdc.occupancy(contest, rule)
    never = x.sum(axis=1) == 0
    changed = np.where(never[:, None], other, mdc.decision_rule(x))
    assert abs(likelihood(x, changed) - likelihood(x, mdc.decision_rule(x))) < 1e-12
    np.testing.assert_allclose(mdc.occupancy(contest, changed), x, atol=1e-11)
