"""Environments and margins are often somebody's own; whatever they raise is told in words, and in one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from mdcontest.errors import InputError, RunError

RAISED = (Exception, SystemExit)
"""What somebody's own code may raise. SystemExit, of a window that is closed, would end the program in silence."""


def told(error: BaseException) -> str:
    """What went wrong in one line, however many its author wrote: our own errors say it, others have a type, too."""
    return one_line(str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}")


def one_line(text: str) -> str:
    """The text with every break, and the blanks around it, as one blank."""
    lines = text.splitlines()
    return text if lines == [text] else " ".join(line.strip() for line in lines if line.strip())


@contextlib.contextmanager
def guarded_margin(task: str) -> Iterator[None]:
    """Within it, what a margin raises is an error of ours that names the task."""
    try:
        yield
    except MemoryError:
        raise
    except InputError as error:
        if (text := one_line(str(error))) == str(error):
            raise
        raise InputError(text) from error
    except RAISED as error:
        raise RunError(f"{task}: the margin raised {told(error)}") from error
