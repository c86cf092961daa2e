"""Records on disk: JSON for people, npz for size. Never pickle, never code, never half a file.

A record is a dictionary of numbers, strings, lists and arrays. JSON holds it as it is; npz holds each array as one
member and everything else as a JSON text in the member `record`. Both carry `format` and `version`. Reading checks
what a file declares before it allocates anything.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.errors import FileFormatError, InputError, VersionError

VERSION = 1
ARRAY_KINDS = "fiub"
"""Element types a file may hold: floats, integers, unsigned integers, booleans."""
ARRAY = "array"
"""The only key of what stands for an array in the record of an npz file."""
RECORD = "record"
RECORD_MEMBER = f"{RECORD}.npy"
PACKED_BYTES = 1 << 24
"""Up to here npz files are compressed; beyond, that would take most of the time and save little of the size."""


# --- writing ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def atomic_write(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that replaces `path`, or the file that it links to, only once it is complete and on disk."""
    target = Path(path)
    try:
        target = place_of(path)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=".tmp", dir=target.parent)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot write {target}: {getattr(error, 'strerror', None) or error}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            os.chmod(temporary, _mode_of(target))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}; what was there is unchanged") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    sync_folder(target.parent)


def place_of(path: str | PathLike[str]) -> Path:
    """The file that `path` names, or links to; an error where writing there would replace something else."""
    target = Path(path)
    if target.is_symlink():
        target = Path(os.path.realpath(target))
        if target.is_symlink():
            raise InputError(f"cannot write {path}: it is a link that leads round in a circle; name a file")
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise InputError(f"{target} is a device or a pipe, which a file would replace; name a file")
    return target


def _mode_of(target: Path) -> int:
    """The mode of the file to be replaced, or what the umask gives a new one."""
    with contextlib.suppress(OSError):
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the file system lets one."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def to_json(format: str, record: dict[str, Any]) -> str:
    """The record as JSON text a person can read: one field or row a line, numbers with all their digits."""
    return _layout({"format": format, "version": VERSION} | record, "") + "\n"


def _layout(value: Any, indent: str) -> str:
    """JSON with lists of plain values on one line and everything that contains more on lines of its own."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        texts = with_text_keys(value)
        fields = (f"{deeper}{json.dumps(key)}: {_layout(inner, deeper)}" for key, inner in texts.items())
        return "{\n" + ",\n".join(fields) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(inner, list | dict) for inner in value):
        return "[\n" + ",\n".join(deeper + _layout(inner, deeper) for inner in value) + f"\n{indent}]"
    return _text_of(value)


def _text_of(value: Any) -> str:
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except InputError:
        raise
    except ValueError:
        raise InputError("a number that is not finite cannot be written to a file") from None


def with_text_keys(record: dict[Any, Any]) -> dict[str, Any]:
    """The same with numbers among its keys as JSON has them, as texts; two keys that become one are an error."""
    texts: dict[str, Any] = {}
    origins: dict[str, Any] = {}
    for key, value in record.items():
        text = key_text(key)
        if text in texts:
            raise InputError(
                f"the keys {origins[text]!r} and {key!r} of a dictionary would both be {text!r} in a file; rename one"
            )
        texts[text], origins[text] = value, key
    return texts


def key_text(key: Any) -> str:
    """What a key of a dictionary is in a file."""
    if isinstance(key, str):
        return key
    plain = key.item() if isinstance(key, np.generic) else key
    if plain is None or isinstance(plain, int | float):
        return json.dumps(plain)
    raise InputError(f"a dictionary with the key {key!r:.60} cannot be written to a file; use texts or numbers as keys")


def write_record(path: str | PathLike[str], format: str, record: dict[str, Any]) -> None:
    """Write a record; the ending .json or .npz decides the form."""
    try:
        is_folder = Path(path).is_dir()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path}: {error}") from None
    if is_folder:
        raise InputError(f"{path} is a folder; name a file in it")
    ending = Path(path).suffix.lower()
    if ending == ".json":
        content = to_json(format, record).encode()
        with atomic_write(path) as file:
            file.write(content)
    elif ending == ".npz":
        arrays: dict[str, NDArray[Any]] = {}
        rest = _take_arrays({"format": format, "version": VERSION} | record, "", arrays)
        arrays[RECORD] = np.frombuffer(_text_of(rest).encode(), np.uint8)
        small = sum(array.nbytes for array in arrays.values()) <= PACKED_BYTES
        with atomic_write(path) as file:
            (np.savez_compressed if small else np.savez)(file, **arrays)  # type: ignore[arg-type]
    else:
        raise InputError(f"{path}: the ending must be .json or .npz, it decides the form of the file")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise InputError(f"a {type(value).__name__} cannot be written to a file")


def _take_arrays(record: dict[str, Any], prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The record with each array moved to `arrays` and replaced by {"array": its member}."""
    rest: dict[str, Any] = {}
    for key, value in with_text_keys(record).items():
        name = prefix + key
        if isinstance(value, dict):
            if set(value) == {ARRAY}:
                raise InputError(f"{key!r} has {ARRAY!r} as its only key, which in an npz file is an array; rename it")
            rest[key] = _take_arrays(value, f"{name}.", arrays)
        elif isinstance(value, np.ndarray):
            if value.dtype.kind not in ARRAY_KINDS:
                raise InputError(f"{key!r} is an array of {value.dtype} values; files hold arrays of numbers only")
            while name in arrays or name == RECORD:  # a key with a dot, or with the name of the text's own member
                name += "_"
            arrays[name], rest[key] = value, {ARRAY: name}
        else:
            rest[key] = value
    return rest


