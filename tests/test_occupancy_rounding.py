"""Occupancies and values where states are hardly ever left: right to many digits, or with a warning of how far off.

A linear solve loses as many digits as the chain takes powers of ten of time to forget where it was.
"""

import sys
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

import mdcontest as mdc
from mdcontest.occupancy import occupancy_within
from mdcontest.values import one_hot


def over_the_rationals(A, b):
    """The solution of A v = b by elimination, for rows of fractions."""
    rows = [[*row, right] for row, right in zip(A, b, strict=True)]
    for k in range(len(rows)):
        pivot = next(i for i in range(k, len(rows)) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(len(rows)):
            if i != k and rows[i][k] != 0:
                rows[i] = [value - rows[i][k] * top for value, top in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]


def leaving(P):
    """I − P over the rationals, its diagonal summed from the other entries as the library does."""
    exact = [[-Fraction(float(p)) for p in row] for row in P]
    for s, row in enumerate(exact):
        row[s] = -sum(row[:s] + row[s + 1 :])
    return exact


# --- several recurrent classes ----------------------------------------------------------------------------------


def two_ends(p, sparse):
    """Two pairs of transient states that lead to each other with p, and to one of two ends with 0.3 p and 0.4 p."""
    P = np.eye(6)
    P[:2, :2], P[2:4, 2:4] = [[0.4, 0.6], [0.7, 0.3]], [[0.1, 0.9], [0.8, 0.2]]
    P[1, 2] = P[3, 0] = p
    P[2, 4], P[0, 5] = 0.4 * p, 0.3 * p
    P /= P.sum(axis=1, keepdims=True)
    margin = mdc.margins.Classes([0, 0, 0, 0, 1, 2], [[0, 0, 0], [0, 0, 1], [0, -1, 0]])
    return P, mdc.Contest(sp.csr_array(P) if sparse else P[:, None, :], np.eye(6)[0], margin)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("p", [1e-9, 1e-12, 1e-14, 1e-16, 1e-30])
def test_where_one_ends_after_states_that_are_hardly_ever_left(p, sparse):
    P, contest = two_ends(p, sparse)
    K = leaving(P)
    visits = over_the_rationals([[K[t][s] for t in range(4)] for s in range(4)], [Fraction(s == 0) for s in range(4)])
    ends = [float(sum(-visits[s] * K[s][end] for s in range(4))) for end in (4, 5)]
    np.testing.assert_allclose(mdc.occupancy(contest, np.ones((6, 1))).reshape(-1), [0, 0, 0, 0, *ends], rtol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_ends_without_a_way(sparse):
    P = np.eye(3)
    contest = mdc.Contest(sp.csr_array(P) if sparse else P[:, None, :], [0.2, 0.3, 0.5], np.zeros((3, 3)))
    np.testing.assert_allclose(mdc.occupancy(contest, np.ones((3, 1))).reshape(-1), [0.2, 0.3, 0.5])


@pytest.mark.parametrize("sparse", [False, True])
def test_an_end_that_rounding_hides_is_warned_of(sparse, monkeypatch):
    """With eliminations for no state, as if there were thousands."""
    (_, contest), rule = two_ends(1e-13, sparse), np.ones((6, 1))
    truth = mdc.occupancy(contest, rule)
    monkeypatch.setattr("mdcontest.elimination.MOST_STATES", 0)
    with pytest.warns(RuntimeWarning, match=r"may be off by .* set tiny transition probabilities to zero"):
        mdc.occupancy(contest, rule)
    found, off = occupancy_within(contest, rule)
    assert 1e-6 < np.abs(found - truth).sum() <= off


# --- rare restarts, by sweeps -------------------------------------------------------------------------------------


def two_rings(p, half):
    """Round and round in one of two rings; from the first to the second with 3p, back with 7p, and restarts with p."""
    states = 2 * half
    P = np.zeros((states, states))
    for s in range(states):
        ring, leave = s // half * half, 3 * p if s < half else 7 * p
        P[s, ring + (s + 1) % half], P[s, (s + half) % states] = 1 - leave, leave
    out, back = Fraction(3 * p) * (1 - Fraction(p)), Fraction(7 * p) * (1 - Fraction(p)) + Fraction(p)
    margin = mdc.margins.Classes(np.arange(states) // half, [[0, 1], [-1, 0]])
    return mdc.Contest(sp.csr_array(P), np.eye(states)[0], margin).with_restart(p), float(back / (out + back))


@pytest.mark.parametrize("p", [1e-5, 1e-9, 1e-13, 1e-15])
def test_rings_that_hardly_meet_by_sweeps(p, monkeypatch):
    """What sweeps cannot prove is eliminated, as if there were many states."""
    monkeypatch.setattr(sys.modules["mdcontest.occupancy"], "FACTORED_STATES", 10)
    contest, share = two_rings(p, half=20)
    x, off = occupancy_within(contest, np.ones((40, 1)))
    assert abs(x[:20].sum() - share) <= off + 1e-14
    assert off <= 1e-6


def test_sweeps_that_rounding_stops_say_so(monkeypatch):
    """As if there were too many states to eliminate."""
    for name, states in (("FACTORED_STATES", 10), ("MOST_STATES", 0)):
        monkeypatch.setattr(sys.modules["mdcontest.occupancy"], name, states)
    contest, share = two_rings(1e-15, half=20)
    x, off = occupancy_within(contest, np.ones((40, 1)))
    assert 1e-6 < abs(x[:20].sum() - share) <= off
    with pytest.warns(RuntimeWarning, match="this occupancy may be off by"):
        mdc.occupancy(contest, np.ones((40, 1)))
    with pytest.warns(RuntimeWarning, match="these values may be off by"):
        mdc.marginal_values(contest, np.ones((40, 1)))


# --- values -------------------------------------------------------------------------------------------------------


def two_halves(p, sparse=False, transient=False, seed=3):
    """Two halves of three states that lead to each other with p at most, and perhaps a state nobody comes back to."""
    rng = np.random.default_rng(seed)
    P = np.zeros((6 + transient, 2, 6 + transient))
    for own, other in ((slice(0, 3), slice(3, 6)), (slice(3, 6), slice(0, 3))):
        P[own, :, own], P[own, :, other] = rng.dirichlet(np.ones(3), (3, 2)), p * rng.random((3, 2, 3))
    if transient:
        P[6, :, 6], P[6, :, 2] = 1 - p, p
    P /= P.sum(axis=2, keepdims=True)
    M = rng.integers(-9, 10, (2 * len(P), 2 * len(P)))
    return mdc.Contest(sp.csr_array(P.reshape(-1, len(P))) if sparse else P, np.eye(len(P))[0], M - M.T)


def exact_values(contest):
    """V of the rule that takes both actions alike, over the rationals: c + P V = V and ν·V = 0."""
    P, M = contest.transitions, contest.margin.matrix()
    P = (P.toarray() if sp.issparse(P) else P).reshape(contest.num_states, 2, -1).mean(axis=1)
    K, states = leaving(P), range(len(P))
    nu = over_the_rationals([[K[t][s] for t in states] for s in states[1:]] + [[1] * len(P)], [0] * (len(P) - 1) + [1])
    M = M.reshape(len(P), 2, len(P), 2).sum(axis=(1, 3)).astype(int)
    c = [sum(int(m) * share for m, share in zip(row, nu, strict=True)) / 4 for row in M]
    return np.array([float(v) for v in over_the_rationals([*K[1:], nu], [*c[1:], 0])])


@pytest.mark.parametrize("transient", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("p", [1e-3, 1e-9, 1e-12, 1e-14, 1e-16, 1e-25])
def test_values_of_halves_that_hardly_meet(p, sparse, transient):
    contest = two_halves(p, sparse, transient)
    V, _Q = mdc.marginal_values(contest, np.full((contest.num_states, 2), 0.5))
    expected = exact_values(contest)
    np.testing.assert_allclose(V, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_values_that_rounding_hides_are_warned_of(monkeypatch):
    """With eliminations for no state, as if there were thousands."""
    monkeypatch.setattr("mdcontest.elimination.FEW_STATES", 0)
    contest = two_halves(1e-13)
    with pytest.warns(RuntimeWarning, match=r"these values may be off by .* of the largest"):
        mdc.marginal_values(contest, np.full((6, 2), 0.5))


@pytest.mark.parametrize("seed", [4, 11, 16, 24])
@pytest.mark.parametrize("p", [1e-12, 1e-16])
def test_gaps_along_the_way_are_bounds(p, seed):
    """HPI's history against all replies to its rule; and an end before the limit is confirmed, or inaccurate."""
    contest = two_halves(p, seed=seed)
    found = mdc.solve(contest, mdc.solvers.HPI(60))
    c = mdc.cumulant(contest, found.rule)
    replies = (one_hot(actions, 2) for actions in np.array(list(product((0, 1), repeat=6))))
    assert found.history.gaps[-1] >= max(float((mdc.occupancy(contest, rule) * c).sum()) for rule in replies) - 1e-12
    assert found.status == "iteration_limit"
    found = mdc.solve(contest, mdc.solvers.HPI(300), tol=0.02)
    assert found.info["iterations"] == 300 or found.status in ("solved", "inaccurate")
