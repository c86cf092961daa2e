"""No method returns a certificate that `verify` rejects: on hostile contests, and on random ones of 1 to 300 states."""

import os

import numpy as np
import pytest

import mdcontest as mdc
from hostile import HOSTILE
from mdcontest.solvers import HPI, Extragradient, InteriorPoint, LinearProgram, OptimisticHPI, PolicyGeneration
from random_contests import MARGINS, SHAPES, random_contest

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
METHODS = {
    "default": None,
    "InteriorPoint": InteriorPoint(),
    "PolicyGeneration": PolicyGeneration(),
    "Extragradient": Extragradient(400 if FULL else 100),
    "OptimisticHPI": OptimisticHPI(200 if FULL else 10),
    "HPI": HPI(100 if FULL else 10),
}
EXACT = ("default", "InteriorPoint", "PolicyGeneration")


def check(contest, name):
    """Solved and certified, or a status that says what was reached; in either case `verify` agrees."""
    solution = mdc.solve(contest, METHODS[name])
    report = mdc.verify(contest, solution)
    assert report, (contest, name, solution, str(report))
    bound = contest.margin.bound
    if solution.status == "solved":
        assert solution.gap <= 1e-9 * bound or bound <= contest.margin.noise
    else:
        assert solution.gap > 1e-9 * bound
    return solution


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_numerics(kind, name, count):
    for seed in range(count(1, 10)):
        solution = check(HOSTILE[kind](seed), name)
        if name in EXACT:
            assert solution.status == "solved", (kind, seed, name, solution, solution.info)


def test_the_linear_program_on_hostile_numerics(count):
    for kind in HOSTILE:
        if kind not in ("to and fro", "sparse finite horizon"):  # ten seconds each
            contest = HOSTILE[kind](0)
            assert mdc.verify(contest, mdc.solve(contest, LinearProgram()))


def sized(seed):
    """1 to 300 states, two thirds of them below 40; every kind of chain and margin."""
    rng = np.random.default_rng(10_000 + seed)
    most = 300 if seed % 3 == 0 and FULL else 40 if FULL else 25
    states, actions = int(rng.integers(1, most + 1)), int(rng.integers(1, 6))
    if states == 1:
        M = rng.normal(size=(actions, actions))
        return mdc.Contest(np.ones((1, actions, 1)), [1.0], M - M.T)
    shape, margin = SHAPES[seed % len(SHAPES)], MARGINS[(seed // len(SHAPES)) % len(MARGINS)]
    return random_contest(seed, states=states, actions=actions, shape=shape, margin=margin)


@pytest.mark.parametrize("block", range(10))
def test_random_contests(block, count):
    """500 contests, 60 small ones in the short run, each by the default and by one of the other methods in turn."""
    names = list(METHODS)
    for seed in range(block * count(6, 50), (block + 1) * count(6, 50)):
        contest = sized(seed)
        for name in {"default", names[seed % len(names)]}:
            solution = check(contest, name)
            if name in EXACT:
                assert solution.status == "solved", (contest, name, solution, solution.info)
