"""Rows on disk: what is appended is read, elsewhere and after a stop as well, and damage is refused."""

import gc
import io
import sys
import tempfile
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdcontest as mdc
from full_disk import full
from mdcontest.learn.rows import Rows
from tiny_runs import ITERATION, new_agent


def table(count, width=3, first=0):
    return np.arange(first, first + count * width, dtype=np.float32).reshape(count, width) / 7


def written(path, count=5):
    rows = Rows(3, path)
    rows.append(table(count))
    rows.sync()
    return rows


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(1, 4))
def test_what_is_appended_is_read(sizes, width):
    rows, whole = Rows(width), table(sum(sizes), width)
    first = 0
    for size in sizes:
        rows.append(whole[first : first + size])
        first += size
        np.testing.assert_array_equal(rows.read(0, first), whole[:first])
    assert rows.count == sum(sizes)
    for i in range(rows.count):
        np.testing.assert_array_equal(rows.read(i, i + 1), whole[i : i + 1])
    rows.close()


def test_rows_are_float32_in_the_order_of_the_file(tmp_path):
    rows = written(tmp_path / "rows")
    rows.append(np.array([1 / 3, 2, 3]))  # one row as a vector, float64
    rows.sync()
    on_disk = np.fromfile(tmp_path / "rows", "<f4").reshape(-1, 3)
    np.testing.assert_array_equal(on_disk, np.vstack([table(5), np.float32([1 / 3, 2, 3])]))
    np.testing.assert_array_equal(rows.mapped(), on_disk)
    rows.close()


def test_opened_rows_are_those_the_record_knows(tmp_path):
    rows = written(tmp_path / "rows")
    record = rows.record()
    rows.append(table(4, first=100))  # written after the checkpoint
    rows.sync()
    rows.close()
    again = Rows.open(tmp_path / "rows", record)
    assert again.count == 5
    np.testing.assert_array_equal(again.read(0, 5), table(5))
    assert again.record() == record
    again.close()


def test_resumed_rows_go_on_where_the_record_was_made(tmp_path):
    path = tmp_path / "rows"
    rows = written(path)
    record = rows.record()
    rows.append(table(4, first=100))
    rows.sync()
    rows.close()
    again = Rows.open(path, record)
    again.continue_at(path)
    again.append(table(2, first=15))
    again.sync()
    np.testing.assert_array_equal(np.fromfile(path, "<f4").reshape(-1, 3), table(7))
    # The same bytes as if it had never stopped, so the same checksum.
    assert again.record() == written(tmp_path / "other", 7).record()
    again.close()


@pytest.mark.parametrize("start", ["temporary", "file"])
@pytest.mark.parametrize("goal", ["temporary", "file"])
def test_rows_continue_elsewhere_with_all_that_was_before(tmp_path, start, goal):
    places = {"temporary": None, "file": tmp_path / "new"}
    rows = written(None if start == "temporary" else tmp_path / "old", 4)
    rows.continue_at(places[goal])
    rows.append(table(3, first=12))
    np.testing.assert_array_equal(rows.read(0, 7), table(7))
    assert rows.path == places[goal]
    rows.sync()
    if start == "file":
        np.testing.assert_array_equal(np.fromfile(tmp_path / "old", "<f4").reshape(-1, 3), table(4))
    if goal == "file":
        np.testing.assert_array_equal(np.fromfile(tmp_path / "new", "<f4").reshape(-1, 3), table(7))
    rows.close()


def test_rows_opened_to_read_continue_elsewhere_and_leave_the_file_alone(tmp_path):
    record = written(tmp_path / "old", 4).record()
    rows = Rows.open(tmp_path / "old", record)
    rows.continue_at(tmp_path / "new")
    rows.append(table(1, first=12))
    rows.sync()
    np.testing.assert_array_equal(np.fromfile(tmp_path / "old", "<f4").reshape(-1, 3), table(4))
    np.testing.assert_array_equal(Rows.open(tmp_path / "new", rows.record()).read(0, 5), table(5))
    rows.close()


