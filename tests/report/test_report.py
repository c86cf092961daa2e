"""The page about a store: complete, escaped, the same every time, and never without a word about what is missing."""

import csv
import json
import re
from html.parser import HTMLParser

import pytest

from mdcontest.errors import InputError
from mdcontest.experiments.store import Store
from mdcontest.report.page import Download, InlineFigure, Section, Table, write_page
from mdcontest.report.study_page import write_report
from report.stores import (
    episode_rows,
    progress_rows,
    write_gap,
    write_log,
    write_positions,
    write_run,
    write_shares,
    write_study,
)

EVIL = "<script>alert(1)</script>"
FIGURES = 22
"""Of `write_study`: 4 + 2 curves, 4 areas, 1 against a setting, 6 brackets, 1 of positions, 4 of shares."""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A store, its page and what was to be minded."""
    folder = tmp_path_factory.mktemp("study")
    store = Store(write_study(folder / "runs", seeds=5))
    return store, folder / "page.html", write_report(store, folder / "page.html", title="A study")


def text_of(path):
    return path.read_text(encoding="utf-8")


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def report_on(folder, **options):
    """The text of the page about the runs in a folder, and the warnings."""
    page = folder.parent / "one.html"
    warnings = write_report(Store(folder), page, **options)
    return text_of(page), warnings


def handlers_in(page):
    """Attributes that would run something, and scripts beside the page's own."""
    found = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attributes):
            found.extend(name for name, _ in attributes if name.startswith("on"))
            found.extend([tag] * (tag == "script"))

    Tags().feed(page)
    return found[:-1] if found[-1:] == ["script"] else found


def test_page_has_all_parts(study):
    _, path, _ = study
    page = text_of(path)
    for title in (
        "Verdicts", "Learning curves", "Area under the curve", "AUC against a setting", "Gap brackets",
        "Positions over time", "Classes over time", "Runs", "Files",
    ):  # fmt: skip
        assert f"<h2>{title}</h2>" in page
        assert re.search(rf'<a href="#part-\d+">{title}</a>', page)
    assert "<title>A study</title>" in page
    assert page.count("<svg ") == page.count('<svg role="img" aria-label="') == FIGURES
    assert page.count("Swamy") == 1


def test_page_asks_for_nothing(study):
    page = text_of(study[1])
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    assert policy in page
    assert '<link rel="icon" href="data:,">' in page
    for address in re.findall(r'(?:src|href)="([^"]*)"', page):
        assert address.startswith(("#", "data:"))


def test_ids_are_unique(study):
    ids = re.findall(r'\bid="([^"]*)"', text_of(study[1]))
    assert len(ids) == len(set(ids))


def test_warnings_come_first(study):
    store, path, warnings = study
    page = text_of(path)
    assert len(store.versions) == 2
    versions, failed, unfinished, few, *followed = warnings
    assert re.fullmatch(
        r"the runs were made with 2 versions of mdcontest: 0.0.9 \(1 run\), 0.1.0 \(\d+ runs\)", versions
    )
    assert "Hopper-v5_ppo_seed78 (RunError: the environment raised)" in failed
    assert "Hopper-v5_sppo_seed77 (400,000 of 1,000,000 steps)" in unfinished
    assert "Hopper-v5 ppo (2)" in few
    assert followed
    assert all("against the mixture policy, which was followed over time" in note for note in followed)
    assert all(text in page and page.index(text) < page.index("<nav") for text in warnings)


def test_files_beside_the_page(study):
    _, path, _ = study
    figures = sorted(path.parent.joinpath("page-figures").glob("*.[sp][vn]g"))
    assert len(figures) == 2 * FIGURES
    assert {figure.suffix for figure in figures} == {".svg", ".png"}
    assert all(figure.stat().st_size > 1000 for figure in figures)
    data = path.parent / "page-data"
    assert {file.name for file in data.iterdir()} == {"runs.csv", "curves.csv", "auc.csv", "gaps.csv", "verdicts.csv"}


