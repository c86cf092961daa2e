"""Margin: a skew kernel on features, M(z, z') = −M(z', z).

The matrix–vector product of a finite contest and the cumulant of a training run are one operation,

    c(z) = Σ_j w_j M(z, z_j),

outcomes z against weighted opponents z_j. So a margin knows three things: `kernel`, the slow obvious form on
two batches of features; `kernel_against`, the same summed against weights, as fast as the structure allows;
and `bound` ≥ max |M|. Features are an array with one row a pair (finite contests) or a function of a batch of
outcomes (tasks).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from mdcontest.arrays import Array, read_numbers
from mdcontest.errors import InputError
from mdcontest.margins.reading import chosen_rows
from mdcontest.margins.sums import BLOCK_PAIRS, EPS, averaged, blocks
from mdcontest.outcomes import Outcomes, finite_outcomes

Features = ArrayLike | Callable[[Any], Any]

DIAGONAL_BLOCK = 16
"""Rows of the small blocks whose diagonals are kept where a margin cannot compare two batches row by row."""


class Margin(ABC):
    """A preference margin; see the module's docstring for the contract of its three operations."""

    kind: ClassVar[str]
    """The name of this margin in files."""
    fields: ClassVar[dict[str, str]] = {}
    """What a file stores: constructor argument → the attribute that holds it."""

    features: Any
    """One row a pair, or a function of a batch of outcomes."""
    shape: tuple[int, int] | None = None
    """(S, A) once a contest holds the margin."""
    _rows: Any = None
    """Encoded features of all pairs, once they are known."""
    _bound: float | None = None
    """Remembered, since it can cost as much as a product with M."""
    _given_shape: tuple[int, ...] = ()
    """The shape in which an array of features came."""
    _function: Callable[[Any], Any] | None = None
    """The function of outcomes that the features came from: pairs of another contest have others."""
    _sorted: tuple[Any, Any] | None = None
    """Rows, and what sorting them found: products with all pairs then sort nothing."""

    # --- what each margin defines -------------------------------------------------------------------------

    @abstractmethod
    def kernel(self, f: Any, g: Any) -> Array:
        """K[i, j] = M(fᵢ, gⱼ) for all pairs of two feature batches, shape [len(f), len(g)]."""

    def kernel_against(self, f: Any, g: Any, weights: Array) -> Array:
        """Σ_j w_j M(fᵢ, gⱼ), shape [len(f)]; by blocks of the kernel unless the margin knows better."""
        out = np.empty(len(f))
        for rows in blocks(len(f), len(g), self.block_pairs(f)):
            out[rows] = self.kernel(f[rows], g) @ weights
        return out

    def kernel_between(self, f: Any, g: Any) -> Array:
        """M(fᵢ, gᵢ) for two equally long batches, shape [len(f)]; diagonals of small blocks unless known better."""
        out = np.empty(len(f))
        for first in range(0, len(f), DIAGONAL_BLOCK):
            rows = slice(first, first + DIAGONAL_BLOCK)
            out[rows] = np.diagonal(self.kernel(f[rows], g[rows]))
        return out

    def block_pairs(self, f: Any) -> int:
        """How many pairs of outcomes may be looked at together."""
        return BLOCK_PAIRS

    def read(self, values: Any) -> Any:
        """Raw feature values as an array with one row a pair; checks shape and finiteness."""
        return values

    def encode(self, features: Any) -> Any:
        """Checked features → what `kernel` reads; the same for most margins."""
        return features

    def _hold(self, features: Any) -> None:
        """Keep a function of outcomes for later, or check and encode an array."""
        self._given_shape = () if callable(features) else np.shape(features)
        self.features = features if callable(features) else self.read(features)
        self._rows = None if callable(features) else self.encode(self.features)
        for array in (self.features, self._rows):
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    @property
    def bound(self) -> float:
        """An upper bound on |M|; infinite where the outcomes are not known."""
        if self._rows is None:
            return np.inf
        if self._bound is None:
            with np.errstate(over="ignore", invalid="ignore"):  # `bind` refuses margins that overflow
                self._bound = self.rows_bound(self._rows)
        return self._bound

    @property
    def compares_outcomes(self) -> bool:
        """Whether it can compare any outcomes: its features are a function of them, or it knows a contest's pairs."""
        return self._rows is None or self.shape is not None

    @property
    def noise(self) -> float:
        """What rounding alone can make of |M|: a bound no larger than this means that there is no preference.

        Zero where some margin is more than the rounding of its own terms.
        """
        return 0.0

    def rounding(self, weights: Array) -> float:
        """How far rounding alone can put `apply(weights)`, or the same sum from the matrix, from the exact one.

        Without better knowledge: n products of numbers up to the bound, added in any order.
        """
        return EPS * (len(weights) + 4) * self.bound * float(np.abs(weights).sum())

    @abstractmethod
    def rows_bound(self, f: Any) -> float:
        """An upper bound on |M| between any two rows of f."""

    def parts(self, g: Any) -> list[tuple[Margin, Any]]:
        """Margins on separate features whose sum this one is, each with its part of the rows; itself if it is none."""
        return [(self, g)]

    def extremes(self, g: Any) -> Any:
        """Rows among which Σ_j w_j M(f, gⱼ) has its supremum over *all* feature values f, whatever the weights.

        None where feature values have no limit, or where nobody knows them.
        """
        return None

    # --- what every margin offers -------------------------------------------------------------------------

    def rows(self, z: Any = None) -> Any:
        """Encoded features of z: None is all pairs, integers or a slice choose pairs, else a batch of outcomes."""
        if self._rows is not None:
            if isinstance(z, Outcomes):
                if isinstance(self._rows, Outcomes) or self.shape is None:
                    return z
                return self._rows[z.obs * self.shape[1] + z.action]  # outcomes of a finite contest name its pairs
            return self._rows if z is None else self._rows[chosen_rows(z, len(self._rows))]
        if z is None:
            raise InputError("this margin's features are a function: put it into a Contest, or pass outcomes")
        return self.encode(self.read(self._features_of(z) if callable(self.features) else z))

    def _features_of(self, z: Any) -> Any:
        """What the function of outcomes says of a batch, one row an outcome."""
        values = self.features(z)
        if isinstance(values, np.ndarray) and values.ndim and len(values) != len(z):
            raise InputError(
                f"the margin's features have {len(values)} rows for {len(z)} outcomes; there must be one each"
            )
        return values

    def against(self, z: Any, opponents: Any, weights: ArrayLike | None = None) -> Array:
        """c(z) = Σ_j w_j M(z, z_j), shape [len(z)]; without weights the mean over the opponents."""
        f = self.rows(z)
        g = f if opponents is z else self.rows(opponents)
        if len(g) == 0:
            raise InputError("there are no opponents to compare with")
        w = np.full(len(g), 1 / len(g)) if weights is None else np.asarray(weights, float).reshape(-1)
        if len(w) != len(g):
            raise InputError(f"{len(g)} opponents need {len(g)} weights, got {len(w)}")
        return self.kernel_on_itself(f, w) if opponents is z else self.kernel_against(f, g, w)

    def between(self, z: Any, w: Any) -> Array:
        """M(zᵢ, wᵢ) for two equally long batches, shape [len(z)]."""
        f, g = self.rows(z), self.rows(w)
        if len(f) != len(g):
            raise InputError(f"{len(f)} outcomes cannot be compared one by one with {len(g)}")
        step = max(1, self.block_pairs(f))
        return np.concatenate(
            [np.zeros(0), *(self.kernel_between(f[i : i + step], g[i : i + step]) for i in range(0, len(f), step))]
        )

    def over_ended(self, z: Any) -> Array:
        """M(z, ⊥), what each outcome is worth against an ended episode: 0, indifference, unless known better."""
        return np.zeros(len(z))

    def against_beyond_ended(self, z: Any, opponents: Any, weights: ArrayLike | None = None) -> Array:
        """c̃(z) = c(z) − c(⊥) = Σ_j w_j [M(z, z_j) + M(z_j, ⊥)], the cumulant measured from that of having ended."""
        return self.against(z, opponents, weights) + averaged(self.over_ended(opponents), weights)

    def apply(self, x: ArrayLike) -> Array:
        """M @ x over all pairs. In a contest the result has shape [S, A], otherwise that of x."""
        x = read_numbers(x, "x")
        rows = self.rows()
        if x.size != len(rows) or (self.shape is not None and x.ndim > 1 and x.shape != self.shape):
            raise InputError(f"x has {x.size} entries in shape {x.shape}, the margin compares {len(rows)} pairs")
        return self.kernel_on_itself(rows, x.reshape(-1)).reshape(self.shape or x.shape)

    def kernel_on_itself(self, f: Any, weights: Array) -> Array:
        """Σ_j w_j M(fᵢ, fⱼ) for a batch against itself, where a margin may save work."""
        return self.kernel_against(f, f, weights)

    def matrix(self, z: Any = None, w: Any = None) -> Array:
        """The matrix M(zᵢ, wⱼ) itself, all pairs by default. Costs len(z)·len(w) numbers of memory."""
        return self.kernel(self.rows(z), self.rows(w))

    def bind(self, num_states: int, num_actions: int) -> Self:
        """This margin over the pairs of a finite contest: features evaluated, their number checked.

        Bound to as many states and actions already it is itself, with all it has remembered.
        """
        n = num_states * num_actions
        if self.shape == (num_states, num_actions):
            return self
        held = copy.copy(self)
        held.shape = (num_states, num_actions)
        function = self.features if callable(self.features) else self._function
        if function is not None:
            held._hold(function(finite_outcomes(num_states, num_actions)))
            held._function, held._bound = function, None
        held._fit_rows(n)
        if len(held._given_shape) >= 2 and held._given_shape[0] != n and held._given_shape[:2] != held.shape:
            raise InputError(
                f"{type(self).__name__} has features of shape {held._given_shape}; {num_states} states × {num_actions} "
                f"actions need ({num_states}, {num_actions}, …) or ({n}, …)"
            )
        if len(held._rows) != n:
            raise InputError(
                f"{type(self).__name__} has features for {len(held._rows)} pairs, "
                f"the contest has {num_states} states × {num_actions} actions = {n} pairs"
            )
        if not isinstance(held._rows, Outcomes) and not np.isfinite(held.known_bound()):
            raise InputError(f"the margins of {type(self).__name__} overflow; divide them by a common factor")
        return held

    def known_bound(self) -> float:
        """The bound where it is cheap to have, else 0."""
        return self.bound

    def _fit_rows(self, n: int) -> None:
        """Reshape rows, where their meaning depends on the number of pairs. Most margins need nothing."""
        return

    def tiled(self, times: int) -> Margin:
        """The margin over `times` copies of the pairs, one after the other (time-expanded contests)."""
        if self._rows is None:
            raise InputError("tiled needs a margin over the pairs of a contest")
        copies = copy.copy(self)
        copies.shape = None if self.shape is None else (times * self.shape[0], self.shape[1])
        copies.features = self.features[np.tile(np.arange(len(self._rows)), times)]
        copies._rows = copies.encode(copies.features)
        # What a function said of the states of one step is no array that other states could be given.
        copies._given_shape = () if self._function is None or copies.shape is None else copies.shape
        copies._function = None
        return copies

    def __repr__(self) -> str:
        size = "a function of outcomes" if self._rows is None else f"{len(self._rows)} pairs"
        return f"{type(self).__name__}({size})"
