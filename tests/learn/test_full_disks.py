"""Disks that are full: the run stops and says so, and is finished once there is space."""

import builtins
import json
import os
import subprocess
import sys

import pytest

from full_disk import full
from learn.stopped_runs import FULL, TINY, Stop, finish, learn, require_same, whole_run
from mdcontest import tasks
from mdcontest.errors import InputError, RunError
from mdcontest.learn import HPIClip, checkpoint, load_agent
from mdcontest.learn.checkpoint import list_checkpoints
from mdcontest.learn.loading import same_parameters
from mdcontest.learn.logs import CsvFile
from mdcontest.learn.runs import RunFolder


class FullFile:
    """A file on a disk that is full after some bytes."""

    def __init__(self, path, *mode):
        self._file = builtins.open(path, *mode)  # noqa: SIM115

    def write(self, content):
        self._file.write(content[:100])
        full()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


@pytest.mark.parametrize("what", ["open", "write", "fsync", "rename", "mkdir"])
def test_a_disk_full_while_a_checkpoint_is_written(what, tmp_path, monkeypatch):
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY)

    def fill(agent, progress):
        if progress.iteration == 4:
            if what in ("open", "write"):
                monkeypatch.setattr(checkpoint, "open", full if what == "open" else FullFile, raising=False)
            else:
                monkeypatch.setattr(os, what, full)

    with pytest.raises(RunError, match="No space left on device"):
        agent.learn(640, progress=False, folder=tmp_path, checkpoint_every=2, callback=fill)
    monkeypatch.undo()
    assert load_agent(tmp_path).learner.iteration == 2
    assert [path.name for path in list_checkpoints(tmp_path)] == ["00000000", "00000002"]
    assert same_parameters(finish(tmp_path), whole_run())


def test_a_disk_full_at_any_moment(tmp_path, monkeypatch):
    """Whichever file operation is refused, the error is one of ours, and the run is finished once there is space."""

    def start(folder):
        agent = HPIClip(tasks.make("RPSContinuous"), **TINY)
        return agent.learn(4 * 64, progress=False, folder=folder, checkpoint_every=2)

    def run(folder, refused):
        calls, names = [], ("fsync", "rename", "replace", "mkdir")
        originals = {name: getattr(os, name) for name in names}

        def operation(name):
            def call(*args, **options):
                calls.append(name)
                return full() if len(calls) == refused else originals[name](*args, **options)

            return call

        with monkeypatch.context() as patch:
            for name in names:
                patch.setattr(os, name, operation(name))
            try:
                start(folder)
            except InputError as error:
                assert "No space left" in str(error), refused
        return len(calls)

    whole, lost = whole_run(4), {}
    for refused in range(1, run(tmp_path / "counted", None) + 1):
        folder = tmp_path / str(refused)
        run(folder, refused)
        try:
            agent = finish(folder) if (folder / "run.json").exists() else start(folder)
        except InputError as error:
            lost[refused] = str(error)
            continue
        assert same_parameters(agent, whole), refused
    assert not lost


