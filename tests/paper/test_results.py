"""paper/RESULTS.md is what the tables say, by another computation; and how verdicts on tasks become one on a claim."""

import itertools
import json
import re
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import behaviour
import judging
import numpy as np
import pandas as pd
import pytest
import recorded
from claims import CLAIMS
from evidence import Evidence
from judging import FAILS, HOLDS, UNKNOWN
from recorded_results import paper_settings, record_runs, rows_with
from results_page import results_page
from scipy import stats
from selections import NT, PAPER, STEPS, SUITE

from mdcontest import tasks
from mdcontest.experiments.store import Gap
from mdcontest.gap.bracket import GapBracket, Measured
from mdcontest.report.statistics import HIGHER, LOWER, OVERLAPS, TOO_FEW
from report.stores import CLASSES, learning_episodes, write_run, write_shares

FOLDER = Path(recorded.__file__).parent
PAGE = FOLDER / "RESULTS.md"
COLUMNS = ("hpi-clip", "hpi", "sppo", "ppo")
PRESET = {
    "num_steps": 2048, "num_envs": 1, "epochs": 10, "minibatches": 32, "learning_rate": 3e-4, "hidden": [64, 64],
    "gamma": 0.99, "gae_lambda": 0.95, "clip": 0.2, "eta": 1.5, "hedge": "printed", "opponents": "queue",
    "queue_size": 100, "first_iterate": 100, "across_episodes": False, "termination": "paper", "truncation": "zero",
    "horizon": 2048, "critic": "discounted", "returned": "last",
}  # fmt: skip
"""What the paper's tables say of the suite, written down once more; the comparison horizon depends on the algorithm."""


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text(encoding="utf-8")


# --- the page and the tables ------------------------------------------------------------------------------


def test_the_page_is_what_the_tables_say(page):
    figures = re.findall(r"^!\[(.+)\]\(figures/\1\.png\)$", page, re.MULTILINE)
    same = results_page(Evidence(), figures) == page  # apart, or pytest would print both pages
    assert same, "paper/RESULTS.md is not what the tables in paper/results say: run make paper"


def test_the_page_shows_all_figures_there_are(page):
    shown = re.findall(r"!\[.*?\]\((.+?)\)", page)
    assert sorted(shown) == sorted(f"figures/{path.name}" for path in (FOLDER / "figures").iterdir())


def test_tables_are_small():
    assert sum(path.stat().st_size for path in (FOLDER / "results").iterdir()) < 20e6


def test_claims_are_counted_and_can_be_made_again(page):
    rows = [row for row in rows_with(page, 5) if row[3].startswith("**")]
    words = [row[3].strip("*") for row in rows]
    sentence = next(line for line in page.splitlines() if re.match(r"Of \d+ claims", line))
    total, *counts = map(int, re.findall(r"\d+", sentence))
    assert total == sum(counts) == len(rows) == sum(len(claims) for claims in CLAIMS.values())
    assert counts == [words.count(verdict) for verdict in (HOLDS, FAILS, UNKNOWN)]
    for command in [row[4] for row in rows]:
        for part in command.strip("`").split(";"):
            python, script, *_ = part.split()
            assert python == "python"
            assert (FOLDER.parent / script).is_file(), command


