"""The decorator of compiled functions. Modules that use it are imported where they are needed: numba takes a moment."""

from __future__ import annotations

from typing import Protocol, TypeVar

from numba import njit

F = TypeVar("F")


class _Compiler(Protocol):
    """A decorator that keeps the type of a function."""

    def __call__(self, function: F, /) -> F: ...


compiled: _Compiler = njit(cache=True)
"""Compiled when first called with arguments of a kind, and kept on disk for the next process."""
