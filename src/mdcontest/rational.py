"""An upper bound on a rule's gap over the rationals: every float is taken as the number it is, nothing is rounded.

Rows of P and of the rule are divided by their exact sums, M is replaced by (M − Mᵀ)/2, x solves the flow equations of
the rule exactly, and for any h the bound max_sa[M x + P h − h] then holds as a theorem about these rational numbers.
Arithmetic is on integers over common denominators; fractions are formed only at the end.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mdcontest.contest import Contest
from mdcontest.errors import InputError, SizeError

Row = dict[int, Fraction]
MAX_STATES = 80
MAX_PAIRS = 1000
"""Integers grow with the number of states: 60 dense states take 4 s, 30 take 0.2 s."""


def exact_gap_bound(contest: Contest, rule: NDArray[np.float64], h: NDArray[np.float64]) -> Fraction:
    """max_sa[M x + P h − h], exactly, for the exact occupancy x of the rule."""
    if contest.num_states > MAX_STATES or contest.num_pairs > MAX_PAIRS:
        raise SizeError(
            f"exact verification is for up to {MAX_STATES} states and {MAX_PAIRS} pairs, this contest has "
            f"{contest.num_states} and {contest.num_pairs}; use exact=False"
        )
    if not (np.isfinite(h).all() and np.isfinite(rule).all()):
        raise InputError("the certificate holds numbers that are not finite")
    P = _transition_rows(contest)
    d = [_normalised({a: Fraction(float(p)) for a, p in enumerate(row) if p > 0}) for row in rule]
    nu = _stationary(P, d, contest)
    x = [nu[s] * d[s].get(a, Fraction(0)) for s in range(contest.num_states) for a in range(contest.num_actions)]
    c = _skew_product(contest.margin.matrix(), x)
    values = [Fraction(float(v)) for v in h]
    return max(
        c[pair] + sum((p * values[t] for t, p in P[pair].items()), Fraction(0)) - values[pair // contest.num_actions]
        for pair in range(contest.num_pairs)
    )


def _transition_rows(contest: Contest) -> list[Row]:
    """P with rows divided by their sums; a restart kept apart is added first, exactly."""
    matrix, restart = contest.dynamics.matrix, contest.dynamics.restart
    dense = matrix.toarray() if sp.issparse(matrix) else matrix
    start = _normalised({s: Fraction(float(p)) for s, p in enumerate(contest.start) if p > 0})
    rows = []
    for pair, entries in enumerate(dense):
        row = {s: Fraction(float(p)) for s, p in enumerate(entries) if p > 0}
        if restart is not None and restart[pair] > 0:
            e = Fraction(float(restart[pair]))
            for s, p in start.items():
                row[s] = row.get(s, Fraction(0)) + e * p
        rows.append(_normalised(row))
    return rows


def _normalised(row: Row) -> Row:
    total = sum(row.values(), Fraction(0))
    if total <= 0:
        raise InputError("a distribution has no mass")
    return {key: value / total for key, value in row.items()}


def _stationary(P: list[Row], d: list[Row], contest: Contest) -> list[Fraction]:
    """ν of the rule's chain from the start: exact, zero outside its recurrent class."""
    chain: list[Row] = []
    for s in range(contest.num_states):
        step: Row = {}
        for a, share in d[s].items():
            for t, p in P[s * contest.num_actions + a].items():
                step[t] = step.get(t, Fraction(0)) + share * p
        chain.append(step)
    members = _recurrent_class(chain, [int(s) for s in np.flatnonzero(contest.start)])
    # Visits y = y P with y(last) = D(last). Row s of P has one denominator D(s), so that in z(s) = y(s)/D(s) all
    # entries are integers: Σ_s z(s) D(s) (1[s = t] − P(s, t)) = D(last) P(last, t) for t ≠ last.
    others, last = members[:-1], members[-1]
    scale = {s: lcm(*(p.denominator for p in chain[s].values())) for s in members}

    def entry(s: int, t: int) -> int:
        return int(scale[s] * ((s == t) - chain[s].get(t, Fraction(0))))

    system = [[*(entry(s, t) for s in others), -entry(last, t)] for t in others]
    z = _solve_integers(system)
    visits = [*(scale[s] * value for s, value in zip(others, z, strict=True)), Fraction(scale[last])]
    total = sum(visits, Fraction(0))
    nu = [Fraction(0)] * contest.num_states
    for s, visit in zip(members, visits, strict=True):
        nu[s] = visit / total
    return nu


def _recurrent_class(chain: list[Row], start: list[int]) -> list[int]:
    """The only recurrent class that the start reaches, or an error."""

    def reach(sources: list[int]) -> set[int]:
        seen, todo = set(sources), list(sources)
        while todo:
            for t in chain[todo.pop()]:
                if t not in seen:
                    seen.add(t)
                    todo.append(t)
        return seen

    from_state = {s: reach([s]) for s in reach(start)}
    recurrent = {s for s, seen in from_state.items() if all(s in from_state[t] for t in seen)}
    classes = {frozenset(from_state[s]) for s in recurrent}
    if len(classes) != 1:
        raise InputError(f"the rule's chain has {len(classes)} recurrent classes; its occupancy is not unique")
    return sorted(classes.pop())


def _solve_integers(system: list[list[int]]) -> list[Fraction]:
    """Solve [A | b] by fraction-free elimination (Bareiss 1968): all intermediate numbers are integers."""
    size, previous = len(system), 1
    rows = [list(row) for row in system]
    for k in range(size):
        swap = next((i for i in range(k, size) if rows[i][k]), None)
        if swap is None:
            raise InputError("the flow equations are singular")
        rows[k], rows[swap] = rows[swap], rows[k]
        pivot = rows[k]
        for i in range(k + 1, size):
            row, factor = rows[i], rows[i][k]
            rows[i] = [0] * (k + 1) + [
                (pivot[k] * row[j] - factor * pivot[j]) // previous for j in range(k + 1, size + 1)
            ]
        previous = pivot[k]
    solution = [Fraction(0)] * size
    for k in range(size - 1, -1, -1):
        known = sum((rows[k][j] * solution[j] for j in range(k + 1, size)), Fraction(0))
        solution[k] = (rows[k][size] - known) / rows[k][k]
    return solution


def _skew_product(M: Any, x: list[Fraction]) -> list[Fraction]:
    """((M − Mᵀ)/2) x with integers over one denominator."""
    denominator = lcm(*(value.denominator for value in x))
    X = [value.numerator * (denominator // value.denominator) for value in x]
    exact = [[float(v).as_integer_ratio() for v in row] for row in M]
    shift = max(q for row in exact for _, q in row)  # denominators of floats are powers of two
    integers = [[p * (shift // q) for p, q in row] for row in exact]
    support = [j for j, value in enumerate(X) if value]
    return [
        Fraction(sum((integers[i][j] - integers[j][i]) * X[j] for j in support), 2 * shift * denominator)
        for i in range(len(X))
    ]
