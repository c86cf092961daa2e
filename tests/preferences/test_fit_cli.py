"""`mdcontest fit` and `margin` as a person uses them: what they print, whom they listen to, and no traceback."""

import errno
import json
import shutil
import signal
import subprocess
import sys

import pytest

from mdcontest.cli import main
from mdcontest.preferences import load_margin
from mdcontest.preferences.asking import compare
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.learned import margin_of
from mdcontest.preferences.report_text import cyclic_sentence, percent, summary
from played import played_dataset
from sweeps import one_clear_line

QUICK = ["--updates", 50, "--penalty", 0.001, "--members", 2, "--hidden", "16", "--rank", 4]
COMMAS = "aggregated:3,majority=true+sign"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """300 comparisons by ann, some of them incomparable, and 100 by a teacher whose name has a comma."""
    made = played_dataset(
        tmp_path_factory.mktemp("data") / "d", "RPSCorridor", pairs=300, teacher="skipping:0.1+sign", annotator="ann"
    )
    compare(made, COMMAS, 100, seed=1)
    return made.path


@pytest.fixture(scope="module")
def fitted(dataset, tmp_path_factory):
    """A margin fitted to all of them; only to be read."""
    out = tmp_path_factory.mktemp("margins") / "m"
    assert main([str(part) for part in ("fit", dataset, "--out", out, *QUICK, "--json")]) == 0
    return out


def test_everything_is_counted_and_printed_within_80_columns(run, dataset, tmp_path):
    code, out, err = run("fit", dataset, "--out", tmp_path / "m", *QUICK)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert lines[-1] == f"saved to {tmp_path / 'm'}"
    report = load_margin(tmp_path / "m").report
    labels = [entry.label for entry in Dataset.open(dataset).entries()]
    left_out = labels.count("incomparable")
    assert report["incomparable"] == left_out > 0
    assert report["fitted_to"] + report["held_out"] + left_out == len(labels) == 400
    text = " ".join(out.split())
    assert f"{report['fitted_to']} fitted to, {report['held_out']} held out, {left_out} left out" in text
    for key in ("log_likelihood", "log_likelihood_fitted"):
        assert f"{report[key]:.3f}".replace("-", "−") in text
    assert f"accuracy {percent(report['accuracy'])} of the held-out preferences" in text
    assert cyclic_sentence(report) in text
    assert "penalty 0.001, as asked for" in text
    assert report["data"] == {"task": "RPSCorridor", "dataset": "d", "annotators": None, "source": None}


