"""Spaces as flat vectors: round trips, batches, and errors that name the culprit."""

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest.tasks import ActionReader, ObservationReader
from strategies import seeds

BOX = spaces.Box(-2.0, 2.0, (3,), np.float32)
GRID = spaces.Box(0, 255, (2, 3), np.uint8)
SCALAR = spaces.Box(-1.0, 1.0, (), np.float64)
ROOM = spaces.Discrete(4, start=-1)
HOUSE = spaces.Dict({"room": ROOM, "arm": BOX, "grid": GRID, "clock": SCALAR})
GOOD = {"room": 0, "arm": np.zeros(3), "grid": np.zeros((2, 3)), "clock": 0.0}
SPACES = {"vector": BOX, "grid": GRID, "scalar": SCALAR, "discrete": ROOM, "dict": HOUSE}


def equal(found, expected):
    if isinstance(expected, dict):
        assert set(found) == set(expected)
        for key in expected:
            equal(found[key], expected[key])
    else:
        np.testing.assert_array_equal(found, expected)


@given(seeds, st.sampled_from(list(SPACES)), st.integers(1, 6))
def test_flatten_then_raw_gives_the_observations_back(seed, name, count):
    space = SPACES[name]
    space.seed(seed)
    seen = [space.sample() for _ in range(count)]
    reader = ObservationReader(space)
    vectors = np.array([reader.flatten(one) for one in seen], float)
    assert vectors.shape == (count, reader.size)
    raw = reader.raw(vectors)
    for i, one in enumerate(seen):
        equal({key: part[i] for key, part in raw.items()} if isinstance(raw, dict) else raw[i], one)


@pytest.mark.parametrize(
    ("low", "high", "kind", "far"),
    [
        (-128, 127, np.int8, True),
        (0, 255, np.uint8, True),
        (-(2**63), 2**63 - 1, np.int64, True),
        (-1, 1, np.int8, False),
        (-3e38, 3e38, np.float32, True),
        (-1.7e308, 1.7e308, np.float64, True),
        (-np.inf, np.inf, np.float32, False),
        (-1.0, 1.0, np.float32, False),
        (-20.0, 19.9, np.float64, False),
        (-20.0, 20.0, np.float64, True),
        (4.0, 5.0, np.float32, True),
        (-5.0, -4.0, np.float32, True),
    ],
)
def test_which_boxes_a_new_policy_hardly_meets(low, high, kind, far):
    """Without a warning of NumPy's, which would be an error here."""
    assert ActionReader(spaces.Box(low, high, (2,), kind)).is_far is far


@given(seeds, st.sampled_from(list(SPACES)), st.integers(1, 6))
def test_a_batch_is_its_rows_and_one_observation_a_batch_of_one(seed, name, count):
    space = SPACES[name]
    reader = ObservationReader(space)
    many = batch_space(space, count)
    many.seed(seed)
    observations = many.sample()
    rows = [{k: v[i] for k, v in observations.items()} if name == "dict" else observations[i] for i in range(count)]
    vectors, single = reader.batch(observations)
    assert not single
    assert vectors.dtype == np.float64
    np.testing.assert_array_equal(vectors, [reader.flatten(row) for row in rows])
    alone, single = reader.batch(rows[0])
    assert single
    np.testing.assert_array_equal(alone, vectors[:1])


def test_flat_vectors_by_hand():
    # Discrete(4, start=-1): -1, 0, 1, 2 are entries 0 to 3 of a one-hot vector.
    np.testing.assert_array_equal(ObservationReader(ROOM).flatten(1), [0, 0, 1, 0])
    np.testing.assert_array_equal(ObservationReader(GRID).flatten(np.arange(6).reshape(2, 3)), np.arange(6))
    # Gymnasium sorts the keys of a Dict made from a plain dictionary: arm 3, clock 1, grid 6, room 4 entries.
    reader = ObservationReader(HOUSE)
    house = {"room": 2, "arm": np.array([0.5, 1, 2], np.float32), "grid": np.full((2, 3), 7, np.uint8), "clock": -0.5}
    assert reader.size == 14
    parts = {"arm": [0.5, 1, 2], "clock": [-0.5], "grid": [7] * 6, "room": [0, 0, 0, 1]}
    np.testing.assert_array_equal(reader.flatten(house), np.concatenate([parts[key] for key in HOUSE.spaces]))


