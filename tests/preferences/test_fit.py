"""fit_margin finds the preference behind comparisons whose answer is known, and says what it cannot find."""

import os

import numpy as np
import pytest

from learned_margins import BEATS, MODELS, by_class, by_reward, class_of, sigmoid
from mdcontest.errors import InputError
from mdcontest.outcomes import Outcomes
from mdcontest.preferences import Comparisons, Segments, fit_margin
from mdcontest.preferences.fit import PENALTIES, FitSettings, best_stretch
from mdcontest.preferences.inputs import InputReader

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
QUICK = {"members": 1, "penalty": 1e-3, "updates": 300}
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


# --- seeds, settings and inputs ---------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_the_same_seed_is_the_same_margin(model):
    data = by_class(400, seed=6)
    quick = {"members": 2, "updates": 50, "penalty": None if model == "skew" else 1e-3}
    one, again, other = (fit_margin(data, model=model, seed=seed, **quick) for seed in (1, 1, 2))
    assert one.digest == again.digest
    assert one.report == again.report
    assert one.digest != other.digest
    for name, value in one.ensemble.members[0].items():
        np.testing.assert_array_equal(value, again.ensemble.members[0][name])
    assert any((one.ensemble.members[0][n] != one.ensemble.members[1][n]).any() for n in one.ensemble.members[0])


def test_units_do_not_matter():
    """Metres or nanometres, and wherever zero is: inputs are standardised."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 500, 10))
    scale, shift = np.resize([1e-12, 1e6, 1.0], 10), np.resize([0.0, 1e3, -7.0], 10)
    label = np.sign(x[:, 0] - y[:, 0])
    one = fit_margin(Comparisons(x, y, label), **QUICK)
    other = fit_margin(Comparisons(x * scale + shift, y * scale + shift, label), **QUICK)
    assert other.report["accuracy"] > 0.9
    np.testing.assert_allclose(other.between(x * scale + shift, y * scale + shift), one.between(x, y), atol=0.05)


def test_fields_of_outcomes():
    rng = np.random.default_rng(0)
    z, w = (
        Outcomes({"a": rng.normal(size=(400, 6)), "b": rng.normal(size=400)}, rng.integers(0, 3, 400), np.ones(400))
        for _ in range(2)
    )
    label = BEATS[z.action, w.action]
    margin = fit_margin(Comparisons(z, w, label), **QUICK)
    names = [*(f"obs.a[{i}]" for i in range(6)), "obs.b[0]", "action is 0", "action is 1", "action is 2"]
    assert margin.ensemble.reader.names() == names
    assert (np.sign(margin.between(z, w)) == label)[label != 0].mean() > 0.95
    assert InputReader.fitted(z, ["action", "obs.b"]).names() == [*names[7:], "obs.b[0]"]
    assert FitSettings(inputs="action").inputs == ("action",), "one name, not its letters"
    for wrong, message in (("velocity", "no 'velocity'"), ("info.speed", "no 'info.speed'"), ("obs.c", "no 'obs.c'")):
        with pytest.raises(InputError, match=message):
            fit_margin(Comparisons(z, w, label), inputs=[wrong], **QUICK)


def test_ranks_are_the_mean_sign():
    """F(x) = mean of sgn(x − x') over the data, ties included; an input that never varied has none."""
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(0, 4, 4000) ** 2, rng.normal(size=4000), np.full(4000, 0.3)], axis=1)
    reader = InputReader.fitted(x)
    some = x[:50]
    true = np.sign(some[:, None, :2] - x[None, :, :2]).mean(axis=1)
    np.testing.assert_allclose(reader.read(some)[:, 3:5], true, atol=0.05)
    nearly = some + np.array([0, 0, 1e-9])
    np.testing.assert_allclose(reader.read(nearly), reader.read(some), atol=1e-6, err_msg="a hair is no outlier")


def test_a_category_that_nobody_saw_is_outside():
    z, w = (Outcomes(np.random.default_rng(side).integers(0, 3, 60)) for side in (0, 1))
    margin = fit_margin(Comparisons(z, w, np.sign(z.obs - w.obs)), seed=np.int64(1), **QUICK)
    assert (margin.extrapolates(Outcomes(np.array([0, 2, 7]))) > 0).tolist() == [False, False, True]


