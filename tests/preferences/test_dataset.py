"""Datasets of preferences: what is added twice is there once, merging is a union, and nothing is ever half there."""

import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import assert_same_trajectory, compared, damages, filled, task_by_hand, trajectory
from mdcontest import tasks
from mdcontest.errors import FileFormatError, InputError, VersionError
from mdcontest.preferences.comparison_log import ComparisonLog
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.references import Comparison, Segment
from strategies import seeds
from sweeps import wait_until


def ended_and_cut_off(path):
    """A trajectory of five steps that ended, one of four that was cut off."""
    return filled(path, [trajectory(0, 5), trajectory(1, 4, terminated=False)])


# --- what is in it ----------------------------------------------------------------------------------------


def test_a_dataset_knows_its_task(tmp_path):
    task = tasks.make("RPSCorridor", slip=0.2)
    dataset = Dataset.create(tmp_path / "d", task, horizon=50)
    again = Dataset.open(tmp_path / "d")
    assert (again.task().name, again.task().settings, again.horizon) == ("RPSCorridor", {"slip": 0.2}, 50)
    assert Dataset.at(tmp_path / "d", task, 50).path == dataset.path
    with pytest.raises(InputError, match=r"another task: its settings is .*0\.2.*name another folder"):
        Dataset.at(tmp_path / "d", tasks.make("RPSCorridor"), 50)
    with pytest.raises(InputError, match="horizon 50, not None"):
        Dataset.at(tmp_path / "d", task)
    with pytest.raises(InputError, match="already holds a dataset"):
        Dataset.create(tmp_path / "d", task)
    with pytest.raises(FileFormatError, match="holds no dataset"):
        Dataset.open(tmp_path)


def test_a_task_of_ones_own_is_passed_again(tmp_path):
    dataset, _ = ended_and_cut_off(tmp_path / "d")
    with pytest.raises(InputError, match=r"a task of its own \(by hand\); pass it"):
        Dataset.open(tmp_path / "d").task()
    task = task_by_hand()
    assert Dataset.open(tmp_path / "d", task=task).task() is task
    assert dataset.task_name == "by hand"


def test_a_description_that_was_changed_is_refused(tmp_path):
    dataset, _ = ended_and_cut_off(tmp_path / "d")
    file = dataset.path / "dataset.json"
    text = file.read_text()
    for old, new, kind in (
        ('"version": 1', '"version": 2', VersionError),
        ("mdcontest/preferences", "mdcontest/run", FileFormatError),
        ('"horizon": null', '"horizon": -3', FileFormatError),
        ('"registered"', '"registred"', FileFormatError),
        ('"registered": false', '"registered": true', FileFormatError),
        ('"name": "by hand"', '"name": ["by hand"]', FileFormatError),
        (text, text[:30], FileFormatError),
    ):
        file.write_text(text.replace(old, new))
        with pytest.raises(kind, match=r"dataset\.json"):
            Dataset.open(dataset.path)


def test_trajectories_are_stored_once_and_found_again(tmp_path):
    given_ = [trajectory(i, 3 + i) for i in range(4)]
    dataset, ids = filled(tmp_path / "d", given_)
    assert dataset.add_trajectories(given_[1:3]) == ids[1:3]
    later = trajectory(9, source="a later one", steps=7)
    assert dataset.add_trajectories([given_[0], later]) == [ids[0], later.id]
    again = Dataset.open(tmp_path / "d")
    assert len(list((tmp_path / "d" / "trajectories").iterdir())) == 2
    assert {id: info.length for id, info in again.index().items()} == {t.id: len(t) for t in (*given_, later)}
    assert again.index()[later.id].steps == 7
    for expected in (*given_, later):
        assert_same_trajectory(again.trajectory(expected.id), expected)
    outcomes, rows = again.table()
    for expected in (*given_, later):
        first = rows[expected.id]
        np.testing.assert_array_equal(outcomes[first : first + len(expected)].obs, expected.outcomes.obs)
    with pytest.raises(InputError, match=r"no trajectory \[nobody\] .*, which has 5"):
        again.trajectory("nobody")
    with pytest.raises(InputError, match=r"obs is float64 of shape \(4,\), in the dataset"):
        dataset.add_trajectories([trajectory(0, size=4)])


