"""Curves on a grid of steps and the areas under them, against closed forms and slow loops."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdcontest.errors import InputError
from mdcontest.report.statistics import auc, curve_on_grid, step_grid
from not_finite import INF, NAN
from strategies import seeds

# --- curves on a grid -------------------------------------------------------------------------------------


def slowly_on_grid(steps, values, grid):
    """Interval by interval, episode by episode."""
    found, last = [], None
    for before, until in itertools.pairwise([0, *grid]):
        ended = [value for step, value in zip(steps, values, strict=True) if before < step <= until]
        if ended:
            last = sum(ended) / len(ended)
        found.append(last)
    first = next((value for value in found if value is not None), NAN)
    return [first if value is None else value for value in found]


@given(seeds, st.integers(0, 40), st.integers(1, 15), st.integers(1, 80))
def test_the_curve_is_that_of_a_slow_loop(seed, episodes, points, longest):
    rng = np.random.default_rng(seed)
    steps, values = np.sort(rng.integers(1, longest + 1, episodes)), rng.normal(size=episodes)
    grid = np.sort(rng.choice(60, points, replace=False))
    np.testing.assert_allclose(curve_on_grid(steps, values, grid), slowly_on_grid(steps, values, grid), atol=1e-12)


def test_the_curve_by_hand():
    # Two episodes in (10, 20], the second exactly at its end; none in (20, 30]; one in (30, 40]; one after the grid.
    curve = curve_on_grid([12, 20, 31, 45], [1, 3, 7, 100], [10, 20, 30, 40])
    assert curve.tolist() == [2, 2, 2, 7]  # the first 2 stands in, the last carries on


@pytest.mark.parametrize(("steps", "values"), [([], []), ([50], [1.0])])
def test_without_an_episode_on_the_grid_there_is_no_curve(steps, values):
    assert np.isnan(curve_on_grid(steps, values, [10, 20])).all()


def test_a_million_episodes():
    rng = np.random.default_rng(0)
    steps, values, grid = np.cumsum(rng.integers(1, 20, 1_000_000)), rng.normal(size=1_000_000), step_grid(10_000_000)
    sums, edges = np.histogram(steps - 0.5, np.append(0, grid), weights=values)
    counts, _ = np.histogram(steps - 0.5, edges)
    found = curve_on_grid(steps, values, grid)
    known = counts > 0
    np.testing.assert_allclose(found[known], sums[known] / counts[known], atol=1e-9)
    assert (found[~known] == found[known][-1]).all()


@pytest.mark.parametrize(("total", "points"), [(1_000_000, 100), (2048, 100), (100, 100), (7, 3), (1e6, 10)])
def test_the_grid_is_of_whole_steps_and_ends_with_the_last(total, points):
    grid = step_grid(total, points)
    assert len(grid) == points
    assert grid[-1] == total
    assert (grid == np.floor(grid)).all()
    gaps = np.diff(np.append(0, grid))
    assert gaps.min() >= 1
    assert np.ptp(gaps) <= 1


@pytest.mark.parametrize(("total", "points"), [(50, 100), (100, 0), (100.5, 10), (INF, 10), (NAN, 10)])
def test_a_grid_that_cannot_be(total, points):
    with pytest.raises(InputError, match=f"a grid of {points} points over {total} steps; it takes a whole number"):
        step_grid(total, points)


@pytest.mark.parametrize(
    ("steps", "values", "grid", "text"),
    [
        ([3, 2], [1, 1], [5], r"steps\[1\] = 2 comes after 3; sort steps, and values with them"),
        ([0, 2], [1, 1], [5], r"steps\[0\] = 0: an episode ends after at least one step"),
        ([1, 2], [1], [5], r"steps has shape \(2,\) and values \(1,\); they must be alike"),
        ([[1, 2]], [[1, 2]], [5], r"steps has shape \(1, 2\); it must be one row of numbers"),
        ([1, 2], [1, NAN], [5], r"values\[1\] is nan \(1 of 2 are not finite\); leave the run out, and say so"),
        ([1, INF], [1, 1], [5], r"steps\[1\] is inf .* a step is a whole number"),
        ([1], [1], [5, 5], "grid must be steps from 0 on that increase strictly"),
        ([1], [1], [-1, 5], "grid must be steps from 0 on that increase strictly"),
        ([1], [1], [], r"grid is empty"),
        ([1], ["a"], [5], "values must be an array of numbers"),
    ],
)
def test_curves_from_bad_input(steps, values, grid, text):
    with pytest.raises(InputError, match=text):
        curve_on_grid(steps, values, grid)


# --- area -------------------------------------------------------------------------------------------------


@given(st.floats(-1e6, 1e6), st.integers(1, 20))
def test_a_constant_is_its_own_mean_height(height, points):
    assert auc(step_grid(1000, points), np.full(points, height)) == pytest.approx(height, rel=1e-12)


def test_a_line_has_the_height_of_its_middle():
    steps = np.array([0.0, 1.0, 4.0, 10.0])
    assert auc(steps, 3 + 2 * steps) == pytest.approx(3 + 2 * 5)
    assert auc(steps + 100, 3 + 2 * steps, start=100) == pytest.approx(3 + 2 * 5)


def test_a_jump_weighs_both_sides_by_their_length():
    assert auc([0, 7, 7, 10], [1, 1, 5, 5]) == pytest.approx(0.7 * 1 + 0.3 * 5)


def test_up_to_the_first_step_the_curve_is_level():
    # Height 2 from 0 to 10, then up to 4 at 20.
    assert auc([10, 20], [2, 4]) == pytest.approx((2 * 10 + 3 * 10) / 20)
    assert auc([10], [2]) == 2


def test_a_sine_against_its_integral():
    # ∫₀^X sin x dx = 1 − cos X; the trapezoids are off by at most X h²/12.
    x = np.linspace(0, 4.0, 401)
    assert auc(x, np.sin(x)) == pytest.approx((1 - math.cos(4)) / 4, abs=1e-5)


@given(seeds, st.integers(2, 30), st.floats(0, 5))
def test_the_mean_height_times_the_range_is_the_area(seed, points, before):
    rng = np.random.default_rng(seed)
    steps, values = np.cumsum(rng.uniform(0.1, 2, points)), rng.normal(size=points)
    start = steps[0] - before
    area = values[0] * before
    for i in range(points - 1):
        area += (values[i] + values[i + 1]) / 2 * (steps[i + 1] - steps[i])
    assert auc(steps, values, start) * (steps[-1] - start) == pytest.approx(area, abs=1e-9)


@pytest.mark.parametrize(
    ("steps", "values", "start", "text"),
    [
        ([1, 2], [NAN, NAN], 0, "all 2 values of the curve are nan, as when no episode ended; leave the run out"),
        ([1, 2], [1, NAN], 0, r"values\[1\] is nan"),
        ([1, 2], [1, INF], 0, r"values\[1\] is inf"),
        ([2, 1], [1, 1], 0, r"steps\[1\] = 1 comes after 2"),
        ([1, 2], [1, 2, 3], 0, "they must be alike"),
        ([[1, 2]], [[1, 2]], 0, "must be one row of numbers"),
        ([], [], 0, "steps is empty"),
        ([1, 2], [1, 2], 1.5, "start = 1.5 for steps from 1 to 2; it must be at most the first step"),
        ([0], [1], 0, "start = 0 for steps from 0 to 0"),
        ([1], [1], NAN, "start = nan"),
    ],
)
def test_areas_from_bad_input(steps, values, start, text):
    with pytest.raises(InputError, match=text):
        auc(steps, values, start)