@pytest.fixture(scope="module", params=["committed", "made up"])
def suite(request, page, tmp_path_factory):
    """A page and the tables behind it; made up are one task with each verdict, and runs that must not count."""
    if request.param == "committed":
        return page, FOLDER / "results"
    out, rng = tmp_path_factory.mktemp("suite"), np.random.default_rng(0)
    for task, high in (("Ant-v5", 900.0), ("Hopper-v5", 100.0), ("Pusher-v5", 500.0), ("Swimmer-v5", 0.01)):
        seeds = {"hpi-clip": 6, "hpi": 5, "sppo": 4 if task == "Swimmer-v5" else 7, "ppo": 1}
        for algorithm, seed in ((name, s) for name, count in seeds.items() for s in range(count)):
            top = 500.0 if algorithm == "sppo" else high
            log = learning_episodes(rng, STEPS, 0.0, top * rng.normal(1, 0.1), 3.0)
            settings = paper_settings(task, algorithm)
            write_run(out / "runs", task, algorithm, seed, target=STEPS, episodes=log, **settings)
    others = [{"eta": 3.0}, {"comparison_horizon": 4}, {"opponents": "batch"}, {"across_episodes": True}]
    for seed, other in enumerate(others, start=20):
        settings = paper_settings("Ant-v5", "hpi-clip") | other
        write_run(out / "runs", "Ant-v5", "hpi-clip", seed, target=STEPS, episodes=([STEPS], [1e6]), **settings)
    settings = paper_settings("Ant-v5", "hpi-clip")
    write_run(
        out / "runs", "Ant-v5", "hpi-clip", 30, target=STEPS // 2, episodes=([9], [1e6]), **settings, name="short"
    )
    record_runs(out / "runs", out / "results")
    return results_page(Evidence(out / "results"), []), out / "results"


def areas_by_hand(results):
    """Task and algorithm → the mean height of each seed's curve, by pandas and a sum of trapezia."""
    runs, curves = (pd.read_parquet(results / f"{name}.parquet") for name in ("runs", "curves"))
    points = dict(iter(curves.groupby("run")))
    found = {}
    for row in runs.itertuples():
        about = json.loads(row.description)
        wanted = PRESET | {"comparison_horizon": 0 if row.algorithm == "sppo" else 1}
        follows = all(about["settings"][name] == value for name, value in wanted.items())
        if row.task in SUITE and row.steps == 488 * 2048 and "margin" not in about["task"] and follows:
            curve = points[row.run].sort_values("step")
            x, y = curve["step"].to_numpy(float), curve["return"].to_numpy(float)
            area = y[0] * x[0] + ((y[1:] + y[:-1]) / 2 * (x[1:] - x[:-1])).sum()
            found.setdefault((row.task, row.algorithm), {})[row.seed] = area / x[-1]
    return {key: np.array([*seeds.values()]) for key, seeds in found.items()}


def interval_by_hand(areas):
    if len(areas) < 2:
        return -np.inf, np.inf
    return stats.t.interval(0.95, len(areas) - 1, loc=areas.mean(), scale=stats.sem(areas))


def is_rounded(text, value):
    """Whether a number as the page writes it is the value, to half a unit of its last digit."""
    half = Decimal(10) ** Decimal(text).as_tuple().exponent / 2
    return abs(float(text) - value) <= float(half) * (1 + 1e-6)


def test_areas_of_the_suite_by_another_computation(suite):
    page, results = suite
    areas = areas_by_hand(results)
    cells = {(task, a): cell for task in SUITE for a, cell in zip(COLUMNS, suite_row(page, task)[1:5], strict=True)}
    assert {key for key, cell in cells.items() if cell != "not run"} == set(areas) != set()
    for key, values in areas.items():
        mean, low, high, n = re.fullmatch(r"(\S+?)(?: \[(\S+), (\S+)\])?, n = (\d+)", cells[key]).groups()
        assert int(n) == len(values), key
        assert is_rounded(mean, values.mean()), key
        for end, by_hand in zip((low, high), interval_by_hand(values), strict=True):
            assert end is None if len(values) < 2 else is_rounded(end, by_hand), key


def suite_row(page, task):
    """Of the table of areas in the paper's settings."""
    part = page.partition("## Areas on the suite")[2].partition("\n## ")[0]
    return next(row for row in rows_with(part, 7) if f"{row[0]}-v5" == task)


