"""Bad input of the commands for finite contests: exit code 2, one clear line, and no file harmed."""

import io
import json
import os
import zipfile

import numpy as np
import pytest

import mdcontest as mdc
from mdcontest.cli import main
from sweeps import one_clear_line


def record_of(**changes):
    return json.loads(mdc.examples.make("marriage").to_json()) | changes


def with_transition(value):
    record = record_of()
    record["transitions"]["dense"][2][1][0] = value
    return record


def skew_but_for_one():
    M = np.triu(np.ones((12, 12)), 1)
    M -= M.T
    M[5, 9] += 0.25
    return M.tolist()


two_rooms = {
    "format": "mdcontest/contest",
    "version": 1,
    "states": 2,
    "actions": 2,
    "start": [0.5, 0.5],
    "state_names": ["attic", "cellar"],
    "transitions": {"dense": [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]},
    "margin": {"kind": "reward_difference", "reward": [0, 1, 2, 3]},
}
BAD_INPUT = {
    "wrong shape": (record_of(transitions={"dense": [[1.0]]}), "shape (S, A, S)"),
    "row sum": (with_transition(0.5), "(s=2, a=1) sums to"),
    "negative": (with_transition(-0.1), "negative"),
    "not skew": (
        record_of(margin={"kind": "dense", "M": skew_but_for_one()}),
        "M[(1,2),(3,0)] + M[(3,0),(1,2)] = 0.25",
    ),
    "no states": (record_of(states=0, transitions={"dense": []}, start=[]), "(S, A, S)"),
    "no actions": (record_of(actions=0, transitions={"dense": [[], [], [], []]}), "(S, A, S)"),
    "start": (record_of(start=[1, 1, 0, 0]), "start sums to 2"),
    "not unichain": (two_rooms, "not unichain: one can stay for ever in the states [attic] and in [cellar]"),
    "wrong version": (record_of(version=99), "version 99"),
    "truncated": (json.dumps(record_of())[:500], "truncated"),
    "NaN": (json.dumps(record_of()).replace("0.8", "NaN"), "NaN"),
    "infinite": (json.dumps(record_of()).replace("0.8", "Infinity"), "Infinity"),
    "empty file": ("", "not JSON"),
}


@pytest.mark.parametrize("command", ["solve", "check"])
@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_two_with_one_clear_line(run, tmp_path, command, case):
    content, message = BAD_INPUT[case]
    path = tmp_path / "contest.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    code, _, err = run(command, path)
    assert code == 2
    assert err.startswith("mdcontest: error: ")
    assert len(err.splitlines()) == 1
    if command == "solve":
        assert message in err


