"""What is said of the nontransitive margins, against what one can work out by hand."""

import math

import nontransitive
import numpy as np
import pytest
from nontransitive import on_the_ring, printed_margin, summarise, three_classes, two_of_three, walk

import mdcontest as mdc
from mdcontest.tables import read_table


def test_solutions_on_the_ring():
    """Nobody is ahead of a whole circle, nor of two opposite points; someone further out wins 0.3 of those inside."""
    found = on_the_ring(12)
    assert found["circle"] == pytest.approx(0, abs=1e-12)
    assert found["opposites"] == pytest.approx(0, abs=1e-12)
    assert found["inside"] == pytest.approx(0.3)


def test_one_direction_is_no_solution():
    """Someone just ahead wins 0.7, and is as far out."""
    contest, radius, angle = nontransitive.ring(12)
    one = (radius == 1.0) & (angle == 0)
    assert mdc.optimality_gap(contest, one[None] / one.sum()) == pytest.approx(0.7)


def test_three_classes_have_one_solution():
    """Against shares (1/3 + e, 1/3 − e, 1/3) the last class wins 2e: it beats the first, and loses to the second."""
    found = three_classes(40)
    assert found["thirds"] <= 1e-12
    assert 0.9 < found["only thirds"] <= 2
    contest = nontransitive._one_state(3, mdc.margins.Dense(nontransitive.BEATS))
    assert mdc.optimality_gap(contest, [[1 / 3 + 0.1, 1 / 3 - 0.1, 1 / 3]]) == pytest.approx(0.2)


def printed(radius, angle, other_radius, other_angle):
    one = [np.array([number], float) for number in (radius, angle, other_radius, other_angle)]
    return printed_margin(*one, math.pi).item()


def test_the_printed_code_line_by_line():
    """θ = π: a remainder below π/2 or above 3π/2 counts as ahead. A tie in the radius counts against both."""
    assert printed(2, 0.0, 1, 0.5) == pytest.approx(0.3 + 0.7), "π/2 − 0.5 < π/2: who is behind counts as ahead"
    assert printed(2, 0.5, 1, 0.0) == pytest.approx(0.3 - 0.7), "π/2 + 0.5"
    assert printed(1, 0.0, 1, 0.0) == pytest.approx(-0.3 - 0.7), "π/2 is not below π/2"
    assert printed(1, -3.0, 2, 3.0) == pytest.approx(-0.3 + 0.7), "the remainder of a negative number is negative"


def test_majorities_and_dominant_scores_are_different_margins():
    """By hand a pair on which they differ: dominant in the first score, and behind in the two others."""
    f, g = np.array([0.9, 0.5, 0.5]), np.array([0.1, 0.6, 0.6])
    assert np.sign((f > g).sum() - (f < g).sum()) == -1
    assert nontransitive.BEATS[f.argmax(), g.argmax()] == 1
    assert 0.5 < two_of_three(5000)["two of three"] < 0.8


def test_tau_grows_around_the_ring():
    assert walk(3)["tau"] < walk(6)["tau"] < walk(12)["tau"] < np.inf


def test_the_table(tmp_path, capsys):
    assert nontransitive.main(["--quick", "--out", str(tmp_path)]) == 0
    table = read_table(tmp_path / "finite-nontransitive.parquet", nontransitive.FORMAT, nontransitive.SCHEMA)
    found = summarise(table)
    assert set(found) == set(nontransitive.STATEMENTS)
    assert found["tau"]["exponent"] > 0
    assert "opposites: 0 to 0 over 2 cases" in capsys.readouterr().out
