"""Workers and the sweep itself are killed at random moments; what comes out is what would have come out anyway."""

import json
import os
import random
import signal
import subprocess
import sys

import pytest

from sweeps import (
    alive,
    ended_afterwards,
    finished,
    kill_group,
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
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
    pytest.mark.timeout(1500),
]


def training(out):
    """Runs that have begun and are not finished."""
    found = [folder for folder in run_folders(out) if rows_in(folder / "progress.csv") > 1] if out.is_dir() else []
    return len(found) - finished(out)


def end_by_itself(process, seconds):
    try:
        return process.wait(timeout=seconds) is not None
    except subprocess.TimeoutExpired:
        return False


def deaths(out):
    """How often a worker's death was written down."""
    files = out.glob("*/failures.json")
    return sum(entry["died"] for path in files for entry in json.loads(path.read_text())["failures"])


@pytest.mark.parametrize("seed", [0])
def test_a_sweep_whose_workers_and_parent_are_killed(seed, undisturbed, whole_sweep, compiled, tmp_path):
    out, output, rng = tmp_path / "runs", tmp_path / "said", random.Random(seed)
    arguments = [*whole_sweep, "--out", out, "--jobs", 2]
    parent_dies_at = [len(undisturbed) // 3, 2 * len(undisturbed) // 3]
    kills = mid_run = 0
    process = start(*arguments, output=output, env=compiled)
    try:
        while not end_by_itself(process, rng.uniform(0.3, 5.0)):
            running = workers(process.pid)
            assert len(running) <= 2
            if parent_dies_at and finished(out) >= parent_dies_at[0] and running:
                parent_dies_at.pop(0)
                process.kill()
                process.wait()
                assert wait_until(lambda: not alive(running), 30), "workers outlive their parent"  # noqa: B023
                process = start(*arguments, output=output, env=compiled)
            elif running:
                kills += 1
                mid_run += training(out) > 0
                os.kill(rng.choice(running)[0], signal.SIGKILL)
    finally:
        kill_group(process)
    said = output.read_text()
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert not parent_dies_at, "the sweep was over before its parent was killed twice"
    assert kills >= len(undisturbed) // 2, "how many there are depends on the machine, but this is few"
    assert mid_run
    assert results(out) == undisturbed
    assert not leftovers(out)
    unsure = 4 + kills // 10  # nobody was there to write it down, or the run was done already
    assert kills - unsure <= deaths(out) <= kills + unsure, "a death is written down once"
    code, text, err = run(*arguments, env=compiled)
    assert (code, err) == (0, "")
    assert text == f"{len(undisturbed)} done ({len(undisturbed)} of them before), 0 failed, in {out}\n"


@pytest.mark.parametrize("moment", ["starting", "training"] if FULL else ["training"])
def test_workers_end_with_their_parent(moment, whole_sweep, compiled, tmp_path):
    """Within moments of its death, wherever they are; nobody has to look for them."""
    out = tmp_path / "runs"
    endless = [*whole_sweep, "--algos", "hpi-clip", "--seeds", "0-1", "--steps", 10**9]
    with ended_afterwards(start(*endless, "--out", out, "--jobs", 2, output=tmp_path / "said", env=compiled)) as one:
        assert wait_until(lambda: len(workers(one.pid)) == 2)
        running = workers(one.pid)
        if moment == "training":
            assert wait_until(lambda: training(out) == 2)
        one.kill()
        one.wait()
        assert wait_until(lambda: not alive(running), 30)
