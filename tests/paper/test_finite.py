"""paper/finite.py: two exact methods agree, the theorem's bound holds, and the summaries are the right numbers."""

from pathlib import Path

import finite
import finite_figures
import numpy as np
import pytest
import state_counts

import mdcontest as mdc
from mdcontest.solvers.rates import theorem_rate
from mdcontest.tables import read_table

RESULTS = Path(finite.__file__).parent / "results"


def sizes_in(folder):
    return read_table(folder / "finite-sizes.parquet", finite.SIZES_FORMAT, finite.SIZES_SCHEMA)


def rates_in(folder):
    return read_table(folder / "finite-rates.parquet", finite.RATES_FORMAT, finite.RATES_SCHEMA)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finite") / "results"
    assert finite.main(["--quick", "--out", str(folder)]) == 0
    return folder


# --- what was measured ------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_both_exact_methods_find_solutions(quick, committed):
    """thm:lp: the program has the stated size, and its answer and the game's over all policies have gap zero."""
    table = sizes_in(RESULTS if committed else quick)
    ran = np.array(table["game_run"])
    np.testing.assert_array_equal(ran, table["policies"] <= finite.MOST_POLICIES)
    assert 0 < ran.sum() < len(ran)
    assert table["lp_gap"].max() <= finite.SOLVED
    assert finite_figures.column(table, "game_gap")[ran].max() <= finite.SOLVED
    assert np.isnan(finite_figures.column(table, "game_gap")[~ran]).all()
    summary = finite_figures.summarise_sizes(table)
    assert summary["lp_unsolved"] == summary["game_unsolved"] == 0
    assert summary["counts_of_the_theorem"]


@pytest.mark.parametrize("method", ["hpi theorem", "hpi-pg theorem"])
@pytest.mark.parametrize("committed", [True, False])
def test_bound_holds_on_every_row(quick, method, committed):
    """thm:hpi-convergence and prop:pg-form, with the bound as the theorem states it for the recorded τ."""
    rows = {name: np.array(values) for name, values in rows_of(rates_in(RESULTS if committed else quick), method)}
    np.testing.assert_allclose(rows["bound"], 4 * rows["tau"] * np.sqrt(np.log(rows["actions"]) / rows["K"]))
    assert (rows["gap"] <= rows["bound"]).all()


def rows_of(table, method):
    return finite_figures.rows_of(table, method).items()


def test_both_forms_of_the_algorithm_have_the_same_gaps():
    """prop:pg-form: Algorithm 2's maximisations end where Algorithm 1's closed form is."""
    table = rates_in(RESULTS)
    tabular, gradient = (dict(rows_of(table, method)) for method in ("hpi theorem", "hpi-pg theorem"))
    known = dict(zip(zip(tabular["contest"], tabular["K"], strict=True), tabular["gap"], strict=True))
    for one, K, gap in zip(gradient["contest"], gradient["K"], gradient["gap"], strict=True):
        assert abs(gap - known[one, K]) <= 1e-5


@pytest.mark.parametrize("adaptive", [True, False])
def test_the_loop_by_hand_is_the_solvers(adaptive):
    """Its average has the occupancy that HPI returns, with the theorem's rate and with the adaptive one."""
    contest, K = finite.random_contest(7, 6, 3, 0.1), 60
    eta = None if adaptive else theorem_rate(contest, K)
    *_, (k, rule, x_bar) = finite.hedge_by_hand(contest, K, eta)
    solution = mdc.solve(contest, mdc.solvers.HPI(K, eta="adaptive" if adaptive else "theorem"), tol=0)
    assert k == solution.info["iterations"] == K
    np.testing.assert_allclose(solution.occupancy, x_bar, atol=1e-10)
    np.testing.assert_allclose(solution.gap, mdc.optimality_gap(contest, mdc.decision_rule(x_bar)), atol=1e-10)
    np.testing.assert_allclose(rule.sum(axis=1), 1)


def test_same_seeds_same_contests():
    one, again, other = (finite.random_contest(seed, 4, 2) for seed in (3, 3, 4))
    assert (one.margin.matrix() == again.margin.matrix()).all()
    assert (one.margin.matrix() != other.margin.matrix()).any()


# --- summaries and figures --------------------------------------------------------------------------------


def made_up_sizes():
    """Seconds of the program 1e-6 (|S||A|)^2.5, of the game 1e-4 |A|^|S|, and one answer that is no solution."""
    rows = []
    for A, S in [(2, 8), (2, 9), (2, 10), (2, 100), (2, 200), (3, 5), (3, 6), (3, 100)]:
        run, n = A**S <= 4096, S * A
        counts = {f"{whose}_variables": n + S + 1 for whose in ("lp", "theorem")}
        counts |= {f"{whose}_constraints": 2 * n + S + 1 for whose in ("lp", "theorem")}
        row = {"states": S, "actions": A, "contest": 0, "policies": float(A) ** S, "game_run": run} | counts
        row |= {"lp_seconds": 1e-6 * n**2.5, "lp_gap": 1e-12 * n, "lp_solved": True}
        row |= {"game_seconds": 1e-4 * A**S if run else None, "game_gap": 1e-9 * S if run else None}
        rows.append(row | {"game_solved": S != 10 if run else None})
    return {name: [row[name] for row in rows] for name in finite.SIZES_SCHEMA}


