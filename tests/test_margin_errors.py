"""Margins that are none: errors that name the culprit, and the skew part that one of them says to pass."""

import numpy as np
import pytest

import mdcontest as mdc
from mdcontest import margins
from random_contests import random_margin

NAN = float("nan")
ERRORS = {
    "worst pair by name": (
        lambda: mdc.Contest(np.ones((1, 2, 1)), [1.0], [[0.0, 0.9], [-0.3, 0.0]]),
        r"not skew-symmetric: M\[\(0,0\),\(0,1\)\] \+ M\[\(0,1\),\(0,0\)\] = 0\.6; pass margins\.antisymmetrise",
    ),
    "diagonal": (lambda: margins.Dense(np.eye(2)), r"M\[0,0\] \+ M\[0,0\] = 2"),
    "margin with NaN": (lambda: margins.Dense([[0, NAN], [0, 0]]), r"M\[0, 1\] is nan"),
    "margin with infinity": (lambda: margins.Dense([[0, np.inf], [-np.inf, 0]]), r"M\[0, 1\] is inf"),
    "not square": (lambda: margins.Dense(np.zeros((2, 3))), "square"),
    "words": (lambda: margins.Dense([["a", "b"], ["c", "d"]]), "array of numbers"),
    "J not skew": (lambda: margins.LowRank(np.ones((2, 2)), np.eye(2)), r"J\[0,0\]"),
    "wrong columns": (lambda: margins.LowRank(np.ones((2, 3)), np.zeros((2, 2))), "2 columns, got 3"),
    "label out of range": (lambda: margins.Classes([0, 3], np.zeros((3, 3))), r"labels\[1\] is 3"),
    "label a fraction": (lambda: margins.Classes([0, 0.5], np.zeros((3, 3))), r"labels\[1\] is 0\.5"),
    "classes not skew": (lambda: margins.Classes([0, 1], np.ones((2, 2))), "not skew-symmetric"),
    "two features of three": (lambda: margins.BestTwoOfThree(np.ones((4, 2))), "3 columns, got 2"),
    "period zero": (lambda: margins.Signs(np.ones((2, 1)), [1.0], period=0.0), "period 0.0"),
    "too many periods": (lambda: margins.Signs(np.ones((2, 1)), [1.0], period=[1.0, 2.0]), "2 entries for 1"),
    "negative voter": (lambda: margins.Aggregated(np.ones((2, 2)), [-1, 2]), "nonnegative"),
    "no probability": (lambda: margins.FromPreference([[0.5, 1.2], [-0.2, 0.5]]), "entry -0.2"),
    "not complementary": (lambda: margins.FromPreference([[0.5, 0.9], [0.9, 0.5]]), r"P\[0,1\] \+ P\[1,0\] = 1\.8"),
    "function not skew": (
        lambda: margins.Pairwise(lambda z, w: z * w, np.array([1.0, 2.0])).matrix(),
        r"fn\(z, w\) = 4 but fn\(w, z\) = 4, which sum to 8, for z = 2\.0 and w = 2\.0",
    ),
    "function of one pair": (
        lambda: margins.Pairwise(lambda z, w: 0.0, np.array([1.0, 2.0])).matrix(),
        "one number a pair",
    ),
    "function returning NaN": (
        lambda: margins.Pairwise(lambda z, w: z * NAN, np.array([1.0, 2.0])).matrix(),
        "is nan",
    ),
    "function above its bound": (
        lambda: margins.Pairwise(lambda z, w: z - w, np.array([1.0, 3.0]), bound=1.0).matrix(),
        "fn reaches 2, above the bound of 1",
    ),
    "a bound beyond floats": (lambda: margins.Pairwise(lambda z, w: z - w, bound=10**400), "bound must be"),
    "a period beyond floats": (lambda: margins.Signs(np.ones((2, 1)), period=10**400), "period"),
    "not a function": (lambda: margins.Pairwise(3, np.ones(2)), "fn must be a function"),
    "no outcomes": (lambda: margins.RewardDifference(lambda z: z.obs).matrix(), "features are a function"),
    "too few pairs": (
        lambda: mdc.Contest(np.ones((1, 2, 1)), [1.0], margins.RewardDifference([1.0])),
        "1 pairs.*2 pairs",
    ),
    "x of another size": (lambda: margins.RewardDifference([1.0, 2.0]).apply([1.0]), "x has 1 entries"),
    "weights of another size": (
        lambda: margins.RewardDifference([1.0, 2.0]).against([0], [0, 1], [1.0]),
        "2 weights, got 1",
    ),
    "weights of other features": (
        lambda: margins.Signs(np.ones((2, 3)), [1.0, 2.0]),
        "3 features need 3 weights, got 2",
    ),
    "function returning nothing": (
        lambda: margins.Pairwise(lambda z, w: None, np.array([1.0, 2.0])).matrix(),
        "it holds None",
    ),
    "masked margin": (lambda: margins.Dense(np.ma.masked_array(np.zeros((2, 2)), mask=np.eye(2))), "2 masked entries"),
    "skew part of a row": (lambda: margins.antisymmetrise([[1, 2, 3, 4]]), r"\(n, n\) or \(S, A, S, A\), got \(1, 4\)"),
    "skew part of a list": (lambda: margins.antisymmetrise([1, 2, 3]), r"got \(3,\)"),
    "skew part of three axes": (lambda: margins.antisymmetrise(np.ones((2, 2, 2))), r"got \(2, 2, 2\)"),
    "skew part of NaN": (lambda: margins.antisymmetrise([[0, NAN], [0, 0]]), r"M\[0, 1\] is nan"),
    "features of other outcomes": (
        lambda: margins.RewardDifference(lambda z: z[:-1]).rows(np.arange(3.0)),
        "features have 2 rows for 3 outcomes",
    ),
    "no opponents": (lambda: margins.RewardDifference([1.0, 2.0]).against([0], []), "no opponents"),
    "empty": (lambda: margins.RewardDifference([]), "empty"),
}

