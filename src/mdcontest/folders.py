"""Folders that several processes may want: made, or held by one of them at a time."""

from __future__ import annotations

import errno
import threading
import time
import warnings
from pathlib import Path
from typing import IO

from mdcontest.errors import BusyError, InputError

LOCK = ".lock"
"""What a process holds that writes in a folder, empty; it stays when the process is gone."""
PAUSE = 0.1
"""Seconds between two attempts at a lock."""
TAKEN = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES)
"""What a lock says that another process holds; some file systems have no locks at all, and say something else."""


def make_folder(path: Path, parents: bool = True) -> None:
    """The folder, unless told otherwise with those above it, or an error in one line."""
    try:
        path.mkdir(parents=parents, exist_ok=True)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot make the folder {path}: {getattr(error, 'strerror', None) or error}") from None


def lock_folder(path: Path, name: str = LOCK, doing: str = "training in", patience: float = 0.0) -> IO[bytes] | None:
    """Held until it is closed; the system lets go of it when the process ends, however it ends.

    `doing` is what another process would be at; for `patience` seconds it is waited for.
    """
    try:
        import fcntl
    except ImportError:  # no such locks here
        return None
    try:
        file = open(path / name, "ab")  # noqa: SIM115 (as it is, should it be somebody else's)
    except OSError as error:
        raise InputError(f"cannot write {path / name}: {error.strerror}") from None
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError as error:
            if error.errno not in TAKEN:
                file.close()
                warnings.warn(
                    f"{path} cannot be locked ({error.strerror}): nothing keeps others out of it", stacklevel=2
                )
                return None
            if time.monotonic() >= until:
                file.close()
                raise BusyError(f"another process is {doing} {path}") from None
            threading.Event().wait(PAUSE)
