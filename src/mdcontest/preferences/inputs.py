"""Outcomes as the numbers a learned margin reads: chosen fields side by side, standardised on the data of the fit.

Beside every input its rank among the data is read, F(x) in [−1, 1]. Who prefers more of a feature, however little more,
compares ranks: the mean of sgn(f − f') over the data is exactly F(f). Standardised inputs alone hide differences where
most of the data lie close together, and that is where a policy is that has learned to have much of a feature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.margins.reading import as_finite
from mdcontest.outcomes import Outcomes

FIELDS = ("obs", "action", "next_obs")
"""What is read unless told otherwise. Rewards are not: they are what a preference would stand in for."""
MOST_CATEGORIES = 256
"""Whole numbers with up to this many values are read as categories, one input each."""
KNOTS = 65
"""Quantiles by which ranks are read."""
ROUNDING = 1e-12
"""Relative differences up to this are none, or up to a few units in the last place of coarser numbers."""
LIMIT = 10.0
"""Standardised inputs are cut off here: far outside the data a network's answer means nothing."""


@dataclass(frozen=True)
class Field:
    """One array of an outcome: `obs`, `obs.key` of a dictionary, `info.key`, or `features` of an array."""

    name: str
    size: int
    """Numbers an outcome."""
    categories: tuple[float, ...] | None = None
    """Values that become one input each, for a field of whole numbers."""

    @property
    def width(self) -> int:
        """Inputs it becomes."""
        return self.size if self.categories is None else len(self.categories)

    def names(self) -> list[str]:
        """What each input is called."""
        marks: Sequence[Any] = range(self.size)
        if self.categories is not None:
            return [f"{self.name} is {value:g}" for value in self.categories]
        return [f"{self.name}[{i}]" for i in marks]

    def read(self, z: Outcomes | Array) -> Array:
        """Its inputs, shape [B, width]."""
        values = _column(z, self.name)
        flat = np.asarray(values, float).reshape(len(values), int(np.prod(values.shape[1:], dtype=int)))
        if flat.shape[1] != self.size:
            raise InputError(
                f"the learned margin reads {self.size} numbers of {self.name} an outcome, got {flat.shape[1]}"
            )
        if self.categories is None:
            return flat
        return (flat == np.array(self.categories)).astype(float)


@dataclass(frozen=True)
class InputReader:
    """Outcomes → standardised inputs [B, D]."""

    fields: tuple[Field, ...]
    mean: Array
    deviation: Array
    low: Array
    """The smallest and largest value of every input in the data, shape [D]."""
    high: Array
    quantiles: Array | None = None
    """Evenly spaced quantiles of every input, shape [Q, D], by which its rank is read as well; None: it is not."""

    @classmethod
    def fitted(cls, z: Outcomes | Array, names: Sequence[str] | None = None) -> InputReader:
        """A reader for outcomes like these."""
        fields = tuple(_field(z, name) for name in _expanded(z, names))
        if not fields:
            raise InputError("there is nothing to read: no field of the outcomes was chosen")
        raw = _raw(fields, z)
        with np.errstate(over="ignore", invalid="ignore"):
            deviation = raw.std(axis=0)
        if not np.isfinite(deviation).all():
            name = [name for field in fields for name in field.names()][int(np.argmin(np.isfinite(deviation)))]
            raise InputError(f"{name} reaches {np.abs(raw).max():.3g}, too large to be standardised; rescale it")
        # A constant, up to rounding, stays zero, and what differs from it is seen to.
        rounding = np.concatenate([np.full(field.width, _rounding(z, field.name)) for field in fields])
        spread = np.ptp(raw, axis=0)
        constant = spread <= rounding * np.abs(raw).max(axis=0)
        deviation = np.where(deviation == 0, spread, deviation)  # the squares of numbers below 1e-162 vanish
        deviation[constant] = 1.0
        quantiles = np.quantile(raw, np.linspace(0, 1, KNOTS), axis=0)
        quantiles[:, constant] = raw[:1, constant]
        return cls(fields, raw.mean(axis=0), deviation, raw.min(axis=0), raw.max(axis=0), quantiles)

    @property
    def ranked(self) -> list[int]:
        """Inputs whose rank is read beside them: all but the categories, which have none."""
        if self.quantiles is None:
            return []
        plain = [field.categories is None for field in self.fields for _ in range(field.width)]
        return [i for i, is_plain in enumerate(plain) if is_plain]

    @property
    def size(self) -> int:
        """Numbers that a network reads."""
        return len(self.mean) + len(self.ranked)

    def names(self) -> list[str]:
        """What each input is called, for reports."""
        return [name for field in self.fields for name in field.names()]

    def read(self, z: Outcomes | Array) -> NDArray[np.float32]:
        """Standardised inputs and their ranks among the data, from −1 to 1, shape [B, size]."""
        raw = _raw(self.fields, z)
        found = np.empty((len(raw), self.size), np.float32)
        found[:, : raw.shape[1]] = np.clip((raw - self.mean) / self.deviation, -LIMIT, LIMIT)
        if self.quantiles is not None:
            for place, i in enumerate(self.ranked, raw.shape[1]):
                found[:, place] = _ranks(raw[:, i], self.quantiles[:, i])
        return found

    def beyond(self, z: Outcomes | Array) -> Array:
        """How far each input lies outside the data it was fitted to, in its deviations, shape [B, D]; 0 inside."""
        raw = _raw(self.fields, z)
        found = np.maximum(np.maximum(self.low - raw, raw - self.high), 0.0)
        first = 0
        for field in self.fields:
            if field.categories is not None:  # none of those in the data: every input is 0, and each was 0 before
                found[~raw[:, first : first + field.width].any(axis=1), first : first + field.width] = 1.0
            first += field.width
        return found / self.deviation


