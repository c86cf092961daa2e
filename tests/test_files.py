"""Files: exact round trips, and writing that never harms what was there."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from mdcontest.errors import InputError
from mdcontest.files import atomic_write, read_record, write_record
from random_contests import MARGINS, SHAPES, random_contest
from strategies import contests, seeds


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


def test_a_link_stays_one_and_its_target_is_written(tmp_path, contest):
    """Also if the target is not there yet; a link that leads round in a circle leads nowhere."""
    (tmp_path / "kept").mkdir()
    for there in (True, False):
        target, link = tmp_path / "kept" / f"{there}.json", tmp_path / f"{there}.json"
        if there:
            target.write_text("old")
        link.symlink_to(target)
        contest.save(link)
        assert link.is_symlink()
        assert mdc.load_contest(target).num_pairs == contest.num_pairs
        assert [path.name for path in (tmp_path / "kept").glob(".*")] == []
    circle = tmp_path / "circle.json"
    circle.symlink_to(circle)
    with pytest.raises(mdc.InputError, match=r"cannot write .*circle\.json"):
        contest.save(circle)
    assert circle.is_symlink()


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InputError, match="a device or a pipe"):
        write_record(tmp_path / "pipe.json", "mdcontest/test", {})
    assert (tmp_path / "pipe.json").is_fifo()


@pytest.mark.parametrize("ending", ["json", "npz"])
@pytest.mark.parametrize(
    ("value", "message"),
    [({1, 2}, "a set cannot be written"), (b"x", "a bytes cannot be written"), (np.inf, "a number that is not finite")],
)
def test_what_no_file_can_hold_is_told_apart(value, message, ending, tmp_path):
    with pytest.raises(InputError, match=message):
        write_record(tmp_path / f"record.{ending}", "some/format", {"inner": {"value": value}})
    assert not list(tmp_path.iterdir())


def test_names_with_dots_do_not_collide(tmp_path):
    record = {"a": {"b": np.arange(3.0)}, "a.b": np.zeros(2), "record": np.ones(4)}
    write_record(tmp_path / "r.npz", "some/format", record)
    found = read_record(tmp_path / "r.npz", "some/format", max_bytes=1 << 20)
    for key in ("a.b", "record"):
        np.testing.assert_array_equal(found[key], record[key])
    np.testing.assert_array_equal(found["a"]["b"], record["a"]["b"])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array(["x"]), "an array of <U1 values; files hold arrays of numbers only"),
        (np.array([None]), "an array of object values"),
        ({"array": "rule"}, "has 'array' as its only key, which in an npz file is an array; rename it"),
    ],
)
def test_what_an_npz_file_would_not_give_back_is_refused(tmp_path, value, message):
    with pytest.raises(InputError, match=message):
        write_record(tmp_path / "r.npz", "some/format", {"inner": value})
    assert not list(tmp_path.iterdir())
