"""What is said of a margin: cycles in closed form and by brute force, calibration and accuracy by hand."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitted_margins import BEATS, MODELS, by_class, random_margin
from mdcontest.preferences import Comparisons, Segments, fit_margin
from mdcontest.preferences.diagnosis import accuracy, best_cycles, calibration, cyclic_share, diagnose, most_cyclic

seeds = st.integers(0, 10**6)


def skew_matrix(seed, n):
    M = np.random.default_rng(seed).normal(size=(n, n))
    return M - M.T


# --- cycles -----------------------------------------------------------------------------------------------


@given(seeds, st.integers(2, 12))
def test_a_reward_has_no_cycles(seed, n):
    r = np.random.default_rng(seed).normal(size=n)
    M = r[:, None] - r
    assert cyclic_share(M) == pytest.approx(0, abs=1e-12)
    assert best_cycles(M, 5) == ([], 0.0)


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_rock_paper_scissors_is_nothing_but_cycles(copies):
    M = np.kron(BEATS, np.ones((copies, copies)))
    assert cyclic_share(M) == pytest.approx(1)
    found, share = best_cycles(M, 10)
    assert len(found) == copies, "each uses one outcome of every class"
    n = 3 * copies
    assert share == pytest.approx(copies**3 / (n * (n - 1) * (n - 2) / 6))


@given(seeds, st.floats(0.1, 10), st.floats(0.1, 10))
def test_a_reward_plus_cycles(seed, a, b):
    """M = a (rᵢ − rⱼ) + b C with C rock-paper-scissors.

    The rows of C sum to 0, so Σᵢⱼ (rᵢ − rⱼ) Cᵢⱼ = 0: the two parts are orthogonal, the nearest reward difference is the
    first, and the share is b² ‖C‖² / (a² ‖R‖² + b² ‖C‖²) with ‖C‖² = 6 and ‖R‖² = Σᵢⱼ (rᵢ − rⱼ)².
    """
    r = np.random.default_rng(seed).normal(size=3)
    R = r[:, None] - r
    wanted = 6 * b**2 / (a**2 * (R**2).sum() + 6 * b**2)
    assert cyclic_share(a * R + b * BEATS) == pytest.approx(wanted)


@given(seeds, st.integers(2, 9))
def test_no_reward_is_nearer(seed, n):
    M, rng = skew_matrix(seed, n), np.random.default_rng(seed + 1)
    share, total = cyclic_share(M), (M**2).sum()
    assert 0 <= share <= 1
    r = M.mean(axis=1) + rng.normal(0, rng.choice([1e-3, 1.0]), n)
    assert ((M - (r[:, None] - r)) ** 2).sum() / total >= share - 1e-12
    order = rng.permutation(n)
    assert cyclic_share(7 * M[np.ix_(order, order)]) == pytest.approx(share)


def test_no_preference_has_no_cycles():
    assert cyclic_share(np.zeros((4, 4))) == 0
    assert best_cycles(np.zeros((4, 4)), 3) == ([], 0.0)
    assert best_cycles(np.zeros((1, 1)), 3) == ([], 0.0)


def test_rounding_is_no_cycle():
    """A ranking of two classes, with what φᵀJφ of equal outcomes leaves behind."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, 2, 30)
    M = level[:, None] - level[None, :] + rng.normal(0, 1e-16, (30, 30))
    assert best_cycles(M, 3) == ([], 0.0)
    a, b = rng.integers(0, 2, (2, 200))
    data = Comparisons(np.eye(2)[a], np.eye(2)[b], np.sign(a - b))
    cycles = fit_margin(data, updates=20, penalty=0.001).report["cycles"]
    assert (cycles["cyclic_triples"], cycles["examples"]) == (0.0, [])


@pytest.mark.parametrize("n", [3, 4, 5])
def test_the_most_triples_that_can_cycle(n):
    pairs, most = list(itertools.combinations(range(n), 2)), 0.0
    for signs in itertools.product([-1.0, 1.0], repeat=len(pairs)):
        M = np.zeros((n, n))
        for (i, j), sign in zip(pairs, signs, strict=True):
            M[i, j], M[j, i] = sign, -sign
        most = max(most, best_cycles(M, 0)[1])
    assert most == pytest.approx(most_cyclic(n))
    assert most_cyclic(2) == 0
    assert most_cyclic(300) == pytest.approx(122 / 476)


