"""Datasets of preferences that several processes write, or that were damaged: nothing is ever half there."""

import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from datasets import compared, damages, ended_and_cut_off, filled, task_by_hand, trajectory
from mdcontest.errors import FileFormatError, InputError
from mdcontest.preferences.comparison_log import COLUMNS, FORMAT, ComparisonLog, _columns
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.references import Comparison, Segment
from mdcontest.tables import write_table
from sweeps import wait_until

APPENDING = """
import sys
from dataclasses import replace
sys.path.insert(0, sys.argv[1])
from datasets import compared, task_by_hand, trajectory
import numpy as np
from mdcontest.preferences.dataset import Dataset
dataset = Dataset.at(sys.argv[2], task_by_hand())
who, shared, rounds = int(sys.argv[3]), trajectory(1000), int(sys.argv[4])
rng = np.random.default_rng(who)
print("ready", flush=True)
for i in range(rounds):
    ids = dataset.add_trajectories([shared, trajectory(100 * who + i)])
    dataset.add_comparisons(compared(ids, rng, 5, annotator=str(who)))
    dataset.add_comparisons(compared([shared.id], np.random.default_rng(i), 3, annotator="all"))
"""


def appending(path, who, rounds):
    script = [sys.executable, "-c", APPENDING, os.path.dirname(os.path.dirname(__file__)), path, who, rounds]
    return subprocess.Popen([*map(str, script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_several_processes_append_at_once(tmp_path):
    processes = [appending(tmp_path / "d", who, 6) for who in range(2)]
    for process in processes:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    dataset = Dataset.open(tmp_path / "d", task=task_by_hand())
    assert len(dataset.index()) == 1 + 2 * 6
    expected = set()
    for who in range(2):
        rng = np.random.default_rng(who)
        for i in range(6):
            ids = [trajectory(1000).id, trajectory(100 * who + i).id]
            expected |= {c.checked().id for c in compared(ids, rng, 5, annotator=str(who))}
    for i in range(6):
        again = compared([trajectory(1000).id], np.random.default_rng(i), 3, annotator="all")
        expected |= {c.checked().id for c in again}
    assert {entry.id for entry in dataset.entries()} == expected
    assert len(dataset.comparisons()) == len(expected)


def test_a_process_killed_while_it_appends(tmp_path):
    process = appending(tmp_path / "d", 1, 10_000)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    parts = tmp_path / "d" / "comparisons"
    assert wait_until(lambda: len(list(parts.glob("*.parquet"))) >= 5)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=180)
    dataset = Dataset.open(tmp_path / "d", task=task_by_hand())
    assert len(dataset.entries()) >= 5
    assert len(dataset.comparisons()) == len(dataset.entries())
    assert set(dataset.table()[1]) == set(dataset.index())
    dataset.add_trajectories([trajectory(99_999)])
    assert trajectory(99_999).id in Dataset.open(tmp_path / "d").index()


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_full_disk_leaves_everything_as_it_was(tmp_path, monkeypatch, fails):
    dataset, ids = ended_and_cut_off(tmp_path / "d")
    new = compared(ids, np.random.default_rng(0), 4)

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, fails, full)
        with pytest.raises(InputError, match=r"cannot write .*No space left on device; what was there is unchanged"):
            dataset.add_comparisons(new)
        with pytest.raises(InputError, match="No space left"):
            dataset.add_trajectories([trajectory(7)])
        assert dataset.entries() == []
        assert set(dataset.index()) == set(ids)
    assert [p.name for p in dataset.path.rglob("*.tmp")] == []
    assert dataset.add_comparisons(new) == len({c.checked().id for c in new})
    assert dataset.add_trajectories([trajectory(7)])[0] in dataset.index()


def test_damaged_comparisons_are_named_or_read_as_they_were(tmp_path, count):
    dataset, ids = ended_and_cut_off(tmp_path / "d")
    dataset.add_comparisons(compared(ids, np.random.default_rng(0), 20))
    (path,) = (dataset.path / "comparisons").glob("*.parquet")
    expected, content, refused = dataset.entries(), path.read_bytes(), 0
    for damaged in damages(content, np.random.default_rng(1), count(60, 600)):
        path.write_bytes(damaged)
        try:
            found = Dataset.open(dataset.path).entries()
        except FileFormatError as error:
            assert str(path) in str(error)
            refused += 1
        else:
            assert found == expected
    assert refused > count(60, 600)


def test_a_part_that_is_gone_is_said(tmp_path):
    dataset, ids = filled(tmp_path / "d", [trajectory(0), trajectory(1)])
    dataset.add_comparisons(compared(ids, np.random.default_rng(0), 5))
    for part in (dataset.path / "trajectories").iterdir():
        part.unlink()
    with pytest.raises(InputError, match=r"no trajectory '\w{16}' in .*, which has 0"):
        Dataset.open(dataset.path, task_by_hand()).comparisons()


def test_empty_folders_that_a_copy_left_out_are_made(tmp_path):
    dataset = Dataset.create(tmp_path / "d", task_by_hand())
    for name in ("trajectories", "comparisons"):
        (dataset.path / name).rmdir()
    ids = dataset.add_trajectories([trajectory(0)])
    assert dataset.add_comparisons(compared(ids, np.random.default_rng(0), 1)) == 1


def test_rows_about_no_steps_are_refused(tmp_path):
    log = ComparisonLog(tmp_path / "c")
    log.append([Comparison(Segment("t", -1), Segment("u", 0), "first", id="x")])
    with pytest.raises(FileFormatError, match="row 0 is about no steps"):
        ComparisonLog(tmp_path / "c").entries()


def test_nothing_is_merged_from_a_dataset_that_lost_what_was_compared(tmp_path):
    """It could not be fitted to afterwards, and nor could the good one."""
    good, ids = filled(tmp_path / "good", [trajectory(0), trajectory(1)])
    good.add_comparisons(compared(ids, np.random.default_rng(0), 5))
    lost, others = filled(tmp_path / "lost", [trajectory(2), trajectory(3)])
    lost.add_comparisons(compared(others, np.random.default_rng(1), 5))
    for part in (lost.path / "trajectories").iterdir():
        part.unlink()
    before = {path: path.read_bytes() for path in good.path.rglob("*.parquet")}
    with pytest.raises(InputError, match=r"has comparisons of the trajectory '\w{16}', which is no longer in it"):
        good.merge(Dataset.open(lost.path, task_by_hand()))
    assert {path: path.read_bytes() for path in good.path.rglob("*.parquet")} == before
    good.add_trajectories([trajectory(2), trajectory(3)])  # where they are still known, nothing is missing
    assert good.merge(Dataset.open(lost.path, task_by_hand())) == (0, len(lost.entries()))
    assert len(good.comparisons()) == 5 + len(lost.entries())


@pytest.mark.parametrize("time", [float("nan"), float("inf")])
def test_a_time_that_is_none_is_damage(time, tmp_path):
    dataset, ids = ended_and_cut_off(tmp_path / "d")
    (row,) = (one.checked() for one in compared(ids, np.random.default_rng(0), 1))
    path = dataset.path / "comparisons" / "forged.parquet"
    write_table(path, FORMAT, COLUMNS, _columns([replace(row, time=time)]))
    with pytest.raises(FileFormatError, match=f"forged.parquet was changed or damaged: the time of row 0 is {time}"):
        dataset.entries()