def test_raw_observations_have_the_dtype_and_shape_of_their_space():
    raw = ObservationReader(HOUSE).raw(np.zeros((5, 14)))
    found = {key: (part.shape, part.dtype.kind) for key, part in raw.items()}
    assert found == {"room": ((5,), "i"), "arm": ((5, 3), "f"), "grid": ((5, 2, 3), "u"), "clock": ((5,), "f")}
    assert raw["arm"].dtype == np.float32
    np.testing.assert_array_equal(raw["room"], [-1] * 5)


@pytest.mark.parametrize(
    ("space", "seen", "message"),
    [
        (GRID, np.full((2, 3), 0.37), "observation space says uint8, which cannot hold the 0.37 that entry 0 .* be 0;"),
        (GRID, np.full((2, 3), 256), "says uint8, which cannot hold the 256 .* would be 0"),
        (spaces.Box(-9, 9, (2,), np.int64), np.array([3.0, 1.9]), "says int64, .* the 1.9 that entry 1 of an .* be 1;"),
        (BOX, np.array([0.0, 1e300, 0.0]), r"says float32, which cannot hold the 1e\+300 .* would be inf"),
        (HOUSE, GOOD | {"clock": 0.5, "grid": np.full((2, 3), -1)}, "part 'grid' says uint8, .* the -1 that entry 0"),
    ],
)
def test_numbers_that_the_type_of_a_space_cannot_hold_are_refused(space, seen, message):
    """A policy reads what was observed and a margin what the space makes of it: bytes divided by 255 would all be 0."""
    reader = ObservationReader(space)
    fine = np.zeros((3, reader.size))
    fine[1] = reader.flatten(seen)
    with pytest.raises(mdc.InputError, match=message):
        reader.raw(fine)


@pytest.mark.parametrize(
    ("space", "seen"),
    [
        (BOX, np.array([0.1, 1 / 3, -1e-300])),
        (BOX, np.array([-1, 0, 2], np.int64)),
        (BOX, np.array([True, False, True])),
        (GRID, np.arange(250, 256).reshape(2, 3)),
        (GRID, np.full((2, 3), 7.0)),
        (spaces.Box(0, 2**40, (1,), np.int64), np.array([2**40])),
        (SCALAR, np.float32(0.1)),
    ],
)
def test_rounding_and_other_types_of_the_same_numbers_are_no_loss(space, seen):
    reader = ObservationReader(space)
    raw = reader.raw(np.array([reader.flatten(seen)], float))
    assert raw.dtype == space.dtype
    np.testing.assert_array_equal(raw[0], np.asarray(seen).astype(space.dtype))


