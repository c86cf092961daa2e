"""The models, peers and tables of bench/solvers.py: a benchmark that solves the wrong problem measures nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import poisson

import mdcontest as mdc
from mdcontest.solvers.base import certify, silent

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "bench" / "finite"))
models = pytest.importorskip("models", reason="the benchmarks are only in a checkout")
cases, contests, highs, mdp_peers, processes, tables = (
    pytest.importorskip(name) for name in ("cases", "contests", "highs", "mdp_peers", "processes", "tables")
)

MODELS = ("garnet", "grid", "queue", "routing", "inventory")
STRUCTURED = ("low rank", "reward", "classes", "signs")


# --- models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("pairs", [20, 90, 1000])
def test_models_are_stochastic_of_the_right_size_and_unichain(name, pairs):
    model = contests.sized(name, pairs)
    states, actions = model.reward.shape
    assert model.transitions.shape == (states * actions, states)
    assert abs(model.num_pairs - pairs) <= 0.4 * pairs
    assert model.transitions.data.min() > 0
    np.testing.assert_allclose(model.transitions.sum(axis=1), 1, atol=1e-14)
    np.testing.assert_allclose(model.start.sum(), 1, atol=1e-14)
    assert np.isfinite(model.reward).all()
    if pairs < 1000:
        contest = model.contest(contests.reward(model))
        assert contest.num_pairs == model.num_pairs
        assert mdc.check_conditions(contest).unichain == "yes"


def test_a_model_is_a_function_of_its_size_and_seed():
    first, again, other = (models.garnet(50, seed=seed) for seed in (1, 1, 2))
    assert (first.transitions != again.transitions).nnz == 0
    assert (first.transitions != other.transitions).nnz > 0


@pytest.mark.parametrize("states", [5, 20, 400])
def test_garnet_rows_have_distinct_successors(states):
    P = models.garnet(states, seed=3).transitions
    assert (np.diff(P.indptr) == 5).all()
    counts = np.bincount(P.indices, minlength=states)
    assert counts.min() > 0.3 * P.shape[0] * 5 / states  # every state is a successor about as often as any other


@pytest.mark.parametrize("side", [2, 3, 7, 12])
def test_grid_moves_as_a_walk_cell_by_cell_says(side):
    """The slow obvious form: one cell at a time, a wall across the middle of either side, doors at the quarters."""
    model = models.grid(side)
    half, wide = (side + 1) // 2, max(1, side // 10)

    def goes(row, column, direction):
        down, right = [(-1, 0), (0, 1), (1, 0), (0, -1)][direction]
        r, c = row + down, column + right
        if not (0 <= r < side and 0 <= c < side):
            return row * side + column
        if (row < half) != (r < half) or (column < half) != (c < half):
            along = column if down else row
            if min(abs(along - side // 4), abs(along - 3 * side // 4)) >= (wide + 1) / 2:
                return row * side + column
        return r * side + c

    for row, column in np.ndindex(side, side):
        s = row * side + column
        for a in range(4):
            expected = np.zeros(side**2)
            for turn, probability in ((0, 0.8), (1, 0.1), (3, 0.1)):
                expected[goes(row, column, (a + turn) % 4)] += probability
            np.testing.assert_allclose(model.transitions[[5 * s + a]].toarray()[0], expected, atol=1e-15)
        assert model.transitions[[5 * s + 4]].toarray()[0, s] == pytest.approx(1)


@pytest.mark.parametrize("side", [2, 5, 10, 31])
def test_every_cell_of_the_grid_can_be_reached(side):
    from scipy.sparse.csgraph import connected_components

    P = models.grid(side).transitions
    moves = sum(P[a::5] for a in range(4))
    assert connected_components(moves, connection="strong")[0] == 1


@pytest.mark.parametrize("fast", [0, 1])
def test_queue_that_admits_everybody_has_the_law_of_mm1k(fast):
    """ν(q) ∝ (λ/μ)^q, q = 0 … K: the balance λ ν(q) = μ ν(q + 1) of the M/M/1/K queue. λ/μ is 1.25 or 0.625."""
    model = models.queue(12, arrival=0.5, services=(0.4, 0.8))
    contest = model.contest(contests.reward(model))
    rule = np.eye(4)[np.full(13, 2 + fast)]
    law = (0.5 / (0.4, 0.8)[fast]) ** np.arange(13)
    np.testing.assert_allclose(mdc.occupancy(contest, rule).sum(axis=1), law / law.sum(), atol=1e-14)


def test_cost_of_the_queue_by_hand():
    """K = 4, λ = 0.5, μ = 0.4 and 0.8, so a step is an arrival with 5/13. Two waiting, admitted, fast: 2/4 + 0.3.

    Full and admitting, slow: 1, and the arrival is lost. Empty, turned away, fast: the server rests, so 5/13.
    """
    reward = models.queue(4, arrival=0.5, services=(0.4, 0.8)).reward
    assert reward[2, 3] == pytest.approx(-0.8)
    assert reward[4, 2] == pytest.approx(-1 - 5 / 13)
    assert reward[0, 1] == pytest.approx(-5 / 13)


def test_routing_everybody_to_one_queue_leaves_the_other_empty():
    """The second queue drains, and the first is M/M/1/K with λ/μ = 0.9/0.6."""
    model = models.routing(6, arrival=0.9, services=(0.6, 0.4))
    contest = model.contest(contests.reward(model))
    nu = mdc.occupancy(contest, np.eye(3)[np.zeros(49, int)]).sum(axis=1).reshape(7, 7)
    law = 1.5 ** np.arange(7)
    np.testing.assert_allclose(nu[:, 0], law / law.sum(), atol=1e-13)
    np.testing.assert_allclose(nu[:, 1:], 0, atol=1e-13)


def test_inventory_follows_the_demand():
    """From a full store of 60 without an order, 60 − D is left; one that never orders ends empty and earns nothing."""
    model = models.inventory(60, demand=8.0)
    left = model.transitions[[4 * 60]].toarray()[0]
    np.testing.assert_allclose(left[60 - np.arange(30)], poisson.pmf(np.arange(30), 8), atol=1e-12)
    contest = model.contest(contests.reward(model))
    nu = mdc.occupancy(contest, np.eye(4)[np.zeros(61, int)]).sum(axis=1)
    np.testing.assert_allclose(nu, np.eye(61)[0], atol=1e-12)
    assert model.reward[0, 0] == 0


def test_reward_of_the_inventory_by_enumerating_demands():
    """Stock 5, two lots of 8 ordered into a store of 40: 8 E min(21, D) − 4 − 2·16 − 21/40."""
    D = np.arange(200)
    expected = 8 * np.minimum(21, D) @ poisson.pmf(D, 8.0) - 4 - 32 - 21 / 40
    assert models.inventory(40).reward[5, 2] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: models.garnet(4), "5 successors among 4 states"),
        (lambda: models.grid(1), "no four rooms"),
        (lambda: models.queue(0), "at least one customer"),
        (lambda: models.routing(0), "at least one customer"),
        (lambda: models.inventory(0), "at least one unit"),
        (lambda: models.inventory(10, demand=50.0), "take one below 20"),
        (lambda: contests.sized("maze", 10), "no model is called 'maze'"),
        (lambda: contests.make("queue", "votes", 10), "no margin is called 'votes'"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(make, complaint):
    with pytest.raises(mdc.InputError, match=complaint):
        make()


def test_margins_are_skew_and_balanced():
    """Each of the five classes beats two and loses to two, so the uniform mixture of classes ties with everything."""
    model = models.queue(9)
    for kind, make in contests.MARGINS.items():
        M = model.contest(make(model, 1)).margin.matrix()
        np.testing.assert_allclose(M, -M.T, atol=1e-12, err_msg=kind)
    K = contests.classes(model).class_matrix
    assert (K.sum(axis=1) == 0).all()
    assert (np.abs(K).sum(axis=1) == 4).all()


# --- peers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", STRUCTURED)
def test_sparse_programs_find_what_the_dense_one_finds(name, kind):
    """HiGHS solves the contest, and κ = 0, by the sparse program as by that of thm:lp; h bounds every reply."""
    contest = contests.make(name, kind, 60)
    found = highs.Highs("simplex").propose(contest, 1e-9, silent)
    scale = contest.margin.bound
    assert -certify(contest, found.rule).kappa <= 1e-7 * scale
    replies = contest.margin.apply(found.x).reshape(-1) + contest.dynamics.expect(found.h)
    assert (replies - np.repeat(found.h, contest.num_actions)).max() <= 1e-7 * scale
    dense = highs.Highs("simplex")._dense(contest)
    assert -certify(contest, dense.rule).kappa <= 1e-7 * scale


@pytest.mark.parametrize("seed", range(5))
def test_sparse_programs_multiply_by_the_margin(seed):
    """c = M x, through the extra variables, for features with ties and without."""
    rng = np.random.default_rng(seed)
    model = models.queue(6)
    n = model.num_pairs
    J = rng.normal(size=(3, 3))
    tied = mdc.margins.Signs(rng.integers(4, size=(n, 3)), rng.normal(size=3))
    for margin in (tied, contests.signs(model, seed), contests.classes(model, seed)):
        _check_product(model.contest(margin), rng)
    _check_product(model.contest(mdc.margins.LowRank(rng.normal(size=(n, 3)), J - J.T)), rng)


def _check_product(contest, rng):
    x = rng.dirichlet(np.ones(contest.num_pairs))
    links, c = highs._prefix_sums(contest) if isinstance(contest.margin, mdc.margins.Signs) else highs._factors(contest)
    n = contest.num_pairs
    y = np.linalg.solve(links[:, n:].toarray(), -links[:, :n] @ x)
    np.testing.assert_allclose(c @ y, contest.margin.apply(x.reshape(-1, contest.num_actions)).reshape(-1), atol=1e-12)


def test_margins_without_structure_go_to_highs_as_they_are():
    """A dense margin, one on a circle, and restarts that differ between pairs: a finite horizon."""
    queue = models.queue(4)
    circle = mdc.margins.Signs(np.arange(20.0)[:, None], [1.0], period=9.0)
    horizon = mdc.Contest(queue.transitions, queue.start, contests.reward(queue)).finite_horizon(3)
    for contest in (contests.make("grid", "dense", 45), queue.contest(circle), horizon):
        assert not highs._has_structure(contest)
        found = highs.Highs().propose(contest, 1e-9, silent)
        assert -certify(contest, found.rule).kappa <= 1e-7 * contest.margin.bound


def test_highs_refuses_a_method_it_does_not_have():
    with pytest.raises(mdc.InputError, match="method must be one of simplex"):
        highs.Highs("magic").propose(contests.make("queue", "reward", 20), 1e-9, silent)


@pytest.mark.parametrize("package", mdp_peers.installed())
@pytest.mark.parametrize("name", MODELS)
def test_packages_find_an_optimal_policy(name, package):
    contest = contests.make(name, "reward", 60)
    found = mdp_peers.MdpPackage(package).propose(contest, 1e-9, silent)
    assert -certify(contest, found.rule).kappa <= 1e-7 * contest.margin.bound


def test_packages_refuse_what_is_no_reward():
    with pytest.raises(mdc.InputError, match="low_rank margin is none"):
        mdp_peers.MdpPackage().propose(contests.make("queue", "low rank", 20), 1e-9, silent)


# --- measuring and showing --------------------------------------------------------------------------------


def test_every_case_has_a_name_and_both_sides():
    for quick in (True, False):
        found = cases.cases(quick)
        assert len({case.name for case in found}) == len(found)
        assert all(case.contenders[0] == cases.AUTO for case in found)
        small = [case for case in found if case.pairs <= case.series.highs_most]
        assert all(any(name in cases.HIGHS for name in case.contenders) for case in small)
    assert [case.name for case in cases.cases(False, "1000x4")] == ["garnet, dense, 1000x4"]


def follow(script, limit):
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        return processes.follow(process, limit, peer=True)
    finally:
        process.kill()
        process.communicate()


READY, SOLVED = '{"stage": "ready", "pairs": 3}', '{"stage": "solved", "seconds": 0.1}'
CERTIFIED = '{"stage": "certified", "gap": 0.0, "status": "solved"}'


@pytest.mark.parametrize(
    ("said", "then", "outcome"),
    [
        ([], "", "failed"),
        ([READY], "", "failed"),
        ([READY], "input()", "over the limit"),
        (["noise", READY, SOLVED], "", "uncertified"),
        ([READY, SOLVED], "input()", "uncertified"),
        ([READY, SOLVED, CERTIFIED], "", "certified"),
        ([READY, SOLVED.replace("0.1", "31"), CERTIFIED], "", "over the limit"),
        ([READY, SOLVED, CERTIFIED.replace("solved", "time_limit")], "", "over the limit"),
    ],
)
def test_a_worker_is_followed_until_it_ends_or_its_time_is_up(said, then, outcome):
    """`input()` waits for ever on a pipe that nobody writes to."""
    script = f"print({chr(10).join(said)!r}, flush=True)\n{then}"  # all at once: no line can be late
    assert follow(script, limit=0.2 if then else 30.0)["outcome"] == outcome


def row(contender, pairs, seconds, gap=1e-10, outcome="certified"):
    about = {"case": "garnet, reward, n=1e3", "model": "garnet", "margin": "reward", "threads": 1, "limit": 10.0}
    return about | {"contender": contender, "pairs": pairs, "seconds": seconds, "gap": gap, "outcome": outcome}


def test_growth_of_a_power_law_is_its_exponent():
    rows = [row("HPI", n, 1e-4 * n**1.5) for n in (100, 1000, 10_000)]
    assert tables.growth(rows) == pytest.approx(1.5)
    assert tables.growth([*rows, row("HPI", 10**5, 1.0, gap=1e-3)]) == pytest.approx(1.5)  # unsolved: left out
    assert tables.growth(rows[:1]) is None


def test_ratios_count_only_what_was_solved():
    quick, wrong = row("HiGHS ipx", 1000, 2.0), row("HiGHS simplex", 1000, 0.1, gap=1e-4)
    late = row("HiGHS simplex", 1000, 10.5, outcome="over the limit")
    mine = row(cases.AUTO, 1000, 0.5)
    assert tables.best_highs([wrong, quick]) is quick
    assert tables.ratio_text(mine, tables.best_highs([wrong, quick])) == "4"
    assert tables.ratio_text(mine, tables.best_highs([late])) == "> 20"
    assert tables.ratio_text(mine, None) == tables.ratio_text(wrong, quick) == "–"
    assert tables.seconds_text(wrong) == "(0.1)"
    assert tables.seconds_text(late) == "> 10"


def test_the_page_shows_the_results_that_are_kept():
    """docs/benchmarks.md holds the tables of bench/results/solvers.json, character by character."""
    results = tables.load(ROOT / "bench" / "results" / "solvers.json")
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert page.partition(tables.BEGIN)[2].partition(tables.END)[0].strip() == tables.markdown(results).strip()


def test_a_file_that_holds_no_results_is_named(tmp_path):
    for content in ("", "[]", json.dumps({"rows": 3})):
        (tmp_path / "x.json").write_text(content)
        with pytest.raises(mdc.FileFormatError, match=r"x\.json holds no results"):
            tables.load(tmp_path / "x.json")


def test_the_plot_draws_every_series_once():
    plot = pytest.importorskip("plot", reason="matplotlib is not installed")
    from mdcontest.report.plots import as_svg

    rows = [row(cases.AUTO, n, 1e-3 * n) for n in (1000, 10_000)]
    rows += [row("HiGHS ipx", 1000, 3.0), row("HiGHS ipx", 10_000, 10.0, outcome="over the limit")]
    svg = as_svg(plot.figure(rows))
    assert svg.count("garnet, reward") == 1
    assert "best HiGHS" in svg
    assert "InteriorPoint" not in svg
