"""A finished run's logs as Parquet tables, with the columns that tell runs apart, ready to be read all together."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

from mdcontest.errors import FileFormatError
from mdcontest.learn.logs import Logs, Progress
from mdcontest.tables import write_table

IDENTITY = {"run": "string", "task": "string", "algorithm": "string", "seed": "int64"}
"""Which run a row is of."""
EPISODES_FILE, EPISODES_FORMAT = "episodes.parquet", "mdcontest/episodes"
EPISODES = {**IDENTITY, "step": "int64", "return": "float64", "length": "int64"}
PROGRESS_FILE, PROGRESS_FORMAT = "progress.parquet", "mdcontest/progress"
PROGRESS = {
    **IDENTITY,
    **{
        item.name: "int64" if item.name in ("iteration", "steps", "target") else "float64"
        for item in dataclasses.fields(Progress)
    },
}


def export_logs(folder: Path, description: dict[str, Any]) -> None:
    """Write RUN/episodes.parquet and RUN/progress.parquet from the CSV files."""
    for file, format, schema, log in (
        (EPISODES_FILE, EPISODES_FORMAT, EPISODES, Logs.EPISODES),
        (PROGRESS_FILE, PROGRESS_FORMAT, PROGRESS, Logs.PROGRESS),
    ):
        columns = read_log(folder / log, {name: kind for name, kind in schema.items() if name not in IDENTITY})
        count = len(next(iter(columns.values())))
        write_table(folder / file, format, schema, identity_columns(folder, description, count) | columns)


def identity_columns(folder: Path, description: dict[str, Any], count: int) -> dict[str, list[Any]]:
    """The columns of IDENTITY for that many rows."""
    values = [folder.resolve().name, description["task"]["name"], description["algorithm"], description["seed"]]
    return {name: [value] * count for name, value in zip(IDENTITY, values, strict=True)}


def read_log(path: Path, columns: dict[str, str]) -> dict[str, list[Any]]:
    """The columns of a CSV log; a last row that was cut short is left out, and no file is no rows."""
    found: dict[str, list[Any]] = {name: [] for name in columns}
    try:
        text = path.read_bytes().decode() if path.exists() else ""
        rows = csv.DictReader(text[: text.rfind("\n") + 1].splitlines())
        for row in rows:
            for name, kind in columns.items():
                found[name].append(None if row[name] == "" else int(row[name]) if kind == "int64" else float(row[name]))
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise FileFormatError(f"{path} is damaged: {error!r}") from None
    return found
