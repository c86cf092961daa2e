"""The best that a step could win: where it is, when nobody knows it, and how often the interval is above it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest import tasks
from mdcontest.errors import InputError
from mdcontest.gap.ceiling import ceiling
from mdcontest.learn.play import sample_trajectories
from mdcontest.margins import Aggregated, BestTwoOfThree, Classes, Dense, LowRank, Pairwise, Signs
from mdcontest.margins.reading import antisymmetrise
from mdcontest.tasks.suite import LARGEST_REWARD, SUITE
from mdcontest.tasks.task import reward_difference
from small_games import RPS, Clusters, classes, episodes_of, observed
from strategies import seeds

PLACES = 32
"""Circular features are multiples of a 32nd of a turn; 64ths are at or between all places where a sum can change."""


def supremum(margin, features, weights):
    """As the ceiling finds it: the best candidate of each part."""
    total = 0.0
    for part, own in margin.parts(margin.rows(features)):
        candidates = part.extremes(own)
        assert candidates is not None
        total += part.kernel_against(candidates, own, weights).max()
    return total


def slow_supremum(margin, features, weights, grids):
    """Over every combination of the grids, pair by pair."""
    everywhere = np.array(list(itertools.product(*grids)), float)
    return (margin.kernel(margin.rows(everywhere), margin.rows(features)) @ weights).max()


def identity(z):
    return z


@given(seeds, st.integers(1, 6), st.integers(1, 20))
def test_of_classes_it_is_the_best_class(seed, number, size):
    rng = np.random.default_rng(seed)
    K, labels = antisymmetrise(rng.normal(size=(number, number))), rng.integers(number, size=size)
    weights = rng.dirichlet(np.ones(size))
    expected = max(sum(w * K[k, j] for w, j in zip(weights, labels, strict=True)) for k in range(number))
    assert supremum(Classes(identity, K), labels, weights) == pytest.approx(expected, abs=1e-12)


@st.composite
def sign_margins(draw):
    """Features of three kinds in any order with weights of both signs, the margin, and where to look for its best."""
    kinds = draw(st.lists(st.sampled_from(["plain", "circular", "arc"]), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(seeds))
    size, features, periods, arcs, grids = draw(st.integers(1, 8)), [], [], [], []
    for kind in kinds:
        if kind == "plain":
            features.append(rng.integers(0, 5, size=size).astype(float))
            grids.append(np.arange(-1, 5.5, 0.5))
            periods.append(None)
            arcs.append(None)
        else:
            period = float(rng.choice([1.0, 4.0, 0.5]))
            features.append(period * rng.integers(-PLACES, 2 * PLACES, size=size) / PLACES)
            grids.append(period * np.arange(2 * PLACES) / (2 * PLACES))
            periods.append(period)
            arcs.append(period * rng.integers(1, PLACES // 2 + 1) / PLACES if kind == "arc" else None)
    weights = rng.normal(size=len(kinds)) * rng.integers(0, 2, size=len(kinds))
    weights[rng.integers(len(kinds))] = rng.choice([-1.0, 0.7])
    return Signs(identity, weights, periods, arcs), np.stack(features, axis=1), rng.dirichlet(np.ones(size)), grids


@given(sign_margins())
def test_of_signs_it_is_the_best_of_every_feature(example):
    margin, features, weights, grids = example
    # Features are free of each other, so the best of the sum is the sum of the bests: each grid on its own is enough.
    expected = 0.0
    for k, grid in enumerate(grids):
        own = margin.parts(margin.rows(features))[k][1]
        alone = Signs(identity, margin.weights[k : k + 1], [margin.period[k]], [margin.arc[k]])
        expected += slow_supremum(alone, features[:, k : k + 1], weights, [grid])
        np.testing.assert_array_equal(alone.rows(features[:, k : k + 1]), own)
    assert supremum(margin, features, weights) == pytest.approx(expected, abs=1e-9)
    if len(grids) <= 2:
        assert slow_supremum(margin, features, weights, grids) == pytest.approx(expected, abs=1e-9)


@given(seeds, st.integers(1, 12), st.floats(0.01, 0.5))
def test_no_angle_wins_more_than_the_best_candidate(seed, size, arc):
    rng = np.random.default_rng(seed)
    margin, angles = Signs(identity, [0.7], [1.0], [arc]), rng.uniform(size=(size, 1))
    weights = rng.dirichlet(np.ones(size))
    close = (angles + np.array([[0, 1e-9, -1e-9, arc, -arc, arc - 1e-9, 1e-9 - arc]])).reshape(-1, 1)
    anywhere = np.concatenate([rng.uniform(size=(2000, 1)), close])
    best = margin.kernel_against(margin.rows(anywhere), margin.rows(angles), weights).max()
    found = supremum(margin, angles, weights)
    assert best <= found + 1e-12
    assert found <= best + 1e-9  # some place near one where the sum changes is as good


@given(seeds, st.integers(1, 8), st.integers(1, 3))
def test_of_voters_it_is_everybodys_vote(seed, size, voters):
    rng = np.random.default_rng(seed)
    margin = Aggregated(identity, rng.uniform(0.1, 1, size=voters))
    utilities, weights = rng.integers(0, 4, size=(size, voters)).astype(float), rng.dirichlet(np.ones(size))
    expected = slow_supremum(margin, utilities, weights, [np.arange(-1, 4.5, 0.5)] * voters)
    assert supremum(margin, utilities, weights) == pytest.approx(expected)
    assert expected == pytest.approx(1)


@given(seeds, st.integers(1, 8))
def test_of_best_two_of_three_it_is_ahead_in_all(seed, size):
    rng = np.random.default_rng(seed)
    features, weights = rng.integers(0, 4, size=(size, 3)).astype(float), rng.dirichlet(np.ones(size))
    expected = slow_supremum(BestTwoOfThree(identity), features, weights, [np.arange(-1, 4.5, 0.5)] * 3)
    assert supremum(BestTwoOfThree(identity), features, weights) == pytest.approx(expected) == 1


# --- the ceiling of a sample ------------------------------------------------------------------------------


def task_of(margin, **options):
    return mdc.Task(lambda: None, margin, name="game", **options)


def ceiling_of(margin, played, confidence=0.95, seed=0, **options):
    return ceiling(task_of(margin, **options), played, confidence, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("margin", "told"),
    [
        (LowRank(observed, RPS), "LowRank"),
        (Dense(RPS, lambda z: z.obs[:, 0]), "Dense"),
        (Pairwise(lambda z, w: np.sign(z.obs[:, 0] - w.obs[:, 0])), "Pairwise"),
        (lambda z, w: np.sign(z.obs[:, 0] - w.obs[:, 0]), "Pairwise"),
        (reward_difference(), "largest reward (Task(largest_reward=…))"),
    ],
)
def test_where_nobody_knows_there_is_no_ceiling_and_a_reason(margin, told):
    played = episodes_of(np.zeros((4, 3)), [2, 2], rewards=np.zeros(4))
    found, why = ceiling_of(margin, played)
    assert found is None
    assert why.startswith("nothing is known")
    assert told in why


def test_the_ceiling_by_hand():
    # Rock in 6 of 10 steps, paper in 3, scissors in 1: paper wins 0.6 − 0.1, rock 0.1 − 0.3, scissors 0.3 − 0.6.
    found, why = ceiling_of(classes(), episodes_of([0] * 6 + [1] * 3 + [2], np.ones(10, int)))
    assert why == ""
    assert found.value == pytest.approx(0.5)
    assert found.low < 0.5 < found.high <= 1


def test_no_interval_reaches_above_the_margin_itself():
    # All steps rock: paper wins them all, and nothing wins more than 1 however few the samples are.
    found, _ = ceiling_of(classes(), episodes_of([0, 0], [1, 1]))
    assert (found.value, found.high) == (1, 1)
    both = Signs(observed, [0.3, -0.7], [None, 1.0])
    found, _ = ceiling_of(both, episodes_of(np.random.default_rng(0).uniform(size=(6, 2)), [1, 2, 3]))
    assert found.value <= found.high <= 1


@pytest.mark.parametrize("unit", [0.1, 0.3, 1 / 3, 7.0])
def test_episodes_that_are_all_alike_leave_room_in_any_unit(unit):
    """Fractions that are rounded do not make alike episodes differ."""
    played = episodes_of([0, 1, 2, 0, 1, 2, 1] * 200, np.full(200, 7))
    plain, scaled = (ceiling_of(Classes(observed, RPS * factor), played)[0] for factor in (1.0, unit))
    assert plain.value < plain.high
    assert scaled.high / unit == pytest.approx(plain.high)


def test_the_ceiling_of_rewards_is_the_largest_less_the_mean():
    # Rewards 1 + 2 + 3 and 4 over four steps: 5/2 a step, of at most 10.
    rewards = np.array([1.0, 2.0, 3.0, 4.0])
    found, _ = ceiling_of(reward_difference(), episodes_of(np.zeros(4), [3, 1], rewards=rewards), largest_reward=10.0)
    assert found.value == 10 - 5 / 2
    assert found.low < found.value < found.high


def test_a_largest_reward_that_a_step_exceeds_is_refused():
    """The bound would be below what policies win, and a gap of zero would look proved."""
    played = episodes_of(np.zeros(4), [3, 1], rewards=np.array([1.0, 2.0, 3.0, 4.0]))
    with pytest.raises(InputError, match=r"declares a largest reward of 3\.5, and a step was worth 4"):
        ceiling_of(reward_difference(), played, largest_reward=3.5)
    assert ceiling_of(reward_difference(), played, largest_reward=4.0 - 1e-12)[0].value == pytest.approx(1.5)


def rate_above(sup, draw, margin, repetitions):
    rng = np.random.default_rng(0)
    ends = [ceiling_of(margin, draw(rng), seed=i)[0].high for i in range(repetitions)]
    return np.mean(np.array(ends) >= sup - 1e-12)


@pytest.mark.parametrize(
    "game",
    [
        Clusters([1 / 3] * 3, [0, 0, 0], keep=1.0),
        Clusters([0.5, 0.3, 0.2], [1, 4, 15]),
        Clusters([1 / 3] * 3, [3, 3, 3]),
    ],
)
def test_the_interval_is_above_the_best_class(game, count):
    rate = rate_above((RPS @ game.occupancy).max(), lambda rng: game.draw(rng, 60), classes(), count(150, 1000))
    assert rate >= 0.95


@pytest.mark.parametrize(
    ("arc", "sup"),
    [
        # Angles alike over the whole turn: nobody is ahead of more than are ahead of him, c = 0 everywhere.
        (1.0, 0.0),
        # Over three quarters of a turn: at ½ one is ahead of (0, ½), ⅔ of all, and behind (½, ¾), ⅓ of them.
        (0.75, 1 / 3),
    ],
)
def test_the_interval_is_above_the_best_angle(arc, sup, count):
    """Episodes of any length keep near an angle of their own."""

    def draw(rng):
        lengths = rng.integers(1, 9, size=60)
        own = np.repeat(rng.uniform(size=60), lengths)
        return episodes_of(arc * ((own + 0.1 * rng.uniform(size=len(own))) % 1)[:, None], lengths)

    assert rate_above(sup, draw, Signs(observed, [1.0], [1.0]), count(60, 500)) >= 0.95


# --- rewards that have a most -----------------------------------------------------------------------------


def test_which_tasks_of_the_suite_declare_a_largest_reward():
    declared = {name for name in SUITE if tasks.make(name).largest_reward is not None}
    assert declared == {"Reacher-v5", "Pusher-v5", "InvertedPendulum-v5", "InvertedDoublePendulum-v5"}


class Random:
    """Actions anywhere in the box."""

    def __init__(self, space, seed):
        self.low, self.high, self.rng = space.low, space.high, np.random.default_rng(seed)

    def predict(self, obs, state=None, episode_start=None, deterministic=False):
        return self.rng.uniform(self.low, self.high), None


@pytest.mark.parametrize("name", sorted(LARGEST_REWARD))
def test_the_largest_reward_is_never_exceeded(name, count):
    pytest.importorskip("mujoco")
    task = tasks.make(name)
    player = Random(task.spaces[1].space, 0)
    played = sample_trajectories(task, player, count(5, 50), min_steps=count(300, 20_000))
    assert played.outcomes.reward.max() <= task.largest_reward
    found, _ = ceiling(task, played, 0.95, np.random.default_rng(0))
    assert found.value == pytest.approx(task.largest_reward - played.outcomes.reward.mean())
