"""Sampled pairs: all possible ones equally often, none twice, nothing beyond the end of what was cut off."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from mdcontest.errors import InputError
from mdcontest.preferences.references import Segment
from mdcontest.preferences.sampling import _decode, sample_pairs
from mdcontest.preferences.trajectories import TrajectoryInfo

lengths = st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=4)


def index(of):
    return {f"t{i}": TrajectoryInfo(f"t{i}", n, ended, None, "", 0, "", 0) for i, (n, ended) in enumerate(of)}


def possible(of, length):
    """Every pair of segments, by definition."""
    segments = []
    for i, (n, ended) in enumerate(of):
        starts = range(n + 1) if ended else range(n - length + 1)
        segments += [(Segment(f"t{i}", s, length), ended and s == n) for s in starts]
    return {
        frozenset((one, other))
        for (one, nothing), (other, as_little) in combinations(segments, 2)
        if not (nothing and as_little)
    }


@given(lengths, st.integers(1, 3))
def test_all_pairs_there_are(of, length):
    wanted = possible(of, length)
    if wanted:
        found = sample_pairs(index(of), len(wanted), length, seed=1)
        assert {frozenset(pair) for pair in found} == wanted
    with pytest.raises(InputError, match=f"have {len(wanted)} pairs of segments of {length} steps"):
        sample_pairs(index(of), len(wanted) + 1, length)


def test_every_pair_and_either_order_is_equally_likely(count):
    of = [(5, True), (2, True), (4, False), (1, False)]
    wanted = possible(of, 2)
    draws = count(1500, 15_000)
    found = [pair for seed in range(draws) for pair in sample_pairs(index(of), 3, 2, seed)]
    assert set(map(frozenset, found)) == wanted
    ordered = Counter(found)
    assert len(ordered) == 2 * len(wanted)
    assert chisquare(list(ordered.values())).pvalue > 1e-4
    assert all(one != other for one, other in found)


def test_the_same_for_the_same_seed():
    of = [(100, True), (300, False)]
    one, again, other = (sample_pairs(index(of), 1000, 1, seed) for seed in (3, 3, 4))
    assert one == again != other
    assert len({frozenset(pair) for pair in one}) == 1000
    backwards = dict(reversed(index(of).items()))
    assert sample_pairs(backwards, 1000, 1, 3) == one


def test_long_trajectories_count_more():
    drawn = Counter(s.trajectory for pair in sample_pairs(index([(900, False), (100, False)]), 5000) for s in pair)
    assert abs(drawn["t0"] / 10_000 - 0.9) < 0.02


def test_numbers_of_pairs_are_decoded_exactly():
    """Also where a square root in floating point is off by one."""
    inside = 94_906_267  # pairs of so many are just below 2^52
    last = inside * (inside - 1) // 2
    i = np.array([1, 2, 3, 94_906_265, 94_906_266])
    first = i * (i - 1) // 2
    for codes, j in ((first, 0 * i), (first + i - 1, i - 1)):
        np.testing.assert_array_equal(_decode(codes, inside), np.stack([i, j], axis=1))
    np.testing.assert_array_equal(_decode(np.array([last, last + inside + 5]), inside), [[inside, 0], [inside + 1, 5]])


def test_what_is_no_sample():
    for arguments, message in (((0,), "number of pairs"), ((1, 0), "length of segments"), ((1, 1, -1), "seed must")):
        with pytest.raises(InputError, match=message):
            sample_pairs(index([(5, True)]), *arguments)
    with pytest.raises(InputError, match="0 trajectories have 0 pairs"):
        sample_pairs({}, 1)
