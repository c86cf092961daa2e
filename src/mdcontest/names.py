"""Names that are made when somebody asks for them: a contest of a million states holds no million texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from mdcontest.errors import InputError


def printable(name: str) -> str:
    """A name from a file without what would move a terminal's cursor, or turn its text round."""
    return "".join(letter if letter.isprintable() else "�" for letter in name)


class Names(Sequence[str]):
    """A sequence of texts that compares equal to a list of the same texts."""

    def text(self, index: int) -> str:
        """The name at a place that exists."""
        raise IndexError(index)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self.text(i) for i in range(len(self))[index]]
        return self.text(range(len(self))[index])

    def __eq__(self, other: Any) -> bool:
        if type(other) is type(self) and other.__dict__ == self.__dict__:
            return True
        if not isinstance(other, Sequence) or isinstance(other, str) or len(other) != len(self):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


@dataclass(frozen=True, eq=False, repr=False)
class Numbers(Names):
    """ "0", "1", …: the names of what nobody named."""

    number: int

    def text(self, index: int) -> str:
        return str(index)

    def __len__(self) -> int:
        return self.number


@dataclass(frozen=True, eq=False, repr=False)
class Timed(Names):
    """The names of the states of a time-expanded contest, "state at t", one layer after the other."""

    names: Sequence[str]
    horizon: int

    def text(self, index: int) -> str:
        t, s = divmod(index, len(self.names))
        return f"{self.names[s]} at {t}"

    def __len__(self) -> int:
        return len(self.names) * self.horizon


def read_names(names: Iterable[str] | None, number: int, what: str) -> Sequence[str]:
    """One name each, numbers where none are given; or an error."""
    if names is None:
        return Numbers(number)
    if not isinstance(names, Sequence):
        try:
            names = list(names)
        except TypeError:
            raise InputError(f"{what} names must be a list of texts, got {names!r}") from None
    if len(names) != number:
        raise InputError(f"{len(names)} {what} names for {number} {what}s")
    return names if isinstance(names, Names) else [str(name) for name in names]


def stored_names(names: Sequence[str]) -> list[str] | None:
    """What a file holds: nothing for numbers, which it need not repeat."""
    return None if isinstance(names, Numbers) else list(names)
