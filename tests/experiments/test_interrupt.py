"""Ctrl-C and SIGTERM: runs write a checkpoint, the command says how to go on, and going on ends as if nothing was."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from mdcontest.experiments.table import last_progress
from mdcontest.learn.checkpoint import list_checkpoints
from mdcontest.learn.spec import is_finished
from sweeps import (
    alive,
    ended_afterwards,
    finished,
    leftovers,
    results,
    rows_in,
    run,
    run_folders,
    start,
    wait_until,
    workers,
)

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def by_terminal(process):
    os.killpg(process.pid, signal.SIGINT)


def twice(process):
    by_terminal(process)
    wait_until(lambda: False, 0.05)
    by_terminal(process)


def by_scheduler(process):
    process.terminate()


def by_hand(process):
    process.send_signal(signal.SIGINT)


def training(out, rows):
    """How many runs have that many iterations behind them."""
    return sum(rows_in(folder / "progress.csv") > rows for folder in run_folders(out)) if out.is_dir() else 0


@pytest.fixture
def small_sweep(whole_sweep, compiled, tmp_path):
    """Some runs of the whole sweep: the same names, the same results."""
    arguments = ["--algos", "hpi-clip,ppo", "--seeds", "0", "--checkpoint-every", 1000]
    return [*whole_sweep, *arguments, "--out", tmp_path / "runs", "--jobs", 2]


def listens(pid):
    """Whether a process has a way of its own with SIGTERM."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line for line in lines if line.startswith("SigCgt")).split()[1]
    return int(caught, 16) >> (signal.SIGTERM - 1) & 1


def stop(process, how, output):
    """It ends soon, with 130, all of its workers with it, and says so without a traceback."""
    running = workers(process.pid)
    how(process)
    return require_stopped(process, running, output)


def require_stopped(process, running, output):
    assert process.wait(timeout=120) == 130, output.read_text()
    assert wait_until(lambda: not alive(running), 20)
    said = output.read_text()
    assert "Traceback" not in said
    assert "KeyboardInterrupt" not in said
    return said


def stop_while_training(small_sweep, compiled, how, out, output):
    """Stopped with runs on their way. They take a second: where that is over before the signal comes, once more."""
    for _ in range(5):
        with ended_afterwards(start(*small_sweep, output=output, env=compiled)) as process:
            # Both at once may never be seen: on a busy machine one is done before the other has begun.
            wait_until(lambda: training(out, 3) == 2 or process.poll() is not None)
            running = workers(process.pid)
            if process.poll() is None:
                how(process)
                process.wait(timeout=120)
            if finished(out) < 2:
                return require_stopped(process, running, output)
        shutil.rmtree(out)
    raise AssertionError("both runs were done five times before they could be stopped")


@pytest.mark.parametrize("how", [by_terminal, by_scheduler, by_hand] if FULL else [by_terminal])
def test_nothing_is_lost(how, small_sweep, compiled, undisturbed, tmp_path):
    out, output = tmp_path / "runs", tmp_path / "said"
    said = stop_while_training(small_sweep, compiled, how, out, output)
    assert f"interrupted, nothing is lost; mdcontest sweep with the same arguments goes on in {out}" in said
    before = finished(out)
    for folder in (folder for folder in run_folders(out) if not is_finished(folder)):
        newest = list_checkpoints(folder)[-1].name
        assert int(newest) == last_progress(folder).iteration > 3, "checkpoints are 1000 iterations apart otherwise"
    assert not leftovers(out)
    code, text, err = run(*small_sweep, env=compiled)
    assert code == 0, err
    assert text == f"2 done ({before} of them before), 0 failed, in {out}\n"
    found = results(out)
    assert found == {name: undisturbed[name] for name in found}
    assert len(found) == 2


@pytest.mark.parametrize("how", [by_terminal, by_scheduler] if FULL else [by_terminal])
def test_workers_that_are_just_starting(how, small_sweep, compiled, undisturbed, tmp_path):
    """Before they have imported anything there is nothing to save, and nothing to wait for."""
    out, output = tmp_path / "runs", tmp_path / "said"
    with ended_afterwards(start(*small_sweep, output=output, env=compiled)) as process:
        assert wait_until(lambda: len(workers(process.pid)) == 2, step=0.005)
        stop(process, how, output)
    assert not leftovers(tmp_path)
    if FULL:
        assert run(*small_sweep, env=compiled)[0] == 0
        found = results(out)
        assert found == {name: undisturbed[name] for name in found}


@pytest.mark.parametrize("after", [0.0, 0.4, 0.8, 1.3] if FULL else [0.0])
def test_the_command_itself_is_just_starting(after, small_sweep, compiled, tmp_path):
    output = tmp_path / "said"
    with ended_afterwards(start(*small_sweep, output=output, env=compiled)) as process:
        assert wait_until(lambda: listens(process.pid))  # before that Python itself starts
        wait_until(lambda: False, after)
        stop(process, by_terminal, output)


def test_impatience(small_sweep, compiled, undisturbed, tmp_path):
    """Ctrl-C twice ends it at once; what is on disk can be gone on with."""
    out, output = tmp_path / "runs", tmp_path / "said"
    stop_while_training(small_sweep, compiled, twice, out, output)
    if FULL:
        assert run(*small_sweep, env=compiled)[0] == 0
        found = results(out)
        assert found == {name: undisturbed[name] for name in found}


def test_a_gap_that_is_interrupted_begins_anew(done, compiled, tmp_path):
    out, output = tmp_path / "runs", tmp_path / "said"
    shutil.copytree(run_folders(done)[0], out / "one")
    with ended_afterwards(start("gap", out, "--steps", 2_000_000, output=output, env=compiled)) as process:
        assert wait_until(lambda: len(workers(process.pid)) == 1)
        wait_until(lambda: False, 2.5)
        said = stop(process, by_terminal, output)
    assert "brackets that were being measured begin anew; the same command goes on" in said
    (folder,) = run_folders(out)
    assert not list(folder.glob("gaps/*"))
    assert not leftovers(out)