ROWS = {
    "beyond": ([0, 6], "there is no pair 6: the margin compares 6 pairs, 0 to 5"),
    "below": (-7, "there is no pair -7"),
    "fractions": ([0.0, 1.0], r"whole numbers, 0 to 5, or by a slice, got \[0.0, 1.0\]"),
    "text": ("0", "whole numbers"),
    "table": ([[0, 1]], "whole numbers"),
    "ragged": ([[0], [1, 2]], "whole numbers"),
    "mask of others": ([True, False], "whole numbers"),
}


@pytest.mark.parametrize("kind", ["reward", "low rank", "classes", "two of three", "function"])
def test_pairs_chosen_by_number(kind):
    """One, several, a slice, a mask, from the end, none: submatrices all of them."""
    margin = random_margin(np.random.default_rng(0), 3, 2, kind).bind(3, 2)
    M, mask = margin.matrix(), np.arange(6) % 2 == 0
    cases = [
        (0, 1, M[:1, 1:2]),
        ((0, 1), [2], M[:2, 2:3]),
        (np.uint8(3), slice(1, 4), M[3:4, 1:4]),
        (mask, -1, M[::2, 5:]),
        ([], [0, 5], M[:0, ::5]),
    ]
    for z, w, expected in cases:
        np.testing.assert_allclose(margin.matrix(z, w), expected, atol=1e-15)
    for wrong, message in ROWS.values():
        with pytest.raises(mdc.InputError, match=message):
            margin.matrix(wrong, 0)


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_culprit(case):
    make, message = ERRORS[case]
    with pytest.raises(mdc.InputError, match=message):
        make()


@pytest.mark.parametrize(("S", "A"), [(2, 2), (2, 3)])
def test_the_skew_part_in_both_shapes(S, A):
    """What the error about a margin that is not skew says to pass, in the shape in which it was given."""
    M = np.random.default_rng(0).normal(size=(S, A, S, A))
    P = np.full((S, A, S), 1 / S)
    flat = margins.antisymmetrise(M.reshape(S * A, S * A))
    np.testing.assert_array_equal(flat, (M.reshape(S * A, -1) - M.reshape(S * A, -1).T) / 2)
    contests = [mdc.Contest(P, np.full(S, 1 / S), part) for part in (flat, margins.antisymmetrise(M))]
    np.testing.assert_array_equal(contests[0].margin.matrix(), contests[1].margin.matrix())
