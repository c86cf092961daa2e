"""Policy generation: the game among the policies found so far, and a best response to its solution, until none is left.

Each round solves the small skew game among the occupancies x_1 … x_k found so far (restricted_game.py), takes the
mixture x̄ = Σ p_i x_i and looks for a policy that earns most against it, an average-reward problem with reward c = M x̄.
The values h of that search bound what any policy earns, so every round ends with a certificate. Only M x is needed,
which structured margins make cheap, and a policy is kept as its frequencies and actions, |S| floats and small integers.

How accurate responses and frequencies are follows the gap: rough in the first rounds, exact in the last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mdcontest.arrays import Array, Ints
from mdcontest.contest import Contest
from mdcontest.margins import RewardDifference
from mdcontest.occupancy import decision_rule
from mdcontest.solution import Status
from mdcontest.solvers.base import STOPPED, Progress, Proposal, Report, require_iterations, status_when_stopped
from mdcontest.solvers.certifying import uniform_proposal
from mdcontest.solvers.marks import Marks
from mdcontest.solvers.responders import Found, Responder, make_responder
from mdcontest.solvers.restricted_game import optimal_mixture
from mdcontest.values import one_hot

ENOUGH_POLICIES = 64
"""Beyond so many, policies without weight for `UNUSED_ROUNDS` rounds are dropped."""
UNUSED_ROUNDS = 40
RESPONSE_SHARE, FREQUENCY_SHARE = 0.7, 0.05
"""Of the gap asked for: what may be left to earn against the mixture, and what a policy's frequencies may be off by."""
ROUGH_SHARE = 0.01
"""Until then a policy's frequencies may be off by this share of what it earns; twice that, and they are found anew."""
STALLED_ROUNDS = 3
"""Responses in a row that are a policy found before, or earn no more than one: then rounding stands in the way."""


@dataclass(frozen=True)
class PolicyGeneration:
    """Best responses added one by one; for structured margins and sparse transitions."""

    iterations: int = 2000
    """The limit on rounds."""

    name: ClassVar[str] = "PolicyGeneration"

    def propose(self, contest: Contest, gap: float, report: Report) -> Proposal:
        rounds = require_iterations(self.iterations)
        if contest.margin.bound <= contest.margin.noise:
            return uniform_proposal(contest)  # every rule is a solution
        search = _Search(contest, gap, make_responder(contest))
        status = Status.ITERATION_LIMIT
        try:
            for k in range(1, rounds + 1):
                search.round()
                report(Progress(k, rounds, search.best_gap))
                if search.best_gap <= gap or search.stalled >= STALLED_ROUNDS:
                    status = Status.INACCURATE  # if it is: the gap is certified anew
                    break
        except STOPPED as reason:
            if search.best_x is None:
                raise
            status = status_when_stopped(reason)
        return search.proposal(status)