def test_tables_as_files(study):
    store, path, _ = study
    data = path.parent / "page-data"
    runs, curves = rows_of(data / "runs.csv"), rows_of(data / "curves.csv")
    assert [row["run"] for row in runs] == [run.name for run in store.runs]
    assert json.loads(runs[0]["settings"]) == store.runs[0].settings
    assert list(curves[0]) == ["task", "variant", "seed", "step", "return"]
    assert {row["task"] for row in curves} == {"HalfCheetah-v5", "Hopper-v5"}  # returns of others are no performance
    assert len(rows_of(data / "gaps.csv")) == sum(len(run.gaps) for run in store.runs)
    assert {row["judge"] for row in rows_of(data / "gaps.csv")} == {"own"}
    verdicts = {(row["task"], row["variant"]): row for row in rows_of(data / "verdicts.csv")}
    assert verdicts["Hopper-v5", "ppo"]["verdict"] == "too few seeds"
    assert verdicts["Hopper-v5", "hpi-clip"]["verdict"] == "strictly higher"
    assert verdicts["Hopper-v5", "sppo"]["verdict"] == ""
    areas = [
        float(row["auc"]) for row in rows_of(data / "auc.csv") if (row["task"], row["variant"]) == ("Hopper-v5", "sppo")
    ]
    assert float(verdicts["Hopper-v5", "sppo"]["auc"]) == pytest.approx(sum(areas) / len(areas))


def test_gap_is_only_said_of_brackets(study):
    page = re.sub(r"<svg.*?</svg>|<script>.*?</script>|base64,[^\"]*", "", text_of(study[1]), flags=re.S)
    assert "AUC of the inverted lower bound" in page
    assert not re.search(r"AUC of the (\w+ )?gap", page)
    assert "lower bound of the gap" in page


def test_same_store_same_bytes(study, tmp_path):
    store, path, _ = study
    write_report(Store(store.folder), tmp_path / "page.html", title="A study")
    assert (tmp_path / "page.html").read_bytes() == path.read_bytes()
    for file in sorted(path.parent.glob("page-*/*")):
        assert (tmp_path / file.parent.name / file.name).read_bytes() == file.read_bytes()


def test_names_are_text(tmp_path):
    """Names from files are text wherever they go: page, figures, addresses of files."""
    names = [EVIL, "../../etc/passwd", "$\\frac{1$", "_hidden", "日本 \x07\x1b", '" onload="x', "", "\ud800"]
    for i, name in enumerate(names):
        for s in range(3):
            run = write_run(tmp_path / "runs", "Task", EVIL, s, name=f"run{i}-{s}", episodes=([10, 5000], [1.0, 2.0]))
            description = json.loads((run / "run.json").read_text())
            description["task"]["name"] = name
            description["versions"]["</table>"] = EVIL
            (run / "run.json").write_text(json.dumps(description))
            for table in run.glob("*.parquet"):  # they have the name as well, and not every text can be in one
                table.unlink()
            going = description | {"status": "running"}
            write_log(run, going, episode_rows([10, 5000], [1.0, 2.0]), progress_rows([0.1], 10_000))
        write_gap(run, 5000, 0.1)
        write_shares(run, 5000, {EVIL: 0.4, "$": 0.6})
    page, _ = report_on(tmp_path / "runs", title=EVIL)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert handlers_in(page) == []
    assert "passwd" in page
    assert {entry.name for entry in tmp_path.iterdir()} == {"runs", "one.html", "one-figures", "one-data"}
    for file in (tmp_path / "one-figures").glob("*.svg"):
        assert "<script" not in file.read_text()


def test_one_is_one(tmp_path):
    write_run(tmp_path / "runs", "Hopper-v5", "sppo", 0, episodes=([10], [1.0]))
    page, _ = report_on(tmp_path / "runs")
    assert "1 run on 1 task, 1 of them finished." in page


def test_brackets_say_which_margin_judged(tmp_path):
    for seed, judge in enumerate([None, "own"]):
        run = write_run(tmp_path / "runs", "Reacher-NT", "sppo", seed, learned="1a2b3c4d")
        write_gap(run, 5000, 0.1, judge=judge)
    page, _ = report_on(tmp_path / "runs")
    assert "judged by the learned margin 1a2b3c4d" in page
    assert [row["judge"] for row in rows_of(tmp_path / "one-data" / "gaps.csv")] == ["1a2b3c4d", "own"]


def test_problems_are_told(tmp_path):
    write_run(tmp_path / "runs", "Hopper-v5", "sppo", 0, episodes=([10], [1.0]))
    broken = write_run(tmp_path / "runs", "Hopper-v5", "sppo", 1, episodes=([10], [1.0]))
    (broken / "episodes.parquet").write_bytes(b"cut")
    page, warnings = report_on(tmp_path / "runs")
    assert "is left out" in warnings[0]
    assert broken.name in page