def hostile_npz(path, kind):
    """A valid contest's archive with one thing wrong."""
    mdc.examples.make("corridor").save(path)
    content = path.read_bytes()
    if kind == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "corrupt":
        path.write_bytes(content[:200] + b"\x00\xff" * 50 + content[300:])
    elif kind == "huge shape":
        header = io.BytesIO()
        shape = {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
        np.lib.format.write_array_header_1_0(header, shape)
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()} | {"start.npy": header.getvalue()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, member in members.items():
                archive.writestr(name, member)
    else:
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("bomb.npy", bytes(1 << 26))


@pytest.mark.parametrize("kind", ["truncated", "corrupt", "huge shape", "zip bomb"])
def test_hostile_archives_are_two(run, tmp_path, kind):
    path = tmp_path / "contest.npz"
    hostile_npz(path, kind)
    code, _, err = run("solve", path, "--max-bytes", 1 << 25)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert str(path) in err


def test_a_pipe_is_not_waited_for(run, tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    code, _, err = run("check", tmp_path / "pipe.json")
    assert code == 2
    assert "device or a pipe" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "nothing.json"], "No such file"),
        (["solve", "."], "is a folder"),
        (["check", "/dev/null"], "is a device or a pipe"),
        (["check", "/dev/zero"], "is a device or a pipe"),
        (["check", ""], "the name of the file is empty"),
        (["check", "a\0b"], "cannot read"),
        (["solve", "{contest}", "--solver", "mirror-descent", "--eta", "adaptive"], "eta must be a nonnegative number"),
        (["example", "chess"], "there is no example 'chess'"),
        (["example", "corridor", "--out", "/proc/nope.json"], "cannot write"),
        (["example", "corridor", "--out", "c.txt"], "ending must be"),
        (["solve", "{contest}", "--out", "{contest}"], "would replace the contest"),
        (["solve", "{contest}", "--out", "missing/s.json"], "no folder that can be written to"),
        (["solve", "{contest}", "--out", "s.csv"], "ending must be"),
        (["solve", "{contest}", "--out", "x" * 300 + ".json"], "cannot write"),
        (["example", "corridor", "--out", "x" * 300 + ".json"], "cannot write"),
        (["solve", "{contest}", "--out", ""], "--out is empty"),
        (["example", "corridor", "--out", ""], "--out is empty"),
        (["demo", "--out", ""], "--out is empty"),
        (["verify", "{contest}", "{contest}", "--tol", "nan"], "expected 'mdcontest/solution'"),
        (["solve", "{contest}", "--tol", "-1"], "tol must be"),
        (["solve", "{contest}", "--eta", "1"], "--eta belongs to one method: say which"),
        (["solve", "{contest}", "--solver", "hpi", "--iterations", "0"], "at least 1"),
        (["solve", "{contest}", "--solver", "policy-game", "--eta", "1"], "takes no --eta"),
        (
            ["solve", "{contest}", "--solver", "hpi", "--iterations", "5", "--device", "cpu"],
            "--solver hpi takes no --device",
        ),
        (["solve", "{contest}", "--max-bytes", "10"], "over the limit of 10"),
        (["verify", "{contest}", "{contest}"], "expected 'mdcontest/solution'"),
        (["demo", "--out", "/proc/nope"], "cannot write to /proc/nope"),
        (["demo", "--iterations", "1"], "at least 10"),
    ],
)
def test_bad_arguments(run, contest_file, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    before = contest_file.read_bytes()
    code, _, err = run(*(a.replace("{contest}", str(contest_file)) for a in arguments))
    assert code == 2
    assert message in err
    assert contest_file.read_bytes() == before


def test_a_place_that_a_link_leads_to_is_looked_at_before_the_solve(run, contest_file, tmp_path, monkeypatch):
    """Not after it: a solve can take hours."""
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere" / "s.json")
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    os.mkfifo(tmp_path / "pipe.json")
    monkeypatch.setattr(mdc, "solve", lambda *_, **__: pytest.fail("solved before the place was looked at"))
    for name, words in {
        "gone": "nowhere is no folder",
        "loop": "round in a circle",
        "pipe": "device or a pipe",
    }.items():
        code, _, err = run("solve", contest_file, "--out", tmp_path / f"{name}.json")
        assert (code, one_clear_line(err)) == (2, True), err
        assert words in err


def test_what_cannot_be_written_after_all_is_printed(run, contest_file, tmp_path, monkeypatch):
    def solve_and_remove(*arguments, **settings):
        (tmp_path / "out").rmdir()
        return solve(*arguments, **settings)

    solve = mdc.solve
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(mdc, "solve", solve_and_remove)
    code, out, err = run("solve", contest_file, "--out", tmp_path / "out" / "s.json")
    assert code == 2
    assert "cannot write" in err
    assert "status   solved" in out
    assert "written to" not in out


@pytest.mark.parametrize("place", ["run.json", "checkpoints/0000000004/state.json", "dataset.json", "margin.json"])
@pytest.mark.parametrize("arguments", [["solve", "{contest}"], ["example", "corridor"]])
def test_files_of_runs_datasets_and_margins_are_not_replaced(run, contest_file, tmp_path, arguments, place):
    owned = tmp_path / "owned"
    (owned / place).parent.mkdir(parents=True)
    for file in {place, "run.json"} if "state" in place else {place}:
        (owned / file).write_text("mine")
    code, _, err = run(*(a.replace("{contest}", str(contest_file)) for a in arguments), "--out", owned / place)
    assert code == 2
    assert f"in {owned}; name another file" in err
    (link := tmp_path / "link.json").symlink_to(owned / place)  # which would be written to
    assert run(*(a.replace("{contest}", str(contest_file)) for a in arguments), "--out", link)[0] == 2
    assert (owned / place).read_text() == "mine"
    assert run("example", "corridor", "--out", owned / "new.json")[0] == 0


@pytest.mark.parametrize(
    "arguments", [[], ["solve"], ["fly"], ["solve", "x", "--tol", "small"], ["solve", "x", "--eta", "abc"]]
)
def test_usage_errors_are_two(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert one_clear_line(err), err
    assert err.endswith(f"; see mdcontest{' solve' if arguments[:1] == ['solve'] else ''} --help\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere; simulated below")
def test_no_write_permission(run, tmp_path):
    os.chmod(tmp_path, 0o555)
    code, _, err = run("example", "corridor", "--out", tmp_path / "c.json")
    os.chmod(tmp_path, 0o755)
    assert code == 2
    assert "Permission denied" in err


def test_no_write_permission_simulated(run, tmp_path, monkeypatch):
    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    code, _, err = run("example", "corridor", "--out", tmp_path / "c.json")
    assert code == 2
    assert "cannot write" in err
    assert "Permission denied" in err
