"""paper/process_sizes.py: the program of a decision process is right, and exponents are those of the seconds."""

from pathlib import Path

import numpy as np
import process_sizes
import pytest
from finite import random_contest

from mdcontest.tables import read_table
from mdcontest.values import optimal_average_reward

RESULTS = Path(process_sizes.__file__).parent / "results"
TABLE = (process_sizes.PROCESSES_FORMAT, process_sizes.PROCESSES_SCHEMA)


@pytest.mark.parametrize("states", [2, 7, 20])
def test_the_program_finds_what_policy_iteration_finds(states):
    contest = random_contest(states, states, 2)
    reward = process_sizes.random_reward(contest, states)
    value, seconds = process_sizes.process_timed(contest, reward)
    assert value == pytest.approx(optimal_average_reward(contest, reward.reshape(states, 2)).gain, abs=1e-9)
    assert seconds >= 0


def test_the_command(tmp_path):
    assert process_sizes.main(["--quick", "--out", str(tmp_path)]) == 0
    table = read_table(tmp_path / "finite-processes.parquet", *TABLE)
    assert sorted(set(table["states"])) == [10, 20]
    assert len(table["contest"]) == 2 * process_sizes.SEEDS


def test_exponents_of_made_up_seconds():
    """Contests take |S|³ and processes |S|², each seed a little more; sizes below 50 do not count."""
    sizes = [10, 50, 100, 200]
    rows = [(states, seed) for states in sizes for seed in range(3)]
    cube, square = ([(1 + seed / 100) * (states if states >= 50 else 99) ** n for states, seed in rows] for n in (3, 2))
    table = {"states": [states for states, _ in rows], "contest": [seed for _, seed in rows]}
    table |= {"contest_seconds": cube, "process_seconds": square}
    found = process_sizes.summarise_processes(table)
    assert found["contest_exponent"] == pytest.approx(3)
    assert found["process_exponent"] == pytest.approx(2)
    assert (found["contest_exponents"].mean, found["contest_exponents"].n) == (pytest.approx(3), 3)
    assert found["contest_largest"] == pytest.approx(1.01 * 200**3)
    assert found["pairs"] == 400


def test_recorded_seconds_are_there():
    table = read_table(RESULTS / "finite-processes.parquet", *TABLE)
    assert np.min([table["contest_seconds"], table["process_seconds"]]) > 0
    assert max(table["states"]) == 200
