"""Margins whose structure makes M @ x cheap: O(n) or O(n·d) instead of O(n²). Signs are in signs.py."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mdcontest.arrays import Array
from mdcontest.margins.base import Features, Margin
from mdcontest.margins.reading import as_columns, as_labels, as_scalars, read_skew
from mdcontest.margins.sums import BLOCK_PAIRS, EPS, blocks, longest_share, longest_sum, shares_of, summed


class RewardDifference(Margin):
    """M(z, z') = r(z) − r(z'): a Markov decision process as a contest (eq. reward-express). O(n)."""

    kind = "reward_difference"
    fields: ClassVar = {"reward": "reward"}

    def __init__(self, reward: Features) -> None:
        self._hold(reward)

    @property
    def reward(self) -> Array:
        """r over all pairs, shape [n]."""
        return self.rows()

    def read(self, values: Any) -> Array:
        return as_scalars(values, "reward")

    def kernel(self, f: Array, g: Array) -> Array:
        return f[:, None] - g[None, :]

    def kernel_between(self, f: Array, g: Array) -> Array:
        return f - g

    def kernel_against(self, f: Array, g: Array, weights: Array) -> Array:
        # Differences to a common level keep large offsets of r from eating digits.
        level = g.mean()
        return (f - level) * weights.sum() - summed(weights, g - level)

    def rounding(self, weights: Array) -> float:
        return EPS * (longest_sum(len(weights)) + 64) * self.bound * float(np.abs(weights).sum())

    def over_ended(self, z: Any) -> Array:
        """M(z, ⊥) = r(z) − 0: an episode that has ended earns nothing any more."""
        return self.rows(z)

    def against_beyond_ended(self, z: Any, opponents: Any, weights: ArrayLike | None = None) -> Array:
        """Σ_j w_j [r(z) − r(z_j) + r(z_j)] is r(z) Σ w, whatever the opponents: in one step, without rounding."""
        reward = self.rows(z)
        return reward if weights is None else reward * np.sum(weights)

    def rows_bound(self, f: Array) -> float:
        return float(f.max() - f.min())

    def known_bound(self) -> float:
        with np.errstate(over="ignore"):  # their mean is taken, too
            return self.bound if np.isfinite(np.abs(self.rows()).sum()) else np.inf


class LowRank(Margin):
    """M(z, z') = φ(z)ᵀ J φ(z') with J skew: O(n·d).

    Features that lie far from zero together, such as times of day in seconds since 1970, would lose in φᵀJφ' what sets
    them apart. They are measured from one of them, u: φᵀJφ' = (φ − u)ᵀJ(φ' − u) + (φ − u)ᵀJu − (φ' − u)ᵀJu is the same
    margin on the rows (φ − u, 1).
    """

    kind = "low_rank"
    fields: ClassVar = {"features": "features", "J": "J"}
    _origin: Array | None = None
    """u, once features were given that lie far from zero."""
    _form: Array
    """J, or the form on rows that are measured from u."""

    def __init__(self, features: Features, J: ArrayLike) -> None:
        self.J = read_skew(J, "J")
        self.J.setflags(write=False)
        self._hold(features)

    def _hold(self, features: Any) -> None:
        self._origin, self._form = None, self.J
        super()._hold(features)
        if self._rows is None or (origin := _distant(self._rows)) is None:
            return
        moved = copy.copy(self)
        moved._origin, moved._form = origin, _form_around(self.J, origin)
        moved._rows = moved.encode(self.features)
        moved._rows.setflags(write=False)
        if moved._largest_terms() < WORTH_MOVING * self._largest_terms():
            self._origin, self._form, self._rows = moved._origin, moved._form, moved._rows

    def read(self, values: Any) -> Array:
        return as_columns(values, "features", columns=len(self.J))

    def encode(self, features: Array) -> Array:
        if self._origin is None:
            return features
        return np.hstack([features - self._origin, np.ones((len(features), 1))])

    def kernel(self, f: Array, g: Array) -> Array:
        return f @ self._form @ g.T

    def kernel_between(self, f: Array, g: Array) -> Array:
        return np.einsum("nd,nd->n", f @ self._form, g)

    def kernel_against(self, f: Array, g: Array, weights: Array) -> Array:
        return f @ (self._form @ summed(weights, g))

    @property
    def noise(self) -> float:
        # Of d products a sum, and of the features themselves. Pair by pair: a preference among pairs with small terms
        # is one, however large the terms of others are. Where nobody looks at all pairs, it may be one, too.
        each = EPS * (len(self._form) + 2)
        most = each * self._largest_terms()
        if self.bound > most or len(self.rows()) > EXACT_BOUND_PAIRS:
            return 0.0
        f, form = self.rows(), np.abs(self._form)
        some = blocks(len(f), len(f), BLOCK_PAIRS)
        told = any((np.abs(self.kernel(f[i], f)) > each * (np.abs(f[i]) @ form @ np.abs(f.T))).any() for i in some)
        return 0.0 if told else most

    def _largest_terms(self) -> float:
        """An upper bound on |φ|ᵀ|J||φ'|: a large feature that J weights by little, or by nothing, counts for little."""
        largest = np.maximum(self.rows().max(axis=0), -self.rows().min(axis=0))
        return float(largest @ (np.abs(self._form) @ largest))

    def rounding(self, weights: Array) -> float:
        # φᵀJφ' can be small because large terms cancel; their rounding does not cancel.
        f, some = self.rows(), list(blocks(len(self.rows()), len(self._form), BLOCK_PAIRS))
        terms = np.abs(self._form) @ sum(np.abs(weights[rows]) @ np.abs(f[rows]) for rows in some)
        size = max(float((np.abs(f[rows]) @ terms).max()) for rows in some)
        return EPS * (longest_sum(len(f)) + 2 * len(self._form) + 4) * size

    def rows_bound(self, f: Array) -> float:
        """max |M|, exactly where few pairs can attain it.

        |φᵀJφ'| ≤ √(q q') with q = φᵀ|J|φ and |J| = √(JᵀJ), by Cauchy and Schwarz in the form |J|. So the pairs with the
        largest q are compared one by one, and for a pair outside those the largest and the next q are a bound.
        """
        if len(f) > EXACT_BOUND_PAIRS:
            turned, strengths, _ = np.linalg.svd(self._form)
            size = _squared_norms(f, turned * np.sqrt(strengths))
            size += 1e-13 * strengths[0] * _squared_norms(f)  # what rounding can have taken away
            order = np.argpartition(-size, EXACT_BOUND_PAIRS)
            outside = float(np.sqrt(size.max() * size[order[EXACT_BOUND_PAIRS]])) * (1 + 1e-13)
            return max(outside, self.rows_bound(f[order[:EXACT_BOUND_PAIRS]]))
        return max(float(np.abs(self.kernel(f[rows], f)).max()) for rows in blocks(len(f), len(f), BLOCK_PAIRS))


WORTH_MOVING = 0.1
"""Features are measured from one of them where that leaves no more than this part of the rounding."""


def _distant(f: Array) -> Array | None:
    """A row from which to measure columns whose entries are all alike in size, zero in others; None if there are none.

    Where no entry is more than twice another, differences are exact (Sterbenz 1974).
    """
    low, high = f.min(axis=0), f.max(axis=0)
    far = (high - low <= 0.5 * np.maximum(np.abs(low), np.abs(high))) & (high != 0)
    return np.where(far, f[0], 0.0) if far.any() else None


def _form_around(J: Array, origin: Array) -> Array:
    """The skew form on rows (φ − u, 1). J u is summed exactly: what cancels in it must."""
    exact = [sum(Fraction(float(j)) * Fraction(float(u)) for j, u in zip(row, origin, strict=True)) for row in J]
    with np.errstate(over="ignore"):
        turned = np.array([_nearest(value) for value in exact])[:, None]
    return np.block([[J, turned], [-turned.T, np.zeros((1, 1))]])


def _nearest(value: Fraction | int) -> float:
    """As a float; beyond the floats it is infinite."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


EXACT_BOUND_PAIRS = 4096
"""So many outcomes are compared with each other for the largest margin, in a fraction of a second."""


def _squared_norms(f: Array, turn: Array | None = None) -> Array:
    """Squared norms of the rows of f, or of f·turn, by blocks that need little memory."""
    out = np.empty(len(f))
    for rows in blocks(len(f), f.shape[1], BLOCK_PAIRS):
        part = f[rows] if turn is None else f[rows] @ turn
        out[rows] = np.einsum("nd,nd->n", part, part)
    return out


class Classes(Margin):
    """M(z, z') = K[class(z), class(z')] with K skew: rock-paper-scissors. O(n)."""

    kind = "classes"
    fields: ClassVar = {"labels": "labels", "matrix": "class_matrix"}

    def __init__(self, labels: Features, matrix: ArrayLike) -> None:
        self.class_matrix = read_skew(matrix, "matrix")
        self.class_matrix.setflags(write=False)
        self._hold(labels)

    @property
    def labels(self) -> Array:
        """The class of every pair, shape [n]."""
        return self.rows()

    def read(self, values: Any) -> Any:
        return as_labels(values, "labels", len(self.class_matrix), "classes")

    def kernel(self, f: Any, g: Any) -> Array:
        return self.class_matrix[np.ix_(f, g)]

    def kernel_between(self, f: Any, g: Any) -> Array:
        return self.class_matrix[f, g]

    def kernel_against(self, f: Any, g: Any, weights: Array) -> Array:
        return (self.class_matrix @ shares_of(g, weights, len(self.class_matrix)))[f]

    def rounding(self, weights: Array) -> float:
        # Classes that no pair has get no weight, so that their margins, however large, add nothing.
        terms = longest_share(len(weights)) + len(self.class_matrix) + 4
        return EPS * terms * self.bound * float(np.abs(weights).sum())

    def extremes(self, g: Any) -> Any:
        return np.arange(len(self.class_matrix))

    def rows_bound(self, f: Any) -> float:
        present = np.unique(f)
        return float(np.abs(self.class_matrix[np.ix_(present, present)]).max())
