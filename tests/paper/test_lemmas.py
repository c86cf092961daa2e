"""paper/lemmas.py: the statements hold, the sums by definition are right, and a wrong statement would be seen."""

from pathlib import Path

import lemma_claims
import lemma_games
import lemma_sets
import lemmas
import numpy as np
import pytest

import mdcontest as mdc
from mdcontest.solvers import MirrorDescent
from mdcontest.tables import read_table

RESULTS = Path(lemmas.__file__).parent / "results"
LIMITS = dict.fromkeys(("lem:omm maximiser", "update"), lemmas.OF_AN_ASCENT)
LIMITS |= dict.fromkeys(("aperiodicity swing", "averaging, values", "deterministic"), np.inf)
LIMITS["fictitious play"] = lemma_claims.PLAYED
"""The others are lemmas.ROUNDING."""


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lemmas") / "results"
    assert lemmas.main(["--quick", "--out", str(folder)]) == 0
    return folder


# --- the table --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_every_statement_holds(quick, committed):
    folder = RESULTS if committed else quick
    table = read_table(folder / "finite-lemmas.parquet", lemmas.LEMMAS_FORMAT, lemmas.LEMMAS_SCHEMA)
    found = lemmas.summarise_lemmas(table)
    assert list(found) == list(lemmas.STATEMENTS)
    for statement, one in found.items():
        assert one["largest"] <= LIMITS.get(statement, lemmas.ROUNDING), statement
    assert found["lem:pd"]["contests"] == (40 if committed else 12)
    assert found["aperiodicity swing"]["largest"] > 0.01
    assert found["averaging, values"]["largest"] > 0.01
    assert found["deterministic"]["largest"] > 0.01


def test_summary_of_made_up_rows():
    """A NaN among residuals is the largest of them, so that the statement does not pass."""
    table = {"statement": ["a", "b", "a", "b", "b"], "residual": [1e-9, 0.5, 3e-9, np.nan, 0.1]}
    found = lemmas.summarise_lemmas(table)
    assert found["a"] == {"contests": 2, "largest": 3e-9, "not rounding": 0}
    assert (found["b"]["contests"], found["b"]["not rounding"]) == (3, 3), "a NaN is no rounding either"
    assert np.isnan(found["b"]["largest"])


