"""M x of best two out of three in O(n log² n): divide by one feature, sweep the second, count by the third.

Where z wins the first feature against z', it wins unless it loses both others, and then it loses:

    sgn(1 + s₂ + s₃) = 1 − [s₂ < 0, s₃ ≤ 0] − [s₂ ≤ 0, s₃ < 0],

which is 1 − 2·[s₂ < 0, s₃ < 0] where no feature ties. So over two groups of outcomes, one below the other in the first
feature, the product needs the weight that dominates each outcome in two features: a sweep through the order of the
second, with a Fenwick tree (Fenwick 1994) over the ranks of the third. Halving the outcomes again and again by the
first feature puts every two that differ in it into two such groups once. Sums over two features at a time are not
enough: without ties sgn(s₁ + s₂ + s₃) = ½ (s₁ + s₂ + s₃ − s₁ s₂ s₃), and no functions of two signs add up to s₁ s₂ s₃.

Outcomes that tie in the first feature are a matter of orders alone:

    sgn(s₂ + s₃) = ½ (s₂ + s₃ + s₂·[s₃ = 0] + s₃·[s₂ = 0]).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mdcontest.arrays import Array
from mdcontest.compiling import compiled
from mdcontest.margins.orders import Order

Ranks = NDArray[np.int32]

SMALL_GROUP = 24
"""Groups of up to this many outcomes are compared one by one."""


class Majority:
    """The three orders of some outcomes, found once; each product then costs O(n log² n) time and O(n) memory."""

    def __init__(self, features: Array) -> None:
        ranks = [np.unique(column, return_inverse=True)[1].astype(np.int32) for column in features.T]
        ranks.sort(key=lambda rank: -int(rank.max()))  # the features are alike; that with the fewest ties goes first
        self.by_first = np.argsort(ranks[0], kind="stable").astype(np.int32)
        first, self.second, self.third = (rank[self.by_first] for rank in ranks)
        self.by_second = np.argsort(self.second, kind="stable").astype(np.int32)
        self.by_third = np.argsort(self.third, kind="stable").astype(np.int32)
        self.starts = np.append(np.flatnonzero(np.diff(first, prepend=-1)), len(features)).astype(np.int32)
        self.has_ties = bool(ranks[2].max() + 1 < len(features))
        self.ties = _orders_of_ties(ranks)

    def product(self, weights: Array) -> Array:
        """Σ_j w_j M(zᵢ, z_j) for every i."""
        w, ranked = weights[self.by_first], np.zeros(len(weights))
        orders = self.by_second.copy(), self.by_third.copy()
        _divide(self.starts, self.second, self.third, *orders, w, self.has_ties, ranked)
        total = np.empty(len(weights))
        total[self.by_first] = ranked
        for order in self.ties:
            order.add_signs(total, weights, 0.5)
        return total


def _orders_of_ties(ranks: list[Ranks]) -> list[Order]:
    """Orders by one feature among outcomes that tie in the first, and in the first and the other; none without ties."""
    first, second, third = ranks
    if first.max() + 1 == len(first):
        return []
    asked = [(second, (first,)), (third, (first,)), (second, (first, third)), (third, (first, second))]
    return [order for key, ties in asked if not (order := Order.within(key, ties)).is_trivial]


@compiled
def _divide(
    starts: Ranks, second: Ranks, third: Ranks, by_second: Ranks, by_third: Ranks, w: Array, ties: bool, out: Array
) -> None:  # pragma: no cover (compiled)
    """Adds to `out` what pairs that differ in the first feature contribute. Outcomes are numbered in its order.

    `starts` are the places where a new value of the first feature begins; by_second and by_third are the same outcomes
    in the other two orders. They are partitioned on the way down, so that every group has its own part of each.
    """
    n = len(w)
    spare, rank, tree = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n + 1)
    stack = np.empty((64, 2), np.int64)
    stack[0, 0], stack[0, 1], depth = 0, len(starts) - 1, 1
    while depth:
        depth -= 1
        first, last = stack[depth, 0], stack[depth, 1]
        middle = (first + last) // 2
        low, split, high = starts[first], starts[middle], starts[last]
        if last - first < 2:
            continue
        if high - low <= SMALL_GROUP:
            _one_by_one(starts, first, last, second, third, w, out)
            continue
        m = high - low
        _rank_within(by_third[low:high], third, rank, ties)
        _count_lost(by_second[low:high], second, rank, low, split, tree[: m + 1], w, ties, -1.0, out)
        # The same upside down: upper outcomes against lower ones.
        spare[:m] = by_second[low:high][::-1]
        rank[low:high] = m + 1 - rank[low:high]
        _count_lost(spare[:m], second, rank, split, high, tree[: m + 1], w, ties, 1.0, out)
        _partition(by_second[low:high], split, spare)
        _partition(by_third[low:high], split, spare)
        stack[depth, 0], stack[depth, 1] = first, middle
        stack[depth + 1, 0], stack[depth + 1, 1] = middle, last
        depth += 2


@compiled
def _one_by_one(
    starts: Ranks, first: int, last: int, second: Ranks, third: Ranks, w: Array, out: Array
) -> None:  # pragma: no cover (compiled)
    """All pairs of a small group that differ in the first feature."""
    for k in range(first + 1, last):
        for i in range(starts[k], starts[k + 1]):
            for j in range(starts[first], starts[k]):
                wins = 1 + (second[i] > second[j]) - (second[i] < second[j]) + (third[i] > third[j])
                wins -= third[i] < third[j]
                sign = (wins > 0) - (wins < 0)
                out[i] += sign * w[j]
                out[j] -= sign * w[i]


@compiled
def _rank_within(by_third: Ranks, third: Ranks, rank: Ranks, ties: bool) -> None:  # pragma: no cover (compiled)
    """Ranks 1 … m of a group in the third feature; equal values share the first of theirs."""
    for place in range(len(by_third)):
        i = by_third[place]
        equal = ties and place > 0 and third[i] == third[by_third[place - 1]]
        rank[i] = rank[by_third[place - 1]] if equal else place + 1


@compiled
def _partition(order: Ranks, split: int, spare: Ranks) -> None:  # pragma: no cover (compiled)
    """Outcomes below `split` first, both parts in the order they had."""
    kept, moved = 0, 0
    for k in range(len(order)):
        i = order[k]
        if i < split:
            order[kept] = i
            kept += 1
        else:
            spare[moved] = i
            moved += 1
    order[kept:] = spare[:moved]


@compiled
def _count_lost(
    order: Ranks,
    second: Ranks,
    rank: Ranks,
    low: int,
    high: int,
    tree: Array,
    w: Array,
    ties: bool,
    sign: float,
    out: Array,
) -> None:  # pragma: no cover (compiled)
    """Outcomes low … high − 1 of a group win the first feature (sign 1) or lose it (−1) against all others of it.

    Adds sign·(weight of the others − weight that turns the contest), swept in the order of the second feature: what was
    met before is beyond in the second, and the tree holds its weight by rank in the third.
    """
    m, others, place = len(order), 0.0, 0
    tree[:] = 0.0
    while place < m:
        end = place + 1
        while ties and end < m and second[order[end]] == second[order[place]]:
            end += 1
        if ties:
            for k in range(place, end):  # strictly beyond in the second, at least equal in the third
                if low <= order[k] < high:
                    out[order[k]] -= sign * _up_to(tree, rank[order[k]])
        for k in range(place, end):
            i = order[k]
            if not low <= i < high:
                others += w[i]
                r = rank[i]
                while r <= m:
                    tree[r] += w[i]
                    r += r & -r
        for k in range(place, end):  # at least equal in the second, strictly beyond in the third
            if low <= order[k] < high:
                out[order[k]] -= (sign if ties else 2 * sign) * _up_to(tree, rank[order[k]] - 1)
        place = end
    for k in range(m):
        if low <= order[k] < high:
            out[order[k]] += sign * others


@compiled
def _up_to(tree: Array, r: int) -> float:  # pragma: no cover (compiled)
    """The weight at ranks 1 … r of a Fenwick tree."""
    total = 0.0
    while r > 0:
        total += tree[r]
        r &= r - 1
    return total
