"""Numbers of a study against ones computed by hand."""

import json

import numpy as np
import pytest

from mdcontest.errors import InputError
from mdcontest.experiments.store import Store
from mdcontest.report import statistics as st
from mdcontest.report.study import INVERTED, RETURN, make_study
from mdcontest.report.study_curves import natural
from mdcontest.report.study_gaps import followed, gap_series, mean_over_seeds, own_brackets, shares, shown_steps, traces
from mdcontest.report.study_plots import label
from mdcontest.report.study_setting_plot import varied_setting
from report.stores import CLASSES, write_gap, write_positions, write_run, write_shares, write_study

TASK = "Hopper-v5"


def line(low, high, target=100):
    """An episode a step whose return goes from low to high in a straight line."""
    return list(range(1, target + 1)), np.linspace(low, high, target).tolist()


def write_seeds(out, algorithm, ends, task=TASK, target=100, **settings):
    for seed, end in enumerate(ends):
        write_run(out, task, algorithm, seed, target=target, episodes=line(0, end, target), **settings)


def test_curves_and_areas(tmp_path):
    write_seeds(tmp_path, "hpi-clip", [10, 20])
    study = make_study(Store(tmp_path))
    (task,) = study.tasks
    assert (task.name, task.measure, task.grid[0], task.grid[-1], len(task.grid)) == (TASK, RETURN, 1, 100, 100)
    scores = task.scores["hpi-clip"]
    np.testing.assert_allclose(scores.curves[1], np.linspace(0, 20, 100))
    # Level from 0 to 1, then a line to the end: 99 of the 100 steps at half of the height.
    np.testing.assert_allclose(scores.areas, [0.99 * 5, 0.99 * 10])
    assert scores.area == st.student_interval(scores.areas)
    assert scores.area_bootstrap == st.bootstrap_interval(scores.areas)
    np.testing.assert_allclose(scores.finals, [np.linspace(0, end, 100)[-10:].mean() for end in (10, 20)])
    assert [run.seed for run in scores.runs] == [0, 1]
    assert task.margins == {}


def test_grid_ends_with_the_shortest_run(tmp_path):
    write_seeds(tmp_path, "sppo", [10], target=100)
    write_seeds(tmp_path, "hpi-clip", [10], target=50)
    study = make_study(Store(tmp_path))
    assert study.tasks[0].grid[-1] == 50
    assert len(study.tasks[0].grid) == 50  # no more points than steps
    assert study.tasks[0].scores["sppo"].curves[0, -1] == pytest.approx(10 * 49 / 99)
    assert any("between 50 and 100 steps" in note for note in study.notes)


def test_only_finished_runs_count(tmp_path):
    write_seeds(tmp_path, "sppo", [1, 2])
    write_run(tmp_path, TASK, "sppo", 7, status="running", episodes=line(0, 1000), target=100)
    write_run(tmp_path, TASK, "sppo", 8, status="failed", error="RunError: no", episodes=line(0, 1000), target=100)
    assert make_study(Store(tmp_path)).tasks[0].scores["sppo"].area.n == 2


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        ([20, 21, 22, 20, 21], st.HIGHER),
        ([1, 2, 1, 2, 1], st.LOWER),
        ([9, 10, 11, 10, 9], st.OVERLAPS),
        ([90], st.TOO_FEW),
    ],
)
def test_verdicts(tmp_path, other, verdict):
    write_seeds(tmp_path, "sppo", [10, 11, 9, 10, 11])
    write_seeds(tmp_path, "hpi-clip", other)
    (task,) = make_study(Store(tmp_path)).tasks
    assert task.baseline == "sppo"
    assert task.verdicts == {"hpi-clip": verdict}


