"""Checkpoints: a folder with safetensors and JSON that appears whole or not at all, and is not read when damaged.

    RUN/checkpoints/00000040/arrays.safetensors   every array: weights, Adam's moments, statistics, environments
    RUN/checkpoints/00000040/state.json           everything else; {"__array__": name} points into that file, and so
                                                  does {"__scalar__": name}, for one number of a type of NumPy;
                                                  a dictionary that reads like these is {"__dictionary__": it}
    RUN/checkpoints/00000040/SHA256SUMS           checksums of the two, as `sha256sum -c` reads them

It is written under another name, brought to disk and renamed; the one before is removed only then. Loading runs no
code: safetensors holds numbers, JSON is JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from mdcontest.errors import FileFormatError, RunError
from mdcontest.files import sync_folder, to_json

FORMAT = "mdcontest/checkpoint"
CHECKPOINTS = "checkpoints"
"""The folder of them within a run's."""
ARRAYS, STATE, SUMS = "arrays.safetensors", "state.json", "SHA256SUMS"
MARK = "__array__"
"""The key that stands for an array in the JSON."""
SCALAR = "__scalar__"
"""The key that stands for one number of NumPy: as a number of Python it would be computed with at another precision."""
OWN = "__dictionary__"
"""The key around a dictionary that would be taken for one of these, because its only key is theirs."""
NUMBERS, WIDEST = "fiub", 8
"""Kinds of NumPy's types that a checkpoint holds: floats, integers, unsigned integers, booleans; of at most 8 bytes."""
NAME = re.compile(r"\d{8}(\.\d+)?")
"""What a checkpoint's folder is called; others are left alone."""
KEPT = 2
"""Checkpoints that stay; the older is what one falls back to should the newer be damaged."""


def write_checkpoint(run: Path, number: int, record: dict[str, Any]) -> Path:
    """Write a record of numbers, texts, lists, dictionaries and arrays as checkpoint `number`."""
    arrays: dict[str, NDArray[Any]] = {}
    state = _take_arrays(record, "", arrays)
    for name, array in arrays.items():
        if array.dtype.kind not in NUMBERS or array.dtype.itemsize > WIDEST:
            raise RunError(
                f"a checkpoint holds texts and numbers of up to {8 * WIDEST} bits, but {name} is an array of "
                f"{array.dtype}"
            )
    files = {ARRAYS: safetensors.numpy.save(arrays), STATE: to_json(FORMAT, state).encode()}
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    folder = run / CHECKPOINTS
    target = _free_name(folder, number)
    temporary = folder / f".{target.name}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        for name, content in (files | {SUMS: sums.encode()}).items():
            with open(temporary / name, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        sync_folder(temporary)
        os.rename(temporary, target)
        sync_folder(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        rest = "; the one before is intact" if list_checkpoints(run) else ""
        raise RunError(f"cannot write the checkpoint {target}: {error.strerror or error}{rest}") from None
    for old in list_checkpoints(run)[:-KEPT]:
        _remove(old)
    return target


def _remove(checkpoint: Path) -> None:
    """Out of sight first: a process that is killed while it removes files leaves no checkpoint with some missing."""
    hidden = checkpoint.with_name(f".{checkpoint.name}.tmp")
    with contextlib.suppress(OSError):
        os.rename(checkpoint, hidden)
        shutil.rmtree(hidden, ignore_errors=True)


def _free_name(folder: Path, number: int) -> Path:
    """A run saved twice at the same iteration gets a second checkpoint, never a half-replaced one.

    It comes after those that are there: a name that was freed by pruning would make it the oldest, and the next to go.
    """
    name = f"{number:08d}"
    taken = [order(entry) for entry in list_checkpoints(folder.parent) if entry.name.split(".")[0] == name]
    return folder / (f"{name}.{max((again for _, again in taken)) + 1}" if taken else name)


def order(checkpoint: Path) -> tuple[int, int]:
    """The iteration it was made at, and how many of that iteration were there."""
    number, _, again = checkpoint.name.partition(".")
    return int(number), int(again or 0)


def list_checkpoints(run: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    try:
        found = [entry for entry in (run / CHECKPOINTS).iterdir() if NAME.fullmatch(entry.name)]
    except OSError:
        return []
    return sorted(found, key=order)


def identity(checkpoint: Path) -> str:
    """Which checkpoint this is: two are the same only if their name and their content are."""
    return f"{checkpoint.name} {hashlib.sha256(_read(checkpoint / SUMS)).hexdigest()}"


def newest_identity(run: Path) -> str | None:
    """That of the newest checkpoint, None where there is none."""
    found = list_checkpoints(run)
    return identity(found[-1]) if found else None


def read_checkpoint(folder: Path) -> dict[str, Any]:
    """The record in a checkpoint, or an error that names the damaged file."""
    contents = {name: _read(folder / name) for name in (SUMS, ARRAYS, STATE)}
    expected = dict(_sum_line(line, folder) for line in contents.pop(SUMS).decode(errors="replace").splitlines())
    for name, content in contents.items():
        if expected.get(name) != hashlib.sha256(content).hexdigest():
            raise FileFormatError(
                f"the checkpoint {folder} is damaged: {name} does not have the checksum in {SUMS}; "
                "remove that folder to go on from the checkpoint before it"
            )
    try:
        state = json.loads(contents[STATE])
        arrays = safetensors.numpy.load(contents[ARRAYS])
    except (ValueError, RecursionError, safetensors.SafetensorError) as error:
        raise FileFormatError(f"the checkpoint {folder} cannot be read: {error}") from None
    if not isinstance(state, dict):
        raise FileFormatError(f"{folder / STATE} holds a {type(state).__name__} instead of fields")
    if state.get("format") != FORMAT or state.get("version") != 1:
        found = f"{state.get('format')!r} version {state.get('version')!r}"
        raise FileFormatError(f"{folder / STATE} is {found}, this program reads {FORMAT!r} version 1")
    try:
        return _put_arrays(state, arrays)
    except (KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"the checkpoint {folder} names an array that is not there: {error}") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileFormatError(
            f"the checkpoint {path.parent} is damaged: cannot read {path.name}: {error.strerror}"
        ) from None


def _sum_line(line: str, folder: Path) -> tuple[str, str]:
    digest, separator, name = line.partition("  ")
    if not separator:
        raise FileFormatError(f"the checkpoint {folder} is damaged: {SUMS} holds the line {line!r}")
    return name, digest


def _take_arrays(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """The value with each array and each number of NumPy moved to `arrays` and its name put in its place."""
    is_scalar = isinstance(value, np.generic) and value.dtype.kind in NUMBERS
    if is_scalar or isinstance(value, np.ndarray):
        while name in arrays:
            name += "'"  # keys with a slash in them
        arrays[name] = np.array(value, order="C")
        return {SCALAR if is_scalar else MARK: name}
    if isinstance(value, dict):
        own = {key: _take_arrays(inner, f"{name}/{key}" if name else key, arrays) for key, inner in value.items()}
        return {OWN: own} if set(own) in ({MARK}, {SCALAR}, {OWN}) else own
    if isinstance(value, list | tuple):
        return [_take_arrays(inner, f"{name}/{i}", arrays) for i, inner in enumerate(value)]
    return value


def _put_arrays(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, dict):
        if set(value) == {MARK}:
            return arrays[value[MARK]]
        if set(value) == {SCALAR}:
            return arrays[value[SCALAR]][()]
        own = value[OWN] if set(value) == {OWN} else value
        return {key: _put_arrays(inner, arrays) for key, inner in own.items()}
    return [_put_arrays(inner, arrays) for inner in value] if isinstance(value, list) else value
