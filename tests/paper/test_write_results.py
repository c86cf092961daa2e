"""paper/write_results.py replaces a page and its figures as a whole, and removes nothing that it did not write."""

import sys
from types import SimpleNamespace

import figures
import pytest
import write_results
from matplotlib.figure import Figure

from mdcontest.errors import InputError
from sweeps import snapshot

HEAD = "# What the paper claims\n\n"


def made_up_page(evidence, names):
    return HEAD + "\n".join(f"![{name}](figures/{name}.png)\n" for name in names)


@pytest.fixture
def run_write(monkeypatch, capsys, tmp_path):
    """The command in this process, with made-up figures: exit code, standard output, standard error."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "runs.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "evidence", SimpleNamespace(Evidence=lambda folder: folder))

    def run(drawn, page=made_up_page, results="results", out="out"):
        drawing = SimpleNamespace(all_figures=lambda evidence: drawn, as_png=str.encode)
        monkeypatch.setitem(sys.modules, "figures", drawing)
        monkeypatch.setitem(sys.modules, "results_page", SimpleNamespace(results_page=page))
        arguments = ["--results", str(tmp_path / results), "--out", str(tmp_path / out)]
        monkeypatch.setattr(sys, "argv", ["write_results.py", *arguments])
        return write_results.main(), *capsys.readouterr()

    return run


def fail(*_):
    raise InputError("cannot be computed")


def failing_halfway():
    yield "one", "changed"
    fail()


def names_in(folder):
    return sorted(path.name for path in (folder / "figures").iterdir())


def test_figures_that_are_no_longer_drawn_go_and_others_stay(run_write, tmp_path):
    out = tmp_path / "out"
    code, said, _ = run_write([("one", "1"), ("two", "2")])
    assert code == 0
    assert said.startswith(f"{out / 'RESULTS.md'} and 2 figures")
    (out / "figures" / "mine.png").write_bytes(b"of a stranger")
    assert run_write([("two", "2"), ("three", "3")])[0] == 0
    assert names_in(out) == ["mine.png", "three.png", "two.png"]
    assert (out / "figures" / "three.png").read_bytes() == b"3"


def test_figures_of_another_page_are_not_ours(run_write, tmp_path):
    """Neither those of a page with another heading, nor what a line of ours names outside of the folder."""
    out = tmp_path / "out"
    (out / "figures").mkdir(parents=True)
    (out / "figures" / "old.png").write_bytes(b"")
    (out / "RESULTS.md").write_text("# Mine\n\n![old](figures/old.png)\n")
    assert run_write([("one", "1")])[0] == 0
    assert names_in(out) == ["old.png", "one.png"]
    (out / "kept.png").write_bytes(b"")
    (out / "RESULTS.md").write_text(HEAD + "![../kept](figures/../kept.png)\n")
    assert run_write([("one", "1")])[0] == 0
    assert (out / "kept.png").exists()


@pytest.mark.parametrize("what", ["a figure", "the page"])
def test_where_something_fails_everything_stays(run_write, tmp_path, what):
    assert run_write([("one", "1"), ("two", "2")])[0] == 0
    before = snapshot(tmp_path)
    failed = run_write(failing_halfway()) if what == "a figure" else run_write([("one", "changed")], fail)
    assert failed == (2, "", "error: cannot be computed\n")
    assert snapshot(tmp_path) == before


def test_results_that_are_not_there_are_one_line(run_write, tmp_path):
    assert run_write([("one", "1")])[0] == 0
    before = snapshot(tmp_path)
    code, said, error = run_write([("two", "2")], results="rseults")
    assert (code, said, error.count("\n")) == (2, "", 1)
    assert error.startswith(f"error: there are no recorded runs in {tmp_path / 'rseults'}")
    assert snapshot(tmp_path) == before
    (tmp_path / "file").write_text("")
    code, said, error = run_write([("two", "2")], out="file")
    assert (code, said, error.count("\n")) == (2, "", 1)
    assert error.startswith(f"error: cannot make the folder {tmp_path / 'file'}")


def test_a_figure_is_the_same_bytes_every_time():
    images = []
    for _ in range(2):
        figure = Figure(figsize=(1, 1))
        figure.subplots().plot([1, 2])
        images.append(figures.as_png(figure))
    assert images[0] == images[1]
    assert images[0].startswith(b"\x89PNG")