def test_margin_prints_the_report_again(run, dataset, fitted, tmp_path):
    first = run("fit", dataset, "--out", tmp_path / "m", *QUICK)[1]
    assert run("margin", fitted) == (0, first.rpartition("saved to")[0], "")  # the same seed gives the same numbers
    code, out, err = run("margin", fitted, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == dict(load_margin(fitted).report)
    assert load_margin(tmp_path / "m").digest == load_margin(fitted).digest


def test_models_are_compared_on_the_same_split(run, dataset, tmp_path):
    out = tmp_path / "m"
    code, text, err = run("fit", dataset, "--out", out, *QUICK, "--compare-models", "--model", "reward")
    assert (code, err) == (0, "")
    margin = load_margin(out)
    models = {one["model"]: one for one in margin.report["models"]}
    assert list(models) == ["reward", "skew", "general"]
    assert models["reward"]["cyclic_share"] < 1e-12 < models["skew"]["cyclic_share"]
    assert models["reward"]["log_likelihood"] == margin.report["log_likelihood"]
    assert margin.ensemble.model == "reward"
    table = text[text.index("model  ") :].splitlines()
    assert [line.split()[0] for line in table[1:4]] == ["reward", "skew", "general"]
    assert [line.split()[1] == "*" for line in table[1:4]] == [True, False, False]
    assert max(map(len, table[:4])) <= 80
    # Fitted alone it is the same margin: its split and its numbers do not depend on the other models.
    assert run("fit", dataset, "--out", tmp_path / "alone", *QUICK, "--model", "reward")[0] == 0
    assert load_margin(tmp_path / "alone").digest == margin.digest


def test_a_margin_that_is_no_better_than_a_coin_is_called_so(fitted):
    """CHANCE = 2 over 80 held-out answers is 0.025 each."""
    report = dict(load_margin(fitted).report) | {"held_out": 80}
    for gain, is_chance in ((0.02, True), (0.03, False), (-0.1, True)):
        told = report | {"log_likelihood": report["log_likelihood_chance"] + gain, "accuracy": 0.5}
        assert ("no better than a coin" in summary(told)) == is_chance
        assert ("may be chance" in cyclic_sentence(told)) == is_chance
    # Numbers near 0 leave nothing to gain over a coin; that all their signs are right is no chance.
    sure = report | {"log_likelihood": report["log_likelihood_chance"] + 1e-4, "accuracy": 1.0}
    assert "no better than a coin" not in summary(sure)


def test_circles_are_doubted_where_a_reward_does_as_well(fitted):
    report = dict(load_margin(fitted).report)
    assert report["cycles"]["cyclic_share"] > 0.2
    assert "no reward" in cyclic_sentence(report) or "a reward would miss" in cyclic_sentence(report)
    for better, doubted in ((0.1, True), (-0.1, False)):
        models = [{"model": "reward", "log_likelihood": report["log_likelihood"] + better}]
        assert ("may be noise" in cyclic_sentence(report | {"models": models})) == doubted


@pytest.mark.parametrize(
    ("flags", "count"),
    [
        (["--annotators", "ann"], 300),
        (["--annotators", COMMAS], 100),
        (["--source", "compare length=1 seed=0"], 300),
    ],
)
def test_only_those_who_were_named_are_heard(run, dataset, tmp_path, flags, count):
    code, out, err = run("fit", dataset, "--out", tmp_path / "m", *QUICK, *flags, "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["fitted_to"] + report["held_out"] + report["incomparable"] == count


def test_several_annotators_are_their_union(dataset):
    both = Dataset.open(dataset).comparisons(annotator=["ann", COMMAS])
    assert len(both) == len(Dataset.open(dataset).comparisons()) == 400
    assert len(Dataset.open(dataset).comparisons(annotator=[COMMAS])) == 100


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--model", "skwe"], "skew"),
        (["--members", 0], "members"),
        (["--held-out", 1.5], "1.5"),
        (["--held-out", "nan"], "held_out"),
        (["--held-out", 0.999], "held_out = 0.999 leaves 1 of "),
        (["--penalty", -1], "penalty"),
        (["--penalty", "nan"], "penalty"),
        (["--noise", 1], "noise"),
        (["--rank", 0], "rank"),
        (["--hidden", "0"], "hidden"),
        (["--updates", 0], "updates"),
        (["--seed", -1], "seed"),
        (["--inputs", "obs,velocity"], "velocity"),
        (["--annotators", "anne"], "ann"),
        (["--annotators", ","], "names nobody"),
        (["--source", "page"], "page"),
        (["--page", "."], "is a folder"),
        (["--page", "nowhere/page.html"], "nowhere"),
        (["--page", ""], "--page is empty"),
        (["--page", "page.txt"], "ends in .html"),
    ],
)
def test_wrong_settings_are_one_line(run, dataset, tmp_path, flags, said):
    code, out, err = run("fit", dataset, "--out", tmp_path / "m", *flags)
    assert (code, out) == (2, "")
    assert one_clear_line(err)
    assert said in err
    assert not (tmp_path / "m").exists(), "what was made for it is gone again"


def test_a_place_that_was_there_stays(run, dataset, tmp_path):
    (tmp_path / "there").mkdir()
    for out in (tmp_path / "there", tmp_path / "there" / "deep" / "m", tmp_path / "new" / "m"):
        assert run("fit", tmp_path / "nowhere", "--out", out)[0] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert not any((tmp_path / "there").iterdir())