def test_summary_of_made_up_sizes():
    summary = finite_figures.summarise_sizes(made_up_sizes())
    assert summary["lp_exponent"] == pytest.approx(2.5)
    assert (summary["lp_exponents"].mean, summary["lp_exponents"].n) == (pytest.approx(2.5), 1)
    assert summary["game_factor_per_state"] == pytest.approx({2: 2, 3: 3})
    assert (summary["game_largest_policies"], summary["game_largest_states"]) == (1024, 10)
    assert summary["game_largest_seconds"] == pytest.approx(0.1024)
    assert summary["lp_seconds_there"] == pytest.approx(1e-6 * 20**2.5)
    assert summary["lp_largest_pairs"] == 400
    assert summary["lp_largest_gap"] == pytest.approx(4e-10)
    assert summary["game_largest_gap"] == pytest.approx(1e-8)
    assert summary["lp_unsolved"] + summary["game_unsolved"] == 1
    assert summary["counts_of_the_theorem"]
    assert not finite_figures.summarise_sizes(made_up_sizes() | {"lp_variables": [1] * 8})["counts_of_the_theorem"]


def made_up_rates():
    """Averages fall as K^−½ from the bound's half; of two last iterates the one that need not mix falls as 1/K."""
    rows = []
    for contest, K in [(c, K) for c in (0, 1) for K in (100, 400, 1600)]:
        about = {"contest": contest, "states": 2, "actions": 2, "restart": 0.0, "tau": 1.0, "mixed_states": contest}
        about |= {"K": K, "bound": 8 / K**0.5}
        rows.append(about | {"method": "hpi theorem", "gap": 4 / K**0.5})
        rows.append(about | {"method": "hpi last", "gap": 1 / K if contest == 0 else 0.9})
    return {name: [row[name] for row in rows] for name in finite.RATES_SCHEMA}


def test_summary_of_made_up_rates():
    summary = finite_figures.summarise_rates(made_up_rates())
    average, last = summary["hpi theorem"], summary["hpi last"]
    assert average["median_slope"] == pytest.approx(-0.5)
    assert (average["slopes"].mean, average["slopes"].n) == (pytest.approx(-0.5), 2)
    assert average["bound_over_gap_at_largest_K"] == pytest.approx(2)
    assert (average["bound_holds"], average["bound_below_1"], average["largest_K"]) == (1.0, 1.0, 1600)
    assert average["median_gap_at_largest_K"] == pytest.approx(0.1)
    assert last["bound_holds"] == pytest.approx(3 / 6)  # 0.9 is above 0.8, 0.4 and 0.2
    assert last["median_slope"] == pytest.approx(-0.5)  # between −1 and 0
    found = summary["last iterate"]
    assert (found["contests"], found["stays"], found["mixed"], found["mixed_that_stay"]) == (2, 1, 1, 1)
    assert found["median_last_over_first"] == pytest.approx((1 / 16 + 1) / 2)


def test_summaries_say_what_is_missing():
    table = made_up_rates() | {"method": ["hpi theorem"] * 12}
    with pytest.raises(mdc.InputError, match="no rows of 'hpi last', it has \\['hpi theorem'\\]"):
        finite_figures.summarise_rates(table)
    with pytest.raises(mdc.InputError, match="no row of the table has game_run"):
        finite_figures.summarise_sizes(made_up_sizes() | {"game_run": [False] * 8})


def test_figures_are_drawn(quick, tmp_path):
    for name, figure in (
        ("sizes", finite_figures.sizes_figure(sizes_in(quick))),
        ("rates", finite_figures.rates_figure(rates_in(quick))),
    ):
        figure.savefig(tmp_path / f"{name}.svg")
        assert (tmp_path / f"{name}.svg").stat().st_size > 5000


def test_folder_that_cannot_be_made_is_one_line(tmp_path, capsys):
    taken = tmp_path / "taken"
    taken.write_text("")
    assert finite.main(["--quick", "--out", str(taken)]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: cannot make the folder {taken}")
    assert printed.count("\n") == 1


def test_the_number_of_states(tmp_path):
    """What is left of gaps, here 2 |S|^(1/4), gives that exponent, however easy contests are to begin with."""
    table = {"states": [16, 16, 16, 256, 256, 256], "contest": [0, 1, 2] * 2, "K": [7] * 6}
    left, start = [0.1, 4.0, 9.0, 0.1, 8.0, 9.0], [1.0, 0.5, 0.25, 0.125, 0.125, 0.125]
    table |= {"start": start, "gap": [one * first for one, first in zip(left, start, strict=True)]}
    found = state_counts.summarise_states(table)
    assert found["exponent"] == pytest.approx(0.25)
    assert (found["fewest"], found["most"], found["left_fewest"], found["left_most"]) == (16, 256, 4.0, 8.0)
    assert (found["gap_fewest"], found["gap_most"]) == (2.0, 1.0)
    assert state_counts.main(["--quick", "--out", str(tmp_path)]) == 0
    rows = read_table(tmp_path / "finite-states.parquet", state_counts.STATES_FORMAT, state_counts.STATES_SCHEMA)
    assert list(rows["states"]) == [3] * state_counts.CONTESTS + [6] * state_counts.CONTESTS
    assert all(0 <= gap <= start <= 1 for gap, start in zip(rows["gap"], rows["start"], strict=True))
