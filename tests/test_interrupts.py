"""Signals and locks: an interrupt is about one command, and a file system without locks is no other process."""

import errno
import fcntl
import os
import signal

import pytest

from mdcontest import interrupts
from mdcontest.errors import BusyError
from mdcontest.folders import lock_folder


def test_an_interrupt_is_over_with_its_command():
    with pytest.raises(KeyboardInterrupt), interrupts.noted():
        os.kill(os.getpid(), signal.SIGINT)
    interrupts.stop_if_asked()
    with pytest.raises(KeyboardInterrupt), interrupts.noted():
        os.kill(os.getpid(), signal.SIGINT)
        interrupts.stop_if_asked()
    interrupts.stop_if_asked()


def fails_with(number):
    def flock(file, operation):
        raise OSError(number, os.strerror(number))

    return flock


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", fails_with(errno.ENOSYS))
    with pytest.warns(UserWarning, match="cannot be locked"):
        assert lock_folder(tmp_path, ".lock", "training in") is None
    monkeypatch.setattr(fcntl, "flock", fails_with(errno.EAGAIN))
    with pytest.raises(BusyError, match="another process is training in"):
        lock_folder(tmp_path, ".lock", "training in")
