"""What the paper says of its two nontransitive margins, and of τ, checked without training anything.

python paper/nontransitive.py [--quick] [--out FOLDER]

Writes finite-nontransitive.parquet, one row a statement and case:

    statement          see STATEMENTS
    case               angles around the ring, states of a walk, or pairs that were drawn
    value              a gap relative to the margin's bound, a distance, a share or a τ, by the statement

Where margins depend on what is observed alone, a contest with one state and every observation as an action asks what
the best distribution of observations would be if all could be reached.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from finite import Row, measuring, write_rows
from finite_figures import slope

import mdcontest as mdc
from mdcontest.arrays import Array
from mdcontest.tasks.walker2d_nt import BEATS

FORMAT = "mdcontest/paper-finite-nontransitive"
SCHEMA = {"statement": "string", "case": "int64", "value": "float64"}
STATEMENTS = {
    "circle": "Reacher-NT: the gap of all directions alike at full stretch",
    "opposites": "Reacher-NT: the gap of two opposite directions, half the time each, at full stretch",
    "inside": "Reacher-NT: the gap of all directions alike at two thirds of the stretch",
    "thirds": "Walker2d-NT: how far the shares of an exact solution are from thirds",
    "only thirds": "Walker2d-NT: the gap of random shares, over their distance from thirds",
    "printed, not skew": "share of pairs on which the printed code of Reacher-NT has M(z, z') ≠ −M(z', z)",
    "printed, ahead": "share of pairs, apart by less than π/2, on which it prefers who is ahead counter-clockwise",
    "two of three": "share of pairs on which the best two of three scores and the dominant score disagree",
    "tau": "the certified τ of a lazy walk around a ring",
    "tau at least": "the most a reward of at most 1 can be worth there: the norm of the deviation matrix of one rule",
}
WEIGHTS, RADII = (0.3, 0.7), (1 / 3, 2 / 3, 1.0)
SEED = 0


# --- Reacher-NT -------------------------------------------------------------------------------------------


def ring(angles: int) -> tuple[mdc.Contest, Array, Array]:
    """Three radii, all angles; and the two as numbers of each action."""
    radius, angle = np.meshgrid(RADII, 2 * np.pi * np.arange(angles) / angles, indexing="ij")
    features = np.stack([radius.ravel(), angle.ravel()], axis=1)
    margin = mdc.margins.Signs(features, weights=list(WEIGHTS), period=[None, 2 * np.pi], arc=[None, np.pi])
    return _one_state(len(features), margin), features[:, 0], features[:, 1]


def _one_state(actions: int, margin: Any) -> mdc.Contest:
    return mdc.Contest(np.ones((1, actions, 1)), np.ones(1), margin)


def _gap_of(contest: mdc.Contest, chosen: Array) -> float:
    """Of choosing evenly among some actions."""
    return mdc.optimality_gap(contest, chosen[None] / chosen.sum()) / contest.margin.bound


def on_the_ring(angles: int) -> dict[str, float]:
    """Gaps of three distributions of directions."""
    contest, radius, angle = ring(angles)
    opposite = np.isin(np.arange(len(angle)) % angles, (0, angles // 2))
    full, between = radius == RADII[2], radius == RADII[1]
    return {
        "circle": _gap_of(contest, full),
        "opposites": _gap_of(contest, full & opposite),
        "inside": _gap_of(contest, between),
    }


def printed_margin(radius: Array, angle: Array, other_radius: Array, other_angle: Array, theta: float) -> Array:
    """The published lines as they stand: C's remainder, and ties that count against both; `angle` there must be θ."""
    farther = 2.0 * (radius > other_radius) - 1
    difference = np.array([math.fmod(d, 2 * math.pi) for d in angle + theta / 2 - other_angle])
    ahead = 2.0 * ((difference < theta / 2) | (difference > 2 * math.pi - theta / 2)) - 1
    return WEIGHTS[0] * farther + WEIGHTS[1] * ahead


