"""Statements about the game over deterministic policies, and about what SPPO credits actions with."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.special import softmax

import mdcontest as mdc
from mdcontest.arrays import Array
from mdcontest.solvers import MirrorDescent
from mdcontest.solvers.policies import deterministic_occupancies

MOST_POLICIES, MOST_PAIRS = 300, 8
"""Contests up to these sizes are looked at: all policies are listed, and all trajectories of a few steps."""
DESCENTS, PLAYS, STEPS = 1000, 10_000, 4
"""Iterations of mirror descent and of fictitious play, and the length of an episode."""


def check_hull(contest: mdc.Contest, rules: Array) -> dict[str, float]:
    """lem:unichain: a rule's occupancy is a mixture of those of deterministic policies, and every mixture is one's."""
    if contest.num_actions**contest.num_states > MOST_POLICIES:
        return {}
    corners = deterministic_occupancies(contest, MOST_POLICIES)
    system = np.vstack([corners.T, np.ones(len(corners))])
    inside = [nnls(system, np.append(mdc.occupancy(contest, rule).ravel(), 1.0))[1] for rule in rules]
    mixtures = np.random.default_rng(len(corners)).dirichlet(np.ones(len(corners)), size=len(rules)) @ corners
    shape = rules.shape[1:]
    outside = [mdc.occupancy(contest, mdc.decision_rule(x.reshape(shape))).ravel() - x for x in mixtures]
    return {"hull": float(max(*inside, np.abs(outside).max()))}


def check_descent(contest: mdc.Contest) -> dict[str, float]:
    """Mirror descent over N policies: by how much its gap exceeds 1.5 M_max √(log N / K), its bound at that rate."""
    policies = contest.num_actions**contest.num_states
    if policies > MOST_POLICIES:
        return {}
    gap = mdc.solve(contest, MirrorDescent(DESCENTS), tol=0).gap / contest.margin.bound
    return {"mirror descent": max(0.0, gap - 1.5 * np.sqrt(np.log(policies) / DESCENTS))}


def check_play(contest: mdc.Contest) -> dict[str, float]:
    """What fictitious play over all deterministic policies leaves of the gap, and the least gap that one has."""
    if contest.num_actions**contest.num_states > MOST_POLICIES:
        return {}
    corners = deterministic_occupancies(contest, MOST_POLICIES)
    wins = corners @ contest.margin.matrix() @ corners.T / contest.margin.bound  # of a row's policy over a column's
    against_all = wins[:, 0].copy()  # what each policy wins against those played so far, summed
    for _ in range(PLAYS - 1):
        against_all += wins[:, against_all.argmax()]
    return {"fictitious play": float(against_all.max()) / PLAYS, "deterministic": float(wins.max(axis=0).min())}


def check_update(contest: mdc.Contest, rules: Array, eta: float = 1.0) -> dict[str, float]:
    """Step 3 of Algorithm 2, maximised numerically, against step 3 of Algorithm 1."""
    d_k = rules[0]
    nu, Q = mdc.occupancy(contest, d_k).sum(axis=1), mdc.marginal_values(contest, d_k)[1] / contest.margin.bound
    visited = nu > 0
    d_k, Q = d_k[visited], Q[visited]

    def loss(z: Array) -> tuple[float, Array]:
        """States do not meet in the objective, so each may weigh the same; rare ones would hardly move."""
        d = softmax(z.reshape(d_k.shape), axis=1)
        worth = Q - np.log(d / d_k) / eta
        slope = d * (worth - (d * worth).sum(axis=1, keepdims=True))
        return -float((d * worth).sum()), -slope.ravel()

    options = {"maxiter": 10_000, "maxfun": 100_000, "ftol": 0.0, "gtol": 1e-12}
    found = minimize(loss, np.zeros(d_k.size), jac=True, method="L-BFGS-B", options=options)
    differs = softmax(found.x.reshape(d_k.shape), axis=1) - softmax(np.log(d_k) + eta * Q, axis=1)
    return {"update": float(np.abs(differs).max())}


def check_averaging(contest: mdc.Contest, rules: Array) -> dict[str, float]:
    """Expected credit of actions if each of T steps counts the mean cumulant of its episode, over all trajectories.

    Of an advantage in the T − t steps from t on, (T − t) / T is left: the first statement. The value of a state takes
    up what came before it: by how much it is off is the second.
    """
    n, actions, weight = contest.num_pairs, contest.num_actions, np.arange(STEPS, 0, -1)
    if n > MOST_PAIRS:
        return {}
    walks = np.indices((n,) * STEPS).reshape(STEPS, -1)
    off, differs = 0.0, 0.0
    for rule in rules:
        follows = (contest.transitions[:, :, :, None] * rule).reshape(n, n)
        chance = (contest.start[:, None] * rule).ravel()[walks[0]] * np.prod(follows[walks[:-1], walks[1:]], axis=0)
        c = (contest.margin.matrix() @ mdc.occupancy(contest, rule).ravel())[walks] / contest.margin.bound
        for t in range(STEPS):
            reached = np.bincount(walks[t], chance, n).reshape(-1, actions)
            seen = reached.sum(axis=1) > 0
            credit, true = (
                (np.bincount(walks[t], chance * worth, n).reshape(-1, actions) / np.where(reached > 0, reached, 1))[
                    seen
                ]
                for worth in (weight[t] * c.mean(axis=0), c[t:].sum(axis=0))
            )
            V_credit, V = ((rule[seen] * Q).sum(axis=1, keepdims=True) for Q in (credit, true))
            off = max(off, float(np.abs(credit - V_credit - weight[t] / STEPS * (true - V)).max()))
            differs = max(differs, float(np.abs(V_credit - V).max()))
    return {"averaging": off, "averaging, values": differs}