def test_one_seed(tmp_path):
    """One run, one episode, one bracket, one position: everything is drawn, nothing is claimed."""
    run = write_run(tmp_path / "runs", "Reacher-NT", "sppo", 0, margins=[0.1])
    write_gap(run, 10_000, 0.2)
    write_positions(run, 10_000, [(0.1, 0.1)])
    write_run(tmp_path / "runs", "Hopper-v5", "sppo", 0, episodes=([10], [1.0]))
    page, warnings = report_on(tmp_path / "runs")
    assert any("fewer than 5 seeds" in text for text in warnings)
    assert "at least 0.18" in page
    assert "∞" not in page[: page.index("<script>")]


def test_nothing_finished(tmp_path):
    write_run(tmp_path / "runs", "Hopper-v5", "sppo", 0, status="running")
    page, warnings = report_on(tmp_path / "runs")
    assert "nothing to compare yet" in page
    assert any("1 unfinished" in text for text in warnings)


def test_no_run_at_all(tmp_path):
    run = write_run(tmp_path / "runs", "Hopper-v5", "sppo", 0)
    (run / "run.json").write_text("{")
    page, warnings = report_on(tmp_path / "runs")
    assert "0 runs on 0 tasks" in page
    assert len(warnings) == 1


def test_odd_descriptions(tmp_path):
    """What JSON allows and no run writes: errors and versions that are no texts, numbers that overflow."""
    run = write_run(tmp_path / "runs", "RPSCorridor", "sppo", 0, status="failed", error="x")
    description = json.loads((run / "run.json").read_text()) | {"error": {"a": 1}, "versions": {"mdcontest": 3}}
    (run / "run.json").write_text(json.dumps(description))
    other = write_run(tmp_path / "runs", "RPSCorridor", "sppo", 1, task_settings={"name": 1})
    write_gap(other, 10, 0.1, 0.2)
    record = next((other / "gaps").iterdir())
    record.write_text(record.read_text().replace('"high": 0.22', '"high": 1e999'))
    write_shares(other, 10, {"a": float("inf"), "b": 0.5})
    page, _ = report_on(tmp_path / "runs")
    assert "{&#39;a&#39;: 1}" in page


def test_empty_behaviour(tmp_path):
    run = write_run(tmp_path / "runs", "RPSCorridor", "sppo", 0)
    write_shares(run, 10, {})
    write_positions(run, 20, [(float("nan"), 0.0)])
    assert "over time</h2>" not in report_on(tmp_path / "runs")[0]


def test_many_variants(tmp_path):
    for i in range(15):
        write_run(tmp_path / "runs", "Hopper-v5", "ppo", 0, episodes=([10], [float(i)]), gamma=0.5 + i / 100)
    page, _ = report_on(tmp_path / "runs", baseline="ppo gamma=0.6")
    assert "AUC against a setting" in page
    assert "(ppo gamma=0.6)" in page


def test_own_sections_come_first_or_last(tmp_path):
    write_run(tmp_path / "runs", "Hopper-v5", "sppo", 0, episodes=([10], [1.0]))
    own = Section("What was asked", "Whether it works.", figures=[[InlineFigure("a & b", '<svg id="x"><g/></svg>')]])
    page, _ = report_on(tmp_path / "runs", before=[own], after=[Section("What else")])
    assert page.index("<h2>What was asked") < page.index("<h2>Verdicts")
    assert page.index("<h2>Files") < page.index("<h2>What else")
    assert 'aria-label="a &amp; b"' in page


def test_places_that_cannot_be_written(tmp_path):
    write_run(tmp_path / "runs", "Hopper-v5", "sppo", 0, episodes=([10], [1.0]))
    store = Store(tmp_path / "runs")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot make the folder .*file"):
        write_report(store, tmp_path / "file" / "page.html")
    with pytest.raises(InputError, match=r"is a folder; name a page in it, such as .*report.html"):
        write_report(store, tmp_path)
    (tmp_path / "taken-figures").write_text("")
    with pytest.raises(InputError, match=r"cannot make the folder .*taken-figures"):
        write_report(store, tmp_path / "taken.html")
    assert not (tmp_path / "taken.html").exists()


def test_columns_of_numbers():
    rows = [["1,234", "a1", "—", "1.5 [1, 2]", "5 %"], ["−2e-05", "2", "−∞", "−3", "4 %"]]
    assert Table(list("abcde"), rows).numeric == [True, False, True, True, True]
    assert Table(["a"], []).numeric == [True]


def test_download_is_the_file():
    assert Download("a.csv", "ν\n").address == "data:text/csv;charset=utf-8;base64,zr0K"


def test_many_warnings_are_folded(tmp_path):
    write_page(tmp_path / "p.html", "t", [], warnings=[f"warning {i}" for i in range(9)])
    page = text_of(tmp_path / "p.html")
    assert "<summary>3 more</summary>" in page
    assert "warning 8" in page
