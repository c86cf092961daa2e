"""Ctrl-C for commands that run for hours: noted at once, acted upon where it is safe.

Raised as an exception wherever the program happens to be, an interrupt can end up inside a callback whose exceptions
Python prints and drops; then nothing stops.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

asked = threading.Event()
"""Set when the command was asked to stop; its loop looks at it."""


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Within, Ctrl-C and a scheduler's SIGTERM only set `asked`; what was not acted upon is raised at the end."""
    asked.clear()
    if threading.current_thread() is not threading.main_thread():
        yield  # signals arrive elsewhere
        return
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in found.items() if handler is not signal.SIG_IGN}
    for number in before:  # what a shell told us to ignore, in the background, stays ignored
        signal.signal(number, lambda *_: asked.set())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        was_asked = asked.is_set()
        asked.clear()  # it was about this command, not about what the process does next
    if was_asked:
        raise KeyboardInterrupt


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Within, Ctrl-C waits, for us and for processes started here: a helper that a library starts would die loudly."""
    if not hasattr(signal, "pthread_sigmask"):
        yield  # not on Windows
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop_if_asked() -> None:
    """Where it is safe to stop."""
    if asked.is_set():
        raise KeyboardInterrupt
