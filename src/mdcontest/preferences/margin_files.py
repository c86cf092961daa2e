"""A learned margin's folder. Reading runs no code: JSON is JSON, safetensors holds numbers.

MARGIN/margin.json              model, inputs, scales, what was measured when it was fitted; names the file below
MARGIN/members-….safetensors    the members' parameters; the name is the file's checksum

The parameters are written first, margin.json replaces the one before in one step, and only then older parameters go:
whenever it is interrupted, the folder holds a whole margin, the old or the new.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from mdcontest.errors import FileFormatError, InputError
from mdcontest.files import atomic_write, read_record, write_record
from mdcontest.preferences import networks
from mdcontest.preferences.ensemble import Ensemble
from mdcontest.preferences.inputs import Field, InputReader
from mdcontest.preferences.learned import Learned, margin_of

FORMAT = "mdcontest/margin"
DESCRIPTION = "margin.json"
MEMBERS = re.compile(r"members-[0-9a-f]{16}\.safetensors")
MAX_BYTES = 1 << 28


def save_margin(margin: Learned, folder: str | Path) -> None:
    """Write a learned margin to a folder, replacing the one in it."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        held = [entry.name for entry in path.iterdir() if MEMBERS.fullmatch(entry.name)]
    except OSError as error:
        raise InputError(f"cannot write the margin to {path}: {error.strerror or error}") from None
    content = _members(margin.ensemble)
    name = f"members-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    with atomic_write(path / name) as file:
        file.write(content)
    write_record(
        path / DESCRIPTION, FORMAT, margin.ensemble.record() | {"members": name, "report": dict(margin.report)}
    )
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
    if not (path / DESCRIPTION).is_file():
        raise InputError(f"there is no learned margin in {path}: it has no {DESCRIPTION}; mdcontest fit writes one")
    record = read_record(path / DESCRIPTION, FORMAT, max_bytes=MAX_BYTES)
    name = record.get("members")
    if not (isinstance(name, str) and MEMBERS.fullmatch(name)):
        raise FileFormatError(f"{path / DESCRIPTION} names no file of parameters: {name!r}")
    try:
        content = (path / name).read_bytes()
    except OSError as error:
        raise FileFormatError(f"cannot read {path / name}: {error.strerror or error}") from None
    if hashlib.sha256(content).hexdigest()[:16] != name[8:24]:
        raise FileFormatError(
            f"{path / name} is damaged: its checksum is not the one in its name; fit the margin again"
        )
    try:
        return _margin(record, safetensors.numpy.load(content))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, safetensors.SafetensorError) as error:
        raise FileFormatError(f"{path / DESCRIPTION} was changed or damaged: {error!r}") from None


def _margin(record: dict[str, Any], arrays: dict[str, Any]) -> Learned:
    fields = tuple(
        Field(str(f["name"]), int(f["size"]), None if f["categories"] is None else tuple(f["categories"]))
        for f in record["fields"]
    )
    reader = InputReader(fields, *(np.array(record["inputs"][n], float) for n in ("mean", "deviation", "low", "high")))
    width = sum(field.width for field in fields)
    if not all(getattr(reader, n).shape == (width,) for n in ("mean", "deviation", "low", "high")):
        raise ValueError(f"its inputs are not {width} numbers")
    count = len(record["scales"])
    members = tuple(
        {name.partition(".")[2]: value for name, value in arrays.items() if name.partition(".")[0] == str(k)}
        for k in range(count)
    )
    model = record["model"]
    if model not in networks.MODELS:
        raise ValueError(f"its model is {model!r}")
    for params in members:
        _require_shapes(params, model, width)
    scales, noise = np.array(record["scales"], float), float(record["noise"])
    ensemble = Ensemble(model, reader, members, scales, noise, record["knows_ended"] is True)
    return margin_of(ensemble, record["report"])


def _require_shapes(params: networks.Params, model: str, inputs: int) -> None:
    """What a network of this model over these inputs has; sizes of hidden layers may be any."""
    last = networks.layers(params) - 1
    hidden = tuple(params[f"w{i}"].shape[1] for i in range(last))
    rank = params["W"].shape[0] if model == "skew" else networks.RANK
    wanted = networks.init(np.random.default_rng(0), model, inputs, hidden, rank)
    for name in wanted.keys() | params.keys():
        if name not in wanted or name not in params or wanted[name].shape != params[name].shape:
            raise ValueError(f"the parameters {name!r} do not fit a {model} model of {inputs} inputs")
        if params[name].dtype != np.float32 or not np.isfinite(params[name]).all():
            raise ValueError(f"the parameters {name!r} are not finite float32 numbers")
