"""Tables on disk: Parquet files with a known schema, written whole or not at all.

The schema's metadata carries `format` and `version`, as every other file here does. Any Parquet reader opens them:
`pandas.read_parquet(path)`, or `select * from 'runs/*/episodes.parquet'` in DuckDB.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from mdcontest.errors import FileFormatError, InputError, VersionError
from mdcontest.files import VERSION, atomic_write

Schema = Mapping[str, str]
"""Column → type: string, int64, float64 or bool."""


def pyarrow_or_error() -> Any:
    """The module pyarrow, or an error that says how to install it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("tables need pyarrow: pip install 'mdcontest[learn]'") from None
    return pyarrow


def write_table(path: str | PathLike[str], format: str, schema: Schema, columns: Mapping[str, Any]) -> None:
    """Write columns of equal length; None is a missing value."""
    arrow = pyarrow_or_error()
    if list(columns) != list(schema):
        raise InputError(f"{path}: a {format} table has the columns {list(schema)}, got {list(columns)}")
    fields = _fields(arrow, schema)
    metadata = {"format": format, "version": str(VERSION)}
    try:
        arrays = [arrow.array(columns[field.name], type=field.type, from_pandas=False) for field in fields]
        table = arrow.Table.from_arrays(arrays, schema=arrow.schema(fields, metadata=metadata))
    except (arrow.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{path}: the columns cannot be stored: {error}") from None
    with atomic_write(path) as file:
        arrow.parquet.write_table(table, file, write_page_checksum=True)


def read_table(path: str | PathLike[str], format: str, schema: Schema) -> dict[str, Any]:
    """The columns of a table as NumPy arrays, texts and columns with gaps as lists; format and version are checked."""
    arrow, file = pyarrow_or_error(), Path(path)
    opened, _ = open_table(file, format)
    with unreadable(file):
        table = opened.read()
        table.validate(full=True)  # texts that are none, where bytes were changed
    if table.column_names != list(schema):
        raise FileFormatError(f"{file} has the columns {table.column_names}, expected {list(schema)}")
    for field in _fields(arrow, schema):
        if (found := table.schema.field(field.name).type) != field.type:
            raise FileFormatError(f"{file} has {found} in the column {field.name}, expected {field.type}")
    return {name: _values(table.column(name), kind) for name, kind in schema.items()}


def open_table(path: Path, format: str) -> tuple[Any, dict[str, str]]:
    """An open Parquet file and its metadata, with format and version checked; pages that were changed are refused."""
    arrow = pyarrow_or_error()
    if not path.is_file():
        raise FileFormatError(f"cannot read {path}: there is no such file")
    with unreadable(path):
        file = arrow.parquet.ParquetFile(path, page_checksum_verification=True)
        found = file.schema_arrow.metadata or {}
    metadata = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in found.items()}
    if metadata.get("format") != format:
        raise FileFormatError(f"{path} is a {metadata.get('format')!r} table, expected {format!r}")
    if metadata.get("version") != str(VERSION):
        raise VersionError(f"{path} has version {metadata.get('version')!r}, this program reads version {VERSION}")
    return file, metadata


@contextlib.contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """Whatever a damaged file makes Arrow raise, as one sentence that names the file."""
    arrow = pyarrow_or_error()
    try:
        yield
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileFormatError(f"{path} is truncated or no Parquet file: {reason}") from None


def _fields(arrow: Any, schema: Schema) -> list[Any]:
    return [arrow.field(name, getattr(arrow, kind if kind != "bool" else "bool_")()) for name, kind in schema.items()]


def _values(column: Any, kind: str) -> Any:
    if kind == "string" or column.null_count:
        return column.to_pylist()
    return column.to_numpy()
