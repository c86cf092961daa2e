"""Statements about sets and objectives: which x are occupancies, what the gap is, and that ascents have one summit."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import linprog

import mdcontest as mdc
from mdcontest.arrays import Array

MOST_POLICIES = 300
"""Deterministic policies of a contest in which all of them are tried."""
VERTICES = 4
"""Solutions of the flow equations that are looked at."""


def check_flow(contest: mdc.Contest, rules: Array, rng: np.random.Generator) -> dict[str, float]:
    """eq:flow: every occupancy solves it, and random corners of its solutions are occupancies."""
    balance = flow_balance(contest)
    inward = [balance @ mdc.occupancy(contest, rule).ravel() for rule in rules]
    outward = []
    for _ in range(VERTICES):
        x = _corner(balance, rng.normal(size=contest.num_pairs)).reshape(rules.shape[1:])
        outward.append(mdc.occupancy(contest, mdc.decision_rule(x)) - x)
    return {"flow": float(max(np.abs(inward).max(), np.abs(outward).max()))}


def flow_balance(contest: mdc.Contest) -> Array:
    """What leaves each state less what enters it, as a matrix [S, S A]."""
    states, actions = contest.num_states, contest.num_actions
    return np.repeat(np.eye(states), actions, axis=1) - contest.transitions.reshape(-1, states).T


def _corner(balance: Array, objective: Array) -> Array:
    equations = np.vstack([balance, np.ones(balance.shape[1])])
    found = linprog(objective, A_eq=equations, b_eq=[*np.zeros(len(balance)), 1.0], bounds=(0, None), method="highs-ds")
    return np.maximum(found.x, 0)


def check_gap(contest: mdc.Contest, rules: Array) -> dict[str, float]:
    """eq:opt-gap: it is what the best deterministic policy wins, and that of an exact solution is zero.

    So a gap of zero is what no policy wins anything against, and nothing else has it.
    """
    if contest.num_actions**contest.num_states > MOST_POLICIES:
        return {}
    choices = itertools.product(range(contest.num_actions), repeat=contest.num_states)
    policies = [np.eye(contest.num_actions)[list(choice)] for choice in choices]
    differs = [
        mdc.optimality_gap(contest, rule) - max(mdc.average_margin(contest, policy, rule) for policy in policies)
        for rule in rules
    ]
    solved = mdc.solve(contest).rule
    beaten = max(mdc.average_margin(contest, policy, solved) for policy in policies)
    return {"gap": float(max(np.abs(differs).max(), beaten, 0.0)) / contest.margin.bound}


def check_concave(contest: mdc.Contest, rules: Array, eta: float = 1.0) -> dict[str, float]:
    """Both objectives of Algorithm 2 are at least as high half way between two rules as at them on average."""
    d_k, *ends = rules
    x, (_, Q) = mdc.occupancy(contest, d_k), mdc.marginal_values(contest, d_k)

    def surrogate(d: Array) -> float:
        return float((x * d / d_k * (Q / contest.margin.bound - np.log(d / d_k) / eta)).sum())

    def likelihood(d: Array) -> float:
        return float((x * np.log(d)).sum())

    sags = [np.mean([f(end) for end in ends]) - f(np.mean(ends, axis=0)) for f in (surrogate, likelihood)]
    return {"concave": float(np.max([0.0, *sags]))}
