"""dataset.json: whose trajectories a dataset holds, written once when it is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mdcontest.errors import FileFormatError, InputError
from mdcontest.files import read_record, write_record
from mdcontest.tasks import Task
from mdcontest.tasks.records import task_record

FORMAT, FILE = "mdcontest/preferences", "dataset.json"
MAX_BYTES = 1 << 24


def is_described(folder: Path) -> bool:
    """Whether there is a dataset in a folder, or an error for what can be none."""
    try:
        return (folder / FILE).is_file()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot use the folder {folder}: {getattr(error, 'strerror', None) or error}") from None


def write_description(folder: Path, task: Task, horizon: int | None) -> dict[str, Any]:
    """Write it into a folder, which is there; what was written."""
    record = {"task": task_record(task), "horizon": horizon}
    write_record(folder / FILE, FORMAT, record)
    return record


def read_description(folder: Path) -> dict[str, Any]:
    """What it says, or an error for one that is not there or was changed."""
    if not is_described(folder):
        raise FileFormatError(f"{folder} holds no dataset: there is no {FILE} in it")
    record = read_record(folder / FILE, FORMAT, max_bytes=MAX_BYTES)
    about, horizon = record.get("task"), record.get("horizon")
    if not isinstance(about, dict) or not {"name", "registered", "settings"} <= set(about):
        raise FileFormatError(f"{folder / FILE} is incomplete: it does not say which task it is")
    if not isinstance(about["name"], str):
        raise FileFormatError(f"{folder / FILE} was changed or damaged: its task is called {about['name']!r:.60}")
    if about["registered"] and not isinstance(about["settings"], dict):
        raise FileFormatError(f"{folder / FILE} was changed or damaged: its task has no settings")
    if horizon is not None and (type(horizon) is not int or horizon < 1):
        raise FileFormatError(f"{folder / FILE} was changed or damaged: its horizon is {horizon!r}")
    return {"task": about, "horizon": horizon}
