"""fit_margin finds the preference behind comparisons whose answer is known, whatever form the labels have."""

import os

import numpy as np
import pytest

from fitted_margins import BEATS, MODELS, QUICK, by_class, by_reward, class_of, sigmoid
from mdcontest.preferences import Comparisons, Segments, fit_margin
from mdcontest.preferences.fit import PENALTIES, FitSettings, _Fit, best_stretch
from mdcontest.preferences.networks import init

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
WEIGHTS = np.linspace(-1, 1, 10)


def linear(x):
    return x @ WEIGHTS


def smooth(x):
    return 2 * np.sin(1.5 * x[:, 0]) + x[:, 1] * x[:, 2] + 2 * np.exp(-(x[:, 3] ** 2)) + x[:, 4]


def fresh_pairs(count=4000, dimensions=10):
    """Pairs that nothing was fitted to or judged on."""
    return np.random.default_rng(999).normal(size=(2, count, dimensions))


def correlation(margin, r):
    z, w = fresh_pairs()
    return float(np.corrcoef(margin.between(z, w), r(z) - r(w))[0, 1])


# --- recovery ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("r", "penalty"), [(linear, 1e-2), (smooth, 3e-3)])
def test_a_reward_is_recovered(r, penalty, count):
    """20 000 labels drawn with σ(r − r') in ten dimensions: M correlates with r − r' above 0.95 on new pairs, and σ(M)
    is how often the first is preferred."""
    margin = fit_margin(by_reward(r, 20_000, seed=0), members=count(1, 3), penalty=penalty, noise=0.0)
    assert correlation(margin, r) >= 0.95
    z, w = fresh_pairs()
    best = (sigmoid(np.abs(r(z) - r(w)))).mean()  # what knowing r itself would get right
    assert margin.report["calibration"]["error"] < 0.03
    assert np.abs(margin.probability(z, w) - sigmoid(r(z) - r(w))).mean() < 0.05
    assert margin.report["accuracy"] >= best - 0.03
    assert margin.report["cycles"]["cyclic_share"] < 0.05, "no cycles where there are none"


def test_rock_paper_scissors(count):
    """Any order of three classes has two of their three pairs right at most; the skew part has all of them."""
    data, (z, w) = by_class(count(8000, 20_000), seed=0), fresh_pairs()
    true = BEATS[class_of(z), class_of(w)]
    found = {model: fit_margin(data, model=model, members=1, penalty=1e-4, updates=1000) for model in MODELS}
    right = {model: (np.sign(m.between(z, w)) == true)[true != 0].mean() for model, m in found.items()}
    assert right["skew"] >= 0.95
    assert right["general"] >= 0.9
    assert right["reward"] < 2 / 3 + 0.02
    for model in MODELS:
        assert abs(found[model].report["accuracy"] - right[model]) < 0.05
    cycles = {model: found[model].report["cycles"] for model in MODELS}
    assert cycles["reward"]["cyclic_share"] < 1e-9
    for model in ("skew", "general"):
        assert cycles[model]["cyclic_share"] > 0.9
        # three outcomes are of three classes with probability 6/27, and a few of one class cycle by rounding
        assert abs(cycles[model]["cyclic_triples"] - 6 / 27) < 0.1
        for example in cycles[model]["examples"]:
            assert sorted(class_of(data.outcomes[example["rows"]])) == [0, 1, 2]
            assert min(example["margins"]) > 0


def test_a_fifth_of_the_labels_is_wrong(count):
    data = by_reward(linear, count(10_000, 20_000), seed=2, flipped=0.2)
    margin = fit_margin(data, members=1, penalty=1e-2, noise=0.4)
    assert correlation(margin, linear) >= 0.95
    assert margin.report["calibration"]["error"] < 0.03  # with the share that is chance, 2 × 20 %, told


@pytest.mark.parametrize("noise", [0.0, 1e-9])
@pytest.mark.parametrize("shown", ["first", "last"])
def test_what_few_answers_say_of_ends_is_kept(shown, noise):
    """60 of 12 000 answers are about ⊥, wherever these stand, and a member knows just that it is worse by 3.

    Between outcomes it says nothing but rounding; how small that is must not make its spread large, by which what it
    says of ⊥ is divided: that is 3 √(2 · share of ⊥) = 3 / √200.
    """
    rng, count = np.random.default_rng(0), 12_000
    x, one, other = rng.normal(size=(4000, 2)), *rng.integers(0, 4000, (2, count))
    ended = np.arange(count) < 60 if shown == "first" else np.arange(count) >= count - 60
    sides = Segments(one, np.ones(count, int), np.zeros(count, int)), Segments(other, 1 - ended, ended.astype(int))
    fit = _Fit(Comparisons.of_segments(x, *sides, np.where(ended, 1.0, -1.0)), FitSettings(hidden=(8,)), 0)
    params = {name: noise * value for name, value in init(rng, "skew", fit.reader.size, (8,), 4).items()}
    params["ended"] = np.eye(len(params["ended"]), dtype=np.float32)[0] * -3
    assert fit._spread(params) == pytest.approx(3 / np.sqrt(200), rel=0.3)


