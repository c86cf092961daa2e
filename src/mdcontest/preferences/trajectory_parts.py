"""Part files of trajectories: Parquet, one row a step, and one more row for the observation after the last step.

In that last row action, reward and info are empty. Arrays are columns of fixed-size lists, flattened, with their dtype
and shape under `layout` in the schema's metadata. Row groups hold whole trajectories, so that one can be read alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.errors import FileFormatError
from mdcontest.files import VERSION, atomic_write
from mdcontest.preferences.trajectories import DTYPES, Layout, Trajectory, TrajectoryInfo, outcomes_of
from mdcontest.tables import open_table, pyarrow_or_error, unreadable

FORMAT = "mdcontest/trajectories"
ABOUT = {
    "trajectory": "string",
    "source": "string",
    "trained_steps": "int64",
    "seed": "int64",
    "terminated": "bool",
    "step": "int64",
}
"""Columns that every part has, before those of its arrays."""
GROUP_ROWS = 4096
"""Trajectories are packed into row groups of about so many rows."""


def write_part(folder: Path, trajectories: Sequence[Trajectory]) -> Path:
    """Write trajectories of one layout into a new file, named after what is in it."""
    arrow, layout = pyarrow_or_error(), trajectories[0].layout
    name = hashlib.blake2b("".join(t.id for t in trajectories).encode(), digest_size=8).hexdigest()
    metadata = {"format": FORMAT, "version": str(VERSION), "layout": json.dumps(layout)}
    schema = arrow.schema(_fields(arrow, layout), metadata=metadata)
    path = folder / f"{name}.parquet"
    # No dictionaries for numbers: equal ones would be merged, and -0.0 or a NaN's bits with them.
    how = {"use_dictionary": ["trajectory", "source"], "compression": "zstd", "write_page_checksum": True}
    with atomic_write(path) as file, arrow.parquet.ParquetWriter(file, schema, **how) as writer:
        for group in _groups(trajectories):
            writer.write_table(arrow.Table.from_arrays(_columns(arrow, group, layout), schema=schema))
    return path


def _groups(trajectories: Sequence[Trajectory]) -> Iterator[list[Trajectory]]:
    group: list[Trajectory] = []
    for trajectory in trajectories:
        group.append(trajectory)
        if sum(len(t) + 1 for t in group) >= GROUP_ROWS:
            yield group
            group = []
    if group:
        yield group


def _columns(arrow: Any, group: list[Trajectory], layout: Layout) -> list[Any]:
    rows = [len(t) + 1 for t in group]
    about = [
        [t.id for t in group],
        [t.source for t in group],
        [t.steps for t in group],
        [t.seed for t in group],
        [bool(t.terminated) for t in group],
    ]
    place = np.repeat(np.arange(len(group)), rows)
    kinds = [getattr(arrow, kind.replace("bool", "bool_"))() for kind in ABOUT.values()]
    columns = [
        arrow.array(values, type=kind).take(arrow.array(place)) for values, kind in zip(about, kinds, strict=False)
    ]
    columns.append(arrow.array(np.concatenate([np.arange(count) for count in rows])))
    is_last = np.concatenate([np.arange(count) == count - 1 for count in rows])
    for name, (dtype, shape) in layout["columns"].items():
        known = name in group[0].last
        filler = np.zeros((1, *shape), dtype)
        values = np.concatenate([a for t in group for a in (t.arrays[name], t.last[name] if known else filler)])
        columns.append(_listed(arrow, values, shape, None if known else is_last))
    return columns


def _fields(arrow: Any, layout: Layout) -> list[Any]:
    """The columns of a part: about the trajectory, then its arrays."""
    about = [arrow.field(column, getattr(arrow, kind.replace("bool", "bool_"))()) for column, kind in ABOUT.items()]
    return about + [arrow.field(column, _type(arrow, *kind)) for column, kind in layout["columns"].items()]


def _type(arrow: Any, dtype: str, shape: list[int]) -> Any:
    element = arrow.from_numpy_dtype(np.dtype(dtype))
    return element if not shape else arrow.list_(element, int(np.prod(shape)))


def _listed(arrow: Any, values: NDArray[Any], shape: list[int], empty: NDArray[Any] | None) -> Any:
    """Rows as an Arrow array: numbers as they are, everything else as a list of fixed size."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if not shape:
        return arrow.array(flat, mask=empty, from_pandas=False)
    mask = None if empty is None else arrow.array(empty)
    kind = _type(arrow, values.dtype.name, shape)
    return arrow.FixedSizeListArray.from_arrays(arrow.array(flat, from_pandas=False), type=kind, mask=mask)


