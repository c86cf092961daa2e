"""Cumulants, marginal values, average margins, best responses and the optimality gap (sec. approximate)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdcontest.arrays import Array
from mdcontest.chain import Chain
from mdcontest.contest import Contest
from mdcontest.errors import InputError
from mdcontest.occupancy import by_sweeps, occupancy, require_unichain
from mdcontest.regenerative import Regenerative

MAX_POLICY_ITERATIONS = 1000


@dataclass(frozen=True)
class Evaluation:
    """Everything Algorithm 1 needs of one policy, from one factorisation of its chain."""

    x: Array
    """Occupancy x^π, shape [S, A]."""
    c: Array
    """Cumulant c^π = M x^π, shape [S, A]."""
    V: Array
    """Marginal values V^π = H c^π, shape [S]."""
    Q: Array
    """Marginal state–action values, shape [S, A]."""
    chain: Chain | None
    """The chain of states, for the next evaluation to start from; none where it is not factored."""


def evaluate(contest: Contest, rule: ArrayLike, like: Evaluation | None = None) -> Evaluation:
    """x, c, V and Q of a rule whose chain has one recurrent class.

    V is the deviation matrix times the cumulant: the solution of V = c_π + P_π V with ν·V = 0 (the gain is zero
    because M is skew). Where the series of eq. marg-s-defn converges it is that series; where the chain is periodic
    and the series does not converge, lem:marg-basic and lem:pd hold for this V all the same. `like` is an earlier
    evaluation in the same contest; passing it saves work where the two rules use the same actions.
    """
    d = contest.read_rule(rule)
    if by_sweeps(contest):
        return _evaluate_by_sweeps(contest, d, like)
    chain = require_unichain(contest, Chain(contest.dynamics, d, None if like is None else like.chain))
    x = chain.frequencies[:, None] * d
    c = contest.margin.apply(x)
    _, V = chain.poisson((d * c).sum(axis=1))
    return Evaluation(x, c, V, state_action_values(contest, c, V), chain)


def _evaluate_by_sweeps(contest: Contest, d: Array, like: Evaluation | None) -> Evaluation:
    chain = Regenerative(contest.dynamics).chain_of_rule(d)
    nu, _ = chain.frequencies(0.0, None if like is None else like.x.sum(axis=1))
    x = nu[:, None] * d
    c = contest.margin.apply(x)
    _, V = chain.poisson((d * c).sum(axis=1), nu)
    return Evaluation(x, c, V, state_action_values(contest, c, V), None)


def state_action_values(contest: Contest, c: Array, V: Array) -> Array:
    """Q(s, a) = c(s, a) + Σ_s' P(s'|s, a) V(s') (lem:marg-basic, part 2)."""
    return c + contest.dynamics.expect(V).reshape(c.shape)


def cumulant(contest: Contest, rule: ArrayLike) -> Array:
    """c^π(s, a) = Σ_z' x^π(z') M((s, a), z'), shape [S, A]."""
    return contest.margin.apply(occupancy(contest, rule))


def marginal_values(contest: Contest, rule: ArrayLike) -> tuple[Array, Array]:
    """(V, Q), shapes [S] and [S, A] (eq. marg-s-defn, eq. marg-sa-defn)."""
    found = evaluate(contest, rule)
    return found.V, found.Q


def average_margin(contest: Contest, rule: ArrayLike, other: ArrayLike) -> float:
    """M̄(π, π') = x^πᵀ M x^π'."""
    return float((occupancy(contest, rule) * cumulant(contest, other)).sum())


@dataclass(frozen=True)
class BestResponse:
    """A policy that is best for an average-reward problem, with the values that prove it."""

    actions: NDArray[np.intp]
    """The action in each state, shape [S]."""
    gain: float
    """Its average reward."""
    h: Array
    """Relative values, shape [S]: r + P h − h ≤ gain up to rounding."""
    excess: float
    """max_sa[r + P h − h], which no policy's average reward exceeds."""


def optimal_average_reward(
    contest: Contest, reward: ArrayLike, actions: NDArray[np.intp] | None = None
) -> BestResponse:
    """Policy iteration for max_π Σ x^π r, from `actions` if given (Puterman 2014, sec. 8.6).

    The chain of every policy it meets must have one recurrent class; one that does not is an error naming two.
    """
    r = np.asarray(reward, float).reshape(contest.num_states, contest.num_actions)
    if by_sweeps(contest):
        goal = 1e-12 * float(np.abs(r).max())
        found = Regenerative(contest.dynamics).respond(r, goal, None, actions, exact=True)
        return BestResponse(found.actions.astype(np.intp), found.low, found.h, found.high)
    states = np.arange(contest.num_states)
    actions = np.argmax(r, axis=1) if actions is None else actions.copy()
    excess, proof = np.inf, np.zeros(contest.num_states)
    met: set[bytes] = set()  # where digits are lost the iteration can go in circles
    while len(met) < MAX_POLICY_ITERATIONS and actions.tobytes() not in met:
        met.add(actions.tobytes())
        chain = require_unichain(contest, Chain(contest.dynamics, one_hot(actions, contest.num_actions)))
        gain, h = chain.relative_values(r[states, actions])
        q = state_action_values(contest, r, h)
        # Any h gives an upper bound, and an earlier one may be tighter by a rounding error.
        if (bound := float((q - h[:, None]).max())) < excess:
            excess, proof = bound, h
        # Only improvements beyond rounding count; among equals the action stays, or the iteration could cycle.
        rounding = 1e-13 * (np.abs(r).max() + np.abs(h).max())
        better = q.max(axis=1) > q[states, actions] + rounding
        if not better.any():
            break
        actions = np.where(better, np.argmax(q, axis=1), actions)
    return BestResponse(actions, gain, proof, excess)


def best_response(contest: Contest, rule: ArrayLike) -> Array:
    """A deterministic rule that maximises M̄(·, π), shape [S, A]."""
    found = optimal_average_reward(contest, cumulant(contest, rule))
    return one_hot(found.actions, contest.num_actions)


def optimality_gap(contest: Contest, rule: ArrayLike) -> float:
    """max_π' M̄(π', π), zero exactly for solutions (eq. opt-gap)."""
    return max(0.0, optimal_average_reward(contest, cumulant(contest, rule)).gain)


def one_hot(actions: ArrayLike, num_actions: int) -> Array:
    """The deterministic rule that takes these actions, shape [S] → [S, A]."""
    chosen = np.asarray(actions)
    if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
        raise InputError(f"a deterministic policy is one action index a state, got {chosen!r}")
    return np.eye(num_actions)[chosen]
