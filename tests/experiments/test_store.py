"""The folder of runs as a database: good, unfinished, damaged and foreign runs, and what tells runs apart."""

import json
import shutil

import pytest

from mdcontest import tasks
from mdcontest.errors import InputError, VersionError
from mdcontest.experiments.engine import note_failure
from mdcontest.experiments.jobs import Ending, Job
from mdcontest.experiments.store import GAPS_COLUMNS, RUNS_COLUMNS, Store
from mdcontest.experiments.stored import Run
from mdcontest.gap.bracket import GapBracket, Measured
from mdcontest.learn import PPO, HPIClip, load_agent
from mdcontest.tables import read_table
from report.stores import write_run
from sweeps import snapshot

TINY = {"num_steps": 64, "minibatches": 2, "epochs": 1, "hidden": (8,)}
GAP = {
    "format": "mdcontest/gap", "version": 1, "step": 128, "returned": "mixture",
}  # fmt: skip


def train(folder, kind=HPIClip, seed=0, steps=256, name="RPSCorridor", task=None, **settings):
    agent = kind(tasks.make(name, **(task or {})), seed, **TINY | settings)
    agent.learn(steps, progress=False, folder=folder, checkpoint_every=2)
    agent.close()
    return folder


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two algorithms, two seeds."""
    out = tmp_path_factory.mktemp("study")
    for kind, seed in ((HPIClip, 0), (HPIClip, 1), (PPO, 0), (PPO, 1)):
        train(out / f"{kind.__name__}{seed}", kind, seed)
    return out


@pytest.fixture
def copied(study, tmp_path):
    return shutil.copytree(study, tmp_path / "runs")


def change(folder, **changes):
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | changes))


def test_the_target_of_a_second_call_counts_the_first(tmp_path):
    """Five iterations, then three of which two are made, and the last one once it is resumed."""
    agent = HPIClip(tasks.make("RPSCorridor"), **TINY)
    agent.learn(5 * 64, progress=False, folder=tmp_path / "run", checkpoint_every=1)
    assert Run(tmp_path / "run").description["steps_asked"] == 5 * 64

    def stop(agent, progress):
        if progress.iteration == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent.learn(3 * 64, progress=False, callback=stop, folder=tmp_path / "run", checkpoint_every=1)
    agent.close()
    run = Run(tmp_path / "run")
    assert (run.steps, run.target) == (7 * 64, 8 * 64)
    load_agent(tmp_path / "run").resume(progress=False).close()
    run = Run(tmp_path / "run")
    assert (run.steps, run.target, run.description["steps_asked"]) == (8 * 64, 8 * 64, 8 * 64)


def test_what_a_run_says(study):
    store = Store(study)
    assert [run.name for run in store.runs] == ["HPIClip0", "HPIClip1", "PPO0", "PPO1"]
    assert store.problems == []
    run = store.runs[0]
    assert (run.task, run.algorithm, run.seed, run.status) == ("RPSCorridor", "hpi-clip", 0, "finished")
    assert (run.steps, run.target, run.is_finished) == (256, 256, True)
    assert list(run.progress["steps"]) == [64, 128, 192, 256]
    assert len(run.episodes["step"]) == len(run.episodes["return"]) == len(run.episodes["length"]) > 0
    assert run.settings["num_steps"] == 64
    assert (run.gaps, run.behaviour) == ([], [])
    assert run.variant == "hpi-clip"


def test_a_single_run_is_a_store_too(study):
    assert [run.name for run in Store(study / "PPO1").runs] == ["PPO1"]


def test_the_table_and_the_log_say_the_same(copied):
    before = Run(copied / "HPIClip0")
    (copied / "HPIClip0" / "episodes.parquet").unlink()
    (copied / "HPIClip0" / "progress.parquet").unlink()
    after = Run(copied / "HPIClip0")
    for name in ("step", "return", "length"):
        assert list(before.episodes[name]) == list(after.episodes[name])
    assert list(before.progress["entropy"]) == list(after.progress["entropy"])


def test_an_unfinished_run_is_read_from_its_logs(copied):
    change(copied / "PPO0", status="running")
    log = copied / "PPO0" / "progress.csv"
    log.write_bytes(log.read_bytes()[:-20])
    run = Store(copied).runs[2]
    assert (run.status, run.is_finished, run.steps) == ("running", False, 192)


def test_a_run_without_an_iteration(copied):
    change(copied / "PPO0", status="failed", error="no robot here")
    for name in ("progress.csv", "episodes.csv"):
        (copied / "PPO0" / name).unlink()
    store = Store(copied)
    assert store.problems == []
    assert (store.runs[2].steps, len(store.runs[2].episodes["step"])) == (0, 0)
    store.write_index()
    assert read_table(copied / "runs.parquet", "mdcontest/runs", RUNS_COLUMNS)["error"][2] == "no robot here"


def test_one_that_never_began(copied):
    note_failure(Job("train", str(copied / "never"), {}, "never"), Ending("no robot here"))
    store = Store(copied)
    assert len(store.runs) == 4
    assert store.problems == [f"{copied / 'never'} never began: no robot here"]


@pytest.mark.parametrize("content", ["", '{"format": "mdcontest/failures", "version": 1, "failures": []}'])
def test_one_that_never_began_and_does_not_say_why(content, copied):
    (copied / "never").mkdir()
    (copied / "never" / "failures.json").write_text(content)
    store = Store(copied)
    assert len(store.runs) == 4
    (problem,) = store.problems
    assert str(copied / "never") in problem


DAMAGE = {
    "run.json": (lambda content: content[:-30], "truncated or not JSON"),
    "episodes.parquet": (lambda content: content[:-30], "truncated or no Parquet file"),
    "progress.parquet": (lambda content: b"", "truncated or no Parquet file"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_run_is_left_out_and_named(name, copied):
    path = copied / "HPIClip1" / name
    path.write_bytes(DAMAGE[name][0](path.read_bytes()))
    before = snapshot(copied)
    store = Store(copied)
    assert [run.name for run in store.runs] == ["HPIClip0", "PPO0", "PPO1"]
    (problem,) = store.problems
    assert problem.startswith(f"{copied / 'HPIClip1'} is left out: ")
    assert DAMAGE[name][1] in problem
    assert str(path) in problem
    assert snapshot(copied) == before, "reading changes nothing"


def test_a_table_of_another_run_leaves_the_run_out(copied):
    """Whose curve it is nobody could tell from the report; the log is still the run's own."""
    for name in ("episodes.parquet", "progress.parquet"):
        shutil.copy(copied / "PPO0" / name, copied / "HPIClip1" / name)
        (problem,) = Store(copied).problems
        assert problem.startswith(f"{copied / 'HPIClip1'} is left out: {copied / 'HPIClip1' / name} is of another run")
        assert "its algorithm is ppo, and that of run.json is hpi-clip" in problem
        assert problem.endswith(f"without that file the same is read from {name.replace('parquet', 'csv')}")
        (copied / "HPIClip1" / name).unlink()
    shutil.copy(copied / "HPIClip0" / "episodes.parquet", copied / "HPIClip1" / "episodes.parquet")
    assert "its seed is 0, and that of run.json is 1" in Store(copied).problems[0]


