"""Weighted sums over many pairs, in blocks: few terms are added one after the other, and little is held at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mdcontest.arrays import Array

BLOCK_PAIRS = 1 << 20
"""Pairs of outcomes evaluated at once by margins that have no faster way (about 8 MB of float64)."""
BLOCK_TERMS = 1 << 12
"""Terms of a long sum added one after the other; then the blocks are added. Rounding grows like √n then, not like n."""
LABEL_TERMS = 1 << 16
"""The same of weights that are summed label by label."""
EPS = float(np.finfo(float).eps)


def averaged(values: Array, weights: ArrayLike | None) -> float:
    """Σ_j w_j v_j, the mean without weights."""
    return float(values.mean() if weights is None else np.asarray(weights, float).reshape(-1) @ values)


def summed(weights: Array, values: Array) -> Array:
    """Σ_j w_j v_j over the rows of values, [n] or [n, d], in blocks: few terms are added one after the other."""
    whole = len(weights) // BLOCK_TERMS * BLOCK_TERMS
    rest = weights[whole:] @ values[whole:]
    if not whole:
        return rest
    columns = values[:whole].reshape(whole // BLOCK_TERMS, BLOCK_TERMS, -1)
    parts = weights[:whole].reshape(-1, 1, BLOCK_TERMS) @ columns
    return parts.sum(axis=0).reshape(values.shape[1:]) + rest


def shares_of(labels: Any, weights: Array, count: int) -> Array:
    """What the weights of each label add up to, shape [count], in blocks as well."""
    shares = np.zeros(count)
    for part in blocks(len(labels), 1, LABEL_TERMS):
        shares += np.bincount(labels[part], weights[part], minlength=count)
    return shares


def longest_share(n: int) -> int:
    """How many terms `shares_of` adds one after the other at most."""
    return min(n, LABEL_TERMS + n // LABEL_TERMS)


def longest_sum(n: int) -> int:
    """How many terms `summed` adds one after the other at most, and sums over up to two blocks in plain order."""
    return min(n, 2 * BLOCK_TERMS + n // BLOCK_TERMS)


def blocks(rows: int, columns: int, pairs: int) -> Iterator[slice]:
    """Slices of the rows so that each block of the matrix has about that many entries."""
    step = max(1, pairs // max(columns, 1))
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))
