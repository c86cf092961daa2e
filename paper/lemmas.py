"""What the paper proves about marginal values, checked on random contests.

python paper/lemmas.py [--quick] [--out FOLDER]

Writes finite-lemmas.parquet, one row a statement and contest:

    statement          see STATEMENTS
    contest            its number; of each size there are four: every transition possible, without and with restarts,
                       and few transitions possible, without and with restarts. Periodic contests come last
    states, actions    its size
    residual           by how much the statement fails, the most over three random rules or pairs of them; relative to
                       the margin's bound, except for the two of lem:omm, which are differences of probabilities

The library solves equations for x, V and Q, and takes lem:marg-basic as the definition of Q. Here they come from the
paper's definitions instead: limits and sums of powers of the chain of pairs (s, a), and of the chain of states for V.
So a statement compares computations that share little but the contest.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from finite import Row, measuring, random_contest, write_rows
from lemma_games import check_averaging, check_descent, check_hull, check_play, check_update
from lemma_sets import check_concave, check_flow, check_gap
from lemma_values import Values, values_by_definition
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

import mdcontest as mdc
from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.values import optimal_average_reward

LEMMAS_FORMAT = "mdcontest/paper-finite-lemmas"
LEMMAS_SCHEMA = (
    {"statement": "string"} | dict.fromkeys(("contest", "states", "actions"), "int64") | {"residual": "float64"}
)
STATEMENTS = {
    "lem:marg-basic 1": "|V| ≤ M_max τ and |Q| ≤ 2 M_max τ, with the certified τ",
    "lem:marg-basic 2": "Q = c + P V",
    "lem:marg-basic 3": "V = Σ_a d Q",
    "lem:pd": "M̄(π, π') = Σ x^π (Q^π' − V^π'), the left side by the library",
    "improvement": "a rule with Σ_a d Q^π' ≥ V^π', greedy or half way to it, has M̄ ≥ 0 against π'",
    "gap >= 0": "the optimality gap is not negative",
    "lem:omm occupancy": "x̄ / Σ_a x̄ has the occupancy x̄, an average of three",
    "lem:omm maximiser": "where x̄ visits, the d that maximises Σ x̄ log d is x̄ / Σ_a x̄",
    "flow": "occupancies solve the flow equations, and random corners of their solutions are occupancies",
    "gap": "it is what the best deterministic policy wins, and nothing for an exact solution; contests of 300 policies",
    "concave": "the objectives of Algorithm 2 half way between two rules, against their mean at both",
    "update": "the maximiser of step 3 of Algorithm 2 is d_k exp(ηQ), normalised, where x visits",
    "hull": "occupancies of rules are mixtures of those of all deterministic policies, and mixtures are of rules",
    "mirror descent": "over all deterministic policies, 1000 steps: its gap beyond 1.5 M_max √(log N / K)",
    "fictitious play": "over all deterministic policies, 10 000 steps: its gap",
    "deterministic": "the least gap of a deterministic policy, which is no failure",
    "averaging": "credit of actions by an episode's mean cumulant: (T − t) / T of the advantage in T − t steps",
    "averaging, values": "by how much the values of states are off then, which is no failure",
    "advantage": "Q − V is the advantage of r if M is the difference of r; discounted by 1 − ε where restarts have ε",
    "aperiodicity": "periodic contests: averages of partial sums are the library's V, and Q = c + P V and lem:pd hold",
    "aperiodicity swing": "periodic contests: by how much partial sums of V go on moving, which is no failure",
}
ROUNDING, OF_AN_ASCENT = 1e-8, 1e-5
"""The residuals up to which a statement holds: of two computations, and where one is a numerical maximiser."""
RULES = 3
"""Random rules a contest."""
SIZES = ((2, 2), (2, 3), (3, 4), (4, 2), (5, 3), (7, 4), (10, 2), (12, 3), (16, 2), (20, 4))
"""(states, actions), four contests of each."""
PERIODIC = ((2, 2, 2), (3, 3, 3), (4, 2, 2), (5, 4, 4), (6, 3, 2), (8, 2, 4), (10, 4, 3), (12, 2, 6), (20, 4, 5))
"""(states, actions, period)."""

# --- contests ---------------------------------------------------------------------------------------------


def few_transitions(seed: int, states: int, actions: int, restart: float = 0.0) -> mdc.Contest:
    """Each pair has two random successors; without restarts also s − 1, so that every rule comes to state 0.

    All starts are in one state, so some states may be transient under every rule.
    """
    rng = np.random.default_rng([seed, states, actions, 1])
    P = np.zeros((states, actions, states))
    for s, a in np.ndindex(states, actions):
        np.add.at(P[s, a], rng.integers(states, size=2), rng.dirichlet((1, 1)))
        if not restart:
            P[s, a] *= 0.6
            P[s, a, max(s - 1, 0)] += 0.4
    contest = mdc.Contest(P, np.eye(states)[rng.integers(states)], random_contest(seed, states, actions).margin)
    return contest.with_restart(restart) if restart else contest


def periodic_contest(seed: int, states: int, actions: int, period: int) -> mdc.Contest:
    """States in `period` groups, and all of the next group can follow: every rule has one class, of that period."""
    rng, group = np.random.default_rng([seed, states, actions, 2]), np.arange(states) % period
    follows = group == (group[:, None, None] + 1) % period
    P = np.where(follows, rng.exponential(size=(states, actions, states)), 0.0)
    margin = random_contest(seed, states, actions).margin
    return mdc.Contest(P / P.sum(axis=2, keepdims=True), rng.dirichlet(np.ones(states)), margin)


# --- statements: by how much each fails -------------------------------------------------------------------


def check_periodic(contest: mdc.Contest, rules: Array, period: int) -> dict[str, float]:
    """The two statements about periodic contests."""
    values, scale = [values_by_definition(contest, rule, period) for rule in rules], contest.margin.bound
    same = [one.V - mdc.marginal_values(contest, rule)[0] for rule, one in zip(rules, values, strict=True)]
    parts = [_largest(same), _equation(contest, values), _performance_difference(contest, rules, values)]
    worst, swing = _largest(parts), _largest([one.swing for one in values])
    return {"aperiodicity": worst / scale, "aperiodicity swing": swing / scale}


def check_values(contest: mdc.Contest, rules: Array) -> dict[str, float]:
    """lem:marg-basic, lem:pd, what follows from it, and the sign of the gap."""
    values, scale = [values_by_definition(contest, rule) for rule in rules], contest.margin.bound
    V, Q = np.array([one.V for one in values]), np.array([one.Q for one in values])
    most = scale * _finite_tau(contest)
    greedy = np.eye(contest.num_actions)[Q.argmax(axis=2)]
    better = [(some, rule) for best, rule in zip(greedy, rules, strict=True) for some in (best, (best + rule) / 2)]
    margins = [mdc.average_margin(contest, some, rule) for some, rule in better]
    gaps = [optimal_average_reward(contest, one.c).gain for one in values]  # optimality_gap is cut off at zero
    found = {
        "lem:marg-basic 1": _excess([_largest(V) - most, _largest(Q) - 2 * most]),
        "lem:marg-basic 2": _equation(contest, values),
        "lem:marg-basic 3": _largest(V - (rules * Q).sum(axis=2)),
        "lem:pd": _performance_difference(contest, rules, values),
        "improvement": _excess([-margin for margin in margins]),
        "gap >= 0": _excess([-gap for gap in gaps]),
    }
    return {name: residual / scale for name, residual in found.items()}


def _largest(differences: Any) -> float:
    """A NaN stays one, so it is no residual that passes; the built-in max could lose it."""
    return float(np.max(np.abs(differences)))


def _excess(beyond: Sequence[float]) -> float:
    return float(np.max([0.0, *beyond]))


def _finite_tau(contest: mdc.Contest) -> float:
    """An infinite one would make part 1 true of anything."""
    if not np.isfinite(tau := mdc.check_conditions(contest).tau):
        raise InputError(f"{contest!r} has the certified τ {tau}; draw it with a restart, or with another seed")
    return tau


def _equation(contest: mdc.Contest, values: Sequence[Values]) -> float:
    return _largest([one.Q - one.c - contest.transitions @ one.V for one in values])


def _performance_difference(contest: mdc.Contest, rules: Array, values: Sequence[Values]) -> float:
    return _largest([
        mdc.average_margin(contest, rule, other) - (mine.x * (theirs.Q - theirs.V[:, None])).sum()
        for rule, mine in zip(rules, values, strict=True)
        for other, theirs in zip(rules, values, strict=True)
    ])  # fmt: skip


def check_matching(contest: mdc.Contest, rules: Array) -> dict[str, float]:
    """lem:omm."""
    x_bar = np.mean([mdc.occupancy(contest, rule) for rule in rules], axis=0)
    again, visited = values_by_definition(contest, mdc.decision_rule(x_bar)).x, x_bar[x_bar.sum(axis=1) > 0]
    differs = likeliest_rule(visited) - visited / visited.sum(axis=1, keepdims=True)
    return {"lem:omm occupancy": _largest(again - x_bar), "lem:omm maximiser": _largest(differs)}


def check_sets(contest: mdc.Contest, rules: Array, seed: int) -> dict[str, float]:
    """What lemma_sets and lemma_games have."""
    flow = check_flow(contest, rules, np.random.default_rng([seed, 4]))
    games = check_hull(contest, rules) | check_descent(contest) | check_play(contest)
    objectives = check_gap(contest, rules) | check_concave(contest, rules) | check_update(contest, rules)
    return flow | objectives | games | check_averaging(contest, rules)


def likeliest_rule(x: Array) -> Array:
    """argmax_d Σ x log d over softmax rules by L-BFGS; logits of rare states are stretched, or they hardly move."""
    nu = x.sum(axis=1, keepdims=True)
    stretch = 1 / np.sqrt(nu)

    def loss(z: Array) -> tuple[float, Array]:
        logits = stretch * z.reshape(x.shape)
        return -float((x * log_softmax(logits, axis=1)).sum()), (stretch * (nu * softmax(logits, axis=1) - x)).ravel()

    options = {"maxiter": 10_000, "maxfun": 100_000, "ftol": 0.0, "gtol": 1e-12}
    found = minimize(loss, np.zeros(x.size), jac=True, method="L-BFGS-B", options=options)
    return softmax(stretch * found.x.reshape(x.shape), axis=1)


def check_advantage(contest: mdc.Contest, rules: Array, reward: Array, restart: float) -> dict[str, float]:
    """Against h = r_d − g + γ P_d h solved for h and the gain g; γ = 1 − ε and no gain where there are restarts."""
    S, gamma = contest.num_states, 1 - restart
    P = (contest.transitions - restart * contest.start) / gamma  # without the restarts
    rewarded, differences = mdc.Contest.from_mdp(contest.transitions, contest.start, reward), []
    for rule in rules:
        system = np.eye(S) - gamma * np.einsum("sa,sat->st", rule, P)
        if not restart:
            system[:, 0] = 1.0  # h is known up to a constant: h(0) = 0, and g takes its place
        h = np.linalg.solve(system, (rule * reward).sum(axis=1))
        g, h[0] = (0.0, h[0]) if restart else (h[0], 0.0)
        marginal = values_by_definition(rewarded, rule)
        differences.append(marginal.Q - marginal.V[:, None] - (reward - g + gamma * P @ h - h[:, None]))
    return {"advantage": _largest(differences) / rewarded.margin.bound}


# --- the command ------------------------------------------------------------------------------------------


def measure(quick: bool) -> Iterator[Row]:
    """One row a statement and contest."""
    sizes, periodic = (SIZES[:5:2], PERIODIC[:4:2]) if quick else (SIZES, PERIODIC)
    kinds = [(random_contest, 0.0), (random_contest, 0.1), (few_transitions, 0.0), (few_transitions, 0.05)]
    drawn = [(size, make, restart) for size in sizes for make, restart in kinds]
    for number, (size, make, restart) in enumerate(drawn):
        contest, rules, reward = make(number, *size, restart), *_draw(number, size)
        found = check_values(contest, rules) | check_matching(contest, rules) | check_sets(contest, rules, number)
        yield from _rows(number, size, found | check_advantage(contest, rules, reward, restart))
    for number, (states, actions, period) in enumerate(periodic, start=len(drawn)):
        contest, size = periodic_contest(number, states, actions, period), (states, actions)
        yield from _rows(number, size, check_periodic(contest, _draw(number, size)[0], period))


def _draw(number: int, size: tuple[int, int]) -> tuple[Array, Array]:
    """Rules, shape [RULES, S, A], and a reward."""
    rng = np.random.default_rng([number, *size, 3])
    return rng.dirichlet(np.ones(size[1]), size=(RULES, size[0])), rng.normal(size=size)


def _rows(number: int, size: tuple[int, int], found: Mapping[str, float]) -> Iterator[Row]:
    for statement, residual in found.items():
        yield dict(zip(LEMMAS_SCHEMA, (statement, number, *size, residual), strict=True))


def summarise_lemmas(table: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Statement → in how many contests it was looked at, its largest residual there, and how many are no rounding."""
    found: dict[str, dict[str, float]] = {}
    for statement, residual in zip(table["statement"], table["residual"], strict=True):
        one = found.setdefault(statement, {"contests": 0, "largest": 0.0, "not rounding": 0})
        one["contests"], one["largest"] = one["contests"] + 1, float(np.maximum(one["largest"], residual))
        one["not rounding"] += int(not residual <= ROUNDING)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Check and write the table."""
    return measuring("Finite contests: what the paper proves about marginal values.", _run, arguments)


def _run(quick: bool, folder: Path) -> None:
    rows = list(measure(quick))
    write_rows(folder / "finite-lemmas.parquet", LEMMAS_FORMAT, LEMMAS_SCHEMA, iter(rows))
    table = {name: [row[name] for row in rows] for name in LEMMAS_SCHEMA}
    for statement, one in summarise_lemmas(table).items():
        print(f"{statement}: largest residual {one['largest']:.1e} over {one['contests']} contests")


if __name__ == "__main__":
    sys.exit(main())
