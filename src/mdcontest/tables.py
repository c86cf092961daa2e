"""Tables on disk: Parquet files with a known schema, written whole or not at all.

The schema's metadata carries `format` and `version`, as every other file here does. Any Parquet reader opens them:
`pandas.read_parquet(path)`, or `select * from 'runs/*/episodes.parquet'` in DuckDB.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from mdcontest.errors import FileFormatError, InputError, VersionError
from mdcontest.files import VERSION, atomic_write

Schema = Mapping[str, str]
"""Column → type: string, int64, float64 or bool."""


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("tables need pyarrow: pip install 'mdcontest[learn]'") from None
    return pyarrow


def write_table(path: str | PathLike[str], format: str, schema: Schema, columns: Mapping[str, Any]) -> None:
    """Write columns of equal length; None is a missing value."""
    arrow = _arrow()
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
        arrow.parquet.write_table(table, file)


def read_table(path: str | PathLike[str], format: str, schema: Schema) -> dict[str, Any]:
    """The columns of a table as NumPy arrays, texts and columns with gaps as lists; format and version are checked."""
    arrow, file = _arrow(), Path(path)
    if not file.is_file():
        raise FileFormatError(f"cannot read {file}: there is no such file")
    try:
        table = arrow.parquet.ParquetFile(file).read()
        table.validate(full=True)  # texts that are none, where bytes were changed
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{file} is truncated or no Parquet file: {str(error).splitlines()[0]}") from None
    metadata = {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (table.schema.metadata or {}).items()
    }
    if metadata.get("format") != format:
        raise FileFormatError(f"{file} is a {metadata.get('format')!r} table, expected {format!r}")
    if metadata.get("version") != str(VERSION):
        raise VersionError(f"{file} has version {metadata.get('version')!r}, this program reads version {VERSION}")
    if table.column_names != list(schema):
        raise FileFormatError(f"{file} has the columns {table.column_names}, expected {list(schema)}")
    for field in _fields(arrow, schema):
        if (found := table.schema.field(field.name).type) != field.type:
            raise FileFormatError(f"{file} has {found} in the column {field.name}, expected {field.type}")
    return {name: _values(table.column(name), kind) for name, kind in schema.items()}


def _fields(arrow: Any, schema: Schema) -> list[Any]:
    return [arrow.field(name, getattr(arrow, kind if kind != "bool" else "bool_")()) for name, kind in schema.items()]


def _values(column: Any, kind: str) -> Any:
    if kind == "string" or column.null_count:
        return column.to_pylist()
    return column.to_numpy()