def test_baseline(tmp_path):
    write_seeds(tmp_path, "ppo", [1])
    write_seeds(tmp_path, "hpi", [1], gamma=0.9)
    write_seeds(tmp_path, "hpi", [2], gamma=0.99, task=TASK)
    store = Store(tmp_path)
    assert make_study(store).tasks[0].baseline == "hpi gamma=0.9"  # without SPPO the first
    assert make_study(store, "ppo").tasks[0].baseline == "ppo"
    assert make_study(store, "hpi gamma=0.99").tasks[0].baseline == "hpi gamma=0.99"
    by_algorithm = make_study(store, "hpi")
    assert by_algorithm.tasks[0].baseline == "hpi gamma=0.9"
    assert any("of 2 variants of the baseline" in note for note in by_algorithm.notes)
    with pytest.raises(InputError, match="'hppi' is no variant or algorithm of these runs; did you mean hpi"):
        make_study(store, "hppi")


def test_baseline_that_a_task_lacks(tmp_path):
    write_seeds(tmp_path, "ppo", [1])
    write_seeds(tmp_path, "hpi", [1])
    write_seeds(tmp_path, "hpi", [1], task="HalfCheetah-v5")
    study = make_study(Store(tmp_path), "ppo")
    assert [task.baseline for task in study.tasks] == [None, "ppo"]
    assert any("no finished run of the baseline ppo" in note for note in study.notes)


def test_interquartile_mean_is_of_areas_scaled_within_tasks(tmp_path):
    for task, scale in ((TASK, 1.0), ("Walker2d-v5", 100.0)):
        write_seeds(tmp_path, "sppo", [0, scale, 2 * scale, 3 * scale], task=task)
        write_seeds(tmp_path, "ppo", [4 * scale] * 4, task=task)
    iqms = make_study(Store(tmp_path)).iqms
    assert iqms["sppo"][1] == iqms["ppo"][1] == 2
    # Two of the eight scores of SPPO are cut at each end: 0, 0 | 1/4, 1/4, 1/2, 1/2 | 3/4, 3/4.
    assert iqms["sppo"][0].mean == pytest.approx(3 / 8)
    assert iqms["ppo"][0].mean == pytest.approx(1.0)


def test_task_on_which_all_areas_are_equal_is_not_scaled(tmp_path):
    write_seeds(tmp_path, "sppo", [5, 5])
    assert make_study(Store(tmp_path)).iqms == {}


def test_inverted_lower_bound(tmp_path):
    for seed, values in enumerate(([0.8, 0.4, 0.2], [0.6, 0.4, 0.0])):
        run = write_run(
            tmp_path, "RPSCorridor", "sppo", seed, target=30, episodes=line(0, 9, 30), margins=[0.1, 0.3, 0.4]
        )
        for step, value in zip((10, 20, 30), values, strict=True):
            write_gap(run, step, value, 0.9)
        write_gap(run, 30, 5.0, half=1.0, digest="less")  # measured twice: the narrower interval counts
        write_gap(run, 30, 7.0, returned="last")  # another policy of the same run
    (task,) = make_study(Store(tmp_path)).tasks
    assert task.measure == INVERTED
    np.testing.assert_allclose(task.scores["sppo"].curves, [[-0.8, -0.4, -0.2], [-0.6, -0.4, 0.0]])
    np.testing.assert_allclose(task.scores["sppo"].areas, [-0.45, -0.35])
    steps, margins = task.margins["sppo"]
    assert steps.tolist() == [10, 20, 30]
    np.testing.assert_allclose(margins, [[0.1, 0.3, 0.4]] * 2)


def test_the_policy_that_was_followed_counts(tmp_path):
    """The mixture at three steps, what the run returns at the end only: there is a curve of the one, and a note."""
    for seed, values in enumerate(([0.8, 0.4, 0.2], [0.6, 0.4, 0.0])):
        run = write_run(tmp_path, "RPSCorridor", "sppo", seed, target=30, returned="last")
        write_gap(run, 30, 7.0, returned="last")
        for step, value in zip((10, 20, 30), values, strict=True):
            write_gap(run, step, value)
    study = make_study(Store(tmp_path))
    np.testing.assert_allclose(study.tasks[0].scores["sppo"].areas, [-0.45, -0.35])
    assert any("against the mixture policy, which was followed over time" in note for note in study.notes)
    for folder in tmp_path.glob("RPS*"):
        write_gap(folder, 20, 6.0, returned="last")
    study = make_study(Store(tmp_path))
    assert study.tasks[0].grid.tolist() == [20, 30], "what a run returns, once it has a curve of its own"
    assert not any("followed" in note for note in study.notes)


