"""A margin's folder holds the margin to the last bit, or it says what is wrong with it; never half of one."""

import dataclasses
import errno
import hashlib
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from learned_margins import MODELS, STEP, random_margin
from mdcontest.errors import FileFormatError, InputError, VersionError
from mdcontest.files import atomic_write
from mdcontest.outcomes import Outcomes
from mdcontest.preferences import load_margin, margin_files
from mdcontest.preferences.inputs import Field

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
REPORT = {"accuracy": 0.75, "seed": 3, "note": "é", "accuracy_members": [None, 1 / 3]}
CATEGORIES = (Field("obs", 1, (0.0, 1.0, 2.0)), Field("action", 2))


def same_margin(one, other):
    """Whether two margins are the same to the last bit, and so is all that is said of them."""
    assert type(one) is type(other)
    assert one.ensemble.record() == other.ensemble.record()
    assert one.report == other.report
    for ours, theirs in zip(one.ensemble.members, other.ensemble.members, strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            assert (value.tobytes(), value.dtype) == (theirs[name].tobytes(), theirs[name].dtype)
    return one.digest == other.digest


@pytest.fixture
def saved(tmp_path):
    """A margin and the folder it was saved to."""
    margin = random_margin("skew", report=REPORT)
    margin.save(tmp_path / "margin")
    return margin, tmp_path / "margin"


def members_file(folder):
    (file,) = folder.glob("members-*.safetensors")
    return file


def change(folder, **fields):
    """margin.json with other fields; None takes one away."""
    record = json.loads((folder / "margin.json").read_text()) | fields
    (folder / "margin.json").write_text(
        json.dumps({name: value for name, value in record.items() if value is not None})
    )


# --- what was saved is what is loaded ---------------------------------------------------------------------


@given(st.sampled_from(MODELS), st.integers(0, 10**6), st.integers(1, 3), st.booleans())
def test_bit_for_bit(tmp_path_factory, model, seed, members, ended):
    folder = tmp_path_factory.mktemp("margin")
    margin = random_margin(model, seed, members, ended, report=REPORT)
    margin.save(folder)
    loaded = load_margin(folder)
    assert same_margin(margin, loaded)
    z, w = np.random.default_rng(seed).normal(size=(2, 5, 3))
    np.testing.assert_array_equal(margin.matrix(z, w), loaded.matrix(z, w))
    np.testing.assert_array_equal(margin.over_ended(z), loaded.over_ended(z))


def test_fields_and_categories(tmp_path):
    margin = random_margin("reward", fields=CATEGORIES)
    margin.save(tmp_path)
    loaded = load_margin(str(tmp_path))
    assert same_margin(margin, loaded)
    z = Outcomes(np.array([0, 2, 1]), np.ones((3, 2)))
    np.testing.assert_array_equal(margin.learned_reward(z), loaded.learned_reward(z))


def test_the_digest_tells_margins_apart():
    """By everything that decides a margin, and by nothing else."""
    models = [random_margin(model, fields=fields) for model in MODELS for fields in (STEP, CATEGORIES)]
    variants = [random_margin("skew"), random_margin("skew", seed=1), random_margin("skew", ended=False)]
    digests = [margin.digest for margin in (*models, *variants)]
    assert len(set(digests)) == len(digests)
    assert random_margin("skew", report=REPORT).digest == random_margin("skew").digest
    assert all(len(digest) == 16 for digest in digests)


def test_whole_numbers_among_the_settings_keep_the_digest(tmp_path):
    plain = random_margin("skew")
    margin = type(plain)(dataclasses.replace(plain.ensemble, noise=0), {})
    margin.save(tmp_path)
    assert load_margin(tmp_path).digest == margin.digest


def test_another_margin_in_the_same_folder(saved):
    _, folder = saved
    other = random_margin("general", 5)
    other.save(folder)
    assert same_margin(load_margin(folder), other)
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "margin.json", members_file(folder).name]
    other.save(folder)
    assert same_margin(load_margin(folder), other)


# --- damage -----------------------------------------------------------------------------------------------


