"""lem:pd, the performance difference lemma: M̄(π, π') = Σ x^π (Q^π' − V^π')."""

import numpy as np
from hypothesis import given

import mdcontest as mdc
from strategies import contests_with_rules


@given(contests_with_rules(rules=2))
def test_performance_difference(case):
    contest, rule, other = case
    V, Q = mdc.marginal_values(contest, other)
    expected = (mdc.occupancy(contest, rule) * (Q - V[:, None])).sum()
    scale = 1 + contest.margin.bound + np.abs(Q).max()
    assert abs(mdc.average_margin(contest, rule, other) - expected) <= 1e-11 * scale


@given(contests_with_rules(rules=2))
def test_average_margin_is_skew(case):
    contest, rule, other = case
    forth, back = mdc.average_margin(contest, rule, other), mdc.average_margin(contest, other, rule)
    assert abs(forth + back) <= 1e-12 * (1 + contest.margin.bound)


@given(contests_with_rules())
def test_improving_in_every_state_does_not_lose(case):
    """The consequence after the lemma: Σ_a d(a|s) Q^π'(s, a) ≥ V^π'(s) everywhere implies M̄(π, π') ≥ 0."""
    contest, rule = case
    V, Q = mdc.marginal_values(contest, rule)
    greedy = np.eye(contest.num_actions)[Q.argmax(axis=1)]
    assert ((greedy * Q).sum(axis=1) >= V - 1e-12 * (1 + np.abs(Q).max())).all()
    assert mdc.average_margin(contest, greedy, rule) >= -1e-11 * (1 + contest.margin.bound + np.abs(Q).max())


@given(contests_with_rules())
def test_the_gap_is_at_most_the_largest_advantage(case):
    """From the lemma: gap(π) = max_π' Σ x^π' (Q − V) ≤ max_sa (Q − V), and it is at least zero."""
    contest, rule = case
    V, Q = mdc.marginal_values(contest, rule)
    gap = mdc.optimality_gap(contest, rule)
    assert 0 <= gap <= (Q - V[:, None]).max() + 1e-11 * (1 + contest.margin.bound + np.abs(Q).max())