def test_verdicts_on_the_suite_by_another_computation(suite):
    page, results = suite
    areas, said = areas_by_hand(results), set()
    for task, (column, algorithm) in itertools.product(SUITE, enumerate(("hpi-clip", "hpi"), start=5)):
        mine, other = (areas.get((task, name), np.empty(0)) for name in (algorithm, "sppo"))
        expected = TOO_FEW
        if min(len(mine), len(other)) >= 5:
            (low, high), (other_low, other_high) = interval_by_hand(mine), interval_by_hand(other)
            expected = HIGHER if low > other_high else LOWER if high < other_low else OVERLAPS
        theirs, cell = PAPER[algorithm][task], suite_row(page, task)[column]
        assert cell == (expected if expected in (theirs, TOO_FEW) else f"**{expected}** (paper: {theirs})")
        said.add(expected)
    assert said == {HIGHER, LOWER, OVERLAPS, TOO_FEW} or results == FOLDER / "results"


# --- from tasks to claims ---------------------------------------------------------------------------------

JUDGES = {
    **{
        f"every task is {word}": (lambda v, w=word: judging.every_task_is(v, w), lambda found, w=word: {*found} <= {w})
        for word in (HIGHER, OVERLAPS, LOWER)
    },
    **{
        f"lower at most {m}": (lambda v, m=m: judging.rarely_lower(v, m), lambda found, m=m: found.count(LOWER) <= m)
        for m in (0, 1, 2)
    },
    "more often higher": (judging.more_often_higher, lambda found: found.count(HIGHER) > found.count(LOWER)),
}
"""Each way to judge, and what it says where every task is known."""


@pytest.mark.parametrize("name", JUDGES)
def test_a_verdict_stands_whatever_the_open_tasks_turn_out_to_be(name):
    """It holds if it does in all completions, not if it does in none, and cannot be told only if there are both.

    Where a strict order was claimed, an overlap may become one with more seeds, so it is open too.
    """
    judge, holds = JUDGES[name]
    known = (HIGHER, OVERLAPS, LOWER)
    strict = name.removeprefix("every task is ") if name.startswith("every task is strictly") else OVERLAPS
    for words in (w for n in range(6) for w in itertools.combinations_with_replacement((*known, TOO_FEW), n)):
        choices = [known if word == TOO_FEW else {word, strict} if word == OVERLAPS else (word,) for word in words]
        completions = {holds(found) for found in itertools.product(*choices)}
        expected = UNKNOWN if len(completions) == 2 else HOLDS if True in completions else FAILS
        finding = judge({f"task{i}-v5": word for i, word in enumerate(words)})
        assert finding.verdict == expected, words
        assert ("fewer than 5 seeds" in finding.numbers) == (TOO_FEW in words)


# --- what policies do -------------------------------------------------------------------------------------


def ring(radius, count=360):
    angle = 2 * np.pi * np.arange(count) / count
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def test_roundness_and_unevenness_of_what_one_can_work_out():
    assert behaviour.roundness(ring(0.2), 0.2) == pytest.approx((1, 1))
    assert behaviour.roundness([(0.03, 0.04)] * 7, 0.2) == pytest.approx((0.25, 0))
    assert behaviour.roundness([(0.1, 0), (-0.1, 0)], 0.2) == pytest.approx((0.5, 1))
    assert behaviour.unevenness([1 / 3] * 3) == pytest.approx(0)
    assert behaviour.unevenness([0, 1, 0]) == pytest.approx(2 / 3)
    assert behaviour.unevenness([0.5, 0.5, 0]) == pytest.approx(1 / 3)


def table_at(step, points=(), shares=()):
    rows = [("position", x, y, None) for x, y in points] + [("class", None, None, share) for share in shares]
    columns = dict(zip(("kind", "x", "y", "share"), zip(*rows, strict=True), strict=True))
    return {"step": [step] * len(rows), "returned": ["mixture"] * len(rows)} | columns


def gap_at(step, value):
    return Gap(step, "mixture", GapBracket(Measured(value, value, value), None, 0.95))


