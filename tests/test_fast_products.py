"""M x where it is fast: against the slow obvious sum, with ties, and never further off than the margin says."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest import margins
from mdcontest.margins import pairwise, structured
from mdcontest.margins.orders import Order, sums_from_below
from mdcontest.margins.sums import BLOCK_TERMS, EPS, longest_sum, summed
from random_contests import MARGINS, random_margin
from strategies import seeds


def sign(value):
    return (value > 0) - (value < 0)


def test_the_two_identities_behind_best_two_of_three():
    """Over all 27 triples of signs: with a first win, what turns the contest; with a first tie, orders alone."""
    for s2, s3 in itertools.product((-1, 0, 1), repeat=2):
        assert sign(1 + s2 + s3) == 1 - (s2 < 0 and s3 <= 0) - (s2 <= 0 and s3 < 0)
        assert 2 * sign(s2 + s3) == s2 + s3 + s2 * (s3 == 0) + s3 * (s2 == 0)
    for s in itertools.product((-1, 1), repeat=3):
        assert 2 * sign(sum(s)) == sum(s) - math.prod(s)


@given(seeds, st.integers(1, 300), st.lists(st.sampled_from([1, 2, 3, 8, 60, 10**6]), min_size=3, max_size=3))
def test_majority_is_the_matrix_product(seed, n, levels):
    """Few levels collide all the time, a million hardly ever; every mixture of the two over the three features."""
    from mdcontest.margins.majority import Majority

    rng = np.random.default_rng(seed)
    features = np.stack([rng.integers(k, size=n) for k in levels], axis=1).astype(float)
    margin = margins.BestTwoOfThree(features)
    majority, M = Majority(margin.rows()), margin.matrix()
    for weights in (rng.normal(size=n), rng.dirichlet(np.ones(n))):  # orders are kept, weights change
        found = majority.product(weights)
        np.testing.assert_allclose(found, M @ weights, atol=1e-12 * (1 + np.abs(weights).sum()))


@pytest.mark.parametrize("levels", [20, 10**9])
def test_best_two_of_three_switches_over_by_itself(levels, monkeypatch):
    """Beyond some number of comparisons the compiled product takes over: of all pairs, and of some against others."""
    rng = np.random.default_rng(levels)
    margin = margins.BestTwoOfThree(rng.integers(levels, size=(700, 3)))
    x, z, opponents = rng.dirichlet(np.ones(700)), rng.integers(700, size=90), rng.integers(700, size=400)
    slow = margin.apply(x), margin.against(z, opponents, x[:400])
    assert margin._sorted is None
    monkeypatch.setattr(pairwise, "FEW_COMPARISONS", 1000)
    for _ in range(2):
        np.testing.assert_allclose(margin.apply(x), slow[0], atol=1e-14)
    assert margin._sorted[0] is margin.rows()
    np.testing.assert_allclose(margin.against(z, opponents, x[:400]), slow[1], atol=1e-14)


@given(seeds, st.integers(1, 200), st.integers(1, 40))
def test_remembered_orders_of_signs(seed, n, levels):
    """All pairs against themselves, twice with other weights, against the general product that sorts anew."""
    rng = np.random.default_rng(seed)
    features = np.stack([rng.integers(levels, size=n), rng.normal(size=n), rng.integers(-9, 9, size=n)], axis=1)
    margin = margins.Signs(features, rng.normal(size=3), period=[None, 1.5, 7.0], arc=[None, None, 2.0])
    rows = margin.rows()
    for _ in range(2):
        w = rng.normal(size=n)
        np.testing.assert_allclose(margin.apply(w), margin.kernel_against(rows, rows, w), atol=1e-10)
    kept = margin._sorted
    margin.apply(w)
    assert margin._sorted is kept
    assert all(order.order.dtype == np.int32 for order in kept[1])


def test_orders_are_those_of_the_rows_they_were_found_for():
    """Copies over several layers, and batches that are not all pairs, do not use what was remembered for others."""
    rng = np.random.default_rng(3)
    margin = margins.Signs(rng.integers(5, size=(12, 2))).bind(4, 3)
    margin.apply(np.ones(12))
    w = rng.normal(size=36)
    twice = margin.tiled(3)
    np.testing.assert_allclose(twice.apply(w).reshape(-1), np.tile(margin.matrix(), (3, 3)) @ w, atol=1e-12)
    some = np.array([3, 1, 1, 8])
    np.testing.assert_allclose(margin.against(some, some), margin.matrix()[np.ix_(some, some)].mean(axis=1), atol=1e-15)


@given(seeds, st.integers(1, 60), st.integers(1, 4))
def test_order_within_ties(seed, n, levels):
    """Signs among those equal in another feature, against a sum over all pairs."""
    rng = np.random.default_rng(seed)
    key, tie, other = rng.integers(levels, size=(3, n))
    w, found = rng.normal(size=n), np.zeros(n)
    Order.within(key, (tie, other)).add_signs(found, w, 2.0)
    equal = (tie[:, None] == tie) & (other[:, None] == other)
    np.testing.assert_allclose(found, 2 * (np.sign(key[:, None] - key) * equal) @ w, atol=1e-12)


def test_long_sums_are_within_their_bound():
    """Over several blocks, against exactly rounded sums; magnitudes differ so that plain sums would lose digits."""
    rng = np.random.default_rng(0)
    for n in (1, BLOCK_TERMS - 1, BLOCK_TERMS, 3 * BLOCK_TERMS + 17):
        w = rng.normal(size=n) * 10.0 ** rng.integers(-8, 8, size=n)
        below, values = sums_from_below(w), rng.normal(size=(n, 2))
        limit = EPS * (BLOCK_TERMS + n / BLOCK_TERMS + 1) * np.abs(w).sum()
        assert below[0] == 0
        assert len(below) == n + 1
        for k in {0, 1, n // 2, min(n, BLOCK_TERMS), min(n, BLOCK_TERMS + 1), n - 1, n}:
            assert abs(below[k] - math.fsum(w[:k])) <= limit
        for column, found in zip(values.T, summed(w, values), strict=True):
            exact = math.fsum((w * column).tolist())  # each product rounded once, which the 4 below allows for
            assert abs(found - exact) <= EPS * (longest_sum(n) + 4) * np.abs(w * column).sum()
        np.testing.assert_allclose(summed(w, values[:, 0]), summed(w, values)[0], rtol=1e-9, atol=limit)


@given(seeds, st.sampled_from([kind for kind in MARGINS if kind not in ("preference", "function")]))
def test_products_are_within_the_rounding_they_state(seed, kind):
    """Against the exact product of the float matrix; that of low rank is recomputed exactly from its features."""
    rng = np.random.default_rng(seed)
    S, A = 6, 3
    margin = mdc.Contest(rng.dirichlet(np.ones(S), size=(S, A)), np.ones(S) / S, random_margin(rng, S, A, kind)).margin
    x = rng.dirichlet(np.ones(S * A))
    exact = exact_product(margin, x)
    for found in (margin.apply(x).reshape(-1), margin.matrix() @ x):
        assert max(abs(Fraction(float(c)) - e) for c, e in zip(found, exact, strict=True)) <= margin.rounding(x)


def exact_product(margin, x):
    def fractions(array):
        return [[Fraction(float(value)) for value in row] for row in np.atleast_2d(array)]

    def times(A, B):
        return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*B, strict=True)] for row in A]

    if isinstance(margin, margins.LowRank):
        M = times(times(fractions(margin.features), fractions(margin.J)), fractions(margin.features.T))
    elif isinstance(margin, margins.RewardDifference):
        r = fractions(margin.reward)[0]
        M = [[a - b for b in r] for a in r]
    else:
        M = fractions(margin.matrix())
    return [row[0] for row in times(M, fractions(np.asarray(x)[:, None]))]


def test_large_terms_that_cancel_round_more_than_the_bound_says():
    """φ = (t, t + noise), t up to ±1e8: margins are near 1e8, their terms near 1e16. The terms decide the rounding."""
    rng = np.random.default_rng(1)
    margin, x = off_the_diagonal(1e8 * rng.uniform(-1, 1, size=(50, 1)), rng), rng.dirichlet(np.ones(50))
    assert margin.bound < 1e10
    assert furthest_off(margin, x) <= margin.rounding(x)
    assert margin.rounding(x) > 1e6 * EPS * margin.bound


def test_terms_that_all_features_have_in_common_round_nothing():
    """φ = (1e8 + noise, 1e8 + noise): measured from one of them, no term is larger than the margins."""
    rng = np.random.default_rng(1)
    margin, x = off_the_diagonal(np.full((50, 1), 1e8) + rng.normal(size=(50, 1)), rng), rng.dirichlet(np.ones(50))
    assert margin.bound < 1e10
    assert furthest_off(margin, x) <= margin.rounding(x) < 1e3 * EPS * margin.bound


@pytest.mark.parametrize("make", [margins.Classes, lambda index, M: margins.Dense(M, index)])
def test_many_pairs_with_few_rows_round_little(make):
    """What pairs of one row weigh is summed in blocks: two million of them lose far less than 1e-9 of them."""
    rng = np.random.default_rng(0)
    M = rng.normal(size=(3, 3))
    margin, x = make(rng.integers(0, 3, 2_000_000), M - M.T), np.full(2_000_000, 5e-7)
    assert margin.rounding(x) < 1e-10 * margin.bound


def off_the_diagonal(t, rng):
    return margins.LowRank(np.hstack([t, t + rng.normal(size=t.shape)]), np.array([[0.0, 1.0], [-1.0, 0.0]]))


def furthest_off(margin, x):
    """Of the product from the exact one."""
    return max(abs(Fraction(float(c)) - e) for c, e in zip(margin.apply(x), exact_product(margin, x), strict=True))


@given(seeds, st.integers(1, 80), st.integers(1, 5))
def test_the_bound_of_low_rank_from_few_pairs(seed, n, exact_pairs):
    """Between the largest |M| and the plain inequality of Cauchy and Schwarz, however few pairs are compared."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 6))
    J = rng.normal(size=(d, d)) * 10.0 ** rng.integers(-3, 3, size=(d, 1))
    margin = margins.LowRank(rng.normal(size=(n, d)) * rng.exponential(size=(n, 1)), J - J.T)
    largest = np.abs(margin.matrix()).max()
    f = margin.rows()
    plain = np.linalg.norm(margin.J, 2) * np.linalg.norm(f, axis=1).max() ** 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structured, "EXACT_BOUND_PAIRS", exact_pairs)
        found = margin.rows_bound(f)
    assert largest <= found * (1 + 1e-12) <= plain * (1 + 1e-9) + 1e-300
