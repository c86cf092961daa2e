"""Comparisons as JSON lines: out and in again is the same, and what is wrong is named by its line."""

import json

import numpy as np
import pytest

from datasets import compared, filled, task_by_hand, trajectory
from mdcontest.errors import FileFormatError, InputError
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.jsonl import export_comparisons, import_comparisons


@pytest.fixture
def dataset(tmp_path):
    dataset, ids = filled(tmp_path / "d", [trajectory(0), trajectory(1)])
    more = {"annotator": 'a "quoted" näme\n', "source": "☃", "time": 1700000000.123456}
    dataset.add_comparisons(compared(ids, np.random.default_rng(0), 30, **more))
    return dataset


def test_out_and_in_again(dataset, tmp_path):
    file = tmp_path / "said.jsonl"
    assert export_comparisons(dataset, file) == len(dataset.entries()) == len(file.read_text().splitlines())
    other, _ = filled(tmp_path / "e", [trajectory(0), trajectory(1)])
    assert import_comparisons(other, file) == len(dataset.entries())
    assert other.entries() == dataset.entries()
    assert import_comparisons(other, file) == import_comparisons(dataset, file) == 0
    assert Dataset.open(other.path).entries() == dataset.entries()


def test_what_others_write(dataset, tmp_path):
    """A mark at the beginning, blank lines, and only what has to be there."""
    one, other = dataset.index()
    line = {
        "first": {"trajectory": one, "start": 1},
        "second": {"trajectory": other, "start": 2, "length": 1},
        "label": 1,
    }
    file = tmp_path / "said.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(line).encode() + b"\r\n\n")
    before = {entry.id for entry in dataset.entries()}
    assert import_comparisons(dataset, file) == 1
    (new,) = [entry for entry in dataset.entries() if entry.id not in before]
    assert (new.first.start, new.first.length, new.label, new.annotator, new.time) == (1, 1, 1.0, "", 0.0)


def changed(record, **fields):
    return json.dumps({**record, **fields})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda r: json.dumps(r)[:40], "truncated or not JSON"),
        (lambda r: "[1, 2]", "must be an object in braces"),
        (lambda r: json.dumps({**r, "lable": "first"}), "no field 'lable'; did you mean label"),
        (lambda r: json.dumps({k: v for k, v in r.items() if k != "second"}), "needs the field 'second'"),
        (lambda r: changed(r, first={"trajectory": "t"}), "the segment first needs the field 'start'"),
        (lambda r: changed(r, first="t:3"), "the segment first must be an object"),
        (lambda r: changed(r, first={"trajectory": "none", "start": 0}), "no trajectory 'none' in .*, which has 2"),
        (lambda r: changed(r, first={**r["first"], "start": 77}), "steps 77 to 77 of the trajectory"),
        (lambda r: changed(r, first={**r["first"], "start": 1.5}), "start must be a whole number"),
        (lambda r: changed(r, first={**r["first"], "length": True}), "length must be a whole number"),
        (lambda r: changed(r, first={**r["first"], "trajectory": 3}), "names and ids of a comparison are texts"),
        (lambda r: changed(r, label="frist"), "'frist' is no label; did you mean first"),
        (lambda r: changed(r, label=7), "7 is no label"),
        (lambda r: changed(r, label="withdrawn"), "'withdrawn' is no label"),
        (lambda r: changed(r, label=float("nan")), "holds the number NaN"),
        (lambda r: changed(r, time="yesterday"), "time must be seconds since 1970"),
        (lambda r: changed(r, time=10**400), "time must be seconds since 1970"),
        (lambda r: changed(r, annotator=None), "are texts, got None"),
        (lambda r: changed(r, id="\ud800"), "half a character"),
        (lambda r: json.dumps(r)[:-1] + ', "label": "first"}', "the field 'label' comes twice"),
        (lambda r: "[" * 100_000, "truncated or not JSON"),
        (lambda r: '{"a": "' + "x" * (1 << 20) + '"}', "over 1048576 bytes"),
    ],
)
def test_lines_that_are_no_comparison(dataset, tmp_path, damage, message):
    file = tmp_path / "said.jsonl"
    export_comparisons(dataset, file)
    lines = file.read_text().splitlines()
    other = Dataset.create(tmp_path / "e", task_by_hand())
    other.add_trajectories([trajectory(0), trajectory(1)])
    file.write_text("\n".join([*lines[:4], damage(json.loads(lines[4])), *lines[5:]]))
    with pytest.raises(FileFormatError, match=rf"said\.jsonl, line 5: .*{message}"):
        import_comparisons(other, file)
    assert other.entries() == []


def test_files_that_cannot_be_read(dataset, tmp_path):
    with pytest.raises(FileFormatError, match=r"cannot read .*No such file"):
        import_comparisons(dataset, tmp_path / "nothing")
    with pytest.raises(FileFormatError, match=r"cannot read .*Is a directory"):
        import_comparisons(dataset, tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\n")
    with pytest.raises(FileFormatError, match="line 1: it is not UTF-8"):
        import_comparisons(dataset, tmp_path / "binary")
    with pytest.raises(InputError, match="cannot write"):
        export_comparisons(dataset, tmp_path / "no" / "folder.jsonl")
