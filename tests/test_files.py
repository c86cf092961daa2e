"""Files: exact round trips, and hostile or broken input that ends in a clear error and never harms a file."""

import io
import json
import os
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest.errors import InputError
from mdcontest.files import atomic_write, write_record
from random_contests import MARGINS, SHAPES, random_contest
from strategies import contests, seeds


@pytest.fixture
def contest():
    return mdc.examples.make("marriage")


@pytest.mark.parametrize("ending", ["json", "npz"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("margin", MARGINS)
def test_contests_round_trip_to_the_last_bit(tmp_path, ending, shape, margin):
    contest = random_contest(7, shape=shape, margin=margin)
    path = tmp_path / f"contest.{ending}"
    contest.save(path)
    again = mdc.load_contest(path)
    assert again.to_json() == contest.to_json()
    np.testing.assert_array_equal(again.margin.matrix(), contest.margin.matrix())
    rule = np.full((contest.num_states, contest.num_actions), 1 / contest.num_actions)
    np.testing.assert_array_equal(mdc.occupancy(again, rule), mdc.occupancy(contest, rule))


@given(contests(max_states=5), st.sampled_from(["json", "npz"]))
def test_solutions_round_trip(tmp_path_factory, contest, ending):
    solution = mdc.solve(contest, mdc.solvers.HPI(20), tol=0)
    path = tmp_path_factory.mktemp("solutions") / f"solution.{ending}"
    solution.save(path)
    again = mdc.load_solution(path)
    for name in ("rule", "occupancy"):
        np.testing.assert_array_equal(getattr(again, name), getattr(solution, name))
    assert (again.gap, again.status, again.solver, again.info) == (
        solution.gap,
        solution.status,
        solution.solver,
        solution.info,
    )
    assert list(again.history) == list(solution.history)
    assert mdc.verify(contest, again)


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_derived_contests_keep_their_map_back(tmp_path, ending):
    contest = mdc.examples.make("finite-horizon")
    contest.save(tmp_path / f"c.{ending}")
    again = mdc.load_contest(tmp_path / f"c.{ending}")
    assert again.original_policy(mdc.solve(again).rule).shape == (6, 5, 3)
    assert again.state_names == contest.state_names


# --- broken and hostile files -----------------------------------------------------------------------------


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


def changed(contest, **fields):
    return json.loads(contest.to_json()) | fields


BROKEN = {
    "not an object": (lambda c: [1, 2], "no field 'format'"),
    "another format": (lambda c: changed(c, format="mdcontest/solution"), "expected 'mdcontest/contest'"),
    "a later version": (lambda c: changed(c, version=2), "has version 2, this program reads version 1"),
    "no version": (lambda c: {k: v for k, v in changed(c).items() if k != "version"}, "has version None"),
    "no margin": (lambda c: {k: v for k, v in changed(c).items() if k != "margin"}, "'margin' is missing"),
    "unknown field": (lambda c: changed(c, margn=1), "unknown field 'margn'"),
    "unknown margin": (lambda c: changed(c, margin={"kind": "magic"}), "unknown margin 'magic'"),
    "margin is a list": (lambda c: changed(c, margin=[1]), "unknown margin"),
    "margin field": (lambda c: changed(c, margin={"kind": "dense", "N": [[0]]}), "no field 'N'"),
    "margin incomplete": (lambda c: changed(c, margin={"kind": "low_rank", "J": [[0]]}), "incomplete"),
    "states a fraction": (lambda c: changed(c, states=4.5), "states must be a whole number"),
    "states a truth": (lambda c: changed(c, states=True), "states must be a whole number"),
    "other states": (lambda c: changed(c, states=5), "declares 5 states"),
    "names a text": (lambda c: changed(c, state_names="abcd"), "state_names must be a list"),
    "too few names": (lambda c: changed(c, state_names=["a"]), "1 state names for 4 states"),
    "horizon a fraction": (lambda c: changed(c, horizon=2.0), "horizon must be a whole number"),
    "horizon that does not fit": (lambda c: changed(c, horizon=3), "layers of equal size"),
    "transitions a list": (lambda c: changed(c, transitions=[1]), "transitions must be an object"),
    "transitions empty": (lambda c: changed(c, transitions={}), "transitions must have the field 'dense', or 'data'"),
    "misspelt restart": (
        lambda c: changed(c, transitions=changed(c)["transitions"] | {"restarts": [0.1] * 12}),
        "may have 'restart'; these have 'dense', 'restarts'",
    ),
    "transitions in both forms": (
        lambda c: changed(c, transitions=changed(c)["transitions"] | {"data": [1.0], "indices": [0], "indptr": [0]}),
        "these have 'data', 'dense', 'indices', 'indptr'",
    ),
    "name nothing": (lambda c: changed(c, name=None), "name must be a text, got None"),
    "name a list": (lambda c: changed(c, name=["a"]), "name must be a text"),
    "start wrong": (lambda c: changed(c, start=[1, 1, 0, 0]), "start sums to 2"),
    "start words": (lambda c: changed(c, start=["a", "b", "c", "d"]), "array of numbers"),
    "ragged": (lambda c: changed(c, transitions={"dense": [[[1], [1, 2]]]}), "array of numbers"),
    "huge states, sparse": (
        lambda c: changed(c, states=10**12, transitions={"data": [1.0], "indices": [0], "indptr": [0, 1]}),
        "indptr must have",
    ),
    "indptr that wraps around": (
        lambda c: changed(
            c,
            states=1,
            actions=3,
            transitions={"data": [1, 1, 1], "indices": [0, 0, 0], "indptr": [0, 2**63 - 1, -2, 3]},
        ),
        "indptr must lie between 0 and 3",
    ),
    "version a truth": (lambda c: changed(c, version=True), "has version True"),
    "format a list": (lambda c: changed(c, format=[1]), r"is a \[1\] file"),
    "index out of range": (
        lambda c: changed(c, states=1, actions=1, transitions={"data": [1.0], "indices": [7], "indptr": [0, 1]}),
        "do not describe a sparse matrix",
    ),
    "index a fraction": (
        lambda c: changed(c, states=1, actions=1, transitions={"data": [1.0], "indices": [0.5], "indptr": [0, 1]}),
        "whole numbers",
    ),
    "words for data": (
        lambda c: changed(c, states=1, actions=1, transitions={"data": ["a"], "indices": [0], "indptr": [0, 1]}),
        "data must be an array of numbers",
    ),
    "ragged indptr": (
        lambda c: changed(c, states=1, actions=1, transitions={"data": [1], "indices": [0], "indptr": [0, [1]]}),
        "wrong type",
    ),
    "two-dimensional data": (
        lambda c: changed(c, states=1, actions=1, transitions={"data": [[1.0]], "indices": [0], "indptr": [0, 1]}),
        "do not describe",
    ),
    "an integer beyond float": (lambda c: changed(c, start=[10**400, 0, 0, 0]), "array of numbers"),
    "deeply nested": (lambda c: "[" * 100_000, "truncated or not JSON"),
    "NaN": (lambda c: c.to_json().replace("0.8", "NaN"), "number NaN"),
    "infinite": (lambda c: c.to_json().replace("0.8", "-Infinity"), "number -Infinity"),
    "a very long number": (lambda c: c.to_json().replace("0.8", "1" * 5000), "not JSON"),
    "empty": (lambda c: "", "not JSON"),
    "binary": (lambda c: b"\xff\xfe\x00", "neither JSON nor npz"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_json(tmp_path, contest, case):
    make, message = BROKEN[case]
    content = make(contest)
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path = tmp_path / "contest.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(mdc.InputError, match=message) as caught:
        mdc.load_contest(path)
    assert str(path) in str(caught.value)


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


def test_a_byte_order_mark_is_no_obstacle(tmp_path, contest):
    path = tmp_path / "contest.json"
    path.write_text(contest.to_json().replace("\n", "\r\n"), encoding="utf-8-sig")
    assert mdc.load_contest(path).to_json() == contest.to_json()


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


def test_solutions_are_read_with_the_same_care(tmp_path, contest):
    solution = mdc.solve(contest)
    path = tmp_path / "solution.json"
    solution.save(path)
    record = json.loads(path.read_text())
    for change, message in (
        ({"rule": [1, 2]}, "2 dimensions"),
        ({"status": "splendid"}, "wrong type"),
        ({"certificate": None}, "certificate must be an object, got None"),
        ({"gap": "small"}, "wrong type"),
        ({"gap": "0"}, "'0' is no number"),
        ({"why": None}, "None is no text"),
        ({"proof": 1}, "unknown field 'proof'"),
        ({"gap": 10**400}, "wrong type"),
        ({"version": 9}, "version 9"),
    ):
        path.write_text(json.dumps(record | change))
        with pytest.raises(mdc.FileFormatError, match=message):
            mdc.load_solution(path)
    del record["rule"]
    path.write_text(json.dumps(record))
    with pytest.raises(mdc.FileFormatError, match="'rule' is missing"):
        mdc.load_solution(path)


# --- writing ----------------------------------------------------------------------------------------------


def test_bad_targets(tmp_path, contest):
    with pytest.raises(mdc.InputError, match="folder"):
        contest.save(tmp_path)
    (tmp_path / "d.json").mkdir()
    with pytest.raises(mdc.InputError, match="is a folder"):
        contest.save(tmp_path / "d.json")
    with pytest.raises(mdc.InputError, match=r"ending must be \.json or \.npz"):
        contest.save(tmp_path / "contest.pkl")
    with pytest.raises(mdc.InputError, match="cannot write"):
        contest.save(tmp_path / "missing" / "contest.json")
    with pytest.raises(mdc.FileFormatError, match="is a folder"):
        mdc.load_contest(tmp_path)
    with pytest.raises(mdc.FileFormatError, match="No such file"):
        mdc.load_contest(tmp_path / "nothing.json")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "kept.json"
    path.write_text("old")
    with pytest.raises(mdc.InputError, match="unchanged"), atomic_write(path) as file:
        file.write(b"new")
        raise OSError(28, "No space left on device")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["kept.json"]


def test_disk_full(tmp_path):
    """A real limit on file size: the write fails, the old file stays, no temporary file is left."""
    path = tmp_path / "contest.npz"
    mdc.examples.make("marriage").save(path)
    before = path.read_bytes()
    script = f"""
import resource, signal, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import mdcontest as mdc
from random_contests import random_contest
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
big = random_contest(1, states=60, actions=4, shape="dense", margin="dense")
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
try:
    big.save({str(path)!r})
except mdc.InputError as error:
    print("refused:", error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "File too large; what was there is unchanged" in done.stdout
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["contest.npz"]


def test_killed_while_writing(tmp_path, count):
    """SIGKILL in the middle of saving again and again: what is on disk is always a whole file."""
    path = tmp_path / "contest.npz"
    script = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from random_contests import random_contest
contests = [random_contest(seed, states=20, actions=3, shape="dense", margin="dense") for seed in range(3)]
print("ready", flush=True)
while True:
    for contest in contests:
        contest.save({str(path)!r})
"""
    wanted = {random_contest(seed, states=20, actions=3, shape="dense", margin="dense").to_json() for seed in range(3)}
    for attempt in range(count(4, 40)):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        while not path.exists():
            pass
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.01 + 0.013 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert mdc.load_contest(path).to_json() in wanted


def test_modes_follow_the_umask_and_the_old_file(tmp_path, contest):
    path = tmp_path / "contest.json"
    before = os.umask(0o027)
    try:
        contest.save(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    os.chmod(path, 0o604)
    contest.save(path)
    assert path.stat().st_mode & 0o777 == 0o604


def test_a_python_function_is_stored_as_its_matrix(tmp_path):
    contest = random_contest(5, states=4, actions=2, shape="dense", margin="function")
    contest.save(tmp_path / "c.json")
    record = json.loads((tmp_path / "c.json").read_text())
    assert record["margin"]["kind"] == "dense"


def test_a_python_function_over_too_many_pairs_is_not_stored(tmp_path, monkeypatch):
    monkeypatch.setattr("mdcontest.margins.records.MAX_TABULATED_PAIRS", 5)
    with pytest.raises(mdc.SizeError, match="8 pairs are over the limit of 5"):
        random_contest(5, states=4, actions=2, shape="dense", margin="function").save(tmp_path / "c.json")
    assert not os.listdir(tmp_path)


@given(seeds)
def test_no_file_holds_what_cannot_be_read(tmp_path_factory, seed):
    """Whatever can be built can be written and read."""
    contest = random_contest(seed)
    path = tmp_path_factory.mktemp("any") / "c.npz"
    contest.save(path)
    assert mdc.load_contest(path).to_json() == contest.to_json()


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InputError, match="a device or a pipe"):
        write_record(tmp_path / "pipe.json", "mdcontest/test", {})
    assert (tmp_path / "pipe.json").is_fifo()
