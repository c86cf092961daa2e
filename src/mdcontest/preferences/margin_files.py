"""A learned margin's folder. Reading runs no code: JSON is JSON, safetensors holds numbers.

MARGIN/margin.json              model, inputs, scales, what was measured when it was fitted; names the file below
MARGIN/members-….safetensors    the members' parameters; the name is the file's checksum

The parameters are written first, margin.json replaces the one before in one step, and only then older parameters go:
whenever it is interrupted, the folder holds a whole margin, the old or the new.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from mdcontest.errors import FileFormatError, InputError
from mdcontest.files import atomic_write, read_record, write_record
from mdcontest.folders import lock_folder, make_folder
from mdcontest.preferences import networks
from mdcontest.preferences.ensemble import Ensemble
from mdcontest.preferences.inputs import Field, InputReader
from mdcontest.preferences.learned import Learned, margin_of

FORMAT = "mdcontest/margin"
DESCRIPTION = "margin.json"
DAMAGED = (
    *(KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError),
    safetensors.SafetensorError,
)
"""What reading a record of the right format but a wrong content raises."""
MEMBERS = re.compile(r"members-[0-9a-f]{16}\.safetensors")
PATIENCE = 20.0
"""Seconds that another process may take to save its margin in the same folder."""
MAX_BYTES = 1 << 28
"""Of each of the two files."""


def save_margin(margin: Learned, folder: str | Path) -> None:
    """Write a learned margin to a folder, replacing the one in it."""
    path = Path(folder)
    make_folder(path)
    with lock_folder(path, doing="saving a margin in", patience=PATIENCE) or contextlib.nullcontext():
        _replace_margin(margin, path)


def _replace_margin(margin: Learned, path: Path) -> None:
    held = [entry.name for entry in path.iterdir() if MEMBERS.fullmatch(entry.name)]
    content = _members(margin.ensemble)
    name = f"members-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    with atomic_write(path / name) as file:
        file.write(content)
    more = {"members": name, "digest": margin.digest, "report": dict(margin.report)}
    write_record(path / DESCRIPTION, FORMAT, margin.ensemble.record() | more)
    for old in set(held) - {name}:
        with contextlib.suppress(OSError):
            (path / old).unlink()


def _members(ensemble: Ensemble) -> bytes:
    arrays = {
        f"{k}.{name}": np.ascontiguousarray(value)
        for k, params in enumerate(ensemble.members)
        for name, value in params.items()
    }
    return bytes(safetensors.numpy.save(arrays))


def margin_digest(margin: Learned) -> str:
    """Tells learned margins apart by what they compute."""
    about = repr(sorted(margin.ensemble.record().items())).encode()
    return hashlib.sha256(_members(margin.ensemble) + about).hexdigest()[:16]


def load_margin(folder: str | Path) -> Learned:
    """The learned margin in a folder, or an error that names the damaged file."""
    try:
        path = Path(folder)
    except TypeError:
        raise InputError(f"folder must be a path, got {folder!r}") from None
    if not os.path.isfile(path / DESCRIPTION):  # unlike is_file, False also for names that cannot be
        raise InputError(f"there is no learned margin in {path}: it has no {DESCRIPTION}; mdcontest fit writes one")
    record = read_record(path / DESCRIPTION, FORMAT, max_bytes=MAX_BYTES)
    name = record.get("members")
    if not (isinstance(name, str) and MEMBERS.fullmatch(name)):
        raise FileFormatError(f"{path / DESCRIPTION} names no file of parameters: {name!r}")
    content = _read_members(path / name)
    try:
        margin = _margin(record, safetensors.numpy.load(content))
        if margin.digest != record["digest"]:
            raise ValueError("its digest is not that of what it says")
    except DAMAGED as error:
        raise FileFormatError(f"{path / DESCRIPTION} was changed or damaged: {error!r}; fit it again") from None
    return margin


def _read_members(file: Path) -> bytes:
    """The parameters' file, whole and as it was written."""
    try:
        if not file.is_file():
            raise FileFormatError(f"{file} is missing, or no file; fit the margin again")
        size = file.stat().st_size
        if size > MAX_BYTES:
            raise FileFormatError(f"{file} has {size} bytes, over the limit of {MAX_BYTES}")
        content = file.read_bytes()
    except OSError as error:
        raise FileFormatError(f"cannot read {file}: {error.strerror or error}") from None
    if hashlib.sha256(content).hexdigest()[:16] != file.name[8:24]:
        raise FileFormatError(f"{file} is damaged: its checksum is not the one in its name; fit the margin again")
    return content


def _margin(record: dict[str, Any], arrays: dict[str, Any]) -> Learned:
    reader, model, noise = _reader(record), record["model"], float(record["noise"])
    if model not in networks.MODELS:
        raise ValueError(f"its model is {model!r}")
    scales = np.array(record["scales"], float)
    if scales.ndim != 1 or {name.partition(".")[0] for name in arrays} != {str(k) for k in range(len(scales))}:
        raise ValueError("it has not one scale a member")
    members = tuple(
        {name.partition(".")[2]: value for name, value in arrays.items() if name.partition(".")[0] == str(k)}
        for k in range(len(scales))
    )
    for params in members:
        _require_shapes(params, model, reader.size)
    if not (0 <= noise < 1 and isinstance(record["knows_ended"], bool) and isinstance(record["report"], dict)):
        raise ValueError("its noise, knows_ended or report is none")
    return margin_of(Ensemble(model, reader, members, scales, noise, record["knows_ended"]), record["report"])


def _reader(record: dict[str, Any]) -> InputReader:
    fields = tuple(_field(field["name"], field["size"], field["categories"]) for field in record["fields"])
    reader = InputReader(fields, *(np.array(record["inputs"][n], float) for n in ("mean", "deviation", "low", "high")))
    width = sum(field.width for field in fields)
    if width < 1 or not all(getattr(reader, n).shape == (width,) for n in ("mean", "deviation", "low", "high")):
        raise ValueError(f"its inputs are not {width} numbers")
    if not (reader.deviation > 0).all():
        raise ValueError("a deviation of its inputs is not positive")
    if record["quantiles"] is None:
        return reader
    quantiles = np.array(record["quantiles"], float).T
    if (
        quantiles.ndim != 2
        or quantiles.shape[1] != width
        or len(quantiles) < 2
        or (np.diff(quantiles, axis=0) < 0).any()
    ):
        raise ValueError("the quantiles of its inputs are not in order")
    return replace(reader, quantiles=quantiles)


def _field(name: Any, size: Any, categories: Any) -> Field:
    values = None if categories is None else tuple(float(value) for value in categories)
    if not isinstance(name, str) or type(size) is not int or size < 1 or (values is not None and size != 1):
        raise ValueError(f"its field {name!r} has {size!r} numbers")
    return Field(name, size, values)


def _require_shapes(params: networks.Params, model: str, inputs: int) -> None:
    """What a network of this model over these inputs has; sizes of hidden layers may be any."""
    last = networks.layers(params) - 1
    hidden = tuple(params[f"w{i}"].shape[1] for i in range(last))
    rank = params["W"].shape[0] if model == "skew" else networks.RANK
    wanted = networks.shapes(model, inputs, hidden, rank)
    for name in wanted.keys() | params.keys():
        if name not in wanted or name not in params or wanted[name] != params[name].shape:
            raise ValueError(f"the parameters {name!r} do not fit a {model} model of {inputs} inputs")
        if params[name].dtype != np.float32 or not np.isfinite(params[name]).all():
            raise ValueError(f"the parameters {name!r} are not finite float32 numbers")
