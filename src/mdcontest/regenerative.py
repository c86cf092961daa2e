"""Chains and best responses of large contests in which every step returns to μ with some probability.

P = P₀ + (ε + more) μᵀ with ε > 0: a restart, or a discount (transitions.py). Nothing is factored unless it must be; a
sweep reads every transition once. What converges fast depends on the contest, so values start with the cheapest method
and go on to the next where that one is slow:

    relative value iteration            chains that mix fast, such as random graphs
    Gauss–Seidel sweeps to and fro      slow chains in which values travel far, such as grids
    policy iteration by linear solves   what is left

They are judged by the span of r + P h − h and not by changes of h: its largest entry bounds what any policy earns.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import shortest_path

from mdcontest.arrays import Array, Ints
from mdcontest.errors import InputError
from mdcontest.restart_chain import RestartChain
from mdcontest.transitions import Transitions

STALE = 1000
"""Policies among which the two ends must come nearer than ever: in the last digits they only go up and down."""


@dataclass
class Response:
    """Where the search for a best policy stands."""

    actions: Ints
    h: Array
    high: float
    """max_sa[r + P h − h]: no policy earns more."""
    low: float
    """The policy that is greedy for h earns at least this."""
    sweeps: int


class Regenerative:
    """The transitions of a contest whose restart probability is at least ε > 0 on every pair."""

    def __init__(self, transitions: Transitions) -> None:
        restart = transitions.restart
        if restart is None or not restart.min() > 0:
            raise ValueError("every pair needs a restart")
        self.P0 = transitions.matrix
        self.mu = transitions.start
        self.eps = float(restart.min())
        self.more = np.zeros(0) if restart.max() == self.eps else restart - self.eps
        self.num_states, self.num_actions = transitions.num_states, transitions.num_actions
        self._thin: bool | None = None
        self._methods = [self._relative_values, self._gauss_seidel, self._policy_iteration]

    @staticmethod
    def serves(transitions: Transitions) -> bool:
        """Whether these transitions are of the kind, and stored sparsely."""
        return transitions.is_sparse and transitions.restart is not None and float(transitions.restart.min()) > 0

    @property
    def method(self) -> str:
        """How values are found at present."""
        return self._methods[0].__name__.strip("_").replace("_", " ")

    # --- chains -------------------------------------------------------------------------------------------

    def chain_of_rule(self, rule: Array) -> RestartChain:
        """The chain of any rule, shape [S, A]."""
        states = np.arange(self.num_states + 1) * self.num_actions
        mix = sp.csr_array((rule.reshape(-1), np.arange(self.num_states * self.num_actions), states))
        more = (rule.reshape(-1) * self.more).reshape(rule.shape).sum(axis=1) if len(self.more) else self.more
        return RestartChain(sp.csr_array(mix @ self.P0), self.eps, more, self.mu, self.is_thin)

    def chain(self, actions: Ints) -> RestartChain:
        """The chain of a deterministic policy."""
        from mdcontest import sweeps

        P0, states = self.P0, self.num_states
        pairs = np.arange(states) * self.num_actions + actions
        entries = int((P0.indptr[pairs + 1] - P0.indptr[pairs]).sum())
        into, targets = np.empty(states + 1, P0.indptr.dtype), np.empty(entries, P0.indices.dtype)
        chances = np.empty(entries)
        sweeps.policy_rows(P0.indptr, P0.indices, P0.data, actions, into, targets, chances)
        rows = sp.csr_array((chances, targets, into), shape=(states, states))
        return RestartChain(rows, self.eps, self.more[pairs] if len(self.more) else self.more, self.mu, self.is_thin)

    def is_thin(self) -> bool:
        """Whether the graph of states is long for its size, as planar graphs and bands are and random ones are not."""
        if self._thin is None:
            shape = (self.num_states, self.num_states)
            arcs = sp.csr_array((self.P0.data, self.P0.indices, self.P0.indptr[:: self.num_actions]), shape=shape)
            steps = shortest_path(arcs, directed=False, unweighted=True, indices=0)
            self._thin = bool(steps[np.isfinite(steps)].max() >= 0.5 * np.sqrt(self.num_states))
        return self._thin

    # --- best responses -----------------------------------------------------------------------------------

    def respond(
        self, reward: Array, goal: float, h: Array | None = None, actions: Ints | None = None, exact: bool = False
    ) -> Response:
        """A policy that earns much, with values that say how much more there can be.

        It stops once no policy earns more than `goal`, or at a policy that earns more than that and has stopped getting
        better quickly; with `exact`, only when the two ends of what the best policy earns are within `goal`.
        """
        r = np.ascontiguousarray(reward, float).reshape(-1)
        found = Response(
            np.zeros(self.num_states, np.int32) if actions is None else actions.astype(np.int32),
            np.zeros(self.num_states) if h is None else h - self.mu @ h,
            np.inf,
            -np.inf,
            0,
        )
        while True:
            ended = self._methods[0](r, goal, found, exact)
            if ended or len(self._methods) == 1:
                return found
            del self._methods[0]  # too slow on this contest; the next one from now on

    def _measure(self, r: Array, found: Response) -> Array:
        """Greedy actions, both ends, and r + P h − h under them."""
        from mdcontest import sweeps

        gain = np.empty(self.num_states)
        found.high, found.low = sweeps.improve(
            *(self.P0.indptr, self.P0.indices, self.P0.data, self.eps, self.more, float(self.mu @ found.h)),
            *(r, found.h, found.actions, gain),
        )
        found.sweeps += 1
        return gain

    def _iterate(self, r: Array, goal: float, found: Response, exact: bool, step: Any, patience: int) -> bool:
        """Measure and step until the goal, or False where `patience` steps hardly narrow the two ends.

        The last method has no other to give way to; it ends where a step finds nothing to do any more.
        """
        highs: list[float] = []
        lows: list[float] = []
        best, least, stale = (np.inf, found.h), np.inf, 0
        while True:
            gain = self._measure(r, found)
            if found.high < best[0]:
                best = (found.high, found.h.copy())
            span = found.high - found.low
            least, stale = (span, 0) if span < least else (least, stale + 1)
            highs.append(found.high)
            if not np.isfinite(span):
                raise InputError("values overflow: the margins are too large for so rare a restart; divide them")
            floor = 1e-15 * (np.abs(r).max() + np.abs(found.h).max())
            narrow = span <= (0.5 * goal if exact else max(0.1 * abs(found.high), 0.2 * goal))
            before = lows[-1] if lows else -np.inf
            settled = not exact and found.low > goal and found.low - before <= 0.05 * found.low
            lows.append(found.low)
            if narrow or settled or (not exact and found.high <= goal) or span <= floor:
                break
            if len(self._methods) > 1 and _hardly_narrow(highs, lows, patience):
                return False
            if step(r, found, gain) is False or (len(self._methods) == 1 and stale > STALE):
                break  # rounding is all there is
        if best[0] < found.high:
            found.high, found.h = best
        return True

    def _relative_values(self, r: Array, goal: float, found: Response, exact: bool) -> bool:
        def step(r: Array, found: Response, gain: Array) -> None:
            from mdcontest import sweeps

            found.h = found.h + gain
            chain, own = self._policy(r, found.actions)
            h, out = found.h, np.empty_like(found.h)
            for _ in range(8):
                m = float(self.mu @ h)
                h -= m
                sweeps.pull(chain.P0.indptr, chain.P0.indices, chain.P0.data, h, own, out)
                h, out = out, h
            found.h, found.sweeps = h, found.sweeps + 2

        return self._iterate(r, goal, found, exact, step, patience=4)

    def _gauss_seidel(self, r: Array, goal: float, found: Response, exact: bool) -> bool:
        # Values of what is earned until the next restart, not relative ones: the level of h is part of the solution.
        # From below (r + P₀ h ≥ h) they rise with every sweep; what is too high would sink by ε a sweep only.
        self._measure(r, found)
        found.h = found.h - self.mu @ found.h + found.low / self.eps

        def step(r: Array, found: Response, gain: Array) -> None:
            from mdcontest import sweeps

            P0 = self.P0
            for backward in (False, True):
                m = float(self.mu @ found.h)
                sweeps.relax_best(P0.indptr, P0.indices, P0.data, self.more, m, r, found.h, found.actions, backward)
            chain, own = self._policy(r, found.actions)
            for backward in (False, True) * 3:
                right = own + chain.more * (self.mu @ found.h) if len(chain.more) else own
                sweeps.relax(chain.P0.indptr, chain.P0.indices, chain.P0.data, right, found.h, backward)
            found.sweeps += 4

        return self._iterate(r, goal, found, exact, step, patience=12)

    def _policy_iteration(self, r: Array, goal: float, found: Response, exact: bool) -> bool:
        met: set[bytes] = set()  # where digits are lost the iteration can go in circles
        evaluated, earned, trusts_sweeps = b"", -np.inf, True

        def step(r: Array, found: Response, gain: Array) -> bool:
            nonlocal evaluated, earned, trusts_sweeps
            if _digest(found.actions) == evaluated:
                return False  # greedy for its own values: optimal
            trusts_sweeps = trusts_sweeps and found.low >= earned - 1e-12 * abs(earned)
            earned = max(earned, found.low)
            choices = [self._ahead(r, found), found.actions] if trusts_sweeps else [found.actions]
            fresh = [actions for actions in choices if _digest(actions) not in met]
            if not fresh:
                return False
            found.actions, evaluated = fresh[0], _digest(fresh[0])
            met.add(evaluated)
            found.h = self._relative(r, found)
            return True

        return self._iterate(r, goal, found, exact, step, patience=0)

    def _ahead(self, r: Array, found: Response) -> Ints:
        """Actions by sweeps to and fro, which carry improvements all the way where a greedy step moves them one state.

        From below, where h ≤ r − g + P₀ h for greedy actions, h only rises, and the actions earn g or more. Where
        states are hardly ever left, a sweep can make too much of a rounding error in h; so h itself is left alone, and
        sweeps are not trusted any more once they have chosen what earns less.
        """
        from mdcontest import sweeps

        P0, h, right, actions = self.P0, found.h - self.mu @ found.h, r - found.low, found.actions.copy()
        for backward in (False, True):
            sweeps.relax_best(P0.indptr, P0.indices, P0.data, self.more, 0.0, right, h, actions, backward)
        found.sweeps += 2
        return actions

    def _relative(self, r: Array, found: Response) -> Array:
        """Values of the policy: h = r − g + P₀ h with μ·h = 0, shape [S]."""
        chain, own = self._policy(r, found.actions)
        guess = found.h - self.mu @ found.h
        earned = chain.solve(own, guess + own.mean() / self.eps, 1e-13)
        if not len(chain.more):
            return np.asarray(earned - self.mu @ earned)
        # Of a restart beyond ε, μ·h = 0 is known once g is: two solves, one for what is earned, one for time.
        time = chain.solve(np.ones(self.num_states), np.full(self.num_states, 1 / self.eps), 1e-13)
        return np.asarray(earned - (self.mu @ earned) / (self.mu @ time) * time)

    def _policy(self, r: Array, actions: Ints) -> tuple[RestartChain, Array]:
        return self.chain(actions), r.reshape(self.num_states, -1)[np.arange(self.num_states), actions]


def _digest(actions: Ints) -> bytes:
    """Tells policies apart in a few bytes, however many states there are."""
    return hashlib.blake2b(actions.tobytes(), digest_size=16).digest()


def _hardly_narrow(highs: list[float], lows: list[float], patience: int) -> bool:
    """Whether the last half of so many steps has left most of what the first half had between the two ends.

    Where the ends go to and fro, as in chains with a period, that can look like progress for ever; so the nearest they
    came is looked at as well, over four times as many steps.
    """
    spans = [high - low for high, low in zip(highs[-8 * patience :], lows[-8 * patience :], strict=True)]
    if len(spans) == 8 * patience and min(spans[4 * patience :]) > 0.3 * min(spans[: 4 * patience]):
        return True
    return len(spans) > patience and min(spans[-patience // 2 :]) > 0.3 * max(spans[-1 - patience : -patience // 2])