@dataclass
class _Search:
    """The policies so far, their payoffs against each other, and the best mixture seen."""

    contest: Contest
    goal: float
    responder: Responder
    policies: list[Found] = field(default_factory=list)
    G: Array = field(default_factory=lambda: np.zeros((0, 0)))
    last_used: list[int] = field(default_factory=list)
    best_gap: float = np.inf
    best_x: Array | None = None
    best_h: Array | None = None
    best_reply: Ints | None = None
    """Actions that answer the best mixture."""
    stalled: int = 0
    earned: float = np.inf
    """What the last response earns at least."""
    proving: bool = False
    """Whether the mixture is good enough, and frequencies are to be proved accurate and not only expected to be."""
    reach: float = 1.0
    """The largest cumulant met: what an error in an occupancy can cost."""

    def __post_init__(self) -> None:
        self.marks = Marks()
        self.rounds = 0
        self.final = FREQUENCY_SHARE * self.goal / self.contest.margin.bound
        # Against r(z) − r(z') all replies are the same: one exact best response is the solution.
        self.only_once = isinstance(self.contest.margin, RewardDifference)

    def round(self) -> None:
        """Solve the game, certify its mixture, add a best response to it."""
        contest = self.contest
        if not self.policies:
            start = np.full((contest.num_states, contest.num_actions), 1 / contest.num_pairs)
            c = contest.margin.apply(start)
            self.reach = float(np.abs(c).max()) or 1.0
            self._add(self.responder.respond(c, self.goal, exact=self.only_once))
        p = self._mixture()
        x = self._mixed(p)
        c = contest.margin.apply(x)
        self.reach = float(np.abs(c).max()) or 1.0
        found = self.responder.respond(c, RESPONSE_SHARE * self.goal)
        self.earned = max(found.low, 0.0)
        error = sum(weight * policy.error for weight, policy in zip(p, self.policies, strict=True) if weight > 0)
        self._note(x, found, max(0.0, found.high) + contest.margin.bound * error)
        again = any(np.array_equal(found.actions, policy.actions) for policy in self.policies)
        if (again or found.high <= RESPONSE_SHARE * self.goal) and not self.proving:
            self.proving = True  # no policy is missing, only digits
        elif again:
            self.stalled += 1
        elif self.best_gap > self.goal:
            before = float((self.G @ p).max())
            self._add(found)
            brings = found.earns(c) - max(before, 0.0)
            self.stalled = 0 if brings > 1e-14 * contest.margin.bound else self.stalled + 1

    def _mixture(self) -> Array:
        """Weights of the policies, those that count known accurately enough for what the last response earned."""
        enough = 0.0 if self.proving else 2 * ROUGH_SHARE * self.earned / self.reach
        while True:
            p = optimal_mixture(self.G)
            rough = [
                i
                for i in np.flatnonzero(p).tolist()
                if (self.policies[i].error if self.proving else self.policies[i].rough) > max(enough, 2 * self.final)
                and self.responder.refine(self.policies[i], self.final)
            ]
            for i in rough:
                self._pay(i)
            if not rough:
                break
        for i in np.flatnonzero(p).tolist():
            self.last_used[i] = self.rounds
        return p

    def _mixed(self, p: Array) -> Array:
        """x̄ = Σ p_i x_i, shape [S, A]."""
        x = np.zeros((self.contest.num_states, self.contest.num_actions))
        for weight, policy in zip(p, self.policies, strict=True):
            if weight > 0:
                policy.add_to(x, weight)
        return x / x.sum()

    def _note(self, x: Array, found: Found, gap: float) -> None:
        self.rounds += 1
        if gap < self.best_gap:
            self.best_gap, self.best_x, self.best_h, self.best_reply = gap, x, found.h, found.actions.copy()
        self.marks.record(self.rounds, self.best_gap)

    def _add(self, found: Found) -> None:
        self.responder.settle(found, ROUGH_SHARE * max(self.goal, abs(found.low)) / self.reach)
        if self.only_once:
            self.responder.refine(found, self.final)
        if len(self.policies) >= ENOUGH_POLICIES:
            self._prune()
        self.policies.append(found)
        self.last_used.append(self.rounds)
        self.G = np.pad(self.G, (0, 1))
        self._pay(len(self.policies) - 1)

    def _pay(self, i: int) -> None:
        """The payoffs of policy i against all others."""
        x = np.zeros((self.contest.num_states, self.contest.num_actions))
        self.policies[i].add_to(x, 1.0)
        c = self.contest.margin.apply(x)
        for j, other in enumerate(self.policies):
            if j != i:
                self.G[j, i] = other.earns(c)
                self.G[i, j] = -self.G[j, i]

    def _prune(self) -> None:
        keep = [i for i, used in enumerate(self.last_used) if self.rounds - used < UNUSED_ROUNDS]
        self.policies, self.last_used = [self.policies[i] for i in keep], [self.last_used[i] for i in keep]
        self.G = self.G[np.ix_(keep, keep)]

    def proposal(self, status: Status) -> Proposal:
        assert self.best_x is not None
        assert self.best_reply is not None
        rule = decision_rule(self.best_x)
        # States that the mixture never visits: the reply to it is what to do there, should one get there.
        unvisited = np.flatnonzero(self.best_x.sum(axis=1) == 0)
        rule[unvisited] = one_hot(self.best_reply[unvisited], self.contest.num_actions)
        info = {"rounds": self.rounds, "policies": len(self.policies)} | self.responder.info()
        return Proposal(rule, status, self.marks.history(), info, self.best_x, self.best_h)
