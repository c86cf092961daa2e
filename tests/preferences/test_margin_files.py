"""A margin's folder holds the margin to the last bit, and never half of one."""

import dataclasses
import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitted_margins import MODELS, REPORT, STEP, members_file, random_margin
from mdcontest.errors import InputError
from mdcontest.files import atomic_write
from mdcontest.outcomes import Outcomes
from mdcontest.preferences import load_margin, margin_files
from mdcontest.preferences.inputs import Field

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
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
from fitted_margins import random_margin
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
