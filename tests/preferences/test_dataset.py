"""Datasets of preferences: what is added is found again, what is added twice is there once, merging is a union."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import assert_same_trajectory, compared, ended_and_cut_off, filled, task_by_hand, trajectory
from mdcontest import tasks
from mdcontest.errors import FileFormatError, InputError, VersionError
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.references import Comparison, Segment
from strategies import seeds

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
    with pytest.raises(InputError, match=r"no trajectory \[0\] .*, which has 5"):
        again.trajectory(0)
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


@pytest.mark.parametrize("batches", [["abc"], ["a", "bc"], ["a", "c", "b"], ["c", "b", "a"], ["b", "ac"], ["cb", "a"]])
def test_the_newest_answer_counts_also_where_it_repeats_an_older_one(batches, tmp_path):
    """first, second, first: whatever comes when, the last one was first."""
    dataset, ids = ended_and_cut_off(tmp_path / "d")
    pair = Segment(ids[0], 0), Segment(ids[1], 0)
    labels = {"a": ("first", 1.0), "b": ("second", 2.0), "c": ("first", 3.0)}
    new = [
        dataset.add_comparisons([Comparison(*pair, labels[name][0], time=labels[name][1], id="q") for name in batch])
        for batch in batches
    ]
    assert new == [1] + [0] * (len(batches) - 1)
    for seen in (dataset, Dataset.open(dataset.path)):
        assert [(e.label, e.time) for e in seen.entries()] == [("first", 3.0)]


def test_an_answer_is_not_revised_at_the_same_time(tmp_path):
    """Nobody could tell which of them counts; neither the alphabet nor the order of files does."""
    dataset, ids = ended_and_cut_off(tmp_path / "d")
    pair = Segment(ids[0], 0), Segment(ids[1], 0)
    dataset.add_comparisons([Comparison(*pair, "second", id="q1")])
    dataset.add_comparisons([Comparison(*pair, "second", id="q1")])  # once more is no revision
    with pytest.raises(InputError, match=r"'q1' was answered otherwise at the same time, 0; .* a later time"):
        dataset.add_comparisons([Comparison(*pair, "first", id="q1")])
    with pytest.raises(InputError, match="'q2' was answered otherwise at the same time"):
        dataset.add_comparisons([Comparison(*pair, label, time=3.0, id="q2") for label in ("first", "equal")])
    assert [(e.id, e.label) for e in Dataset.open(dataset.path).entries()] == [("q1", "second")]
    dataset.add_comparisons([Comparison(*pair, "first", time=1.0, id="q1")])
    assert [(e.id, e.label) for e in Dataset.open(dataset.path).entries()] == [("q1", "first")]


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
                said = Comparison(*pair, ["first", "second"][rng.integers(2)], time=time, id="q")
                with contextlib.suppress(InputError):  # of the same moment: only another dataset may say otherwise
                    dataset.add_comparisons([said])
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
