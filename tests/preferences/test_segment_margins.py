"""Margins between segments, against all cross pairs written out one by one; and M of two batches row by row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from datasets import filled, trajectory
from mdcontest import margins
from mdcontest.errors import InputError, RunError
from mdcontest.margins import Margin
from mdcontest.outcomes import Outcomes
from mdcontest.preferences import segment_margins
from mdcontest.preferences.asking import compare
from mdcontest.preferences.comparisons import Segments
from mdcontest.preferences.segment_margins import SegmentMargin
from mdcontest.tasks import Task
from random_contests import MARGINS, random_margin
from small_games import RPS
from strategies import seeds

ON_OUTCOMES = {
    "reward": lambda: margins.RewardDifference(lambda z: z.reward),
    "low rank": lambda: margins.LowRank(lambda z: z.obs, [[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]),
    "classes": lambda: margins.Classes(lambda z: z.action, RPS),
    "signs": lambda: margins.Signs(lambda z: np.round(z.obs), [0.5, 0.3, 0.2], period=[None, 3.0, None]),
    "two of three": lambda: margins.BestTwoOfThree(lambda z: np.round(z.obs)),
    "function": lambda: margins.Pairwise(lambda z, w: np.tanh(z.obs[:, 0] - w.obs[:, 1] + z.obs[:, 1] - w.obs[:, 0])),
}


class Slow(Margin):
    """A margin that knows nothing but its kernel."""

    def __init__(self):
        self._hold(lambda z: z.obs)

    def kernel(self, f, g):
        return np.tanh(f[:, :1] - g[:, 0]) + f[:, 1:2] * g[:, 2] - f[:, 2:3] * g[:, 1]

    def rows_bound(self, f):
        return np.inf


def outcomes(rng, count):
    return Outcomes(rng.normal(size=(count, 3)), rng.integers(0, 3, count), rng.normal(size=count))


@given(seeds, st.sampled_from(MARGINS), st.integers(1, 40))
def test_between_is_the_diagonal(seed, kind, count):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(4), size=(4, 3))
    margin = mdc.Contest(P, np.ones(4) / 4, random_margin(rng, 4, 3, kind)).margin
    z, w = rng.integers(12, size=(2, count))
    M = margin.matrix()
    np.testing.assert_allclose(margin.between(z, w), M[z, w], atol=1e-12 * (1 + np.abs(M).max()))


@pytest.mark.parametrize("kind", [*ON_OUTCOMES, "slow"])
def test_between_batches_of_outcomes(kind, monkeypatch):
    rng = np.random.default_rng(3)
    margin = Slow() if kind == "slow" else ON_OUTCOMES[kind]()
    z, w = outcomes(rng, 50), outcomes(rng, 50)
    expected = np.diagonal(margin.matrix(z, w))
    np.testing.assert_allclose(margin.between(z, w), expected, atol=1e-12)
    monkeypatch.setattr("mdcontest.margins.base.BLOCK_PAIRS", 7)
    np.testing.assert_allclose(margin.between(z, w), expected, atol=1e-12)
    np.testing.assert_allclose(margin.between(w, z), -expected, atol=1e-12)
    with pytest.raises(InputError, match="50 outcomes cannot be compared one by one with 49"):
        margin.between(z, w[:49])


def test_a_function_that_is_not_skew_is_found():
    rng = np.random.default_rng(0)
    margin = margins.Pairwise(lambda z, w: z.obs[:, 0] + 1)
    with pytest.raises(InputError, match="not skew-symmetric"):
        margin.between(outcomes(rng, 3), outcomes(rng, 3))


def by_definition(margin, over_ended, table, one, other, discount):
    """Σ over both segments' steps of normalised weights times M, one pair at a time."""
    total = 0.0
    lengths = [one[1] + one[2], other[1] + other[2]]
    weights = [np.array([discount ** (steps - 1 - t) for t in range(steps)]) for steps in lengths]
    for t in range(lengths[0]):
        for s in range(lengths[1]):
            z = table[one[0] + t : one[0] + t + 1] if t < one[1] else None
            w = table[other[0] + s : other[0] + s + 1] if s < other[1] else None
            if z is not None and w is not None:
                value = float(margin.matrix(z, w)[0, 0])
            elif z is not None:
                value = float(over_ended(z)[0])
            else:
                value = 0.0 if w is None else -float(over_ended(w)[0])
            total += weights[0][t] / weights[0].sum() * weights[1][s] / weights[1].sum() * value
    return total


@pytest.mark.parametrize("kind", [*ON_OUTCOMES, "slow"])
@pytest.mark.parametrize("ended", [None, 0.7, "function"])
@pytest.mark.parametrize("discount", [1.0, 0.6])
def test_segments_by_definition(kind, ended, discount, monkeypatch):
    monkeypatch.setattr(segment_margins, "LONG_PAIR", 6)  # both ways of summing are used
    rng = np.random.default_rng(1)
    says = (lambda z: z.obs[:, 0] ** 2) if ended == "function" else ended
    task = Task("CartPole-v1", Slow() if kind == "slow" else ON_OUTCOMES[kind](), ended=says)
    table = outcomes(rng, 30)
    sides = [
        [(int(rng.integers(25)), int(rng.integers(0, 5)), int(rng.integers(1, 4))) for _ in range(8)] for _ in "ab"
    ]
    sides[0][0], sides[1][0] = (30, 0, 2), (30, 0, 1)  # ⊥ against ⊥
    sides[0][1] = (2, 4, 0)
    sides[1][1] = (3, 4, 0)
    first, second = (Segments(*np.array(side).T) for side in sides)
    margin = SegmentMargin(task.margin, task.over_ended, discount)
    found = margin.between(table, first, second)
    expected = [
        by_definition(task.margin, task.over_ended, table, *pair, discount) for pair in zip(*sides, strict=True)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(margin.between(table, second, first), -found, atol=1e-12)
    assert found[0] == 0


def test_what_a_task_says_about_the_end():
    z = outcomes(np.random.default_rng(0), 4)
    reward = margins.RewardDifference(lambda z: z.reward)
    np.testing.assert_array_equal(Task("CartPole-v1", reward).over_ended(z), z.reward)
    np.testing.assert_array_equal(Task("CartPole-v1", reward, ended=-2).over_ended(z), np.full(4, -2.0))
    np.testing.assert_array_equal(Task("CartPole-v1", ON_OUTCOMES["classes"]()).over_ended(z), np.zeros(4))


def test_the_discount_is_checked():
    for wrong in (0.0, -1.0, 1.1, float("nan")):
        with pytest.raises(InputError, match="discount of a myopic teacher"):
            SegmentMargin(Slow(), Slow().over_ended, wrong)


def test_a_margin_that_raises_is_told_in_words(tmp_path):
    task = Task("CartPole-v1", lambda z, w: z.info["colour"] - w.info["colour"], name="by hand")
    dataset, _ = filled(tmp_path, [trajectory(seed) for seed in range(3)], task)
    with pytest.raises(RunError, match=r"^by hand: the margin raised KeyError: 'colour'$"):
        compare(dataset, "sign", 5)