def test_a_run_under_another_name_is_read(copied):
    (copied / "PPO1").rename(copied / "renamed")
    store = Store(copied)
    assert store.problems == []
    assert [run.name for run in store.runs] == ["HPIClip0", "HPIClip1", "PPO0", "renamed"]


REPLACEABLE = {
    "episodes.parquet": "without that file the same is read from episodes.csv",
    "progress.parquet": "without that file the same is read from progress.csv",
    "gaps/step0000000128_mixture_00000000.json": "without that file mdcontest gap, or the sweep, measures it anew",
    "behaviour/step0000000128_mixture.parquet": "without that file mdcontest trace, or the sweep, samples it anew",
}


@pytest.mark.parametrize("name", REPLACEABLE)
def test_a_damaged_file_that_can_be_done_without_is_told_from_the_others(name, copied):
    whole = Run(copied / "PPO1")
    path = copied / "PPO1" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"PAR1")
    (problem,) = Store(copied).problems
    assert str(path) in problem
    assert problem.endswith(REPLACEABLE[name])
    path.unlink()
    store = Store(copied)
    assert store.problems == []
    assert list(store.runs[3].episodes["return"]) == list(whole.episodes["return"])
    assert list(store.runs[3].progress["entropy"]) == list(whole.progress["entropy"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task", 3),
        ("task", {"name": "RPSCorridor", "settings": {}, "margin": ["x"]}),
        ("error", {"what": "x"}),
        ("algorithm", None),
        ("seed", "x"),
        ("settings", 1),
        ("versions", 5),
        ("steps_asked", None),
    ],
)
def test_a_description_that_is_wrong(key, value, copied):
    change(copied / "PPO1", **{key: value})
    store = Store(copied)
    assert len(store.runs) == 3
    assert "PPO1" in store.problems[0]