def test_a_copy_has_the_same_rows_and_the_original_goes_on(tmp_path):
    rows = Rows(3)
    rows.append(table(5))
    rows.copy_to(tmp_path / "copy")
    record = rows.record()
    rows.append(table(1, first=15))
    np.testing.assert_array_equal(Rows.open(tmp_path / "copy", record).read(0, 5), table(5))
    assert rows.count == 6
    rows.close()


def test_copying_onto_itself_changes_nothing(tmp_path):
    rows = written(tmp_path / "rows")
    rows.copy_to(tmp_path / "rows")
    rows.append(table(1, first=15))
    rows.sync()
    np.testing.assert_array_equal(np.fromfile(tmp_path / "rows", "<f4").reshape(-1, 3), table(6))
    rows.close()


@pytest.mark.parametrize("damage", ["a bit", "cut", "empty"])
def test_damaged_rows_are_refused(tmp_path, damage):
    path = tmp_path / "rows"
    rows = written(path)
    rows.close()
    content = bytearray(path.read_bytes())
    if damage == "a bit":
        content[17] ^= 4
    path.write_bytes(content[: {"a bit": 60, "cut": 59, "empty": 0}[damage]])
    with pytest.raises(mdc.FileFormatError, match="rows is damaged: 5 rows do not have the checksum"):
        Rows.open(path, rows.record())


def test_missing_rows_are_named(tmp_path):
    record = written(tmp_path / "rows").record()
    with pytest.raises(mdc.FileFormatError, match=r"cannot open .*gone: No such file"):
        Rows.open(tmp_path / "gone", record)


def resource_warnings(act):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
        gc.collect()
    return [str(one.message) for one in caught if issubclass(one.category, ResourceWarning)]


def test_rows_that_are_dropped_close_their_file(tmp_path):
    assert resource_warnings(lambda: Rows(3).append(table(2))) == []
    assert resource_warnings(lambda: written(tmp_path / "rows")) == []


def test_refused_rows_are_not_left_open(tmp_path):
    rows = written(tmp_path / "rows")
    rows.close()

    def refused():
        with pytest.raises(mdc.FileFormatError):
            Rows.open(tmp_path / "rows", rows.record() | {"checksum": 1})

    assert resource_warnings(refused) == []


# --- temporary files --------------------------------------------------------------------------------------


class FullFile(io.BytesIO):
    """A file that takes what fits into memory; there is no place for it on the disk."""

    def flush(self):
        full()

    def close(self):
        super().close()
        full()


def test_a_full_disk_for_temporary_files_is_told_in_words(tmp_path, monkeypatch):
    """Also when rows are read, which brings what was appended to the disk; when they are dropped, nothing is said."""
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    monkeypatch.setattr(tempfile, "TemporaryFile", FullFile)
    rows = Rows(3)
    rows.append(table(5))
    for name, arguments in (("read", (0, 1)), ("mapped", ()), ("continue_at", (tmp_path / "rows",))):
        with pytest.raises(mdc.RunError, match=r"cannot write a temporary file: No space left on device; .* TMPDIR"):
            getattr(rows, name)(*arguments)
    del rows
    gc.collect()
    assert ignored == []


def test_a_run_with_a_folder_needs_no_temporary_files(tmp_path, monkeypatch):
    def none():
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "TemporaryFile", none)
    for settings in ({}, {"returned": "cloned", "cloning_minibatches": 2, "cloning_epochs": 1}):
        agent = new_agent(**settings).learn(ITERATION, False, folder=tmp_path / str(len(settings)))
        assert agent.num_timesteps == ITERATION
    with pytest.raises(mdc.RunError, match=r"No usable temporary directory .*; set the environment variable TMPDIR to"):
        new_agent().learn(ITERATION, False)