def test_segments_and_what_lies_beyond_the_end(tmp_path):
    dataset, (ended, cut_off) = ended_and_cut_off(tmp_path / "d")
    assert dataset.add_comparisons(
        [
            Comparison(Segment(ended, 1, 2), Segment(cut_off, 0, 2), "first", time=1.0),
            Comparison(Segment(ended, 4, 3), Segment(cut_off, 1, 3), 0.5, time=2.0),
            Comparison(Segment(cut_off, 3), Segment(ended, 5), "equal", time=3.0),
        ]
    )
    found = dataset.comparisons()
    start = {ended: 0, cut_off: 5} if list(dataset.index()) == [ended, cut_off] else {cut_off: 0, ended: 4}
    assert found.first.start.tolist() == [start[ended] + 1, start[ended] + 4, start[cut_off] + 3]
    assert found.first.length.tolist() == [2, 1, 1]
    assert found.first.ended.tolist() == [0, 2, 0]
    assert found.second.length.tolist() == [2, 3, 0]
    assert found.second.ended.tolist() == [0, 0, 1]
    assert found.target.tolist() == [1.0, 0.75, 0.5]
    np.testing.assert_array_equal(found.outcomes.obs[start[ended]], trajectory(0, 5).outcomes.obs[0])


@pytest.mark.parametrize(
    ("start", "length", "of", "message"),
    [
        (3, 2, 1, "steps 3 to 4 of the trajectory .* was cut off after 4 steps"),
        (6, 1, 0, "steps 6 to 6 of the trajectory .* ended after 5 steps"),
        (-1, 1, 0, "start must be a whole number from 0 on, got -1"),
        (0, 0, 0, "length must be a whole number from 1 on, got 0"),
        (0.0, 1, 0, r"start must be a whole number from 0 on, got 0\.0"),
    ],
)
def test_segments_that_are_not_there(tmp_path, start, length, of, message):
    dataset, ids = ended_and_cut_off(tmp_path / "d")
    with pytest.raises(InputError, match=message):
        dataset.add_comparisons([Comparison(Segment(ids[0], 0), Segment(ids[of], start, length), "first")])
    with pytest.raises(InputError, match="no trajectory 'nobody'"):
        dataset.add_comparisons([Comparison(Segment("nobody", 0), Segment(ids[0], 0), "first")])
    assert dataset.entries() == []


def test_labels_are_checked(tmp_path):
    dataset, ids = ended_and_cut_off(tmp_path / "d")
    pair = Segment(ids[0], 0), Segment(ids[1], 0)
    for label in ("frist", 1.5, float("nan"), None, "withdrawn"):
        with pytest.raises(InputError, match="is no label"):
            dataset.add_comparisons([Comparison(*pair, label)])
    with pytest.raises(InputError, match="time must be"):
        dataset.add_comparisons([Comparison(*pair, "first", time=float("inf"))])


def test_filters_by_annotator_and_source(tmp_path):
    dataset, ids = ended_and_cut_off(tmp_path / "d")
    rng = np.random.default_rng(0)
    for count, annotator, source in ((5, "ann", "page"), (7, "bob", "page"), (9, "bob", "mail")):
        dataset.add_comparisons(compared(ids, rng, count, annotator=annotator, source=source))
    expected = {
        (who, where): sum(
            e.annotator in (who or e.annotator) and e.source in (where or e.source) for e in dataset.entries()
        )
        for who in (None, "ann", "bob")
        for where in (None, "page", "mail")
    }
    for (who, where), count in expected.items():
        if count:
            assert len(dataset.comparisons(annotator=who, source=where)) == count
    with pytest.raises(InputError, match="no comparisons of annotator 'ann' and source 'mail'"):
        dataset.comparisons(annotator="ann", source="mail")


# --- rows that come later ---------------------------------------------------------------------------------


def test_the_same_answer_is_one(tmp_path):
    dataset, ids = ended_and_cut_off(tmp_path / "d")
    said = Comparison(Segment(ids[0], 0), Segment(ids[1], 0), "first", "ann", time=5.0)
    later = Comparison(Segment(ids[0], 0), Segment(ids[1], 0), "first", "ann", time=9.0)
    assert dataset.add_comparisons([said, said, later]) == 1
    assert dataset.add_comparisons([later]) == 0
    assert Dataset.open(dataset.path).add_comparisons([said]) == 0
    others = [
        Comparison(said.second, said.first, "first", "ann"),
        Comparison(said.first, said.second, "second", "ann"),
        Comparison(said.first, said.second, "first", "bob"),
        Comparison(said.first, said.second, "first", "ann", "page"),
        Comparison(said.first, Segment(ids[1], 1), "first", "ann"),
        Comparison(said.first, said.second, 1.0, "ann"),
    ]
    assert dataset.add_comparisons(others) == len(others)
    assert len({entry.id for entry in dataset.entries()}) == len(others) + 1