@given(seeds, st.integers(3, 8), st.integers(0, 3))
def test_the_best_cycles_are_those_of_brute_force(seed, n, count):
    M = skew_matrix(seed, n)
    weakest = {(i, j, k): min(M[i, j], M[j, k], M[k, i]) for i, j, k in itertools.permutations(range(n), 3)}
    cyclic = {frozenset(triple) for triple, least in weakest.items() if least > 0}
    left, wanted = dict(weakest), []
    while len(wanted) < count and left and max(left.values()) > 0:
        best = max(left, key=left.__getitem__)
        wanted.append(frozenset(best))
        left = {triple: least for triple, least in left.items() if not set(best) & set(triple)}
    found, share = best_cycles(M, count)
    assert [frozenset(triple) for triple in found] == wanted
    assert all(weakest[triple] > 0 for triple in found)
    assert share == pytest.approx(len(cyclic) / (n * (n - 1) * (n - 2) / 6))


# --- calibration and accuracy -----------------------------------------------------------------------------


def test_calibration_by_hand():
    said = np.array([0.05, 0.05, 0.95, 0.95, 1.0])
    found = calibration(said, np.array([0, 0.1, 1, 1, 0]))
    assert found["count"] == [2, 3]
    np.testing.assert_allclose(found["predicted"], [0.05, 2.9 / 3])
    np.testing.assert_allclose(found["observed"], [0.05, 2 / 3])
    assert found["error"] == pytest.approx(3 / 5 * 0.3)


@given(seeds)
def test_a_model_that_is_right_is_calibrated(seed):
    """With the probabilities themselves as targets the error is 0; with draws it is that of the draws."""
    rng = np.random.default_rng(seed)
    said = rng.random(20_000)
    assert calibration(said, said)["error"] == pytest.approx(0, abs=1e-12)
    assert calibration(said, (rng.random(20_000) < said).astype(float))["error"] < 0.025
    assert calibration(said, 1 - said)["error"] == pytest.approx(0.5, abs=0.02)


def test_accuracy_by_hand():
    assert accuracy(np.array([2.0, -1, 3, 0]), np.array([1.0, 1, 0.5, 0])) == 0.5  # right, wrong, unclear, undecided
    assert accuracy(np.array([2.0, -1]), np.array([0.5, 0.5])) is None


# --- the report -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_the_report_is_plain_and_repeatable(model):
    data, margin = by_class(300, seed=0, dimensions=3), random_margin(model)
    parts = data[np.arange(200)], data[np.arange(200, 300)]
    found = diagnose(margin, *parts, np.random.default_rng(0))
    assert found == diagnose(margin, *parts, np.random.default_rng(0))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["log_likelihood_chance"] == pytest.approx(np.log(0.5))
    assert (found["fitted_to"], found["held_out"]) == (200, 100)
    margins = margin.segment_margins(data.outcomes, parts[1].first, parts[1].second)
    assert found["accuracy"] == pytest.approx(accuracy(margins, parts[1].target))
    beyond = margin.extrapolates(np.concatenate([data.outcomes[200:300], data.outcomes[500:]]))
    assert found["extrapolation"]["share_outside"] == pytest.approx((beyond > 0).mean())


def test_cycles_are_looked_for_among_what_was_held_out():
    data, margin = by_class(60, seed=0, dimensions=3), random_margin("skew")
    held_out = data[np.arange(50, 60)]
    known = {*range(50, 60), *range(110, 120)}
    cycles = diagnose(margin, data, held_out, np.random.default_rng(0))["cycles"]
    assert cycles["outcomes"] == 20
    assert all(set(example["rows"]) <= known for example in cycles["examples"])


def test_held_out_ends_only():
    """Nothing but ⊥ was held out: there is no outcome to look at, and that is said in place of an error."""
    rng = np.random.default_rng(0)
    data, margin = Comparisons(*rng.normal(size=(2, 20, 3)), np.sign(rng.normal(size=20))), random_margin("skew")
    ends = Segments(np.zeros(5, int), np.zeros(5, int), np.ones(5, int))
    found = diagnose(margin, data, Comparisons.of_segments(data.outcomes, ends, ends, ["equal"] * 5), rng)
    assert found["cycles"]["outcomes"] == found["extrapolation"]["outcomes"] == 0
    assert found["accuracy"] is None
