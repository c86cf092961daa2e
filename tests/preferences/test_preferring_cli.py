"""`mdcontest collect`, `compare` and `comparisons` as a person uses them: output, exit codes, and no traceback."""

import json
from collections import Counter

import pytest

from datasets import filled, trajectory
from mdcontest import tasks
from mdcontest.learn import HPIClip
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.references import Comparison, Segment
from mdcontest.preferences.summary import agreement
from small_games import TINY
from sweeps import one_clear_line


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "corridor"
    HPIClip(tasks.make("RPSCorridor"), 0, **TINY).learn(4 * 64, progress=False, folder=folder).close()
    return folder


@pytest.fixture
def dataset(run, trained, tmp_path):
    assert run("collect", trained, "--trajectories", 30, "--out", tmp_path / "d", "--quiet")[0] == 0
    return tmp_path / "d"


def test_collect_compare_and_summary(run, trained, dataset):
    assert run("collect", trained, "--trajectories", 30, "--out", dataset)[1].startswith("0 new trajectories (30 were")
    code, out, err = run("compare", dataset, "--pairs", 400, "--teacher", "skipping:0.1+sign", "--annotator", "ann")
    assert (code, err) == (0, "")
    assert out.startswith("400 pairs compared by ann, 400 of them new\n")
    again = run("compare", dataset, "--pairs", 400, "--teacher", "skipping:0.1+sign", "--annotator", "ann", "--json")
    counts = json.loads(again[1])
    assert (counts["asked"], counts["new"], sum(counts["labels"].values())) == (400, 0, 400)
    assert run("compare", dataset, "--pairs", 1e2, "--length", 3, "--seed", 5, "--teacher", "number")[0] == 0
    code, out, err = run("comparisons", dataset)
    assert (code, err) == (0, "")
    assert "30, " in out
    assert "400  by ann" in out
    found = json.loads(run("comparisons", dataset, "--json")[1])
    entries = Dataset.open(dataset).entries()
    assert (found["task"], found["trajectories"], found["comparisons"]) == ("RPSCorridor", 30, 500)
    assert found["labels"] == dict(Counter(e.label if isinstance(e.label, str) else "number" for e in entries))
    assert found["lengths"] == {"1": 400, "3": 100}
    assert {name: about["comparisons"] for name, about in found["annotators"].items()} == {"ann": 400, "number": 100}
    assert found["sources"] == {"compare length=1 seed=0": 400, "compare length=3 seed=5": 100}


def test_a_teacher_says_what_the_rooms_say(run, dataset):
    """Paper beats rock, scissors beat paper, and what has ended is as good as anything."""
    run("compare", dataset, "--pairs", 300, "--teacher", "sign")
    opened = Dataset.open(dataset)
    rooms = {id: [*opened.trajectory(id).outcomes.obs.tolist(), None] for id in opened.index()}
    beats = {(1, 0), (2, 1), (0, 2)}
    for entry in opened.entries():
        pair = rooms[entry.first.trajectory][entry.first.start], rooms[entry.second.trajectory][entry.second.start]
        expected = "first" if pair in beats else "second" if pair[::-1] in beats else "equal"
        assert entry.label == expected