LIMITED = """
import resource, sys
from mdcontest.cli import main
import mdcontest.learn
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE")
@pytest.mark.parametrize(
    ("limit", "culprit"),
    [(2000, "checkpoints/00000000"), (4500, "checkpoints/000000"), (9000, "progress.csv")][FULL - 1 :],
)
def test_a_real_limit_on_the_size_of_files(limit, culprit, tmp_path):
    """Too small for the first checkpoint, for the second one, and for progress.csv after some forty iterations."""
    flags = ["--num-steps", "64", "--minibatches", "2", "--epochs", "1", "--hidden", "8", "--checkpoint-every", "5"]
    command = ["train", "RPSContinuous", *flags, "--steps", str(60 * 64), "--out", str(tmp_path)]
    environment = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), *command], capture_output=True, text=True, env=environment
    )
    assert "Traceback" not in done.stderr, done.stderr
    begun = limit > 4000  # without its first checkpoint a run has not begun, and there is nothing to resume
    assert done.returncode == (1 if begun else 2), done.stderr
    assert "File too large" in done.stderr
    assert culprit in done.stderr
    assert done.stderr.startswith("mdcontest: error: ")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    (folder,) = tmp_path.iterdir()
    assert (folder / "run.json").exists() == begun
    if begun:
        assert json.loads((folder / "run.json").read_text())["status"] == "failed"
        assert same_parameters(finish(folder), whole_run(60))


@pytest.mark.parametrize("when", ["first checkpoint", "log", "end"])
def test_a_failure_lets_go_of_the_folder(when, tmp_path, monkeypatch):
    """Of the first checkpoint, of a log, of the note that the run is finished: the lock goes, and run.json says it."""
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY)
    if when == "first checkpoint":
        monkeypatch.setattr(checkpoint, "open", full, raising=False)
    elif when == "log":
        monkeypatch.setattr(CsvFile, "write", refuse_row_three(CsvFile.write))
    else:
        monkeypatch.setattr(RunFolder, "write", refuse_finished(RunFolder.write))
    with pytest.raises(InputError, match="No space left"):
        agent.learn(4 * 64, progress=False, folder=tmp_path, checkpoint_every=2)
    monkeypatch.undo()
    if when != "first checkpoint":
        assert json.loads((tmp_path / "run.json").read_text())["status"] in ("failed", "running")
        assert same_parameters(finish(tmp_path), whole_run(4))
        assert json.loads((tmp_path / "run.json").read_text())["status"] == "finished"
    else:
        assert agent.num_timesteps == 0
        assert not (tmp_path / "run.json").exists()  # nothing that could be gone on with
        agent.learn(4 * 64, progress=False, folder=tmp_path)
        assert same_parameters(agent, whole_run(4))


@pytest.mark.parametrize("error", [RunError("No space left on device"), Stop()], ids=["full disk", "Ctrl-C"])
@pytest.mark.parametrize("name", ["progress.csv", "episodes.csv"])
def test_an_agent_whose_log_misses_a_row_is_loaded_again(name, error, tmp_path, monkeypatch):
    """The row would be missing for good if it went on by itself; the checkpoint knows logs that are whole."""
    learn(HPIClip(tasks.make("RPSContinuous"), **TINY), tmp_path / "whole")
    agent = HPIClip(tasks.make("RPSContinuous"), **TINY)
    with monkeypatch.context() as patch, pytest.raises(type(error)):
        patch.setattr(CsvFile, "write", refuse_fifth_call(CsvFile.write, name, error))
        learn(agent, tmp_path / "parts")
    for go_on in (lambda: agent.resume(progress=False), lambda: learn(agent, tmp_path / "parts")):
        with pytest.raises(InputError, match=r"go on with load_agent\(.*parts'\)"):
            go_on()
    finish(tmp_path / "parts")
    require_same(tmp_path / "parts", tmp_path / "whole")


def refuse_fifth_call(write, name, error):
    """The columns are the first, so that is the row of iteration 4."""
    calls = []

    def refusing(self, rows):
        if self.path.name == name:
            calls.append(rows)
            if len(calls) == 5:
                raise error
        write(self, rows)

    return refusing


def test_logs_are_on_disk_before_the_checkpoint_that_counts_on_them(tmp_path, monkeypatch):
    """After a power cut a log may be as short as it was when it last reached the disk."""
    brought, fsync = [], os.fsync

    def bring(handle):
        brought.append((os.fstat(handle).st_ino, os.fstat(handle).st_size))
        fsync(handle)

    agent = HPIClip(tasks.make("RPSContinuous"), **TINY)
    monkeypatch.setattr(os, "fsync", bring)
    learn(agent, tmp_path, 4, callback=lambda agent, progress: brought.clear())
    lengths = checkpoint.read_checkpoint(list_checkpoints(tmp_path)[-1])["logs"]
    state = brought.index(next(entry for entry in brought if entry[0] == inode(tmp_path / NEWEST / "state.json")))
    for name, length in lengths.items():
        assert (inode(tmp_path / name), length) in brought[:state]


NEWEST = "checkpoints/00000004"


def inode(path):
    return path.stat().st_ino


def refuse_row_three(write):
    def refusing(self, rows):
        if rows and rows[0][0] == 3:
            raise RunError(f"cannot write {self.path}: No space left on device")
        write(self, rows)

    return refusing


def refuse_finished(describe):
    def refusing(self, status, **more):
        if status == "finished":
            raise InputError("cannot write run.json: No space left on device")
        describe(self, status, **more)

    return refusing
