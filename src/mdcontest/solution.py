"""Solution: a decision rule, the certificate that proves its gap, and how it was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array, is_finite, is_number, read_numbers
from mdcontest.errors import FileFormatError, InputError
from mdcontest.files import read_record, write_record

FORMAT = "mdcontest/solution"
FIELDS = (
    *("format", "version", "solver", "why", "status", "gap", "tol", "rule", "occupancy", "certificate", "history"),
    "info",
)
"""The fields of a file."""

MOST_ITERATIONS = 2**53
"""Beyond, floats are not all whole numbers."""


def require_tolerance(tol: Any) -> None:
    """An error unless it is a finite number, zero or more."""
    if not (is_finite(tol) and tol >= 0):
        raise InputError(f"tol must be a nonnegative number, got {tol!r}")


class Status(StrEnum):
    """How a solve ended. Compares equal to its text; `advice` says what to do about it."""

    SOLVED = "solved"
    ITERATION_LIMIT = "iteration_limit"
    INACCURATE = "inaccurate"
    INTERRUPTED = "interrupted"
    TIME_LIMIT = "time_limit"

    @property
    def advice(self) -> str:
        return {
            Status.SOLVED: "The certified gap is within the tolerance.",
            Status.ITERATION_LIMIT: "The iteration limit came first: raise iterations or tol, or let solve choose.",
            Status.INACCURATE: "The method ended above the tolerance: rounding stands in the way; raise tol.",
            Status.INTERRUPTED: "Stopped by the user; this is the policy so far, with its own certificate.",
            Status.TIME_LIMIT: "The time limit came first; this is the policy so far, with its own certificate.",
        }[self]


@dataclass(frozen=True, eq=False)
class Certificate:
    """What proves a gap: with c = M x, no policy does better than −κ against x, because

        c + P h − h ≤ −κ   on every pair, and   x' · (P h − h) = 0   for every occupancy x'.

    This is the dual solution of thm:lp, with h signed like a value function.
    """

    x: Array
    """Occupancy of the rule, shape [S, A]."""
    h: Array
    """One number a state, shape [S]."""
    kappa: float
    """−κ bounds the gap from above; κ = 0 at a solution."""


@dataclass(frozen=True, eq=False)
class History:
    """Optimality gaps of the policy that would have been returned after so many iterations."""

    iterations: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    gaps: Array = field(default_factory=lambda: np.zeros(0))
    seconds: Array = field(default_factory=lambda: np.zeros(0))
    """Seconds since the method began, an entry a gap; empty where they were not recorded."""

    def __len__(self) -> int:
        return len(self.iterations)

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return iter(zip(self.iterations.tolist(), self.gaps.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Solution:
    """The answer of `solve`."""

    rule: Array
    """d(a|s), shape [S, A]."""
    occupancy: Array
    """x^π(s, a) of that rule, shape [S, A]."""
    gap: float
    """Certified upper bound on the optimality gap, in the units of the margin."""
    certificate: Certificate
    """What proves the gap; `mdcontest.verify` checks it."""
    status: Status
    """How the solve ended."""
    solver: str
    """The method."""
    why: str
    """Why this method, and with which settings that it chose itself."""
    tol: float
    """The tolerance asked for, relative to margin.bound."""
    history: History = field(default_factory=History)
    """Gaps along the way, for iterative methods."""
    info: dict[str, Any] = field(default_factory=dict)
    """Numbers of the method: sizes, iterations, learning rate."""

    def __repr__(self) -> str:
        return f"Solution({self.solver}, {self.status}, gap {self.gap:.3g})"

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a .json or .npz file."""
        write_record(path, FORMAT, self.to_record())

    def to_record(self) -> dict[str, Any]:
        """Plain values and arrays, the form in which files hold a solution."""
        return {
            "solver": self.solver,
            "why": self.why,
            "status": self.status.value,
            "gap": self.gap,
            "tol": self.tol,
            "rule": self.rule,
            "occupancy": self.occupancy,
            "certificate": {"x": self.certificate.x, "h": self.certificate.h, "kappa": self.certificate.kappa},
            "history": {
                "iterations": self.history.iterations,
                "gaps": self.history.gaps,
                "seconds": self.history.seconds,
            },
            "info": self.info,
        }


def load_solution(path: str | PathLike[str], *, max_bytes: int = 1 << 30) -> Solution:
    """Read a solution. What it claims is not checked here: `mdcontest.verify` does that."""
    record = read_record(path, FORMAT, max_bytes=max_bytes)
    try:
        unknown = set(record) - set(FIELDS)
        if unknown:
            raise FileFormatError(f"unknown field {sorted(unknown)[0]!r}; a solution has {', '.join(FIELDS)}")
        proof = _fields(record["certificate"], "certificate", ("x", "h", "kappa"))
        history = _fields(record["history"], "history", ("iterations", "gaps", "seconds"))
        info = _fields(record["info"], "info")
        require_tolerance(record["tol"])
        return Solution(
            rule=_some(record["rule"], 2),
            occupancy=_some(record["occupancy"], 2),
            gap=_number(record["gap"]),
            certificate=Certificate(_some(proof["x"], 2), _some(proof["h"], 1), _number(proof["kappa"])),
            status=Status(record["status"]),
            solver=_text(record["solver"]),
            why=_text(record["why"]),
            tol=_number(record["tol"]),
            history=_history(history),
            info=info,
        )
    except KeyError as error:
        raise FileFormatError(f"{path}: the field {error} is missing") from None
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"{path}: a field has the wrong type: {error}") from None


def _fields(value: Any, name: str, known: tuple[str, ...] | None = None) -> dict[str, Any]:
    """An object of a file, with no other fields than these; None: with any."""
    if not isinstance(value, dict):
        raise FileFormatError(f"{name} must be an object, got {value!r}")
    if known is not None and (unknown := sorted(set(value) - set(known))):
        raise FileFormatError(f"unknown field {unknown[0]!r} in {name}, which has {', '.join(known)}")
    return value


def _history(stored: dict[str, Any]) -> History:
    iterations, gaps = (_numbers(stored[name], 1) for name in ("iterations", "gaps"))
    seconds = _numbers(stored.get("seconds", ()), 1)
    if len(gaps) != len(iterations) or len(seconds) not in (0, len(iterations)):
        raise FileFormatError(f"history has {len(iterations)} iterations, {len(gaps)} gaps and {len(seconds)} seconds")
    wrong = iterations[~((iterations >= 0) & (iterations <= MOST_ITERATIONS) & (iterations == np.floor(iterations)))]
    if len(wrong):
        raise FileFormatError(f"history has the iteration {wrong[0]:g}; iterations are whole numbers, none negative")
    return History(iterations.astype(np.int64), gaps, seconds)


def _number(value: Any) -> float:
    if not is_number(value):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _numbers(values: Any, dimensions: int) -> Array:
    array = read_numbers(values, "what should be one")
    if array.ndim != dimensions:
        raise ValueError(f"expected {dimensions} dimensions, got shape {array.shape}")
    return array


def _some(values: Any, dimensions: int) -> Array:
    """Numbers of at least one state and action."""
    array = _numbers(values, dimensions)
    if array.size == 0:
        raise ValueError(f"expected at least one state and one action, got shape {array.shape}")
    return array
