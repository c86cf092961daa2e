"""Claims about the suite as a whole, on made-up runs whose numbers one can work out."""

from types import SimpleNamespace

import pytest
from claims import CLAIMS, relatively_fast
from evidence import SETTLED, Evidence
from judging import FAILS, HOLDS, UNKNOWN, short
from recorded_results import paper_settings, record_runs
from results_page import results_page
from selections import NAMES, NT, STEPS, SUITE

from report.stores import write_run


def verdict_of(evidence, words):
    (found,) = [claim.judge(evidence) for claims in CLAIMS.values() for claim in claims if words in claim.text]
    return found


def level(out, task, algorithm, height, seeds=1, length=1):
    """Runs whose curves are level, at the height and one more for each seed after the first."""
    for seed in range(seeds):
        curve = ([STEPS // 2, STEPS], [height + seed] * 2, length)
        settings = paper_settings(task, algorithm)
        write_run(out / "runs", task, algorithm, seed, target=STEPS, episodes=curve, **settings)


def recorded_evidence(out):
    record_runs(out / "runs", out / "results")
    return Evidence(out / "results")


@pytest.mark.parametrize(("seeds", "verdict"), [(9, UNKNOWN), (10, FAILS)])
def test_with_ten_seeds_an_overlap_stands(tmp_path, seeds, verdict):
    """The paper has HPI-Clip strictly lower on Walker2d; here its seeds are those of SPPO, and one lower."""
    level(tmp_path, "Walker2d-v5", "hpi-clip", 99, seeds)
    level(tmp_path, "Walker2d-v5", "sppo", 100, 10)
    evidence = recorded_evidence(tmp_path)
    found = verdict_of(evidence, "HPI-Clip's area over training is strictly lower than SPPO's on Walker2d")
    assert found.verdict == verdict
    assert (SETTLED in found.numbers) == (seeds == 10)
    assert evidence.lean_lower("suite", "hpi-clip", ["Walker2d-v5"]) == ["Walker2d-v5"] * (seeds < 10)


def test_a_step_is_not_an_episode(tmp_path):
    """SPPO's episodes are twice as long and return half as much again: behind by the step, ahead by the episode."""
    for task in SUITE:
        level(tmp_path, task, "hpi-clip", 100, seeds=5)
        level(tmp_path, task, "sppo", 150, seeds=5, length=2)
    evidence = recorded_evidence(tmp_path)
    assert verdict_of(evidence, "By reward a step, as the gap is defined, HPI-Clip").verdict == HOLDS
    assert (
        verdict_of(evidence, "HPI-Clip learns more efficiently than SPPO on the suite over training").verdict == FAILS
    )
    assert (
        verdict_of(evidence, "By reward a step, as the gap is defined, HPI learns").numbers == "not run on any of them"
    )
    assert f"strictly higher for HPI-Clip on {', '.join(map(short, SUITE))}." in results_page(evidence, [])


def test_whose_episodes_are_long(tmp_path):
    """One algorithm on one task settles it; without it all tasks must have been run."""
    long_ones = "Episodes on the suite are long"
    for task in SUITE[:-1]:
        for name in NAMES:
            level(tmp_path, task, name, 1, length=1024)
    some = verdict_of(recorded_evidence(tmp_path), long_ones)
    assert (some.verdict, "10 of 10" in some.numbers) == (UNKNOWN, True)
    level(tmp_path, SUITE[-1], "sppo", 1, length=1024)
    assert verdict_of(recorded_evidence(tmp_path), long_ones).verdict == HOLDS
    level(tmp_path, SUITE[-1], "hpi", 1, length=1023)
    found = verdict_of(recorded_evidence(tmp_path), long_ones)
    assert found.verdict == FAILS
    assert "HPI 1023, SPPO 1024" in found.numbers
    limits = verdict_of(recorded_evidence(tmp_path), "Horizons of the tasks are long")
    assert (limits.verdict, "of 11 of 13 tasks" in limits.numbers) == (UNKNOWN, True)
    for task in NT:
        level(tmp_path, task, "hpi", 1, length=1)
    limits = verdict_of(recorded_evidence(tmp_path), "Horizons of the tasks are long")
    assert limits.verdict == HOLDS, "how long an episode may be is a setting, and the same for all"


def test_where_no_episode_ended_early(tmp_path):
    """HPI is ahead on five tasks that never end, and behind on those that do; one short episode takes a task out."""
    never = SUITE[:5]
    for task in SUITE:
        length = 2048 if task in never else 7
        level(tmp_path, task, "hpi", 100 if task in never else 10, seeds=5, length=length)
        level(tmp_path, task, "sppo", 50, seeds=5, length=length)
    ahead = "Where no episode ended early, HPI learns"
    found = verdict_of(recorded_evidence(tmp_path), ahead)
    assert (found.verdict, "strictly higher on 5" in found.numbers) == (HOLDS, True)
    assert verdict_of(recorded_evidence(tmp_path), "SPPO, with the longest comparison horizon").verdict == UNKNOWN
    level(tmp_path, never[0], "ppo", 50, length=2047)
    found = verdict_of(recorded_evidence(tmp_path), ahead)
    assert (found.verdict, "strictly higher on 4" in found.numbers) == (UNKNOWN, True)


@pytest.mark.parametrize(("worse", "verdict"), [(5, FAILS), (6, HOLDS)])
def test_the_ends_of_the_comparison_horizon_on_the_whole_suite(tmp_path, worse, verdict):
    """SPPO is behind HPI-Clip on more than half of the eleven, or not."""
    for place, task in enumerate(SUITE):
        level(tmp_path, task, "hpi-clip", 100, seeds=5)
        level(tmp_path, task, "sppo", 50 if place < worse else 150, seeds=5)
    assert verdict_of(recorded_evidence(tmp_path), "SPPO, with the longest comparison horizon").verdict == verdict


def test_which_tasks_are_fast():
    """Faster than the median of all eleven, on the machine that made most of them, once it made all."""
    seconds = {task: 10.0 * (1 + place) for place, task in enumerate(SUITE)}
    seconds["Reacher-v5"], seconds["Walker2d-v5"] = 1.0, 999.0
    here, other = {"processor": "this one"}, {"processor": "another"}
    runs = [
        SimpleNamespace(task=task, algorithm="hpi", seconds=found, versions=here) for task, found in seconds.items()
    ]
    slower = SimpleNamespace(task="Reacher-v5", algorithm="hpi", seconds=9999.0, versions=other)
    another = SimpleNamespace(task="Reacher-v5", algorithm="ppo", seconds=9999.0, versions=here)

    def verdict(runs, task):
        return relatively_fast(SimpleNamespace(store=lambda name: SimpleNamespace(runs=runs)), task).verdict

    assert verdict([*runs, slower, another, another], "Reacher-v5") == HOLDS, "other algorithms do not count"
    assert verdict(runs, "Walker2d-v5") == FAILS
    assert verdict([run for run in runs if run.task != "Ant-v5"], "Reacher-v5") == UNKNOWN
    assert verdict([], "Reacher-v5") == UNKNOWN