def test_withdrawn_and_said_again(tmp_path):
    dataset, ids = ended_and_cut_off(tmp_path / "d")
    said = Comparison(Segment(ids[0], 0), Segment(ids[1], 0), "first", "ann", time=5.0)
    dataset.add_comparisons([said, *compared(ids, np.random.default_rng(1), 3, time=1.0)])
    (id,) = [entry.id for entry in dataset.entries() if entry.time == 5.0]
    dataset.withdraw([id], time=4.0)  # a clock that is behind
    for seen in (dataset, Dataset.open(dataset.path)):
        assert id not in {entry.id for entry in seen.entries()}
        assert len(seen.entries()) == 3
    dataset.withdraw([id], time=6.0)  # nothing left to withdraw
    with pytest.raises(InputError, match=r"no comparisons \[nobody\] .* to withdraw"):
        dataset.withdraw(["nobody"], 7.0)
    assert dataset.add_comparisons([Comparison(said.first, said.second, "first", "ann", time=8.0)]) == 1
    assert id in {entry.id for entry in Dataset.open(dataset.path).entries()}


def test_an_answer_under_an_id_is_revised(tmp_path):
    dataset, ids = ended_and_cut_off(tmp_path / "d")
    pair = Segment(ids[0], 0), Segment(ids[1], 0)
    assert dataset.add_comparisons([Comparison(*pair, "first", time=1.0, id="q1")]) == 1
    assert dataset.add_comparisons([Comparison(*pair, "second", time=2.0, id="q1")]) == 0
    assert dataset.add_comparisons([Comparison(*pair, "equal", time=1.5, id="q1")]) == 0
    assert [(e.id, e.label) for e in Dataset.open(dataset.path).entries()] == [("q1", "second")]


# --- merging ----------------------------------------------------------------------------------------------


def views(dataset):
    return dataset.entries(), set(dataset.index()), sorted(dataset._log.rows(), key=repr)


@given(seeds, st.lists(st.integers(0, 3), max_size=5), st.lists(st.integers(0, 3), max_size=5))
def test_merging_is_a_union(tmp_path_factory, seed, one, other):
    """In either order the same, and a second time nothing: trajectories, answers, revisions and withdrawals."""
    folder, rng = tmp_path_factory.mktemp("merge"), np.random.default_rng(seed)
    pool = [trajectory(i) for i in range(4)]
    first, second = (
        filled(folder / name, [pool[0], pool[1], pool[2 + i]])[0] for i, name in enumerate(("first", "second"))
    )
    for dataset, acts in ((first, one), (second, other)):
        ids = [pool[0].id, pool[1].id]
        for act in acts:
            time = float(rng.integers(4))
            entries = dataset.entries()
            if act == 0 and entries:
                dataset.withdraw([entries[rng.integers(len(entries))].id], time)
            elif act == 1:
                pair = Segment(ids[0], 0), Segment(ids[1], 0)
                dataset.add_comparisons([Comparison(*pair, ["first", "second"][rng.integers(2)], time=time, id="q")])
            else:
                dataset.add_comparisons(compared(ids, np.random.default_rng(rng.integers(3)), 2, time=time))
    forth, back = (Dataset.create(folder / name, task_by_hand()) for name in ("forth", "back"))
    before = len(first.entries())
    counted = forth.merge(first)
    assert counted == (3, before)
    assert forth.merge(second)[0] == 1
    back.merge(second)
    back.merge(first)
    assert views(forth) == views(back)
    assert forth.merge(first) == forth.merge(second) == forth.merge(back) == (0, 0)
    assert views(Dataset.open(forth.path)) == views(back)


def test_only_datasets_of_one_task_are_merged(tmp_path):
    dataset, _ = ended_and_cut_off(tmp_path / "d")
    other = Dataset.create(tmp_path / "e", tasks.make("RPSCorridor"))
    with pytest.raises(InputError, match="only datasets of the same task and horizon"):
        dataset.merge(other)


# --- processes and faults ---------------------------------------------------------------------------------

APPENDING = """
import sys
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
    process.communicate(timeout=60)
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
