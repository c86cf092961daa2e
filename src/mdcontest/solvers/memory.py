"""How much memory a method may take."""

from __future__ import annotations

import math
import os
from pathlib import Path

from mdcontest.errors import SizeError

CONTAINER = Path("/sys/fs/cgroup")
"""Where Linux says what a container may use."""


def available_memory() -> float:
    """Bytes that can be had without swapping: what the system has free, or what a container leaves of its limit."""
    return min(_free(), _left_in_container())


def _free() -> float:
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":") for line in lines)
        return 1024.0 * float(fields["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        pass
    try:  # another system: all there is
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # and one that does not say
        return math.inf


def _left_in_container() -> float:
    try:
        limit, used = ((CONTAINER / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return float(limit) - float(used) if limit != "max" else math.inf
    except (OSError, ValueError):
        return math.inf


def require_memory(needed: float, what: str, available: float | None = None, where: str = "this machine") -> None:
    """An error that names the numbers, unless so many bytes can be had; `what` needs them."""
    there = available_memory() if available is None else available
    if needed > there:
        raise SizeError(
            f"{what} needs about {needed / 1e9:.3g} GB, {where} has {there / 1e9:.3g} GB free; use methods that only "
            "multiply by M: solvers.PolicyGeneration() if the margin has structure, else solvers.Extragradient()"
        )