# --- reading ----------------------------------------------------------------------------------------------


def read_record(path: str | PathLike[str], format: str, *, max_bytes: int) -> dict[str, Any]:
    """The record in a file, checked for format, version and size; arrays come back as arrays or lists."""
    file = Path(path)
    try:
        if not str(path):
            raise FileFormatError("the name of the file is empty")
        if file.is_dir():
            raise FileFormatError(f"{file} is a folder, not a file")
        if file.exists() and not file.is_file():
            raise FileFormatError(f"{file} is a device or a pipe; copy its content into a file first")
        size = file.stat().st_size
        if size > max_bytes:
            raise FileFormatError(f"{file} has {size} bytes, over the limit of {max_bytes}; raise max_bytes to read it")
        with file.open("rb") as opened:
            packed = opened.read(2) == b"PK"
            opened.seek(0)
            source: IO[bytes] = opened if packed and size > PACKED_BYTES else io.BytesIO(opened.read())
            record = _named(file, _read_npz if packed else _read_text, source, max_bytes)
    except (OSError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(record, dict) or "format" not in record:
        raise FileFormatError(f"{file} is no {format} file: it has no field 'format'")
    if not isinstance(record["format"], str) or record["format"] != format:
        raise FileFormatError(f"{file} is a {record['format']!r} file, expected {format!r}")
    if type(record.get("version")) is not int or record["version"] != VERSION:
        raise VersionError(f"{file} has version {record.get('version')!r}, this program reads version {VERSION}")
    return record


def _named(file: Path, read: Callable[[IO[bytes], int], Any], source: IO[bytes], max_bytes: int) -> Any:
    """What a file holds, or an error that names the file."""
    try:
        return read(source, max_bytes)
    except FileFormatError as error:
        raise FileFormatError(f"{file}: {error}") from None


def _read_text(source: IO[bytes], max_bytes: int) -> Any:
    return _read_json(source.read())


def _read_json(content: bytes) -> Any:
    def refuse(constant: str) -> None:
        raise FileFormatError(f"holds the number {constant}; every number must be finite")

    def finite(text: str) -> float:
        number = float(text)
        return number if math.isfinite(number) else refuse(text)  # type: ignore[func-returns-value,return-value]

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i]))
            raise FileFormatError(
                f"has the field {twice!r:.60} twice; which of them counts is not for a reader to guess"
            )
        return found

    try:
        text = content.decode("utf-8-sig")
        return json.loads(text, parse_constant=refuse, parse_float=finite, object_pairs_hook=unique)
    except UnicodeDecodeError:
        raise FileFormatError("is neither JSON nor npz (it is not UTF-8 text and no zip archive)") from None
    except (json.JSONDecodeError, RecursionError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"is truncated or not JSON: {error}") from None


def _read_npz(source: IO[bytes], max_bytes: int) -> Any:
    try:
        with zipfile.ZipFile(source) as archive:
            members = {info.filename: info for info in archive.infolist()}
            declared = sum(info.file_size for info in members.values())
            if declared > max_bytes:
                raise FileFormatError(
                    f"unpacks to {declared} bytes, over the limit of {max_bytes}; raise max_bytes to read it"
                )
            for info in members.values():
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise FileFormatError(f"the member {info.filename} is packed in a way that is not read here")
            if RECORD_MEMBER not in members:
                raise FileFormatError("is a zip archive but no mdcontest file: it has no member 'record'")
            record = _read_json(_read_member(archive, members[RECORD_MEMBER]).tobytes())

            def put_back(value: Any) -> Any:
                if not isinstance(value, dict):
                    return value
                if set(value) == {ARRAY}:
                    name = f"{value[ARRAY]}.npy"
                    if name not in members:
                        raise FileFormatError(f"the array {value[ARRAY]!r} is missing")
                    return _read_member(archive, members[name])
                return {key: put_back(inner) for key, inner in value.items()}

            return put_back(record)
    except FileFormatError:
        raise
    except Exception as error:  # a damaged archive makes zipfile raise almost anything
        raise FileFormatError(f"is truncated or corrupt: {error}") from None


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """One array, after checking that the shape its header declares is the size the member has."""
    with archive.open(info) as member:
        try:
            version = np.lib.format.read_magic(member)
            reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, fortran, dtype = reader(member)
        except (ValueError, KeyError, TypeError) as error:
            raise FileFormatError(f"the array {info.filename} has no valid header: {error}") from None
        if dtype.kind not in ARRAY_KINDS:
            raise FileFormatError(f"the array {info.filename} has elements of type {dtype}; only numbers are read")
        wanted = math.prod(shape) * dtype.itemsize
        left = info.file_size - member.tell()
        if wanted != left:
            raise FileFormatError(
                f"the array {info.filename} declares shape {shape} ({wanted} bytes) but holds {left} bytes"
            )
        data = member.read(left + 1)
    if len(data) != wanted:
        raise FileFormatError(f"the array {info.filename} is truncated: {len(data)} of {wanted} bytes")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