@pytest.mark.skipif(not FULL, reason="a longer fit")
def test_labels_taken_for_chance_that_are_not():
    """M is then too sharp, and the probabilities with that chance in them are still right."""
    margin = fit_margin(by_reward(linear, 20_000, seed=3))
    assert margin.report["calibration"]["error"] < 0.03
    assert margin.report["penalty"] > 0, "a linear reward wants small weights"
    assert len(margin.report["penalties"]) == len(PENALTIES)


def test_stretch_is_the_maximum_likelihood():
    rng = np.random.default_rng(0)
    logit = rng.normal(0, 2, 50_000)
    target = (rng.random(50_000) < sigmoid(logit)).astype(float)
    assert best_stretch(logit / 3, target, 0.0) == pytest.approx(3, rel=0.05)
    assert best_stretch(logit, sigmoid(logit), 0.0) == pytest.approx(1, rel=1e-3)
    assert best_stretch(logit, np.full(50_000, 0.5), 0.0) < 0.02, "no preference, no margin"
    assert best_stretch(np.ones(2), np.ones(2), 0.1) < 10, "two right answers are not certainty"


# --- labels -----------------------------------------------------------------------------------------------


def test_a_pair_may_be_shown_either_way_round():
    """Turned round in every pair, labels too, the data say the same; only the samples drawn from them differ."""
    data = by_reward(linear, 4000, seed=4)
    turned = Comparisons.of_segments(data.outcomes, data.second, data.first, 1 - 2 * data.target)
    (z, w), settings = fresh_pairs(), {"members": 1, "penalty": 1e-2, "updates": 600}
    one, other = (fit_margin(each, **settings).between(z, w) for each in (data, turned))
    assert np.abs(one - other).mean() < 0.05 * np.abs(one).mean(), "the same pairs, held out alike"


def test_incomparable_pairs_are_ignored():
    data = by_reward(linear, 600, seed=5)
    words = ["first" if target else "second" for target in data.target]
    plain = fit_margin(Comparisons.of_segments(data.outcomes, data.first, data.second, words), **QUICK)
    rng = np.random.default_rng(0)
    more = [Segments.of_single(np.append(side.start, rng.integers(0, 1200, 50))) for side in (data.first, data.second)]
    padded = Comparisons.of_segments(data.outcomes, *more, [*words, *["incomparable"] * 50])
    found = fit_margin(padded, **QUICK)
    assert found.digest == plain.digest
    assert (found.report["incomparable"], plain.report["incomparable"]) == (50, 0)


def test_equal_pairs_pull_to_zero():
    x, y = np.random.default_rng(0).normal(size=(2, 1000, 10))
    z, w = fresh_pairs(500)
    sharp = fit_margin(Comparisons(x, y, np.sign(x[:, 0] - y[:, 0])), **QUICK)
    equal = fit_margin(Comparisons(x, y, ["equal"] * 1000), **QUICK)
    assert np.abs(equal.between(z, w)).mean() < 0.05 < 1 < np.abs(sharp.between(z, w)).mean()
    assert equal.report["accuracy"] is None


@pytest.mark.parametrize("length", [12, 40])
def test_what_varies_within_segments_is_not_taken_for_noise(length):
    """r = slow + 3 fast, where slow is the same throughout a segment: both weights are found."""
    rng = np.random.default_rng(0)
    table = np.stack([np.repeat(rng.normal(size=400), length), rng.normal(size=400 * length)], axis=1)
    fast = table[:, 1].reshape(400, length).mean(axis=1)
    sides = rng.integers(0, 400, (2, 1500))
    value = table[::length, 0] + 3 * fast
    label = np.where(rng.random(1500) < sigmoid(3 * (value[sides[0]] - value[sides[1]])), 1, -1)
    first, second = (Segments(side * length, np.full(1500, length), np.zeros(1500, int)) for side in sides)
    data = Comparisons.of_segments(table, first, second, label)
    margin = fit_margin(data, model="reward", members=1, penalty=1e-3, updates=600, noise=0.0)
    grid = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    low_slow, high_slow, low_fast, high_fast = margin.learned_reward(grid)
    assert (high_fast - low_fast) / (high_slow - low_slow) > 1.5