BRACKET = GapBracket(Measured(0.1, 0.0, 0.2), None, 0.95, details={"effort": 256}).record()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "damage",
        json.dumps(GAP),
        json.dumps(GAP | {"lower": "x"}),
        *(
            json.dumps(GAP | BRACKET | {"details": {"candidates": found}})
            for found in ([{}], ["x"], 3, [{"steps": "x"}])
        ),
    ],
)
def test_a_damaged_gap(content, copied):
    (copied / "PPO1" / "gaps").mkdir()
    (copied / "PPO1" / "gaps" / "step0000000128_mixture_00000000.json").write_text(content)
    store = Store(copied)
    assert len(store.runs) == 3
    assert "step0000000128_mixture_00000000.json" in store.problems[0]


def test_damaged_behaviour(copied):
    (copied / "PPO1" / "behaviour").mkdir()
    (copied / "PPO1" / "behaviour" / "step0000000128_mixture.parquet").write_bytes(b"PAR1")
    (problem,) = Store(copied).problems
    assert "step0000000128_mixture.parquet" in problem


def test_another_version_is_refused(copied):
    """Half of a study would be misleading."""
    change(copied / "PPO1", version=2)
    with pytest.raises(VersionError, match="has version 2, this program reads version 1"):
        Store(copied)


def test_other_folders_are_left_alone(copied):
    (copied / "notes").mkdir()
    (copied / "notes" / "todo.txt").write_text("nothing")
    (copied / "readme.txt").write_text("nothing")
    assert len(Store(copied).runs) == 4


@pytest.mark.parametrize("place", ["nothing", "file", "empty", "a\0b"])
def test_no_store(place, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"cannot read the folder|there is no run in"):
        Store(tmp_path / place)


# --- variants and versions --------------------------------------------------------------------------------


def test_variants_are_told_apart_by_what_differs(tmp_path):
    train(tmp_path / "a", gamma=0.9)
    train(tmp_path / "b", gamma=0.99)
    train(tmp_path / "c", seed=1, gamma=0.99)
    train(tmp_path / "d", PPO)
    assert [run.variant for run in Store(tmp_path).runs] == [
        "hpi-clip gamma=0.9",
        "hpi-clip gamma=0.99",
        "hpi-clip gamma=0.99",
        "ppo",
    ]


def test_variants_by_length_task_and_lists(tmp_path):
    train(tmp_path / "a")
    train(tmp_path / "b", steps=128)
    train(tmp_path / "c", hidden=(8, 8))
    train(tmp_path / "d", name="RPSContinuous")
    train(tmp_path / "e", name="RPSContinuous", task={"end": 0.2})
    names = [run.variant for run in Store(tmp_path).runs]
    assert names[:3] == ["hpi-clip hidden=[8] steps=256", "hpi-clip hidden=[8] steps=128", names[2]]
    assert names[2] == "hpi-clip hidden=[8, 8] steps=256"
    assert len(set(names)) == 5
    assert "task.end=0.2" in names[4]


