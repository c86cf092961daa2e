"""The peers and tables of bench/solvers.py: peers solve the same problem, and tables show what was measured."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import mdcontest as mdc
from bench_modules import MODELS, ROOT, cases, contests, highs, mdp_peers, models, processes, tables
from mdcontest.solvers.base import certify, silent

STRUCTURED = ("low rank", "reward", "classes", "signs")


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
