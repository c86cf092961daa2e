"""Where commands write: refused, before any work is done, where the place is unnamed or something else's."""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path

from mdcontest.errors import InputError

PLACES = {
    "out": "--out",
    "page": "--page",
    "video": "--video",
    "to_file": "--export",
    "from_file": "--import",
    "merge": "--merge",
    "resume": "--resume",
    "margin": "--margin",
    "data": "--data",
    "ray": "--ray",
    "instructions": "--instructions",
    "folder": "the folder",
    "run_folders": "a run's folder",
    "dataset": "the dataset",
}
"""Options that name a file or a place, and what people know them as."""
DESCRIPTIONS = {"run.json": "run", "dataset.json": "dataset", "margin.json": "margin"}
"""The files by which the folders of this program are known."""
DEPTH = 3
"""A file of a run lies this deep in it at most: RUN/checkpoints/NAME/state.json."""


def refuse_empty(options: argparse.Namespace) -> None:
    """An error for a name without a letter, such as that of a variable of the shell that is not set."""
    for name, known in PLACES.items():
        given = getattr(options, name, None)
        if any(text == "" for text in (given if isinstance(given, list) else [given])):
            raise InputError(f"{known} is empty; write a name, or leave it out where it may be left out")


def refuse_runs(folder: str, what: str) -> None:
    """An error where a folder that something is to be written to is a run, or holds runs."""
    found = False
    with contextlib.suppress(OSError, ValueError):  # what is wrong with its name is said by whoever writes there
        found = any(any(Path(folder).glob(pattern)) for pattern in ("run.json", "*/run.json"))
    if found:
        raise InputError(f"--out {folder} holds a run, or several; name another folder for the {what}")


def require_ending(flag: str, name: str, example: str, what: str, also: tuple[str, ...] = ()) -> None:
    """An error for another ending than the example's: a slip, such as margin/margin.json, would replace what is there.

    `also` are endings that mean the same.
    """
    ending = Path(example).suffix
    if os.path.isdir(name):
        raise InputError(f"{flag} {name} is a folder; name {what} in it, such as {os.path.join(name, example)}")
    if not name.lower().endswith((ending, *also)):
        raise InputError(f"{flag} {name} is not the name of {what}; it ends in {ending}")


def require_page(flag: str, page: str) -> None:
    """An error where a page would replace something that is none."""
    import mdcontest.report  # noqa: F401, an error that names the extra

    require_ending(flag, page, "report.html", "a page", (".htm",))


def refuse_parts(flag: str, name: str) -> None:
    """An error for a file that is there and part of a run, a dataset or a margin."""
    target = Path(os.path.abspath(name))
    if not os.path.lexists(target):
        return
    linked = Path(os.path.realpath(target))  # what is written to where the name is a link
    for folder in (*target.parents[:DEPTH], *linked.parents[:DEPTH]):
        for description, what in DESCRIPTIONS.items():
            if (folder / description).is_file():
                raise InputError(f"{flag} {name} is part of the {what} in {folder}; name another file")