def test_flipped_bits_of_the_description(saved, count):
    """Every flip is noticed, or changes nothing but what was measured when it was fitted."""
    margin, folder = saved
    file = folder / "margin.json"
    content, rng = file.read_bytes(), np.random.default_rng(0)
    report = content.index(b'"report"')
    refused = 0
    for at in rng.choice(len(content), count(300, len(content)), replace=False):
        damaged = bytearray(content)
        damaged[at] ^= 1 << int(rng.integers(8))
        file.write_bytes(bytes(damaged))
        try:
            loaded = load_margin(folder)
        except FileFormatError as error:
            assert str(folder) in str(error)
            refused += 1
        else:
            assert loaded.ensemble.record() == margin.ensemble.record()
            assert at > report or damaged[at : at + 1].isspace() or content[at : at + 1].isspace()
    assert refused > 100


def test_flipped_bits_and_cuts_of_the_parameters(saved, count):
    _, folder = saved
    file, rng = members_file(folder), np.random.default_rng(0)
    content = file.read_bytes()
    for at in rng.choice(len(content), count(20, 300)):
        damaged = bytearray(content)
        damaged[at] ^= 1 << int(rng.integers(8))
        for wrong in (bytes(damaged), content[:at]):
            file.write_bytes(wrong)
            with pytest.raises(FileFormatError, match="its checksum is not the one in its name; fit the margin again"):
                load_margin(folder)


def test_cut_descriptions(saved):
    _, folder = saved
    content = (folder / "margin.json").read_bytes()
    for length in np.linspace(0, len(content) - 3, 15).astype(int):
        (folder / "margin.json").write_bytes(content[:length])
        with pytest.raises(FileFormatError, match=r"margin\.json"):
            load_margin(folder)


def test_missing_parts(saved):
    _, folder = saved
    members_file(folder).unlink()
    with pytest.raises(FileFormatError, match=r"members-.* is missing, or no file; fit the margin again"):
        load_margin(folder)
    (folder / "margin.json").unlink()
    for where in (folder, folder / "nowhere", folder / ("x" * 300), "nul\0l"):
        with pytest.raises(InputError, match="there is no learned margin in"):
            load_margin(where)
    with pytest.raises(InputError, match="folder must be a path, got None"):
        load_margin(None)


def test_other_formats_and_versions(saved):
    _, folder = saved
    change(folder, version=2)
    with pytest.raises(VersionError, match="has version 2, this program reads version 1"):
        load_margin(folder)
    change(folder, version=1, format="mdcontest/run")
    with pytest.raises(FileFormatError, match="is a 'mdcontest/run' file, expected 'mdcontest/margin'"):
        load_margin(folder)


def test_huge_files_are_not_read(saved):
    _, folder = saved
    with open(members_file(folder), "r+b") as file:
        file.truncate(1 << 40)  # sparse: it takes no room
    with pytest.raises(FileFormatError, match="has 1099511627776 bytes, over the limit"):
        load_margin(folder)
    with open(folder / "margin.json", "r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileFormatError, match="over the limit"):
        load_margin(folder)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "members.safetensors", "", 3, None, ["members"], "a/../b"])
def test_parameters_are_never_read_from_elsewhere(saved, name):
    _, folder = saved
    change(folder, members=name)
    with pytest.raises(FileFormatError, match="names no file of parameters"):
        load_margin(folder)


WRONG = {
    "model": ["cyclic", None, "reward", 3],
    "scales": [[], [1.0], [1.0, 2.0, 3.0], "ab", [[1.0], [2.0]], {"0": 1}, [10**400, 1], None, [1.0, "x"]],
    "noise": [1.0, -0.1, "low", None],
    "knows_ended": ["yes", 1, None],
    "report": [[], "good", None],
    "fields": [[], None, [{"name": "features"}], [{"name": "features", "size": 4, "categories": None}], "abc"],
    "inputs": [{}, None, {"mean": [0.0] * 3, "deviation": [0.0] * 3, "low": [0.0] * 3, "high": [0.0] * 3}],
    "digest": ["0" * 16, None, 7],
}


@pytest.mark.parametrize("field", WRONG)
def test_fields_that_cannot_be(saved, field):
    _, folder = saved
    content = (folder / "margin.json").read_bytes()
    for value in WRONG[field]:
        (folder / "margin.json").write_bytes(content)
        change(folder, **{field: value})
        with pytest.raises(FileFormatError, match="was changed or damaged"):
            load_margin(folder)