def test_folder_that_cannot_be_made_is_one_line(tmp_path, capsys):
    taken = tmp_path / "taken"
    taken.write_text("")
    assert lemmas.main(["--quick", "--out", str(taken)]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: cannot make the folder {taken}")
    assert printed.count("\n") == 1


# --- two states, worked out by hand -----------------------------------------------------------------------


def two_states(stay):
    """Action 0 stays with probability `stay`, action 1 moves with probability 1; M((1, ·), (0, ·)) = 1.

    Always action 0: the chain is symmetric, so ν = (1/2, 1/2). M depends on states only, and
    c(0) = ν(1) M(0, 1) = −1/2, c(1) = ν(0) M(1, 0) = 1/2, whatever the action.
    c is an eigenvector of P: (P c)(0) = stay·(−1/2) + (1 − stay)·(1/2) = (2 stay − 1)·c(0). So with λ = 2 stay − 1

        V = Σ_t λ^t c = c / (1 − λ) = c / (2 (1 − stay)),      V(1) = −V(0) = 1 / (4 (1 − stay)).

    For stay = 0 the chain has period 2 and λ = −1: partial sums are c, 0, c, 0, …, their average c/2 = c / (1 − λ).
    Action 1 goes to the other state: Q(s, 1) = c(s) − V(s); and Q(s, 0) = V(s), as V is that of action 0.
    """
    P = [[[stay, 1 - stay], [0, 1]], [[1 - stay, stay], [1, 0]]]
    state = np.array([0, 0, 1, 1])
    contest = mdc.Contest(P, [1, 0], 1.0 * (state[:, None] - state[None, :]))
    V = np.array([-1, 1]) / (4 * (1 - stay))
    return contest, V, np.stack([V, np.array([-0.5, 0.5]) - V], axis=1)


@pytest.mark.parametrize(("stay", "period", "swing"), [(0.9, 1, 0.0), (0.5, 1, 0.0), (0.25, 1, 0.0), (0.0, 2, 0.5)])
def test_values_of_two_states(stay, period, swing):
    contest, V, Q = two_states(stay)
    found = lemmas.values_by_definition(contest, np.array([[1.0, 0.0], [1.0, 0.0]]), period)
    np.testing.assert_allclose(found.x, [[0.5, 0], [0.5, 0]], atol=1e-14)
    np.testing.assert_allclose(found.V, V, atol=1e-12)
    np.testing.assert_allclose(found.Q, Q, atol=1e-12)
    assert found.swing == pytest.approx(swing, abs=1e-12)


def test_a_period_that_is_not_the_chains_is_an_error():
    contest, _, _ = two_states(0.0)
    with pytest.raises(mdc.InputError, match="is it unichain, of period 1"):
        lemmas.values_by_definition(contest, np.array([[1.0, 0.0], [1.0, 0.0]]))


# --- parts ------------------------------------------------------------------------------------------------


def test_wrong_values_have_large_residuals(monkeypatch):
    """With Q moved by 0.01 in one pair the lemmas that mention Q fail, so their small residuals say something."""
    right, size = lemmas.values_by_definition, (5, 3)

    def wrong(*arguments):
        found = right(*arguments)
        found.Q[2, 1] += 0.01
        return found

    monkeypatch.setattr(lemmas, "values_by_definition", wrong)
    contest, (rules, reward) = lemmas.few_transitions(1, *size, 0.05), lemmas._draw(1, size)
    found = lemmas.check_values(contest, rules) | lemmas.check_advantage(contest, rules, reward, 0.05)
    for statement in ("lem:marg-basic 2", "lem:marg-basic 3", "lem:pd", "advantage"):
        assert found[statement] > 1e-4, statement


def test_contests_are_what_they_are_called():
    """Few transitions are unichain and aperiodic with a finite τ; periodic ones are unichain and periodic."""
    for restart in (0.0, 0.05):
        known = mdc.check_conditions(lemmas.few_transitions(3, 12, 3, restart))
        assert known.unichain == "yes"
        assert known.aperiodic == "yes"
        assert np.isfinite(known.tau)
    known = mdc.check_conditions(lemmas.periodic_contest(3, 8, 2, 4))
    assert known.unichain == "yes"
    assert known.aperiodic == "no"


def test_likeliest_rule_of_rare_states():
    """Where a state has a millionth of the time its rule is found all the same."""
    rule = np.array([[0.2, 0.8], [0.7, 0.3]])
    found = lemmas.likeliest_rule(rule * [[1 - 1e-6], [1e-6]])
    np.testing.assert_allclose(found, rule, atol=lemmas.OF_AN_ASCENT)


def test_wrong_gaps_flows_and_objectives_are_seen(monkeypatch):
    """A gap that is off by 0.01, an occupancy of another rule, and an objective that is not concave."""
    contest, (rules, _) = lemmas.few_transitions(1, 4, 2, 0.05), lemmas._draw(1, (4, 2))
    found = lemmas.check_sets(contest, rules, 0)
    assert all(residual <= LIMITS.get(name, lemmas.ROUNDING) for name, residual in found.items())
    gap, occupancy = mdc.optimality_gap, mdc.occupancy
    monkeypatch.setattr(mdc, "optimality_gap", lambda *arguments: gap(*arguments) + 0.01 * contest.margin.bound)
    assert lemmas.check_sets(contest, rules, 0)["gap"] == pytest.approx(0.01)
    monkeypatch.setattr(mdc, "occupancy", lambda contest, rule: occupancy(contest, rule[::-1]))
    assert lemmas.check_sets(contest, rules, 0)["flow"] > 0.01
    assert lemma_sets.check_concave(contest, rules, eta=-1.0)["concave"] > 0.01, "a negative rate bends it upwards"


def test_wrong_hulls_and_updates_are_seen(monkeypatch):
    """Half of the corners, a rate that is another one, and descents that end at once."""
    contest, (rules, _) = lemmas.random_contest(1, 4, 2), lemmas._draw(1, (4, 2))
    corners = lemma_games.deterministic_occupancies
    monkeypatch.setattr(lemma_games, "deterministic_occupancies", lambda *given: corners(*given)[:5])
    assert lemma_games.check_hull(contest, rules)["hull"] > 0.001
    values = mdc.marginal_values
    monkeypatch.setattr(mdc, "marginal_values", lambda *given: [2 * one for one in values(*given)])
    assert lemma_games.check_update(contest, rules)["update"] <= lemmas.OF_AN_ASCENT, "true of any Q"
    monkeypatch.setattr(lemma_games, "MirrorDescent", lambda K: MirrorDescent(1))
    assert lemma_games.check_descent(lemmas.random_contest(1, 2, 2))["mirror descent"] > 0.01


def test_averaging_where_one_can_work_it_out():
    """One state, margins between three actions: nothing before a step tells what comes, so no value is off."""
    contest = mdc.Contest(np.ones((1, 3, 1)), [1.0], np.array([[0, 1, -2], [-1, 0, 3], [2, -3, 0]]))
    found = lemma_games.check_averaging(contest, np.array([[[0.2, 0.3, 0.5]]]))
    assert found == pytest.approx({"averaging": 0, "averaging, values": 0}, abs=1e-12)


def test_play_where_one_can_work_it_out():
    """Rock, paper, scissors: each policy loses to one by 1, and equal shares to none. By rewards the best is enough."""
    beats = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    found = lemma_games.check_play(mdc.Contest(np.ones((1, 3, 1)), [1.0], beats))
    assert found["deterministic"] == 1
    assert 0 <= found["fictitious play"] < 0.05
    reward = mdc.Contest.from_mdp(np.ones((1, 3, 1)), [1.0], np.array([[0.0, 2.0, 1.0]]))
    found = lemma_games.check_play(reward)
    assert found["deterministic"] == 0
    assert found["fictitious play"] <= 2 / lemma_games.PLAYS


def test_contests_with_too_many_policies_have_no_brute_force():
    contest, (rules, _) = lemmas.random_contest(1, 9, 2), lemmas._draw(1, (9, 2))
    assert lemma_games.check_hull(contest, rules) == lemma_games.check_descent(contest) == {}
    assert lemma_games.check_averaging(contest, rules) == lemma_games.check_play(contest) == {}
    assert lemma_sets.check_gap(contest, rules) == {}