def test_brackets_that_do_not_count_do_not_say_what_was_followed(tmp_path):
    """What is returned was bracketed twice by the learned margin, which is another question."""
    run = write_run(tmp_path, "RPSCorridor", "sppo", 0, target=30, returned="last", learned="a")
    for step in (10, 30):
        write_gap(run, step, 7.0, returned="last")
        write_gap(run, step, 0.2, judge="own")
    (found,) = Store(tmp_path).runs
    assert followed(found) == "mixture"
    assert [bracket.best_response.value for bracket in own_brackets(found).values()] == [0.2, 0.2]


# --- judges -----------------------------------------------------------------------------------------------


def write_judged(out, algorithm, judges, height=0.5, **how):
    """Seeds of Reacher-NT, one a list of judges: what each of them says at two steps."""
    for seed, judged_by in enumerate(judges):
        run = write_run(out, "Reacher-NT", algorithm, seed, target=30, **how)
        for number, judge in enumerate(judged_by):
            for step in (10, 30):
                write_gap(run, step, height * (1 if judge in (None, "own") else 100), digest=str(number), judge=judge)


def test_brackets_by_different_margins_are_not_compared(tmp_path):
    """On scales that have nothing to do with each other everything would look strictly lower."""
    write_judged(tmp_path, "sppo", [[None]] * 5)
    write_judged(tmp_path, "hpi-clip", [["a"]] * 5, learned="a")
    study = make_study(Store(tmp_path))
    assert (study.tasks[0].scores, study.tasks[0].verdicts) == ({}, {})
    (note,) = [note for note in study.notes if "judged by different margins" in note]
    assert "the learned a (5 of 10 runs), the task's own (5 of 10 runs)" in note
    assert "--margin own judges all runs by the task's own" in note
    assert sorted((one.judge, one.values[0, 0]) for one in gap_series(study.runs)) == [("a", 50.0), ("own", 0.5)]


def test_seeds_judged_by_different_margins_are_not_averaged(tmp_path):
    """One of five was judged by the task's own margin alone; and five margins that say the same thing are five."""
    write_judged(tmp_path / "one", "hpi-clip", [["own"], ["a"], ["a"], ["a"], ["a"]], learned="a")
    write_judged(tmp_path / "each", "hpi-clip", [[digest] for digest in "abcde"], learned="a")
    for folder, judges in (("one", {"own": 1, "a": 4}), ("each", dict.fromkeys("abcde", 1))):
        study = make_study(Store(tmp_path / folder))
        assert study.tasks[0].scores == {}
        assert any("judged by different margins" in note for note in study.notes)
        assert {one.judge: len(one.seeds) for one in gap_series(study.runs)} == judges


def test_the_judge_that_all_runs_share_counts(tmp_path):
    """The task's own where it judged them all; else a learned one that did."""
    write_judged(tmp_path, "sppo", [[None]] * 2, height=0.5)
    write_judged(tmp_path, "hpi-clip", [["a", "own"], ["b", "own"]], height=0.25, learned="a")
    study = make_study(Store(tmp_path))
    assert {one.judge for one in gap_series(study.runs)} == {"own"}
    assert sorted(float(one.area.mean) for one in study.tasks[0].scores.values()) == [-0.5, -0.25]
    assert not any("judged" in note for note in study.notes)
    write_judged(tmp_path / "learned", "hpi-clip", [["b", "a"], ["a"], ["own", "a"]], learned="a")
    study = make_study(Store(tmp_path / "learned"))
    (scores,) = study.tasks[0].scores.values()
    assert scores.areas.tolist() == [-50.0] * 3
    (series,) = gap_series(study.runs)
    assert (series.judge, len(series.seeds)) == ("a", 3)


