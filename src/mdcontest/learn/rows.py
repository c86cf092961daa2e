"""Rows of float32 numbers on disk, only ever appended to: stored iterates, and outcomes kept for cloning.

A checkpoint records how many rows there were and their checksum. Rows that a killed run wrote after its last
checkpoint are cut off when it is resumed, so appending needs no care of its own.
"""

from __future__ import annotations

import contextlib
import copy
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from mdcontest.errors import FileFormatError, RunError
from mdcontest.files import atomic_write

CHUNK = 1 << 20


class Rows:
    """A table of float32 rows of one width in a file, or in an unnamed temporary file."""

    _whole: Rows | None = None
    """Whose file it is, where it is only the head of another table."""
    _opened: IO[bytes] | None = None
    """A temporary file is made for the first row only: most tables move to a run's folder before they have any."""

    def __init__(self, width: int, path: Path | None = None) -> None:
        self.width, self.path = width, path
        self.count, self.checksum, self.writable = 0, 0, True
        if path is not None:
            self._opened = _open(path, "w+b")

    @property
    def _file(self) -> IO[bytes]:
        """A head reads what the whole table has open by now: that may have been reopened, or have moved."""
        if self._whole is not None:
            return self._whole._file
        if self._opened is None:
            self._opened = _open_temporary()
        return self._opened

    @property
    def row_bytes(self) -> int:
        return 4 * self.width

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows, shape [n, width]."""
        data = np.ascontiguousarray(rows, "<f4").reshape(-1, self.width)
        content = data.tobytes()
        with self._told():
            self._file.seek(self.count * self.row_bytes)
            self._file.write(content)
        self.count += len(data)
        self.checksum = zlib.crc32(content, self.checksum)

    def read(self, first: int, last: int) -> NDArray[np.float32]:
        """Rows first … last − 1, shape [n, width]."""
        self._flush()
        with self._told("read"):
            self._file.seek(first * self.row_bytes)
            content = self._file.read((last - first) * self.row_bytes)
        return np.frombuffer(content, "<f4").reshape(-1, self.width)

    def mapped(self) -> NDArray[np.float32]:
        """All rows as an array that stays on disk, shape [count, width]."""
        self._flush()
        with self._told("read"):
            return np.memmap(self._file, "<f4", "r", shape=(self.count, self.width))

    def head(self, count: int) -> Self:
        """The first rows only, of the same file; for reading."""
        part = copy.copy(self)
        part.count, part._whole = min(count, self.count), self
        return part

    def sync(self) -> None:
        """Everything appended is on disk, under its name, when this returns."""
        if not self._is_at(self.path):
            raise RunError(
                f"{self.path} was removed or replaced while it was written; agent.save(FOLDER) keeps what was learned"
            )
        with self._told():
            self._file.flush()
            os.fsync(self._file.fileno())

    def _flush(self) -> None:
        with self._told():
            self._file.flush()

    @contextlib.contextmanager
    def _told(self, doing: str = "write") -> Iterator[None]:
        """Within it, what the disk refuses is an error of ours."""
        try:
            yield
        except OSError as error:
            place = self.path or "a temporary file"
            way_out = "" if self.path else "; the environment variable TMPDIR names another folder for it"
            raise RunError(f"cannot {doing} {place}: {error.strerror or error}{way_out}") from None

    def continue_at(self, path: Path | None) -> None:
        """Append there from now on (None: a temporary file): in place if these rows are there, else to a copy."""
        here = self._is_at(path)
        if self.writable and here:
            return
        if path is not None and here:
            self.close()
            self._opened, self.writable = _open(path, "r+b"), True
            with self._told():
                self._file.truncate(self.count * self.row_bytes)
            return
        target = Rows(self.width, path)
        for first in range(0, self.count, step := max(1, CHUNK // self.width)):
            target.append(self.read(first, min(first + step, self.count)))
        self._opened, target._opened = target._opened, self._opened  # the old file closes with the copy's shell
        self.path, self.writable = path, True

    def copy_to(self, path: Path) -> None:
        """A copy of the rows in another file, complete before it appears; nothing if they are there already."""
        if self._is_at(path):
            return self.sync()
        with atomic_write(path) as file:
            for first in range(0, self.count, step := max(1, CHUNK // self.width)):
                file.write(self.read(first, min(first + step, self.count)).tobytes())

    def _is_at(self, path: Path | None) -> bool:
        """Whether that is the file of these rows; one that was removed is not, whatever lies there by now."""
        if self.path is None or path is None:
            return self.path is path
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(path))
        except OSError:
            return False

    def record(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"width": self.width, "count": self.count, "checksum": self.checksum}

    @classmethod
    def open(cls, path: Path, record: dict[str, Any]) -> Self:
        """The rows a checkpoint knows of, to read; damage is refused, what was appended later is ignored."""
        rows = object.__new__(cls)
        rows.width, rows.path, rows.count, rows.checksum = record["width"], path, record["count"], record["checksum"]
        rows._opened, rows.writable = _open(path, "rb"), False
        found, left = 0, rows.count * rows.row_bytes
        while left and (content := rows._file.read(min(left, CHUNK))):
            found, left = zlib.crc32(content, found), left - len(content)
        if left or found != rows.checksum:
            raise FileFormatError(f"{path} is damaged: {rows.count} rows do not have the checksum the checkpoint names")
        return rows

    def close(self) -> None:
        """Let go of the file. What matters is on disk after sync; the rest, a full disk may not take."""
        if self._opened is not None:
            with contextlib.suppress(OSError):
                self._opened.close()

    def __del__(self) -> None:
        if self._whole is None:  # agents come and go without anyone closing them
            self.close()


def _open(path: Path, mode: str) -> IO[bytes]:
    try:
        return open(path, mode)
    except OSError as error:
        raise FileFormatError(f"cannot open {path}: {error.strerror}") from None


def _open_temporary() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise RunError(
            f"cannot make a temporary file: {error.strerror}; set the environment variable TMPDIR to a folder that can "
            "be written to"
        ) from None