OWN = {"horizon": None, "env_settings": {}, "info_keys": [], "ended": None, "margin": "Pairwise"}


def test_tasks_of_one_name_that_differ_are_not_averaged(tmp_path):
    """By what run.json says of tasks that the registry does not make; it makes none of them here."""
    write_run(tmp_path, "Mine", "hpi-clip", 0, name="a", parts=OWN)
    write_run(tmp_path, "Mine", "hpi-clip", 1, name="b", parts=OWN)
    write_run(tmp_path, "Mine", "hpi-clip", 2, name="c", parts=OWN | {"ended": -1.0})
    write_run(tmp_path, "Mine", "hpi-clip", 3, name="d", parts=OWN | {"margin": "RewardDifference"})
    write_run(tmp_path, "Mine", "hpi-clip", 4, name="e", parts=OWN | {"horizon": 3}, env="Other")
    found = [run.variant for run in Store(tmp_path).runs]
    assert found[0] == found[1] == "hpi-clip task.env=Mine task.margin=Pairwise task.ended=None task.horizon=None"
    assert len(set(found)) == 4
    assert "task.ended=-1 " in found[2]
    assert "task.margin=RewardDifference" in found[3]
    assert "task.env=Other" in found[4]


def test_a_registered_task_with_something_changed_is_another(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path, "InvertedPendulum-v5", "hpi-clip", seed)
        write_run(tmp_path, "InvertedPendulum-v5", "hpi-clip", seed, name=f"changed{seed}", parts=OWN)
    found = {run.name: run.variant for run in Store(tmp_path).runs}
    assert sorted(set(found.values())) == [
        "hpi-clip task.registered=False task.margin=Pairwise",
        "hpi-clip task.registered=True task.margin=None",
    ]
    assert found["changed0"] == found["changed1"]


def test_parts_of_a_task_that_are_no_table(tmp_path):
    write_run(tmp_path, "Mine", "hpi-clip", 0)
    change(write_run(tmp_path, "Mine", "hpi-clip", 1), task={"name": "Mine", "settings": None, "parts": 3})
    assert "run.json is incomplete" in Store(tmp_path).problems[0]


def test_the_papers_settings_are_one_choice(tmp_path):
    train(tmp_path / "own")
    agent = HPIClip(tasks.make("RPSCorridor"), preset="paper", **TINY)
    agent.learn(256, progress=False, folder=tmp_path / "paper")
    own, paper = Store(tmp_path).runs
    assert paper.variant.startswith("hpi-clip paper")
    assert own.variant != paper.variant
    assert "paper" not in own.variant


def test_versions(copied):
    versions = json.loads((copied / "PPO1" / "run.json").read_text())["versions"]
    change(copied / "PPO1", versions=versions | {"mdcontest": "0.0.7"})
    change(copied / "PPO0", versions={})
    found = Store(copied).versions
    assert found == {versions["mdcontest"]: ["HPIClip0", "HPIClip1"], "unknown": ["PPO0"], "0.0.7": ["PPO1"]}


# --- the index --------------------------------------------------------------------------------------------


def test_the_index(copied):
    store = Store(copied)
    store.write_index()
    runs = read_table(copied / "runs.parquet", "mdcontest/runs", RUNS_COLUMNS)
    assert list(runs["run"]) == ["HPIClip0", "HPIClip1", "PPO0", "PPO1"]
    assert list(runs["steps"]) == [256] * 4
    assert list(runs["error"]) == [None] * 4
    assert json.loads(runs["settings"][0])["num_steps"] == 64
    gaps = read_table(copied / "gaps.parquet", "mdcontest/gaps", GAPS_COLUMNS)
    assert all(len(column) == 0 for column in gaps.values())
    before = snapshot(copied)
    Store(copied).write_index()
    assert snapshot(copied) == before, "the same runs, the same bytes"
