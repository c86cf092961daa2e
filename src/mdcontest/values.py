"""Cumulants, marginal values, average margins, best responses and the optimality gap (sec. approximate)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdcontest.arrays import Array
from mdcontest.chain import Chain
from mdcontest.contest import Contest
from mdcontest.elimination import MOST_STATES, accurate_frequencies, accurate_values, eliminated_occupancy
from mdcontest.errors import InputError
from mdcontest.occupancy import by_sweeps, occupancy, require_unichain, swept_frequencies
from mdcontest.regenerative import Regenerative

MAX_POLICY_ITERATIONS = 1000
LOOKAHEAD = 64
"""Steps of value iteration between two evaluations of a policy: together cheaper than the evaluation."""
DOUBTFUL_POLICIES = 20
"""Policies that are tried where rounding hides which is better."""
NOTHING_LEFT = 1e-12
"""Of the largest reward: a difference that is not worth looking for."""
LOST_DIGITS, DOUBTFUL = 1e-9, 1e-6
"""Of the largest reward: where an uncertain optimality gap is worth slower arithmetic, and a warning."""
HOPELESS = 1e15
"""Of the largest reward: values that differ by more have no digits left for what is earned a step."""


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
    lost: float = 0.0
    """The part of x, or of the largest value, that rounding may have taken; 0 where that is not worth a word."""


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
    nu, off = accurate_frequencies(chain)
    x = nu[:, None] * d
    c = contest.margin.apply(x)
    V, lost = accurate_values(chain, (d * c).sum(axis=1), nu)
    return Evaluation(x, c, V, state_action_values(contest, c, V), chain, max(off, lost))


def _evaluate_by_sweeps(contest: Contest, d: Array, like: Evaluation | None) -> Evaluation:
    nu, off = swept_frequencies(contest, d, None if like is None else like.x.sum(axis=1))
    chain = Regenerative(contest.dynamics).chain_of_rule(d)
    x = nu[:, None] * d
    c = contest.margin.apply(x)
    _, V = chain.poisson((d * c).sum(axis=1), nu)
    return Evaluation(x, c, V, state_action_values(contest, c, V), None, off)


def state_action_values(contest: Contest, c: Array, V: Array) -> Array:
    """Q(s, a) = c(s, a) + Σ_s' P(s'|s, a) V(s') (lem:marg-basic, part 2)."""
    return c + contest.dynamics.expect(V).reshape(c.shape)


def cumulant(contest: Contest, rule: ArrayLike) -> Array:
    """c^π(s, a) = Σ_z' x^π(z') M((s, a), z'), shape [S, A]."""
    return contest.margin.apply(occupancy(contest, rule))


def marginal_values(contest: Contest, rule: ArrayLike) -> tuple[Array, Array]:
    """(V, Q), shapes [S] and [S, A] (eq. marg-s-defn, eq. marg-sa-defn)."""
    found = evaluate(contest, rule)
    if found.lost > DOUBTFUL:
        warnings.warn(
            f"these values may be off by {found.lost:.1g} of the largest: the rule leaves some states so rarely that "
            "rounding hides the rest; set tiny transition probabilities to zero, or use contest.with_restart(eps)",
            RuntimeWarning,
            stacklevel=2,
        )
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

    The chain of every policy it meets must have one recurrent class; one that does not is an error naming two. Between
    two evaluations the policy looks some steps ahead, or improvements would travel one state at a time.
    """
    r = np.asarray(reward, float).reshape(contest.num_states, contest.num_actions)
    if by_sweeps(contest):
        goal = 1e-12 * float(np.abs(r).max())
        found = Regenerative(contest.dynamics).respond(r, goal, None, actions, exact=True)
        return BestResponse(found.actions.astype(np.intp), found.low, found.h, found.high)
    search = _PolicyIteration(contest, r)
    actions = np.argmax(r, axis=1) if actions is None else actions.copy()
    met: set[bytes] = set()  # where digits are lost the iteration can go in circles
    while len(met) < MAX_POLICY_ITERATIONS and search.patience > 0:
        met.add(actions.tobytes())
        choices = search.improvements(actions)
        fresh = [choice for choice in choices if choice.tobytes() not in met]
        if not fresh:
            break
        actions = fresh[0]
    return search.found


class _PolicyIteration:
    """The best policy met so far, and the tightest bound on what any policy earns."""

    def __init__(self, contest: Contest, r: Array) -> None:
        self.contest, self.r, self.size = contest, r, float(np.abs(r).max())
        self.states = np.arange(contest.num_states)
        self.lookahead = max(1, min(LOOKAHEAD, contest.num_states // contest.num_actions))
        self.patience = DOUBTFUL_POLICIES
        self.found = BestResponse(np.zeros(0, np.intp), -np.inf, np.zeros(contest.num_states), np.inf)

    def improvements(self, actions: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Evaluate a policy; policies that should be better, the most promising first, or none where it is optimal.

        Only improvements beyond rounding count, and among equals the action stays, or the iteration could cycle. Where
        these end with something left to earn, values may be so large that rounding hides what matters: then a few
        policies are tried that look better by any amount at all.
        """
        chain = require_unichain(self.contest, Chain(self.contest.dynamics, one_hot(actions, self.contest.num_actions)))
        gain, h = chain.relative_values(self.r[self.states, actions])
        q = state_action_values(self.contest, self.r, h)
        excess = float((q - h[:, None]).max())
        best = self.found
        if not gain <= best.gain:  # also where it is no number, so that there is a policy to return
            best = replace(best, actions=actions, gain=gain)
        if excess < best.excess:  # any h gives a bound, and an earlier one may be tighter by a rounding error
            best = replace(best, h=h, excess=excess)
        self.found = best
        rounding = 1e-13 * (self.size + float(np.abs(h).max()))
        if (q.max(axis=1) > q[self.states, actions] + rounding).any():
            return [self._ahead(actions, q, rounding), self._greedy(actions, q, rounding)]
        if best.excess - best.gain <= NOTHING_LEFT * self.size:
            return []
        self.patience -= 1
        return [self._greedy(actions, q, 0.0)]

    def _greedy(self, actions: NDArray[np.intp], q: Array, rounding: float) -> NDArray[np.intp]:
        better = q.max(axis=1) > q[self.states, actions] + rounding
        return np.where(better, np.argmax(q, axis=1), actions)

    def _ahead(self, actions: NDArray[np.intp], q: Array, rounding: float) -> NDArray[np.intp]:
        """Greedy after some steps of value iteration, each of which carries improvements a state further."""
        for _ in range(self.lookahead):
            q = state_action_values(self.contest, self.r, q.max(axis=1))
        return self._greedy(actions, q, rounding)


def best_response(contest: Contest, rule: ArrayLike) -> Array:
    """A deterministic rule that maximises M̄(·, π), shape [S, A]."""
    found = optimal_average_reward(contest, cumulant(contest, rule))
    return one_hot(found.actions, contest.num_actions)


def optimality_gap(contest: Contest, rule: ArrayLike) -> float:
    """max_π' M̄(π', π), zero exactly for solutions (eq. opt-gap).

    It is what the best policy that was found wins. A warning says so where rounding leaves room for a better one, or
    hides part of M x.
    """
    x = occupancy(contest, rule)
    c = contest.margin.apply(x)
    best = optimal_average_reward(contest, c)
    gain, size = best.gain, float(np.abs(c).max())
    lost = abs(best.excess - gain) > LOST_DIGITS * size or best.h.max() / HOPELESS - best.h.min() / HOPELESS > size
    if lost and contest.num_states <= MOST_STATES:
        c = contest.margin.apply(eliminated_occupancy(contest, contest.read_rule(rule)))
        best = optimal_average_reward(contest, c, best.actions)
        gain = float((eliminated_occupancy(contest, one_hot(best.actions, contest.num_actions)) * c).sum())
    most = max(0.0, float(c.max()))  # nobody wins more than the best pair does
    if abs(best.excess - gain) > DOUBTFUL * size:
        low, high = (min(max(0.0, end), most) for end in sorted((gain, best.excess)))
        warnings.warn(
            f"the optimality gap lies between {low:.6g} and {high:.6g}: states are left so rarely "
            "that rounding hides the rest; a larger restart, or a smaller discount, makes it certain",
            RuntimeWarning,
            stacklevel=2,
        )
    hidden = contest.margin.rounding(x.reshape(-1))
    if hidden > DOUBTFUL * contest.margin.bound and contest.margin.bound > contest.margin.noise:
        warnings.warn(
            f"the optimality gap may be off by {hidden:.1g}: large terms of the margin cancel, and rounding hides the "
            "rest; measure features from their middle, or leave out what cancels",
            RuntimeWarning,
            stacklevel=2,
        )
    return min(max(0.0, gain), most)


def one_hot(actions: ArrayLike, num_actions: int) -> Array:
    """The deterministic rule that takes these actions, shape [S] → [S, A]."""
    chosen = np.asarray(actions)
    if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
        raise InputError(f"a deterministic policy is one action index a state, got {chosen!r}")
    rule = np.zeros((len(chosen), num_actions))
    rule[np.arange(len(chosen)), chosen] = 1.0
    return rule