def test_brackets_after_as_many_whole_iterations_are_comparable(tmp_path):
    """Older files say what was asked for, and 512 steps are trained as one iteration of 2048."""
    for seed, (asked, more) in enumerate([(512, {}), (2048, {}), (512, {"trained": 2048})]):
        run = write_run(tmp_path, "Reacher-NT", "sppo", seed, target=30)
        for step in (10, 30):
            candidates = [{"steps": 2048}, {"steps": 2048}]
            write_gap(run, step, 0.5, details={"effort": asked, "candidates": candidates} | more)
    study = make_study(Store(tmp_path))
    assert len(study.tasks[0].scores["sppo"].runs) == 3
    write_gap(run, 30, 0.4, digest="more", details={"effort": 4096, "trained": 4096})
    study = make_study(Store(tmp_path))
    assert study.tasks[0].scores == {}
    assert any("were trained for 2,048 to 4,096 steps" in note for note in study.notes)


def test_inverted_lower_bound_is_over_common_steps(tmp_path):
    for seed, steps in enumerate(([10, 20, 30], [10, 30], [30])):
        run = write_run(tmp_path, "RPSCorridor", "sppo", seed, target=30)
        for step in steps:
            write_gap(run, step, 0.5)
    study = make_study(Store(tmp_path))
    assert study.tasks[0].grid.tolist() == [10, 30]
    assert study.tasks[0].scores["sppo"].area.n == 2
    assert any("2 steps at which the gap of every run" in note for note in study.notes)
    assert any("bracketed at 1 steps; a curve takes 2" in note for note in study.notes)


@pytest.mark.parametrize("steps", [[[10, 20], [30, 40]], [[10], [10]], [[], []]])
def test_no_common_steps(tmp_path, steps):
    for seed, own in enumerate(steps):
        run = write_run(tmp_path, "RPSCorridor", "sppo", seed, target=40)
        for step in own:
            write_gap(run, step, 0.5)
    study = make_study(Store(tmp_path))
    assert study.tasks[0].scores == {}
    assert any("bracketed" in note for note in study.notes)


def test_return_counts_on_reward_tasks_with_brackets(tmp_path):
    run = write_run(tmp_path, TASK, "sppo", 0, target=100, episodes=line(0, 1))
    write_gap(run, 50, 0.1)
    write_gap(run, 100, 0.1)
    other = write_run(tmp_path, "Unknown-Task", "sppo", 0, target=100, episodes=line(0, 1))
    write_run(tmp_path, "Unknown-Reward", "sppo", 0, target=100, episodes=line(0, 1))
    write_gap(other, 100, 0.1)
    measures = {task.name: task.measure for task in make_study(Store(tmp_path)).tasks}
    assert measures == {TASK: RETURN, "Unknown-Task": INVERTED, "Unknown-Reward": RETURN}


@pytest.mark.parametrize("episodes", [([], []), ([5, 4], [1.0, 1.0]), ([1, 2], [1.0, float("nan")])])
def test_run_without_a_curve_is_left_out_by_name(tmp_path, episodes):
    write_seeds(tmp_path, "sppo", [1, 2])
    write_run(tmp_path, TASK, "sppo", 9, name="broken", target=100, episodes=episodes)
    study = make_study(Store(tmp_path))
    assert study.tasks[0].scores["sppo"].area.n == 2
    assert any("1 finished run has no curve of the return: [broken (" in note for note in study.notes)


def test_a_run_whose_episodes_are_missing_is_named_as_such(tmp_path):
    write_seeds(tmp_path, "sppo", [1, 2])
    (write_run(tmp_path, TASK, "sppo", 9, name="bare", target=100) / "episodes.parquet").unlink()
    study = make_study(Store(tmp_path))
    (note,) = [note for note in study.notes if "bare" in note]
    assert note.endswith("[bare (there is neither episodes.parquet nor episodes.csv in its folder)]")


