"""Settings: the paper's tables, errors that name the setting, files and back."""

import json
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest.learn import Settings, paper_settings
from mdcontest.settings import POSITIVE, SHARES, WHOLE, make_settings

NAMES = [item.name for item in fields(Settings)]


def test_the_defaults_are_the_tables_of_the_paper():
    settings = Settings()
    table = {
        "learning_rate": 3e-4,
        "adam_epsilon": 1e-5,
        "num_steps": 2048,
        "num_envs": 1,
        "epochs": 10,
        "minibatches": 32,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "clip": 0.2,
        "entropy": 0.0,
        "value_coefficient": 0.5,
        "max_grad_norm": 0.5,
        "anneal": True,
        "clip_value_loss": True,
        "normalise_advantages": True,
        "normalise_observations": True,
        "hidden": (64, 64),
        "cloning_epochs": 20,
        "cloning_learning_rate": 1e-2,
        "cloning_minibatches": 32,
        "cloning_max_grad_norm": 1.0,
    }
    assert {name: getattr(settings, name) for name in table} == table
    assert (settings.batch_size, settings.minibatch_size) == (2048, 64)


def test_where_the_paper_leaves_room_the_defaults_are_our_reading():
    settings = Settings()
    ours = {
        "opponents": "batch",
        "termination": "ended",
        "truncation": "bootstrap",
        "hedge": "corrected",
        "comparison_horizon": 1,
        "horizon": None,
        "critic": "discounted",
        "returned": "auto",
        "queue_size": 100,
        "first_iterate": 0,
    }
    assert {name: getattr(settings, name) for name in ours} == ours


def test_every_setting_says_what_it_does_and_what_the_paper_did():
    for item in fields(Settings):
        assert item.metadata["help"]
        assert item.metadata["paper"]
        if item.metadata["choices"]:
            assert item.default in item.metadata["choices"]


@pytest.mark.parametrize("algorithm", ["ppo", "hpi", "hpi-clip", "sppo"])
@pytest.mark.parametrize("group", ["suite", "nt", ""])
def test_settings_of_the_paper(algorithm, group):
    nontransitive = group == "nt"
    expected = {
        "opponents": "queue",
        "queue_size": 10 if nontransitive else 100,
        "first_iterate": 0 if nontransitive else 100,
        "termination": "paper",
        "truncation": "zero",
        "horizon": 2048,
        "hedge": "printed",
        "comparison_horizon": WHOLE if algorithm == "sppo" else 1,
        "returned": "cloned" if nontransitive and algorithm in ("hpi", "hpi-clip") else "last",
    }
    assert paper_settings(algorithm, group) == expected
    made = make_settings(expected)
    assert {name: getattr(made, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("name", "near"), [("learnin_rate", "learning_rate"), ("n_steps", "num_steps"), ("cloning_epoch", "cloning_epochs")]
)
def test_an_unknown_setting_suggests_near_ones(name, near):
    with pytest.raises(mdc.InputError, match=f"no setting '{name}'; did you mean .*{near}"):
        make_settings({name: 1})
    with pytest.raises(mdc.InputError, match=near):
        Settings().replace(**{name: 1})


def test_a_setting_like_no_other_lists_them_all():
    with pytest.raises(mdc.InputError, match=r"no setting 'zzz'; the settings are num_steps, .*cloning_max_grad_norm"):
        make_settings({"zzz": 1})


def bad_values():
    """Name and value of every kind of fault, for every setting that can have it."""
    for item in fields(Settings):
        name, default = item.name, item.default
        if name == "hidden":
            sizes = [(64, 0), (-3,), "64", "wide", 64, None, (64, 1.5), (64, "x"), (float("nan"),)]
            yield from [(name, value) for value in sizes]
        elif item.metadata["choices"]:
            yield from [(name, "none of them"), (name, 3), (name, None), (name, True)]
        elif isinstance(default, bool):
            yield from [(name, 1), (name, 0.0), (name, "true"), (name, None)]
        else:
            yield from [
                (name, "many"),
                (name, float("nan")),
                (name, float("inf")),
                (name, -1),
                (name, True),
                (name, [1]),
            ]
            if name != "horizon":
                yield name, None
            if isinstance(default, int) or name == "horizon":
                yield name, 1.5
            if name in POSITIVE:
                yield name, 0
            if name in SHARES:
                yield name, 1.01


@pytest.mark.parametrize(("name", "value"), list(bad_values()), ids=str)
def test_a_bad_value_is_an_error_that_names_the_setting(name, value):
    with pytest.raises(mdc.InputError, match=f"^setting {name} = "):
        make_settings({name: value})


def test_true_is_no_size_of_a_layer():
    with pytest.raises(mdc.InputError, match=r"^setting hidden = "):
        make_settings({"hidden": (True,)})


@pytest.mark.parametrize(("name", "value"), [("num_steps", np.int64(64)), ("clip", np.float32(0.5))], ids=str)
def test_numbers_of_numpy_are_numbers(name, value):
    assert getattr(make_settings({name: value}), name) == value


def test_minibatches_must_divide_the_batch():
    with pytest.raises(mdc.InputError, match="setting minibatches = 3 must divide the batch of 2048"):
        Settings(minibatches=3)
    with pytest.raises(mdc.InputError, match=r"setting minibatches = 8 .*batch of 12"):
        Settings(num_steps=4, num_envs=3, minibatches=8)
    assert Settings(num_steps=4, num_envs=3, minibatches=6).minibatch_size == 2


def test_one_outcome_cannot_be_normalised():
    with pytest.raises(mdc.InputError, match="setting minibatches = 32 leaves one outcome each"):
        Settings(num_steps=32)
    assert Settings(num_steps=32, normalise_advantages=False).minibatch_size == 1


def test_whole_numbers_may_come_as_floats_and_numbers_as_integers():
    settings = Settings(num_steps=1024.0, gamma=1, horizon=100.0, hidden=[32, 16])
    assert (settings.num_steps, settings.gamma, settings.horizon) == (1024, 1.0, 100)
    assert [type(value) for value in (settings.num_steps, settings.gamma, settings.horizon)] == [int, float, int]
    assert settings.hidden == (32, 16)
    assert hash(settings) == hash(Settings(num_steps=1024, gamma=1.0, horizon=100, hidden=(32, 16)))


@st.composite
def changes(draw):
    """Some settings changed to allowed values."""
    chosen = {}
    for item in fields(Settings):
        if not draw(st.booleans()):
            continue
        name, default = item.name, item.default
        if name == "hidden":
            chosen[name] = tuple(draw(st.lists(st.integers(1, 300), max_size=3)))
        elif name in ("num_steps", "num_envs", "minibatches"):
            chosen[name] = {"num_steps": 4096, "num_envs": 4, "minibatches": 16}[name]
        elif item.metadata["choices"]:
            chosen[name] = draw(st.sampled_from(item.metadata["choices"]))
        elif isinstance(default, bool):
            chosen[name] = draw(st.booleans())
        elif name == "horizon":
            chosen[name] = draw(st.none() | st.integers(1, 10_000))
        elif isinstance(default, int):
            chosen[name] = draw(st.integers(1, 10_000))
        else:
            chosen[name] = draw(st.floats(1e-6, 1.0))
    return chosen


@given(changes())
def test_a_record_comes_back_through_json(chosen):
    settings = make_settings(chosen)
    again = make_settings(json.loads(json.dumps(settings.record())))
    assert again == settings
    assert list(settings.record()) == NAMES


def test_replacing_keeps_the_rest():
    settings = Settings(epochs=3).replace(clip=0.1)
    assert (settings.epochs, settings.clip) == (3, 0.1)