# --- faults -----------------------------------------------------------------------------------------------


def pairs(count=40, seed=0):
    return np.random.default_rng(seed).normal(size=(2, count, 2))


def test_too_little_is_said():
    x, y = pairs(9)
    with pytest.raises(InputError, match="9 of 9 comparisons say something, and 10 are the fewest"):
        fit_margin(Comparisons(x, y, np.ones(9)))
    x, y = pairs(30)
    with pytest.raises(InputError, match="0 of 30 comparisons say something"):
        fit_margin(Comparisons(x, y, ["incomparable"] * 30))
    same = Segments.of_single(np.zeros(30, int))
    with pytest.raises(InputError, match="all comparisons are of one pair"):
        fit_margin(Comparisons.of_segments(x, same, Segments.of_single(np.ones(30, int)), ["first"] * 30))
    with pytest.raises(InputError, match="all comparisons are of one pair"):
        fit_margin(Comparisons.of_segments(x, same, same, ["equal"] * 30))
    with pytest.raises(InputError, match="all alike in what is read of them: features"):
        fit_margin(Comparisons(np.ones((30, 2)), np.ones((30, 2)), ["first"] * 30))
    ended = Segments(np.arange(30), np.zeros(30, int), np.ones(30, int))
    with pytest.raises(InputError, match="nothing to read"):
        fit_margin(Comparisons.of_segments(x, ended, ended, ["equal"] * 30))


def test_the_fewest_comparisons():
    x, y = pairs(10)
    margin = fit_margin(Comparisons(x, y, np.sign(x[:, 0] - y[:, 0])), members=2, updates=25)
    assert (margin.report["fitted_to"], margin.report["held_out"]) == (8, 2)
    assert np.isfinite(margin.matrix(x, y)).all()


def test_outcomes_that_are_no_numbers():
    obs = np.random.default_rng(0).normal(size=(40, 2))
    label = np.sign(obs[:, 0])
    broken = obs.copy()
    broken[7, 1] = np.nan
    with pytest.raises(InputError, match="is nan; every entry must be a finite number"):
        fit_margin(Comparisons(Outcomes(broken), Outcomes(obs), label), **QUICK)
    with pytest.raises(InputError, match="obs holds <U5; a learned margin reads numbers"):
        fit_margin(Comparisons(Outcomes(np.full(40, "north")), Outcomes(np.full(40, "south")), label), **QUICK)
    with pytest.raises(InputError, match=r"features\[0\] reaches .*e\+200, too large to be standardised"):
        fit_margin(Comparisons(obs * [1e200, 1], obs, label), **QUICK)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modle": "skew"}, "no setting 'modle'; did you mean model"),
        ({"model": "sqew"}, "no model 'sqew'; did you mean skew"),
        ({"members": 0}, "members must be a whole number, at least 1, got 0"),
        ({"updates": 0}, "updates must be a whole number, at least 1, got 0"),
        ({"rank": 2.5}, "rank must be a whole number"),
        ({"held_out": 1.0}, "held_out is a share between 0 and 1, got 1.0"),
        ({"held_out": None}, "held_out must be a number, got None"),
        ({"noise": "high"}, "noise must be a number, got 'high'"),
        ({"noise": 1.0}, "noise is a share"),
        ({"penalty": -1.0}, "penalty must be a number, not negative, got -1.0"),
        ({"penalty": float("nan")}, "penalty must be a number"),
        ({"hidden": 64}, "hidden must be sizes of layers"),
        ({"hidden": ()}, "hidden must be sizes of layers"),
        ({"seed": -1}, "seed must be a whole number, not negative, got -1"),
        ({"inputs": ["obs"]}, "inputs chooses fields of Outcomes; these are arrays, which have no obs"),
    ],
)
def test_wrong_settings(settings, message):
    x, y = pairs()
    with pytest.raises(InputError, match=message):
        fit_margin(Comparisons(x, y, np.sign(x[:, 0])), **settings)


def test_what_is_no_comparisons():
    with pytest.raises(InputError, match="comparisons must be Comparisons or a Dataset, got a list"):
        fit_margin([1, 2, 3])