def test_repeated_seed_counts_once(tmp_path):
    write_seeds(tmp_path, "sppo", [1, 2])
    write_run(tmp_path, TASK, "sppo", 0, name="zz-again", target=100, episodes=line(0, 99))
    study = make_study(Store(tmp_path))
    assert study.tasks[0].scores["sppo"].area.n == 2
    assert any("1 run repeats the seed of another and is left out: [zz-again" in note for note in study.notes)


@pytest.mark.parametrize("target", [0, -5, 10**30])
def test_absurd_targets(tmp_path, target):
    run = write_run(tmp_path, TASK, "sppo", 0, target=100, episodes=line(0, 1))
    description = json.loads((run / "run.json").read_text()) | {"steps_asked": target, "steps": target}
    (run / "run.json").write_text(json.dumps(description))
    assert make_study(Store(tmp_path)).tasks[0].scores == {}


def test_gap_series_and_behaviour(tmp_path):
    first, second = (write_run(tmp_path, "RPSCorridor", "sppo", seed, target=30) for seed in (0, 1))
    write_gap(first, 10, 0.5, 0.9, exact=0.6)
    write_gap(first, 30, 0.01, half=0.02)
    write_gap(second, 30, 0.03, half=0.02)
    write_shares(first, 10, dict(zip(CLASSES, (0.5, 0.3, 0.2), strict=True)))
    write_positions(second, 30, [(0, 1), (float("nan"), 0), (1, 0)])
    store = Store(tmp_path)
    (series,) = gap_series(store.runs)
    assert series.steps.tolist() == [10, 30]
    np.testing.assert_allclose(mean_over_seeds(series.values), [0.5, 0.02])
    np.testing.assert_allclose(mean_over_seeds(series.lowers), [0.48, 0.005])  # never below 0
    np.testing.assert_allclose(mean_over_seeds(series.uppers), [0.92, np.nan])
    np.testing.assert_allclose(mean_over_seeds(series.exact), [0.6, np.nan])
    assert list(own_brackets(store.runs[0])) == [10, 30]
    (found,) = shares(store.runs)
    assert found.labels == list(CLASSES)
    assert found.values.tolist() == [[[0.5, 0.3, 0.2]]]
    ((variant, seed, points),) = traces(store.runs)[0].rows
    assert (variant, seed, points[30].tolist()) == ("sppo", 1, [[0, 1], [1, 0]])


def test_varied_setting(tmp_path):
    for horizon in (1, 4, 16):
        write_seeds(tmp_path, "hpi-clip", [1, 2], comparison_horizon=horizon)
    write_seeds(tmp_path, "sppo", [1, 2], comparison_horizon=0)
    (task,) = make_study(Store(tmp_path)).tasks
    name, groups = varied_setting(task)
    assert name == "comparison_horizon"
    assert sorted(groups["hpi-clip"].values()) == [1, 4, 16]
    write_seeds(tmp_path, "hpi-clip", [1, 2], comparison_horizon=16, gamma=0.5)
    assert varied_setting(make_study(Store(tmp_path)).tasks[0]) is None  # two settings vary


def test_labels():
    assert label("x" * 40 + "ends differently", 20) == "xxxxxx…s differently"
    assert len(label("y" * 100)) == 44
    assert label("_a\x00\ud800") == " _a��"


def test_order(tmp_path):
    assert sorted(["a10", "a9", "a1"], key=natural) == ["a1", "a9", "a10"]
    assert shown_steps({1, 2, 3, 4, 5, 6, 7}) == [1, 3, 5, 7]
    assert shown_steps({5}) == [5]
    study = make_study(Store(write_study(tmp_path, seeds=1)))
    horizons = [f"hpi-clip comparison_horizon={h}" for h in (1, 2, 4, 8)]
    assert study.variants == ["hpi-clip", *horizons, "sppo", "ppo"]
