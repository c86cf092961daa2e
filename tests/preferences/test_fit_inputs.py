"""fit_margin with other seeds, units, fields and settings, and what it says where it cannot find a margin."""

import numpy as np
import pytest

from fitted_margins import BEATS, MODELS, QUICK, by_class
from mdcontest.errors import InputError
from mdcontest.outcomes import Outcomes
from mdcontest.preferences import Comparisons, Segments, fit_margin
from mdcontest.preferences.fit import FitSettings
from mdcontest.preferences.inputs import InputReader
from mdcontest.preferences.report_text import summary

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


def test_what_is_constant_but_for_rounding_is_not_read():
    """cos² + sin² differs from 1 in the last places of 32 bits; so it would be the most telling input of all."""
    angle = np.random.default_rng(0).uniform(0, 6, 300).astype(np.float32)
    ones = np.cos(angle) ** 2 + np.sin(angle) ** 2
    z = Outcomes(np.stack([angle, ones], axis=1))
    assert ones.dtype == np.float32
    assert np.ptp(ones) > 0
    inputs = InputReader.fitted(z).read(z)
    assert np.abs(inputs[:, 1]).max() < 1e-6
    assert not inputs[:, 3].any()
    assert np.ptp(inputs[:, 2]) > 1.9


@pytest.mark.parametrize(("level", "deviation", "kind"), [(1.7e9, 700, np.float32), (8000, 30, np.float16)])
def test_coarse_numbers_are_read(level, deviation, kind):
    """Seconds since 1970 in 32 bits have steps of 128; thirty of these are no rounding."""
    x = (level + deviation * np.random.default_rng(0).normal(size=(500, 1))).astype(kind)
    assert len(np.unique(x)) > 20
    read = InputReader.fitted(Outcomes(x)).read(Outcomes(x))
    assert len(np.unique(read, axis=0)) == len(np.unique(x))


@pytest.mark.parametrize("unit", [1e-200, 1e-300])
def test_numbers_whose_squares_vanish_are_read(unit):
    x = np.random.default_rng(0).normal(size=(50, 2))
    reader = InputReader.fitted(unit * x)
    read = reader.read(unit * x)
    assert len(np.unique(read[:, 0])) == 50
    np.testing.assert_allclose(np.ptp(read[:, :2], axis=0), 1, rtol=1e-6)
    assert not reader.beyond(unit * x).any()


def test_a_category_that_nobody_saw_is_outside():
    z, w = (Outcomes(np.random.default_rng(side).integers(0, 3, 60)) for side in (0, 1))
    margin = fit_margin(Comparisons(z, w, np.sign(z.obs - w.obs)), seed=np.int64(1), **QUICK)
    assert (margin.extrapolates(Outcomes(np.array([0, 2, 7]))) > 0).tolist() == [False, False, True]


# --- what is compared again and again ---------------------------------------------------------------------


def repeated_coins(pairs, times):
    """What a coin said about each pair, told several times."""
    rng = np.random.default_rng(0)
    x, y, coin = rng.normal(size=(pairs, 4)), rng.normal(size=(pairs, 4)), rng.choice([-1, 1], pairs)
    return Comparisons(*(np.repeat(values, times, axis=0) for values in (x, y, coin)))


def test_what_was_fitted_to_is_not_held_out_as_well():
    """A network learns by heart what a coin said of 200 pairs, and must not be asked about these."""
    report = fit_margin(repeated_coins(200, 4), members=1, updates=500, penalty=0.0).report
    assert report["held_out"] == 40 * 4
    assert report["accuracy"] < 0.7
    assert "few_pairs" not in report


def test_a_handful_of_pairs_is_asked_about_on_both_sides_and_the_report_says_so():
    """Of rock, paper and scissors no pair can be left out; these are answered again."""
    one, other = np.random.default_rng(0).integers(0, 3, (2, 400))
    report = fit_margin(Comparisons(np.eye(3)[one], np.eye(3)[other], BEATS[one, other]), **QUICK).report
    assert report["few_pairs"] == 6
    assert report["accuracy"] == 1.0
    said = " ".join(summary(report).split())
    assert "none incomparable; of 6 pairs, too few to hold whole ones out: both parts are about the" in said
    x, y = pairs(40)
    alone = fit_margin(Comparisons(x, y, np.sign(x[:, 0] - y[:, 0])), **QUICK).report
    assert "few_pairs" not in alone, "few, but none of them twice"
    assert "too few" not in summary(alone)


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
    with pytest.raises(InputError, match="all comparisons are of one pair"):
        fit_margin(Comparisons(np.tile(x[0], (30, 1)), np.tile(y[0], (30, 1)), ["first"] * 30))
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
