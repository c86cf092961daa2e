"""Which pairs are asked about: the most disputed first, never the same twice, and what is left out is said."""

from dataclasses import replace

import numpy as np
import pytest

from mdcontest.errors import InputError
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.labelling.choice import Choice, starts_of
from mdcontest.preferences.trajectories import TrajectoryInfo
from preferences.labelling.sessions import make_dataset, play


class Disagreeing:
    """A margin whose members differ most about pairs of late trajectories."""

    def __init__(self, rows):
        self.rows = rows

    def disagreement(self, outcomes, first, second):
        self.rows.append(len(first))
        return np.abs(outcomes.obs[first.start, 0]) + np.abs(outcomes.obs[second.start, 0])


def test_the_most_disputed_pairs_come_first(tmp_path, monkeypatch):
    dataset, asked = make_dataset(tmp_path / "dataset", count=30), []
    (tmp_path / "margin").mkdir()
    choice = Choice(dataset, 12, tmp_path / "margin")
    assert len(choice.draw(10, lambda key: False)) == 10  # at random, as long as nothing was fitted
    assert asked == []
    (tmp_path / "margin" / "margin.json").touch()
    monkeypatch.setattr("mdcontest.preferences.margin_files.load_margin", lambda folder: Disagreeing(asked))
    chosen = choice.draw(10, lambda key: False)
    score = {id: abs(dataset.trajectory(id).outcomes.obs[0, 0]) for id in dataset.index()}
    scores = [score[pair.one.trajectory] + score[pair.other.trajectory] for pair in chosen]
    assert scores == sorted(scores, reverse=True)
    assert asked[0] >= 150
    mean = 2 * np.mean(list(score.values()))
    assert min(scores) > mean


def test_drawn_pairs_are_new_and_different(dataset):
    choice = Choice(dataset, 5, seed=3)
    first = choice.draw(100, lambda key: False)
    known = {pair.key for pair in first}
    second = choice.draw(100, known.__contains__)
    assert len(known) == 100
    assert not known & {pair.key for pair in second}
    index = dataset.index()
    for pair in first:
        assert pair.one != pair.other
        for segment in (pair.one, pair.other):
            assert 0 <= segment.start <= index[segment.trajectory].length - 5
    everything = choice.draw(10_000, lambda key: False)
    assert len(everything) == 48 * 47 // 2  # 6 trajectories with 8 places each
    assert choice.draw(10, lambda key: True) == []


def test_where_segments_begin():
    def places(length, terminated, steps=10):
        return starts_of(TrajectoryInfo("id", length, terminated, 0, "", 0, "", 0), steps)

    assert [places(n, False) for n in (9, 10, 15)] == [0, 1, 6]
    assert [places(n, True) for n in (1, 4, 5, 15)] == [1, 1, 1, 11]  # at most half of a clip is after the end


def test_what_cannot_be_asked_about(tmp_path):
    empty = Dataset.create(tmp_path / "empty", make_dataset(tmp_path / "one", count=1).task(), 12)
    assert Choice(empty, 12).draw(3, lambda key: False) == []
    assert Choice(Dataset.open(tmp_path / "one"), 12).draw(3, lambda key: False) == []
    with pytest.raises(InputError, match="1 to 2000 steps"):
        Choice(empty, 0)
    with pytest.raises(InputError, match="--margin"):
        Choice(empty, 5, tmp_path / "nowhere")


def test_what_is_left_out_is_said(tmp_path):
    """No seed, or too short: nobody could find out from a page that only says that there is nothing."""
    dataset = make_dataset(tmp_path / "data", count=3)
    unseeded = [replace(play(dataset.task(), seed, 12), seed=None) for seed in (7, 8)]
    dataset.add_trajectories(unseeded)
    choice = Choice(dataset, 13)
    assert choice.draw(3, lambda key: False) == []
    assert choice.left_out == (
        "2 of 5 trajectories cannot be played again, for they have no seed; 3 of 5 trajectories are cut off before a "
        "clip of 13 steps is over (--length makes clips shorter)"
    )
