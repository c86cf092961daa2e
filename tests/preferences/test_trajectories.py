"""Trajectories on disk: every bit comes back, ids say what is in them, and damage is found and named."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from datasets import assert_same_trajectory, damages, trajectory
from mdcontest.errors import FileFormatError, InputError
from mdcontest.outcomes import Outcomes
from mdcontest.preferences import trajectory_parts
from mdcontest.preferences.trajectories import DTYPES, Trajectory, join
from mdcontest.preferences.trajectory_parts import read_infos, read_trajectories, write_part

shapes = st.lists(st.integers(1, 3), max_size=2).map(tuple)
kinds = st.tuples(st.sampled_from(DTYPES), shapes)
layouts = st.fixed_dictionaries(
    {
        "obs": st.one_of(
            kinds, st.dictionaries(st.text("ab.é", min_size=1, max_size=3), kinds, min_size=1, max_size=2)
        ),
        "action": st.one_of(st.none(), kinds),
        "reward": st.sampled_from([None, ("float64", ()), ("float32", ())]),
        "next_obs": st.booleans(),
        "info": st.dictionaries(st.text("xy", min_size=1, max_size=2), kinds, max_size=2),
    }
)


def bits(draw, kind, rows):
    """Arbitrary bits of a type: NaN of every kind, −0.0 and the largest numbers included."""
    dtype, shape = np.dtype(kind[0]), (rows, *kind[1])
    if dtype.kind == "b":
        return draw(hnp.arrays(bool, shape))
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype).reshape(shape)


@st.composite
def trajectories(draw):
    """A few trajectories of one layout."""
    layout = draw(layouts)

    def field(kind, rows):
        if isinstance(kind, dict):
            return {key: bits(draw, part, rows) for key, part in kind.items()}
        return None if kind is None else bits(draw, kind, rows)

    def rows_of(values, rows):
        return {key: part[rows] for key, part in values.items()} if isinstance(values, dict) else values[rows]

    found = []
    for _ in range(draw(st.integers(1, 3))):
        length = draw(st.integers(1, 4))
        obs = field(layout["obs"], length + 1)
        outcomes = Outcomes(
            rows_of(obs, slice(None, -1)),
            field(layout["action"], length),
            field(layout["reward"], length),
            rows_of(obs, slice(1, None)) if layout["next_obs"] else None,
            field(layout["info"], length),
        )
        about = draw(st.tuples(st.booleans(), st.one_of(st.none(), st.integers(0, 2**63 - 1)), st.text(max_size=4)))
        found.append(Trajectory(outcomes, *about, draw(st.integers(0, 2**63 - 1))))
    return found


@given(trajectories(), st.integers(1, 8))
def test_every_bit_comes_back(tmp_path_factory, given_, group_rows):
    folder = tmp_path_factory.mktemp("part")
    kept, trajectory_parts.GROUP_ROWS = trajectory_parts.GROUP_ROWS, group_rows
    try:
        path = write_part(folder, given_)
    finally:
        trajectory_parts.GROUP_ROWS = kept
    infos = read_infos(path)
    assert [info.id for info in infos] == [t.id for t in given_]
    for info, expected in zip(infos, given_, strict=True):
        assert (info.length, info.terminated, info.seed) == (len(expected), expected.terminated, expected.seed)
        assert_same_trajectory(read_trajectories(path, [info])[0], expected)
    for found, expected in zip(read_trajectories(path, infos), given_, strict=True):
        assert_same_trajectory(found, expected)


def test_the_id_says_everything_that_is_in_it():
    one = trajectory(0)
    z = one.outcomes
    changed = [
        dataclasses.replace(one, terminated=False),
        dataclasses.replace(one, seed=1),
        dataclasses.replace(one, seed=None),
        dataclasses.replace(one, source="other"),
        dataclasses.replace(one, steps=1),
        dataclasses.replace(one, outcomes=dataclasses.replace(z, reward=z.reward + 1)),
        dataclasses.replace(one, outcomes=dataclasses.replace(z, action=z.action.astype(np.int32))),
        dataclasses.replace(one, outcomes=dataclasses.replace(z, next_obs=None)),
        dataclasses.replace(one, outcomes=z[:-1]),
        dataclasses.replace(
            one, outcomes=dataclasses.replace(z, next_obs=np.concatenate([z.next_obs[:-1], z.next_obs[-1:] + 1]))
        ),
    ]
    assert len({t.id for t in changed} | {one.id}) == len(changed) + 1
    assert trajectory(0).id == one.id
    assert len(one.id) == 16


def test_what_is_no_trajectory():
    z = trajectory(0).outcomes
    broken = z.obs.copy()
    broken[3] += 1
    with pytest.raises(InputError, match="obs of step 3 is not what step 2 led to"):
        Trajectory(dataclasses.replace(z, obs=broken), True)
    with pytest.raises(InputError, match="action holds complex128"):
        Trajectory(dataclasses.replace(z, action=z.action + 0j), True)
    with pytest.raises(InputError, match=r"reward has shape \(4,\), the trajectory 5 steps"):
        Trajectory(dataclasses.replace(z, reward=z.reward[:-1]), True)
    with pytest.raises(InputError, match=r"info.x has shape \(5, 2, 0\): there is no number in it"):
        Trajectory(dataclasses.replace(z, info={"x": np.zeros((5, 2, 0))}), True)
    with pytest.raises(InputError, match="at least one step"):
        Trajectory(z[:0], True)
    with pytest.raises(InputError, match="next obs is float32"):
        Trajectory(dataclasses.replace(z, next_obs=z.next_obs.astype(np.float32)), True)
    with pytest.raises(InputError, match="seed must be"):
        Trajectory(z, True, seed=-1)


def test_trajectories_of_different_form_are_not_joined():
    with pytest.raises(InputError, match=r"obs is float64 of shape \(4,\), in the other trajectories it is .*\(3,\)"):
        join([trajectory(0), trajectory(1, size=4)])


def test_damaged_parts_are_named_or_read_as_they_were(tmp_path, count):
    """A checksum on every page, an id for every trajectory: no other number is ever read."""
    given_ = [trajectory(0), trajectory(1, terminated=False)]
    path = write_part(tmp_path, given_)
    content, refused = path.read_bytes(), 0
    rng = np.random.default_rng(0)
    for damaged in damages(content, rng, count(60, 600)):
        path.write_bytes(damaged)
        try:
            found = read_trajectories(path, read_infos(path))
        except FileFormatError as error:
            assert str(path) in str(error)
            refused += 1
        else:
            for one, expected in zip(found, given_, strict=True):
                assert_same_trajectory(one, expected)
    assert refused > count(60, 600)


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"a\.parquet is truncated"):
        read_infos(path)
    with pytest.raises(FileFormatError, match="no such file"):
        read_infos(tmp_path / "b.parquet")
