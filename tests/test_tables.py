"""Tables come back as they were, others and damaged ones are refused, and a full disk leaves the old one."""

import os

import numpy as np
import pytest

from full_disk import full
from mdcontest.errors import FileFormatError, InputError, VersionError
from mdcontest.files import atomic_write
from mdcontest.tables import read_table, write_table

SCHEMA = {"name": "string", "number": "int64", "value": "float64", "flag": "bool"}
COLUMNS = {"name": ["ä", "b"], "number": [1, -(2**60)], "value": [0.1, float("inf")], "flag": [True, False]}


def test_a_table_comes_back_as_it_was(tmp_path):
    write_table(tmp_path / "t.parquet", "test/table", SCHEMA, COLUMNS)
    found = read_table(tmp_path / "t.parquet", "test/table", SCHEMA)
    assert {name: list(values) for name, values in found.items()} == COLUMNS
    assert (found["number"].dtype, found["value"].dtype, found["flag"].dtype) == (np.int64, np.float64, bool)


def test_a_table_with_gaps_and_one_without_rows(tmp_path):
    gaps = {name: [*values, None] for name, values in COLUMNS.items()}
    write_table(tmp_path / "t.parquet", "test/table", SCHEMA, gaps)
    assert read_table(tmp_path / "t.parquet", "test/table", SCHEMA) == gaps
    write_table(tmp_path / "t.parquet", "test/table", SCHEMA, {name: [] for name in SCHEMA})
    assert all(len(values) == 0 for values in read_table(tmp_path / "t.parquet", "test/table", SCHEMA).values())


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"name": ["a"]}, "has the columns"),
        (dict(reversed(COLUMNS.items())), "has the columns"),
        (COLUMNS | {"number": [1]}, "cannot be stored"),
        (COLUMNS | {"number": ["one", "two"]}, "cannot be stored"),
        (COLUMNS | {"number": [2**70, 0]}, "cannot be stored"),
    ],
)
def test_columns_that_are_no_such_table(columns, told, tmp_path):
    write_table(tmp_path / "t.parquet", "test/table", SCHEMA, COLUMNS)
    before = (tmp_path / "t.parquet").read_bytes()
    with pytest.raises(InputError, match=f"t.parquet.*{told}"):
        write_table(tmp_path / "t.parquet", "test/table", SCHEMA, columns)
    assert (tmp_path / "t.parquet").read_bytes() == before


def test_a_table_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    write_table(path, "test/table", SCHEMA, COLUMNS)
    with pytest.raises(FileFormatError, match="is a 'test/table' table, expected 'test/other'"):
        read_table(path, "test/other", SCHEMA)
    with pytest.raises(FileFormatError, match="has the columns"):
        read_table(path, "test/table", {"name": "string"})
    with pytest.raises(FileFormatError, match="has double in the column value, expected string"):
        read_table(path, "test/table", SCHEMA | {"value": "string"})
    with pytest.raises(FileFormatError, match="there is no such file"):
        read_table(tmp_path / "u.parquet", "test/table", SCHEMA)
    with pytest.raises(FileFormatError, match="there is no such file"):
        read_table(tmp_path, "test/table", SCHEMA)


def test_a_table_of_another_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("mdcontest.tables.VERSION", 2)
    write_table(tmp_path / "t.parquet", "test/table", SCHEMA, COLUMNS)
    monkeypatch.undo()
    with pytest.raises(VersionError, match="has version '2', this program reads version 1"):
        read_table(tmp_path / "t.parquet", "test/table", SCHEMA)


def test_a_table_that_is_damaged_anywhere(tmp_path, count):
    """Cut short or with changed bytes it is refused, or, where the change is in a value, read; nothing else."""
    path, rng = tmp_path / "t.parquet", np.random.default_rng(0)
    write_table(path, "test/table", SCHEMA, {name: values * 50 for name, values in COLUMNS.items()})
    good = path.read_bytes()
    for cut in rng.integers(len(good), size=count(30, 300)):
        path.write_bytes(good[:cut])
        with pytest.raises(FileFormatError, match=r"t\.parquet is truncated or no Parquet file"):
            read_table(path, "test/table", SCHEMA)
    for _ in range(count(300, 3000)):
        damaged = bytearray(good)
        damaged[rng.integers(len(good))] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            read_table(path, "test/table", SCHEMA)
        except FileFormatError as error:
            assert "t.parquet" in str(error)


@pytest.mark.parametrize("operation", ["fsync", "replace", "write"])
def test_a_disk_that_is_full_leaves_the_old_table(operation, tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    write_table(path, "test/table", SCHEMA, COLUMNS)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        if operation == "write":
            patch.setattr("pyarrow.parquet.write_table", full)
        else:
            patch.setattr(os, operation, full)
        with pytest.raises(InputError, match="No space left on device; what was there is unchanged"):
            write_table(path, "test/table", SCHEMA, {name: values * 2 for name, values in COLUMNS.items()})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.parquet"]


def test_nothing_is_seen_of_a_file_under_way(tmp_path):
    with atomic_write(tmp_path / "t.parquet") as file:
        file.write(b"half")
        assert not (tmp_path / "t.parquet").exists()
    assert (tmp_path / "t.parquet").read_bytes() == b"half"