def test_lists_are_read_as_batches():
    vectors, single = ObservationReader(ROOM).batch([2, -1])
    np.testing.assert_array_equal(vectors, [[0, 0, 0, 1], [1, 0, 0, 0]])
    assert not single
    vectors, single = ObservationReader(BOX).batch([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(vectors, [[1, 2, 3]])
    assert single


# --- actions ----------------------------------------------------------------------------------------------


def test_discrete_actions_count_from_the_start_of_their_space():
    reader = ActionReader(spaces.Discrete(3, start=5))
    assert reader.discrete
    assert reader.size == 3
    assert [reader.to_env(np.int64(k)) for k in range(3)] == [5, 6, 7]
    assert type(reader.to_env(np.int64(0))) is int
    np.testing.assert_array_equal(reader.raw(np.array([2, 0])), [7, 5])


def test_box_actions_are_clipped_into_the_box_and_take_its_shape():
    space = spaces.Box(np.array([[-1.0, 0.0]], np.float32), np.array([[1.0, 3.0]], np.float32))
    reader = ActionReader(space)
    assert not reader.discrete
    assert reader.size == 2
    action = reader.to_env(np.array([-4.0, 9.0], np.float32))
    np.testing.assert_array_equal(action, [[-1.0, 3.0]])
    assert action.dtype == np.float32
    assert space.contains(action)
    np.testing.assert_array_equal(reader.raw(np.array([[-4.0, 9.0], [0.5, -2.0]])), [[[-1, 3]], [[0.5, 0]]])


@given(seeds)
def test_raw_actions_are_what_the_environment_got(seed):
    reader = ActionReader(BOX)
    drawn = np.random.default_rng(seed).normal(scale=3, size=(7, 3)).astype(np.float32)
    np.testing.assert_array_equal(reader.raw(drawn), [reader.to_env(one) for one in drawn])


# --- errors -----------------------------------------------------------------------------------------------

ERRORS = {
    "vector of another length": (lambda: ObservationReader(BOX).flatten(np.zeros(4)), r"shape \(4,\).*\(3,\)"),
    "grid of another shape": (lambda: ObservationReader(GRID).flatten(np.zeros((3, 2))), r"\(3, 2\).*\(2, 3\)"),
    "batch with rows too long": (lambda: ObservationReader(BOX).batch(np.zeros((2, 4))), r"shape \(4,\)"),
    "room above": (lambda: ObservationReader(ROOM).flatten(3), "is 3, it must lie between -1 and 2"),
    "room below": (lambda: ObservationReader(ROOM).flatten(-2), "is -2, it must lie between -1 and 2"),
    "part of another shape": (
        lambda: ObservationReader(HOUSE).flatten(GOOD | {"arm": np.zeros(2)}),
        r"part 'arm' has shape \(2,\)",
    ),
    "part out of range": (lambda: ObservationReader(HOUSE).flatten(GOOD | {"room": 9}), "part 'room' is 9"),
    "missing key": (
        lambda: ObservationReader(HOUSE).flatten({"arm": np.zeros(3)}),
        r"is \['arm'\], its space has the keys \['arm', 'clock', 'grid', 'room'\]",
    ),
    "further key": (lambda: ObservationReader(HOUSE).flatten(GOOD | {"extra": 1}), "'extra'"),
    "no mapping": (lambda: ObservationReader(HOUSE).flatten(np.zeros(14)), "is ndarray, its space has the keys"),
    "tuple space": (lambda: ObservationReader(spaces.Tuple([BOX])), "observation space is a Tuple; .*FlattenObs"),
    "binary observations": (lambda: ObservationReader(spaces.MultiBinary(3)), "is a MultiBinary"),
    "dict in a dict": (
        lambda: ObservationReader(spaces.Dict({"inner": spaces.Dict({"arm": BOX})})),
        "part 'inner' is a Dict",
    ),
    "empty box": (lambda: ObservationReader(spaces.Box(0, 1, (0,))), "the observation space is empty"),
    "several discrete actions": (lambda: ActionReader(spaces.MultiDiscrete([2, 2])), "action space is a MultiDiscrete"),
    "empty actions": (lambda: ActionReader(spaces.Box(0, 1, (0,))), "the action space is empty"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_culprit(case):
    make, message = ERRORS[case]
    with pytest.raises(mdc.InputError, match=message):
        make()


WRONG_CALLS = {
    "missing key in a batch": (HOUSE, {"room": np.zeros(2, int)}),
    "parts of different lengths": (
        HOUSE,
        {key: np.zeros((2, *np.shape(GOOD[key])))[: 1 + (key == "arm")] for key in GOOD},
    ),
    "array for a dict": (HOUSE, np.zeros((2, 14))),
    "word for a room": (ROOM, "kitchen"),
    "not a number": (ROOM, None),
    "vector for a room": (ROOM, np.zeros((2, 2))),
    "scalar for a vector": (BOX, 1.0),
    "empty dict space": (spaces.Dict({}), {}),
}


@pytest.mark.parametrize("case", WRONG_CALLS)
def test_whatever_is_passed_to_predict_gives_an_input_error(case):
    space, observations = WRONG_CALLS[case]
    with pytest.raises(mdc.InputError):
        ObservationReader(space).batch(observations)
