"""Where a run lies: its folder's path, as it holds wherever the process is by then."""

from __future__ import annotations

from pathlib import Path

from mdcontest.errors import InputError
from mdcontest.folders import make_folder


def place_of(folder: str | Path) -> Path:
    """The folder's full path: a relative one would be another folder once the process has moved."""
    if folder == "":
        raise InputError("folder is an empty text; name one, '.' is where the process is")
    try:
        return Path(folder).resolve()
    except TypeError:
        raise InputError(f"folder must be a path, got {folder!r}") from None
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot use the folder {str(folder)!r}: {why}") from None


def make_place(folder: str | Path) -> Path:
    """The same of a folder to train in, which is made; what stands in the way is told by the name that was given."""
    place = place_of(folder)
    _require_text_name(place)
    make_folder(Path(folder))
    return place


def _require_text_name(place: Path) -> None:
    """An error for a name that a table of the finished run could not hold, before there is anything to lose."""
    try:
        place.name.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"the name {place.name!r} is not UTF-8, and a run's tables hold the name of its folder; rename it, or "
            "name another folder"
        ) from None
