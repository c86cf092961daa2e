"""Damaged and hostile files: cut, flipped, huge, lying or swelling, they end in a clear error."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from random_contests import random_contest


def loads_or_errs(path):
    """Reading must either work or raise InputError: anything else (a crash, NaN inside) fails the test."""
    try:
        contest = mdc.load_contest(path)
    except mdc.InputError as error:
        assert str(path) in str(error)
        return None
    assert np.isfinite(contest.start).all()
    return contest


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_truncated_anywhere(tmp_path, contest, ending, count):
    path = tmp_path / f"contest.{ending}"
    contest.save(path)
    whole = path.read_bytes()
    for length in np.linspace(0, len(whole) - 2, count(60, len(whole) - 1)).astype(int):
        path.write_bytes(whole[:length])
        with pytest.raises(mdc.FileFormatError, match=r"truncated|JSON|format"):
            mdc.load_contest(path)


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_corrupted_anywhere(tmp_path, contest, ending, count):
    """Every byte flipped in turn (a sample of them in the reduced counts): an error or a valid contest."""
    path = tmp_path / f"contest.{ending}"
    contest.save(path)
    whole, refused = bytearray(path.read_bytes()), 0
    for position in np.linspace(0, len(whole) - 1, count(150, len(whole))).astype(int):
        damaged = whole.copy()
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        refused += loads_or_errs(path) is None
    assert refused > 0


@given(st.binary(max_size=300), st.booleans())
def test_random_bytes(tmp_path_factory, content, as_zip):
    path = tmp_path_factory.mktemp("junk") / "contest.npz"
    path.write_bytes(b"PK\x03\x04" * as_zip + content)
    with pytest.raises(mdc.FileFormatError):
        mdc.load_contest(path)


def npz_members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_npz(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def npy(array, **save):
    buffer = io.BytesIO()
    np.save(buffer, array, **save)
    return buffer.getvalue()


def header_only(shape):
    """An .npy header that declares a shape without the data."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


HOSTILE = {
    "huge declared shape": (lambda m: m | {"start.npy": header_only((10**15,))}, "declares shape"),
    "objects": (
        lambda m: m | {"start.npy": npy(np.array([{"a": 1}], dtype=object), allow_pickle=True)},
        "only numbers are read",
    ),
    "missing array": (lambda m: {k: v for k, v in m.items() if k != "start.npy"}, "'start' is missing"),
    "no record": (lambda m: {k: v for k, v in m.items() if k != "record.npy"}, "no member 'record'"),
    "no npy": (lambda m: m | {"start.npy": b"hello"}, "no valid header"),
    "text array": (lambda m: m | {"start.npy": npy(np.array(["a", "b"]))}, "only numbers are read"),
    "NaN array": (lambda m: m | {"start.npy": npy(np.full(4, np.nan))}, "start has a negative, NaN"),
    "complex": (lambda m: m | {"start.npy": npy(np.full(4, 1j))}, "only numbers are read"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_npz(tmp_path, contest, case):
    path = tmp_path / "contest.npz"
    contest.save(path)
    change, message = HOSTILE[case]
    write_npz(path, change(npz_members(path)))
    with pytest.raises(mdc.InputError, match=message):
        mdc.load_contest(path)


def test_unsigned_indptr_that_runs_backwards(tmp_path):
    """Differences of unsigned numbers wrap around; read as they are they crash the sparse code."""
    path = tmp_path / "contest.npz"
    random_contest(5, states=2, actions=1, shape="garnet", margin="reward").save(path)
    members = npz_members(path)
    for bad in ([0, 200, 2], [0, 10**9, 2]):
        write_npz(path, members | {"transitions.indptr.npy": npy(np.array(bad, np.uint64))})
        with pytest.raises(mdc.FileFormatError, match="indptr must"):
            mdc.load_contest(path)


def test_other_compressions_are_not_read(tmp_path, contest):
    path = tmp_path / "contest.npz"
    contest.save(path)
    members = npz_members(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(mdc.FileFormatError, match="packed in a way"):
        mdc.load_contest(path)


def test_zip_bomb(tmp_path, contest):
    """1.2 GB of zeros in 1.2 MB: refused from the sizes the archive declares, before anything is unpacked."""
    path = tmp_path / "contest.npz"
    contest.save(path)
    members = npz_members(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        with archive.open("bomb.npy", "w", force_zip64=True) as member:
            block = bytes(1 << 24)
            for _ in range(72):
                member.write(block)
    assert path.stat().st_size < 10_000_000
    with pytest.raises(mdc.FileFormatError, match=r"unpacks to 12.*over the limit of 1073741824"):
        mdc.load_contest(path)


def test_an_archive_that_lies_about_its_sizes(tmp_path, contest):
    """The declared size of a member is patched to be small; the reader must not unpack more than that."""
    path = tmp_path / "contest.npz"
    contest.save(path)
    content = bytearray(path.read_bytes())
    info = zipfile.ZipFile(io.BytesIO(content)).getinfo("start.npy")
    needle = int(info.file_size).to_bytes(4, "little")
    position = content.rindex(needle)
    content[position : position + 4] = (10).to_bytes(4, "little")
    path.write_bytes(content)
    assert loads_or_errs(path) is None


def test_files_over_the_limit_are_refused(tmp_path, contest):
    for ending in ("json", "npz"):
        path = tmp_path / f"contest.{ending}"
        contest.save(path)
        with pytest.raises(mdc.FileFormatError, match="over the limit of 100"):
            mdc.load_contest(path, max_bytes=100)
