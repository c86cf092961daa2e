"""Margins are often somebody's own functions; what they raise is told in words, as what environments raise is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from mdcontest.errors import InputError, RunError


@contextlib.contextmanager
def guarded_margin(task: str) -> Iterator[None]:
    """Within it, what a margin raises is an error of ours that names the task."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise RunError(f"{task}: the margin raised {type(error).__name__}: {error}") from error