def printed_code(pairs: int, theta: float = math.pi) -> dict[str, float]:
    """Shares over random positions."""
    rng = np.random.default_rng(SEED)
    r, s = rng.uniform(0, 1, (2, pairs))
    a, b = rng.uniform(-np.pi, np.pi, (2, pairs))
    there, back = printed_margin(r, a, s, b, theta), printed_margin(s, b, r, a, theta)
    lead = np.angle(np.exp(1j * (a - b)))
    near, favoured = np.abs(lead) < np.pi / 2, there - WEIGHTS[0] * np.sign(r - s) > 0
    return {
        "printed, not skew": float((np.abs(there + back) > 1e-9).mean()),
        "printed, ahead": float((favoured == (lead > 0))[near].mean()),
    }


# --- Walker2d-NT and τ ------------------------------------------------------------------------------------


def three_classes(rules: int) -> dict[str, float]:
    """The solution over classes, and what other shares lose for being uneven."""
    contest = _one_state(3, mdc.margins.Dense(BEATS))
    found = mdc.solve(contest).rule[0]
    drawn = np.random.default_rng(SEED).dirichlet(np.ones(3), size=rules)
    losses = [mdc.optimality_gap(contest, d[None]) / (np.abs(d - 1 / 3).sum() / 2) for d in drawn]
    return {"thirds": float(np.abs(found - 1 / 3).max()), "only thirds": min(losses)}


def two_of_three(pairs: int) -> dict[str, float]:
    """Two margins from the same three scores."""
    f, g = np.random.default_rng(SEED).uniform(0, 1, (2, pairs, 3))
    majority = np.sign((f > g).sum(axis=1) - (f < g).sum(axis=1))
    return {"two of three": float((majority != BEATS[f.argmax(axis=1), g.argmax(axis=1)]).mean())}


def walk(states: int) -> dict[str, float]:
    """Stays with a half, and either action leans one way."""
    P = np.zeros((states, 2, states))
    for s in range(states):
        for a, right in enumerate((0.2, 0.3)):
            P[s, a, s] += 0.5
            P[s, a, (s + 1) % states] += right
            P[s, a, (s - 1) % states] += 0.5 - right
    contest = mdc.Contest(P, np.full(states, 1 / states), mdc.margins.RewardDifference(np.zeros(2 * states)))
    chain = P.mean(axis=1)
    limit = np.full((states, states), 1 / states)  # twice stochastic, so all states are as frequent
    deviation = np.linalg.inv(np.eye(states) - chain + limit) - limit
    return {"tau": mdc.check_conditions(contest).tau, "tau at least": float(np.abs(deviation).sum(axis=1).max())}


# --- the command ------------------------------------------------------------------------------------------


def measure(quick: bool) -> Iterator[Row]:
    """One row a statement and case."""
    draws = 1000 if quick else 100_000
    plan: list[tuple[Callable[[int], dict[str, float]], Sequence[int]]] = [
        (on_the_ring, (8, 36) if quick else (8, 36, 90, 180)),
        (three_classes, (50 if quick else 1000,)),
        (printed_code, (draws,)),
        (two_of_three, (draws,)),
        (walk, (3, 6) if quick else (3, 6, 12, 24, 48)),
    ]
    for look, cases in plan:
        for case in cases:
            for statement, value in look(case).items():
                yield {"statement": statement, "case": case, "value": value}


def summarise(table: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Statement → how many cases, the least and the largest value; for τ also how it grows with the states."""
    found: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(table["statement"]):
        rows = [(c, v) for s, c, v in zip(*(table[key] for key in SCHEMA), strict=True) if s == name]
        cases, values = np.array(rows, float).T
        found[name] = {"cases": len(rows), "most": cases.max(), "least": values.min(), "largest": values.max()}
        if name.startswith("tau"):
            found[name]["exponent"] = slope(np.log(cases), np.log(values))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Check and write the table."""
    return measuring("What the paper says of its nontransitive margins.", _run, arguments)


def _run(quick: bool, folder: Path) -> None:
    rows = list(measure(quick))
    write_rows(folder / "finite-nontransitive.parquet", FORMAT, SCHEMA, iter(rows))
    for name, one in summarise({key: [row[key] for row in rows] for key in SCHEMA}).items():
        print(f"{name}: {one['least']:.3g} to {one['largest']:.3g} over {one['cases']} cases")


if __name__ == "__main__":
    sys.exit(main())