def test_wrong_places_are_one_line(run, dataset, fitted, tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "run", tmp_path / "runs" / "one"):
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
    few = played_dataset(tmp_path / "few", "RPSCorridor", episodes=3, pairs=5).path
    silent = played_dataset(tmp_path / "silent", "RPSCorridor", episodes=3, pairs=20, teacher="skipping:1+sign").path
    margin_of(load_margin(fitted).ensemble, {}).save(tmp_path / "bare")
    load_margin(fitted).save(tmp_path / "run" / "margin")
    shutil.copytree(dataset, tmp_path / "run" / "preferences")  # as mdcontest label RUN makes it
    cases = {
        "folder for the margin": ("fit", tmp_path / "run" / "preferences", "--out", tmp_path / "run" / "margin"),
        "has no report": ("margin", tmp_path / "bare"),
        "holds no dataset": ("fit", tmp_path / "nowhere", "--out", tmp_path / "m"),
        "is a file": ("fit", dataset, "--out", tmp_path / "file"),
        "holds a dataset": ("fit", dataset, "--out", dataset),
        "run holds a run, or several; name another folder for the margin": ("fit", dataset, "--out", tmp_path / "run"),
        "runs holds a run, or several": (
            "fit",
            dataset,
            "--out",
            tmp_path / "runs",
        ),
        "or several; name another folder for the dataset": ("collect", tmp_path / "run", "--out", tmp_path / "runs"),
        "5 of 5 comparisons": ("fit", few, "--out", tmp_path / "m"),
        "0 of 20 comparisons": ("fit", silent, "--out", tmp_path / "m"),
        "no learned margin": ("margin", dataset),
        "add --page": ("margin", fitted, "--data", dataset),
        "is what the run was trained on": ("fit", dataset, "--out", tmp_path / "run" / "margin"),
        "--page is empty": ("margin", fitted, "--page", ""),
        "--data is empty": ("margin", fitted, "--page", tmp_path / "p.html", "--data", ""),
        "--out is empty": ("fit", dataset, "--out", ""),
        "margin.json is not the name of a page": ("margin", fitted, "--page", fitted / "margin.json"),
        "no dataset": ("margin", fitted, "--page", tmp_path / "p.html", "--data", fitted),
    }
    for said, arguments in cases.items():
        code, out, err = run(*arguments)
        assert (code, out) == (2, ""), said
        assert one_clear_line(err), err
        assert said in err
    assert (tmp_path / "file").read_text() == "mine"
    assert load_margin(fitted).report, "no page took its place"
    assert not (tmp_path / "p.html").exists()


def test_ctrl_c_leaves_the_margin_that_was_there(run, dataset, fitted, tmp_path, monkeypatch):
    from mdcontest.preferences import networks

    load_margin(fitted).save(tmp_path / "m")
    real = networks.init
    monkeypatch.setattr(networks, "init", lambda *rest: (signal.raise_signal(signal.SIGINT), real(*rest))[1])
    code, out, err = run("fit", dataset, "--out", tmp_path / "m", *QUICK, "--seed", 7)
    assert (code, out) == (130, "")
    assert "interrupted" in err
    assert load_margin(tmp_path / "m").digest == load_margin(fitted).digest


def test_a_page_that_cannot_be_written_costs_no_margin(run, dataset, tmp_path, monkeypatch):
    from mdcontest.report import page

    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(page, "atomic_write", full)
    code, _, err = run("fit", dataset, "--out", tmp_path / "m", *QUICK, "--page", tmp_path / "p.html")
    assert code == 2
    assert "No space left" in err
    assert load_margin(tmp_path / "m").report["held_out"] > 0
    assert not (tmp_path / "p.html").exists()


def test_help_needs_no_jax():
    code = (
        "import sys; from mdcontest.cli import _parser; _parser(); "
        "assert not {'jax', 'matplotlib', 'gymnasium'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=180).returncode == 0