def _ranks(x: Array, quantiles: Array) -> Array:
    """P(X < x) − P(X > x) by the quantiles of X, from −1 to 1: the middle of their ranks for values that many share.

    0 where X is a constant: a hair above and a hair below it would be the best and the worst ever seen.
    """
    if quantiles[-1] - quantiles[0] <= ROUNDING * np.abs(quantiles).max():
        return np.zeros(len(x))
    levels = np.linspace(-1, 1, len(quantiles))
    # Among equal quantiles np.interp takes the last, and from the other side the first.
    return (np.interp(x, quantiles, levels) - np.interp(-x, -quantiles[::-1], levels)) / 2


def _raw(fields: Sequence[Field], z: Outcomes | Array) -> Array:
    return as_finite(np.concatenate([field.read(z) for field in fields], axis=1), "the outcomes' inputs")


def _expanded(z: Outcomes | Array, names: Sequence[str] | None) -> list[str]:
    """The fields to read, those of dictionaries one by one."""
    if not isinstance(z, Outcomes):
        if names is not None:
            raise InputError(f"inputs chooses fields of Outcomes; these are arrays, which have no {', '.join(names)}")
        return ["features"]
    found: list[str] = []
    for name in FIELDS if names is None else names:
        values = getattr(z, name, None) if name in ("obs", "action", "reward", "next_obs", "info") else _column(z, name)
        if values is None and names is None:
            continue
        if isinstance(values, Mapping):
            found.extend(f"{name}.{key}" for key in sorted(values))
        else:
            found.append(name)
    return found


def _column(z: Outcomes | Array, name: str) -> NDArray[Any]:
    if not isinstance(z, Outcomes):
        array = np.asarray(z, float)
        return array[:, None] if array.ndim == 1 else array
    part, _, key = name.partition(".")
    values = getattr(z, part, None)
    if key and isinstance(values, Mapping):
        values = values.get(key)
    if values is None or isinstance(values, Mapping):
        raise InputError(
            f"the outcomes have no {name!r} for the learned margin to read, only {', '.join(z.columns())}; fit a "
            "margin that is to compare them to such outcomes, with inputs= of these"
        )
    return np.asarray(values)


def _rounding(z: Outcomes | Array, name: str) -> float:
    kind = _column(z, name).dtype
    return max(ROUNDING, 4 * float(np.finfo(kind).eps)) if kind.kind == "f" else ROUNDING


def _field(z: Outcomes | Array, name: str) -> Field:
    values = _column(z, name)
    if values.dtype.kind in "iu" and values.ndim == 1:
        kinds = np.unique(values)
        if len(kinds) <= MOST_CATEGORIES:
            return Field(name, 1, tuple(float(kind) for kind in kinds))
    if values.dtype.kind not in "fiub":
        raise InputError(f"{name} holds {values.dtype}; a learned margin reads numbers")
    return Field(name, int(np.prod(values.shape[1:], dtype=int)))
