"""The demo and its report: complete, self-contained, the same every time."""

import os
import re
from html.parser import HTMLParser

import pytest

import mdcontest as mdc
from mdcontest.cli import main
from mdcontest.demo import learning

FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
SHORT = ["--iterations", "60", "--steps", "8192" if FULL else "2048"]


@pytest.fixture(scope="module", autouse=True)
def short_episodes():
    """Brackets are of whole episodes, which take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "HORIZON", 2048 if FULL else 256)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory, short_episodes):
    folder = tmp_path_factory.mktemp("demo")
    assert main(["demo", "--out", str(folder), *SHORT]) == 0
    return folder


def test_page_is_self_contained(folder):
    """No script, no image and no style from elsewhere: every reference is inside the page, and no other is allowed."""
    page = (folder / "report.html").read_text()
    outside = []

    class References(HTMLParser):
        def handle_starttag(self, tag, attributes):
            assert tag not in ("iframe", "object", "embed", "img")
            assert tag != "link" or ("rel", "icon") in attributes
            targets = [v for k, v in attributes if k.split(":")[-1] in ("src", "href")]
            outside.extend(target for target in targets if not target.startswith(("#", "data:")))

    References().feed(page)
    assert outside == []
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)", page)
    assert "default-src 'none'" in page


def test_page_shows_every_contest_with_three_figures(folder):
    page = (folder / "report.html").read_text()
    for name in mdc.examples.EXAMPLES:
        assert f"<td>{name}</td>" in page
    assert page.count("<svg") > 3 * len(mdc.examples.EXAMPLES)
    assert page.count("<td>yes</td>") == len(mdc.examples.EXAMPLES)
    assert len(list((folder / "figures").glob("*.png"))) == 3 * len(mdc.examples.EXAMPLES)


def test_page_begins_with_what_was_learned(folder):
    page = (folder / "report.html").read_text()
    assert page.index("Reacher-NT") < page.index("<h2>rock-paper-scissors")
    for title in ("Gap brackets", "Positions over time", "Runs", "Files"):
        assert f">{title}</h2>" in page
    assert len(list((folder / "runs").glob("Reacher-NT_*/run.json"))) == 2


def test_page_is_the_same_every_time(folder, tmp_path, count):
    """From nothing at full counts; at reduced ones from the runs that are there, which takes a third of the time."""
    page = (folder / "report.html").read_text()
    again = count(folder, tmp_path)
    main(["demo", "--out", str(again), *SHORT])
    assert (again / "report.html").read_text() == page


def test_table_is_printed(tmp_path, capsys):
    main(["demo", "--out", str(tmp_path), "--iterations", "10", "--steps", "0"])
    out = capsys.readouterr().out
    for name in mdc.examples.EXAMPLES:
        assert name in out
    assert "report.html" in out


def test_names_are_escaped():
    """A contest's name is text, not HTML."""
    import tempfile
    from pathlib import Path

    from mdcontest.report.page import Section, Table, write_page

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        write_page(path, "<script>alert(1)</script>", [Section("<i>", "&", "", tables=[Table(["a"], [["<b>"]])])])
        page = path.read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "<td>&lt;b&gt;</td>" in page