def test_out_of_one_dataset_into_another(run, trained, dataset, tmp_path):
    run("compare", dataset, "--pairs", 50)
    file, other = tmp_path / "said.jsonl", tmp_path / "e"
    assert run("comparisons", dataset, "--export", file)[1] == f"50 comparisons written to {file}\n"
    code, _, err = run("collect", trained, "--trajectories", 5, "--seed", 9, "--out", other)
    assert code == 0
    code, _, err = run("comparisons", other, "--import", file)
    assert code == 2
    assert one_clear_line(err)
    assert "line 1: there is no trajectory" in err
    code, out, _ = run("comparisons", other, "--merge", dataset)
    assert (code, out) == (0, f"30 new trajectories and 50 new comparisons from {dataset}\n")
    assert run("comparisons", other, "--import", file)[1] == f"0 new comparisons from {file}\n"
    assert Dataset.open(other).entries() == Dataset.open(dataset).entries()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["collect", "--out", "d"], "which runs?"),
        (["collect", "nowhere", "--out", "d"], "cannot read the folder nowhere"),
        (["collect", "RUN", "--out", "d", "--task", "RPSCorridor"], "a run knows its task"),
        (["collect", "RUN", "--out", "d", "--seed", "-1"], "--seed must not be negative"),
        (["collect", "RUN", "--out", "d", "--trajectories", "0"], "--trajectories must be at least 1"),
        (["collect", "RUN", "--out", "d", "--trajectories", "1" + "0" * 19], "--trajectories must be at least 1"),
        (["collect", "RUN", "--out", "FILE"], "cannot make the folder"),
        (["compare", "nowhere"], "nowhere holds no dataset"),
        (["compare", "DATASET", "--teacher", "sgin"], "did you mean sign"),
        (["compare", "DATASET", "--length", "0"], "length of segments"),
        (["compare", "DATASET", "--length", "1" + "0" * 19, "--pairs", "3"], "length of segments"),
        (["compare", "DATASET", "--seed", "-3"], "seed must be"),
        (["compare", "DATASET", "--pairs", "1e12"], "ask for fewer, or collect more"),
        (["compare", "DATASET", "--annotator", "x" * 201], "at most 200 characters"),
        (["comparisons", "FILE"], "holds no dataset"),
        (["comparisons", "DATASET", "--import", "nowhere"], "cannot read nowhere"),
        (["comparisons", "DATASET", "--export", "nowhere/a.jsonl"], "cannot write"),
        (["comparisons", "DATASET", "--export", ""], "--export is empty"),
        (["comparisons", "DATASET", "--export", "said.json"], "is not the name of a file of comparisons"),
        (["comparisons", "DATASET", "--export", "."], "is a folder; name a file of comparisons in it"),
        (["comparisons", "DATASET", "--import", ""], "--import is empty"),
        (["comparisons", "DATASET", "--merge", ""], "--merge is empty"),
        (["comparisons", ""], "the dataset is empty"),
        (["collect", "RUN", "--out", ""], "--out is empty"),
        (["comparisons", "DATASET", "--merge", "nowhere"], "nowhere holds no dataset"),
    ],
)
def test_bad_input_is_one_line(run, trained, dataset, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    places = {"RUN": trained, "DATASET": dataset, "FILE": tmp_path / "file"}
    code, _, err = run(*(places.get(argument, argument) for argument in arguments))
    assert code == 2
    assert one_clear_line(err), err
    assert message in err


def test_an_export_does_not_replace_the_dataset(run, dataset):
    before = (dataset / "dataset.json").read_bytes()
    code, _, err = run("comparisons", dataset, "--export", dataset / "dataset.json")
    assert code == 2
    assert "it ends in .jsonl" in err
    assert (dataset / "dataset.json").read_bytes() == before


def test_people_who_contradict_themselves(run, tmp_path):
    """Ann was asked about one pair three times, turned round once, and changed her mind once; Bob agrees with her."""
    dataset, (a, b) = filled(tmp_path / "d", [trajectory(0), trajectory(1)])
    one, other, third = Segment(a, 0), Segment(b, 0), Segment(b, 1)
    dataset.add_comparisons(
        [
            Comparison(one, other, "first", "ann", id="1"),
            Comparison(other, one, "second", "ann", id="2"),
            Comparison(other, one, 0.5, "ann", id="3"),
            Comparison(one, other, 1.0, "bob", id="4"),
            Comparison(one, third, "first", "bob", id="5"),
            Comparison(third, one, "incomparable", "ann", id="6"),
        ]
    )
    ann = [entry for entry in dataset.entries() if entry.annotator == "ann"]
    assert agreement(ann, within=True) == {"compared": 3, "share": 1 / 3}
    assert agreement(dataset.entries(), within=False) == {"compared": 3, "share": 2 / 3}
    out = run("comparisons", dataset.path)[1]
    assert "4  by ann, with itself agreed in 33.3 % of 3 pairs of answers" in out
    assert "with each other agreed in 66.7 % of 3 pairs" in out
    assert "2  by bob\n" in out


def test_a_damaged_part_is_named(run, dataset):
    run("compare", dataset, "--pairs", 20)
    (path,) = (dataset / "comparisons").glob("*.parquet")
    path.write_bytes(path.read_bytes()[:-9])
    for command in (["comparisons", dataset], ["compare", dataset, "--pairs", 5, "--seed", 1]):
        code, _, err = run(*command)
        assert code == 2
        assert one_clear_line(err)
        assert path.name in err


def test_everything_is_decided_by_the_seed(run, trained, tmp_path):
    found = []
    for name, seed in (("one", 4), ("again", 4), ("other", 5)):
        run("collect", trained, "--trajectories", 10, "--out", tmp_path / name)
        run("compare", tmp_path / name, "--pairs", 60, "--seed", seed, "--teacher", "noisy:0.5+probabilistic:0.3")
        found.append({(e.first, e.second, e.label) for e in Dataset.open(tmp_path / name).entries()})
    assert found[0] == found[1] != found[2]
