"""What can be wrong with an input. Each text names the culprit, the number and the way out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any


class InputError(ValueError):
    """Something the caller handed over cannot be used. The command line exits with 2 on it."""


class FileFormatError(InputError):
    """A file is truncated, corrupt, of another version, or larger than it may be."""


class VersionError(FileFormatError):
    """A file was written in another version of its format; nothing of it is read."""


class SizeError(InputError):
    """The method would need more memory or time than it was allowed."""


class RunError(InputError):
    """A training run had to stop: its environment, its margin or its disk failed. The last checkpoint is intact."""


class BusyError(RunError):
    """Another process holds the folder."""


class NotUnichainError(InputError):
    """Some policy has two recurrent classes, so occupancies depend on where one starts.

    `first` and `second` are the two disjoint sets of states, as sorted tuples.
    """

    def __init__(self, first: tuple[int, ...], second: tuple[int, ...], describe: str = "") -> None:
        self.first, self.second, self.describe = first, second, describe
        classes = describe or f"{list(first)} and in {list(second)}"
        super().__init__(
            f"the contest is not unichain: one can stay for ever in the states {classes}, which have none in common. "
            "Average frequencies then depend on the start; contest.with_restart(eps) returns to the "
            "start with probability eps a step and makes every policy unichain."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from their message by default, which is not what __init__ takes.
        return type(self), (self.first, self.second, self.describe)


@contextlib.contextmanager
def what_helps(advice: str) -> Iterator[None]:
    """Errors about a file that can be done without say so; one of another version is whole, and is better kept."""
    try:
        yield
    except VersionError:
        raise
    except FileFormatError as error:
        raise FileFormatError(f"{error}; {advice}") from None


def too_little_memory(error: MemoryError) -> str:
    """What to say of it; NumPy names the size that it could not have."""
    return f"not enough memory{f': {error}' if str(error) else ''}; ask for less, or use a machine that has more"


PREVIEWED = 8
"""How many entries of a list an error text shows."""


def preview(items: Sequence[Any], limit: int = PREVIEWED, number: int | None = None) -> str:
    """A list short enough for an error text: the first few entries and how many there are (of which items are some)."""
    shown, number = ", ".join(map(str, items[:limit])), len(items) if number is None else number
    return f"[{shown}]" if number <= limit else f"[{shown}, … {number} in all]"


def did_you_mean(name: str, known: list[str], what: str) -> str:
    """The end of an error text about an unknown name: the nearest ones, or all there are."""
    import difflib

    plain = {entry.lower(): entry for entry in known}
    near = [plain[key] for key in difflib.get_close_matches(str(name).lower(), plain, n=3)]
    return f"; did you mean {' or '.join(near)}?" if near else f"; the {what} are {', '.join(known)}"