# --- reading ----------------------------------------------------------------------------------------------


def open_part(path: Path) -> tuple[Any, Layout]:
    """The open file and its layout, checked for format, version and columns."""
    file, metadata = open_table(path, FORMAT)
    try:
        layout = json.loads(metadata["layout"])
        known = all(
            dtype in DTYPES and all(type(n) is int and n >= 1 for n in shape)
            for dtype, shape in layout["columns"].values()
        )
        wanted = [*ABOUT, *layout["columns"]]
        if not known or type(layout["next_obs"]) is not bool:
            raise ValueError("its layout is unknown")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FileFormatError(
            f"{path} was changed or damaged: it does not say what its columns are ({error})"
        ) from None
    arrow = pyarrow_or_error()
    if file.schema_arrow.names != wanted:
        raise FileFormatError(f"{path} has the columns {file.schema_arrow.names}, expected {wanted}")
    for field in _fields(arrow, layout):
        if (found := file.schema_arrow.field(field.name).type) != field.type:
            raise FileFormatError(f"{path} has {found} in the column {field.name}, expected {field.type}")
    return file, layout


def read_infos(path: Path) -> list[TrajectoryInfo]:
    """What is known of each trajectory of a part; no array is read."""
    file, _ = open_part(path)
    with unreadable(path):
        about = file.read(columns=list(ABOUT))
        about.validate(full=True)
        if any(about.column(name).null_count for name in ABOUT if name != "seed"):
            raise FileFormatError(f"{path} was changed or damaged: something about its trajectories is missing")
        step = about.column("step").to_numpy()
        starts = np.flatnonzero(step == 0)
        lengths = np.diff(np.append(starts, len(step))) - 1
        rows = about.take(starts).to_pylist()
    if not np.array_equal(step, np.concatenate([np.zeros(0, int), *(np.arange(n + 1) for n in lengths)])):
        raise FileFormatError(f"{path} was changed or damaged: its steps do not count up")
    return [
        TrajectoryInfo(
            row["trajectory"],
            int(length),
            row["terminated"],
            row["seed"],
            row["source"],
            row["trained_steps"],
            path.name,
            int(start),
        )
        for row, start, length in zip(rows, starts, lengths, strict=True)
    ]


def read_trajectories(path: Path, infos: Sequence[TrajectoryInfo]) -> list[Trajectory]:
    """Some trajectories of a part, each checked against its id."""
    file, layout = open_part(path)
    ends = np.cumsum([file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)])
    found: list[Trajectory] = []
    group, columns = -1, dict[str, NDArray[Any]]()
    for info in sorted(infos, key=lambda info: info.row):
        wanted = int(np.searchsorted(ends, info.row, side="right"))
        if wanted != group:
            group, columns = wanted, _read_group(path, file, layout, wanted)
        first = info.row - int(ends[group - 1] if group else 0)
        found.append(_cut(path, info, layout, columns, first))
    return found


def _read_group(path: Path, file: Any, layout: Layout, group: int) -> dict[str, NDArray[Any]]:
    """The arrays of one row group by column, the row after the last step of each trajectory included."""
    arrays: dict[str, NDArray[Any]] = {}
    with unreadable(path):
        table = file.read_row_group(group, columns=list(layout["columns"]))
        for name, (dtype, shape) in layout["columns"].items():
            column = table.column(name).combine_chunks()
            values = np.zeros((len(column), *shape), dtype)
            flat = column.flatten() if shape else column.drop_null()
            values[column.is_valid().to_numpy(zero_copy_only=False)] = flat.to_numpy(zero_copy_only=False).reshape(
                -1, *shape
            )
            arrays[name] = values
    return arrays


def _cut(
    path: Path, info: TrajectoryInfo, layout: Layout, columns: Mapping[str, NDArray[Any]], first: int
) -> Trajectory:
    end = first + info.length
    arrays = {name: values[first:end] for name, values in columns.items()}
    last = {name: values[end : end + 1] for name, values in columns.items() if name.split(".")[0] == "obs"}
    outcomes = outcomes_of(arrays, last if layout["next_obs"] else {})
    found = Trajectory(outcomes, info.terminated, info.seed, info.source, info.steps)
    if found.id != info.id:
        raise FileFormatError(
            f"{path} was changed or damaged: the trajectory {info.id} is not what was stored under this id"
        )
    return found