@pytest.mark.parametrize("model", ["general", "skew"])
def test_what_happens_every_other_step_is_seen(model):
    """Of clips of 32 steps what is preferred shows in the even ones only, the odd ones are noise."""
    rng = np.random.default_rng(0)
    one, other = 0.3 * rng.normal(size=(2, 400, 32, 1))
    for side in (one, other):
        side[:, ::2] += rng.normal(size=(400, 1, 1))
    label = np.sign(one.mean(axis=(1, 2)) - other.mean(axis=(1, 2)))
    margin = fit_margin(Comparisons(one, other, label), model=model, hidden=(16,), **QUICK)
    assert margin.report["accuracy"] > 0.9
    assert margin.report["log_likelihood"] > -0.3


@pytest.mark.parametrize("model", ["general", "skew"])
def test_an_end_in_the_last_steps_of_a_clip_is_seen(model):
    """3 of 100 steps, and the clip that has ended is worse whatever came before."""
    rng = np.random.default_rng(0)
    table, ended = rng.normal(size=(40_000, 1)), 3 * (rng.random((2, 200)) < 0.5)
    ended[1] = np.where(ended[0] == ended[1], 3 - ended[0], ended[1])
    starts = 100 * np.arange(400).reshape(2, 200)
    first, second = (Segments(start, 100 - some, some) for start, some in zip(starts, ended, strict=True))
    label = np.sign(ended[1] - ended[0])
    margin = fit_margin(
        Comparisons.of_segments(table, first, second, label), model=model, hidden=(16,), **QUICK | {"updates": 1000}
    )
    assert margin.report["accuracy"] > 0.85
    assert margin.report["log_likelihood"] > -0.3


@pytest.mark.parametrize("model", MODELS)
def test_one_answer_does_not_say_whether_living_is_good(model):
    """It is one of a thousand, and a priori ⊥ is like an average outcome."""
    rng = np.random.default_rng(0)
    table, (one, other) = rng.normal(size=(500, 4)), rng.integers(0, 500, (2, 1000))
    first, second = Segments.of_single(one), Segments.of_single(other)
    first.length[0], first.ended[0] = 0, 1
    label = np.sign(table[one, 0] - table[other, 0])
    label[0] = 1
    for seed in range(4):  # so that it is not among those held out
        margin = fit_margin(Comparisons.of_segments(table, first, second, label), seed=seed, model=model, **QUICK)
        if margin.ensemble.knows_ended:
            break
    assert margin.ensemble.knows_ended
    size = np.sqrt((margin.matrix(table[:100], table[:100]) ** 2).mean())
    assert abs(margin.over_ended(table).mean()) < size / 2


def test_a_member_that_found_nothing_is_not_as_loud_as_the_others():
    """Under such a penalty weights vanish; what is left of a margin, divided by its own size, would be noise."""
    x, y = np.random.default_rng(0).normal(size=(2, 1000, 10))
    label = np.random.default_rng(1).choice([-1, 1], 1000)
    margin = fit_margin(Comparisons(x, y, label), **QUICK | {"penalty": 10.0})
    assert np.abs(margin.between(*fresh_pairs(500))).max() < 1e-3
    assert (margin.ensemble.scales <= 100 * np.sqrt(1000)).all(), "stretched by 100 at most, over 1/√n"


def test_numbers_say_how_strongly():
    """With the label 2σ(m) − 1 in place of a draw, m is learned from far fewer pairs."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 1500, 10))
    label = 2 * sigmoid(linear(x) - linear(y)) - 1
    margin = fit_margin(Comparisons(x, y, label), members=1, penalty=1e-3, updates=600, noise=0.0)
    z, w = fresh_pairs()
    slope = np.polyfit(linear(z) - linear(w), margin.between(z, w), 1)[0]
    assert correlation(margin, linear) > 0.98
    assert 0.8 < slope < 1.2


@pytest.mark.parametrize("steps", [1, 5] if FULL else [1])
@pytest.mark.parametrize("model", MODELS)
def test_what_comes_after_the_end_is_learned(model, steps):
    """Steps are preferred to having ended, and so are segments that end later."""
    rng = np.random.default_rng(0)
    table, count = rng.normal(size=(400, 10)), 800
    length = rng.integers(0, steps + 1, (2, count))
    first, second = (Segments(rng.integers(0, 395, count), rows, steps - rows) for rows in length)
    margin = fit_margin(
        Comparisons.of_segments(table, first, second, np.sign(length[0] - length[1])), model=model, **QUICK
    )
    assert margin.ensemble.knows_ended
    assert (margin.over_ended(table) > 0).all()
    rows = rng.integers(0, 400, (2, 400))
    before = Comparisons(table[rows[0]], table[rows[1]], np.sign(table[rows[0], 0] - table[rows[1], 0]))
    never = fit_margin(before, model=model, **QUICK)
    assert not never.ensemble.knows_ended
    if model == "reward":  # its level is open: measured from the mean of the data, so that chance says nothing of ends
        assert abs(never.over_ended(table).mean()) < np.abs(never.over_ended(table)).mean() / 5
    else:
        assert not never.over_ended(table).any()
