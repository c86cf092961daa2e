"""paper/RESULTS.md is what the tables say, by another computation."""

import itertools
import json
import re
from decimal import Decimal
from pathlib import Path

import judging
import numpy as np
import pandas as pd
import pytest
import recorded
from claims import CLAIMS
from evidence import NOT_RUN, Evidence
from judging import FAILS, HOLDS, UNKNOWN
from recorded_results import paper_settings, record_runs, rows_with
from results_page import headline, results_page
from scipy import stats
from selections import PAPER, STEPS, SUITE

from mdcontest.report.statistics import HIGHER, LOWER, OVERLAPS, TOO_FEW
from report.stores import learning_episodes, write_run

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


@pytest.fixture(scope="module")
def readme():
    """Whatever its line breaks."""
    return " ".join((FOLDER.parent / "README.md").read_text(encoding="utf-8").split())


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
    verdicts = re.compile(rf"\*\*({HOLDS}|{FAILS}|{UNKNOWN})( [a-z ()]+)?\*\*")
    words = [verdicts.fullmatch(row[3]).group(1) for row in rows]
    sentence = next(line for line in page.splitlines() if re.match(r"Of \d+ claims", line))
    numbers = list(map(int, re.findall(r"\d+", sentence)))
    (total, *counts), (nothing, in_part), (ours, *counts_of_ours) = numbers[:4], numbers[4:6], numbers[6:]
    assert nothing == sum(row[2].startswith("not run") for row in rows)
    assert nothing == sum(row[3] == f"**{UNKNOWN} (not run)**" for row in rows)
    assert in_part == sum("; not run on" in row[2] and row[3].startswith(f"**{UNKNOWN} ") for row in rows)
    assert in_part == sum(row[3] == f"**{UNKNOWN} (run in part)**" for row in rows)
    assert total + ours == len(rows) == sum(len(claims) for claims in CLAIMS.values())
    assert (total, ours) == (sum(counts), sum(counts_of_ours))
    assert ours == sum(row[0].startswith("(A second reading") for row in rows), "only these are not the paper's"
    both = [a + b for a, b in zip(counts, counts_of_ours, strict=True)]
    assert both == [words.count(verdict) for verdict in (HOLDS, FAILS, UNKNOWN)]
    for command in [row[4] for row in rows]:
        for part in command.strip("`").split(";"):
            python, script, *_ = part.split()
            assert python == "python"
            assert (FOLDER.parent / script).is_file(), command


def test_the_readme_says_what_the_page_says(page, readme):
    """Its paragraph is the page's, and so is its count of claims."""
    assert " ".join(headline(Evidence()).split()) in readme, "README's paragraph is not that of RESULTS.md: copy it"
    (counts,) = re.findall(r"^Of (\d+ claims \d+ hold, \d+ do not, \d+ cannot be told)", page, re.MULTILINE)
    assert f"of {counts}" in readme
    parts = [list(map(int, row[1:])) for row in rows_with(page, 5) if all(cell.isdigit() for cell in row[1:])]
    (theory, all_hold, *_), experiments = parts[0], [sum(column) for column in zip(*parts[1:], strict=True)]
    assert theory == all_hold
    said = f"{theory} of these are mathematics, and all of them hold; of the {experiments[0]} about experiments"
    assert f"{said} {experiments[1]} do." in readme


COUNTS = {
    "hpi-clip": "2024, on {} of the eleven tasks, overlaps with it on {}, and is strictly lower on {} ",
    "hpi": "HPI has {}, {} and {}, in the paper",
}
"""How the README says on how many tasks an area is strictly higher than SPPO's, overlaps, and is strictly lower."""


@pytest.mark.parametrize("algorithm", COUNTS)
def test_the_headline_counts_what_the_tables_show(readme, algorithm):
    """Areas again by hand."""
    areas = areas_by_hand(FOLDER / "results")
    ends = [[interval_by_hand(areas[task, name]) for name in (algorithm, "sppo")] for task in SUITE]
    higher, lower = (sum(one[0] > other[1] for one, other in pairs) for pairs in (ends, [pair[::-1] for pair in ends]))
    assert re.search(COUNTS[algorithm].format(higher, len(SUITE) - higher - lower, lower), readme)


def test_the_readme_says_what_is_missing(readme):
    """Which tasks of its figure have no runs, and which too few; nothing where all have enough."""
    evidence = Evidence()
    scores = {task: [evidence.scores("suite", task, name) for name in COLUMNS] for task in SUITE}
    seeds = {task: [one.area.n if one else 0 for one in found] for task, found in scores.items()}
    missing = {task.removesuffix("-v5") for task, counts in seeds.items() if not min(counts)}
    few = {task.removesuffix("-v5") for task, counts in seeds.items() if 0 < min(counts) < 5}
    for words, expected in (("not recorded yet", missing), ("too few seeds for a verdict", few)):
        clause = re.search(rf"([^.,]*) {words}", readme)
        named = set(re.findall(r"[A-Z][A-Za-z2]+", clause[1])) if clause else set()
        assert named == expected, words


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
        expected = TOO_FEW if min(len(mine), len(other)) else NOT_RUN
        if min(len(mine), len(other)) >= 5:
            (low, high), (other_low, other_high) = interval_by_hand(mine), interval_by_hand(other)
            expected = HIGHER if low > other_high else LOWER if high < other_low else OVERLAPS
        theirs, cell = PAPER[algorithm][task], suite_row(page, task)[column]
        assert cell == (expected if expected in (theirs, *judging.OPEN) else f"**{expected}** (paper: {theirs})")
        said.add(expected)
    assert said == {HIGHER, LOWER, OVERLAPS, TOO_FEW, NOT_RUN} or results == FOLDER / "results"