def forged(folder, change_arrays):
    """Other parameters under a checksum that fits."""
    file = members_file(folder)
    arrays = dict(safetensors.numpy.load(file.read_bytes()))
    change_arrays(arrays)
    content = safetensors.numpy.save(arrays)
    name = f"members-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    (folder / name).write_bytes(content)
    change(folder, members=name)


@pytest.mark.parametrize(
    "change_arrays",
    [
        lambda a: a.pop("0.W"),
        lambda a: a.update({"0.w9": np.zeros((1, 1), np.float32)}),
        lambda a: a.update({"2.w0": np.zeros((3, 8), np.float32)}),
        lambda a: a.update({"0.w0": np.zeros((4, 8), np.float32)}),
        lambda a: a.update({"0.w0": np.zeros((3, 8))}),
        lambda a: a.update({"0.b0": np.full(8, np.nan, np.float32)}),
        lambda a: a.update({"0.W": np.zeros((10**12, 0), np.float32)}),
        lambda a: a.update({"0.W": np.zeros((), np.float32)}),
        lambda a: a.update({"1.ended": np.ones(5, np.float32)}),
        lambda a: a.clear(),
    ],
)
def test_parameters_that_do_not_fit(saved, change_arrays):
    _, folder = saved
    forged(folder, change_arrays)
    with pytest.raises(FileFormatError, match="was changed or damaged"):
        load_margin(folder)


# --- interrupted saves ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [0, 1])
def test_a_full_disk_leaves_the_old_margin(saved, monkeypatch, fails):
    """Whether there is no room for the parameters or for their description."""
    margin, folder = saved
    writes = iter([index == fails for index in range(2)])

    def full(handle):
        if next(writes):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("mdcontest.files.os.fsync", full)
        patch.setattr("mdcontest.files.sync_folder", lambda folder: None)
        with pytest.raises(InputError, match="No space left on device; what was there is unchanged"):
            random_margin("reward", 9).save(folder)
    assert same_margin(load_margin(folder), margin)
    assert not list(folder.glob("*.tmp"))
    random_margin("reward", 9).save(folder)
    assert len(list(folder.iterdir())) == 3, "what an interrupted save left is gone after the next"


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from learned_margins import random_margin
from mdcontest import files
left = iter(range({calls}))
real = os.replace
def killed(*arguments):
    if next(left, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)
os.replace = killed
random_margin("general", 7).save({folder!r})
"""


@pytest.mark.parametrize("calls", [0, 1] if FULL else [1])
def test_killed_while_saving(saved, calls):
    """Before the parameters have their name, and before the description has its own."""
    margin, folder = saved
    code = KILLED.format(tests=os.path.dirname(os.path.dirname(__file__)), folder=str(folder), calls=calls)
    done = subprocess.run([sys.executable, "-c", code], timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert same_margin(load_margin(folder), margin)


def test_saving_where_one_cannot(tmp_path):
    (tmp_path / "file").write_text("")
    for where in (tmp_path / "file", tmp_path / "file" / "below", "nul\0l"):
        with pytest.raises(InputError, match="cannot make the folder"):
            random_margin("skew").save(where)


def test_numbers_that_are_not_finite_are_not_written(saved):
    _, folder = saved
    before = load_margin(folder)
    broken = random_margin("skew", 4, report={"accuracy": float("nan")})
    with pytest.raises(InputError, match="not finite"):
        broken.save(folder)
    assert same_margin(load_margin(folder), before)


def test_a_reader_never_sees_half_a_margin(saved, monkeypatch):
    """At every moment of a save the folder holds the old margin or the new."""
    old, folder = saved
    new, seen = random_margin("reward", 8), []

    def watched(path):
        seen.append(load_margin(folder).digest)
        return atomic_write(path)

    monkeypatch.setattr(margin_files, "atomic_write", watched)
    monkeypatch.setattr("mdcontest.files.atomic_write", watched)
    new.save(folder)
    seen.append(load_margin(folder).digest)
    assert seen == [old.digest, old.digest, new.digest]