def made_up(runs):
    """Evidence of runs given as task, algorithm, tables and gaps."""
    settings = {"returned": "mixture"}
    found = [
        SimpleNamespace(task=task, algorithm=algorithm, seed=seed, settings=settings, behaviour=about, gaps=gaps)
        for seed, (task, algorithm, about, gaps) in enumerate(runs)
    ]
    return SimpleNamespace(store=lambda name: SimpleNamespace(runs=found))


@pytest.mark.parametrize("judge", ["circle", "thirds"])
def test_circle_and_thirds(judge):
    """Both learners must end well with five seeds; a bad one settles it, and one that was not run leaves it open."""
    if judge == "circle":
        reach = tasks.make("Reacher-NT").reach
        good, bad = ({"points": ring(reach * share)} for share in (0.95, 0.5))
    else:
        good, bad = {"shares": (0.3, 0.36, 0.34)}, {"shares": (0.9, 0.1, 0.0)}
    task = NT[0] if judge == "circle" else NT[1]

    def verdict(**seeds):
        runs = []
        for algorithm, ends in seeds.items():
            name = algorithm.replace("_", "-")
            runs += [(task, name, [table_at(9, **end), table_at(1, **bad)], []) for end in ends]
        return getattr(behaviour, judge)(made_up(runs)).verdict

    assert verdict(hpi_clip=[good] * 5, hpi=[good] * 5) == HOLDS
    assert verdict(hpi_clip=[good] * 5, hpi=[bad] * 5) == FAILS
    assert verdict(hpi=[bad] * 5) == FAILS
    assert verdict(hpi_clip=[good] * 5, hpi=[good] * 4) == UNKNOWN
    assert verdict(hpi_clip=[good] * 5) == verdict(sppo=[good] * 5) == verdict() == UNKNOWN


def test_trends():
    """Gaps that fall with the distance from the solution, that rise, and that do not change."""
    shares = [(0.9, 0.1, 0.0), (0.6, 0.3, 0.1), (0.4, 0.3, 0.3), (1 / 3, 1 / 3, 1 / 3)]
    reach = tasks.make("Reacher-NT").reach
    about = {
        "Reacher-NT": [table_at(s, points=ring(reach * r)) for s, r in enumerate((0.2, 0.5, 0.7, 0.9), start=1)],
        "Walker2d-NT": [table_at(s, shares=share) for s, share in enumerate(shares, start=1)],
    }
    falling, rising, level = ((0.9, 0.4, 0.2, 0.1), (0.1, 0.2, 0.4, 0.9), (0.5,) * 4)

    def verdict(*values, seeds=5):
        gaps = [[gap_at(step, value) for step, value in enumerate(one, start=1)] for one in values]
        runs = [(task, "hpi", about[task], found) for task, found in zip(about, gaps, strict=False)]
        return behaviour.trends(made_up(runs * seeds))

    assert verdict(falling, falling).verdict == HOLDS
    assert verdict(falling, falling, seeds=4).verdict == verdict(rising, seeds=4).verdict == UNKNOWN
    assert "Spearman 1.000 over 20 policies of 5 seeds" in verdict(falling).numbers
    assert verdict(falling, rising).verdict == verdict(rising, falling).verdict == verdict(rising).verdict == FAILS
    assert {verdict(*some).verdict for some in ((), (falling,), (falling, level), (falling, ()))} == {UNKNOWN}


def test_shares_come_through_the_tables(tmp_path):
    """Runs as the paper sets them are judged by the mixture of their iterates, whatever they return."""
    for algorithm, seed in itertools.product(behaviour.LEARNERS, range(5)):
        settings = paper_settings(NT[1], algorithm)
        run = write_run(tmp_path / "runs", NT[1], algorithm, seed, target=STEPS, **settings)
        write_shares(run, STEPS, dict(zip(CLASSES, (0.5, 0.3, 0.2), strict=True)))
    record_runs(tmp_path / "runs", tmp_path / "results")
    finding = behaviour.thirds(Evidence(tmp_path / "results"))
    assert finding.numbers.count("distance from thirds 0.1667 [0.1667, 0.1667], n = 5") == 2
    assert finding.verdict == FAILS
