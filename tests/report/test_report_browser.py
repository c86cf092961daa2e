"""The page in a browser: drawn, sortable, self-contained, legible on a telephone, printable."""

import pytest

from mdcontest.experiments.store import Store
from mdcontest.report.study_page import write_report
from report.stores import write_study

COLUMN = "[...document.querySelectorAll('table')].find(t => t.ariaLabel?.startsWith('Verdicts'))"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    write_report(Store(write_study(folder / "runs", seeds=2)), folder / "page.html", title="A study")
    return folder / "page.html"


@pytest.fixture
def page(browser, path):
    page = browser.page(1200, 900)
    page.open(path)
    yield page
    assert page.console == []
    assert page.leaves_machine() == []
    page.close()


def column(page, number):
    """The texts of a column of the table of verdicts."""
    return page.evaluate(f"[...{COLUMN}.tBodies[0].rows].map(row => row.cells[{number}].textContent)")


def mark(page, number):
    """Give a header's button an id, so that it can be clicked."""
    page.evaluate(f"{COLUMN}.tHead.rows[0].cells[{number}].querySelector('button').id = 'button{number}'")
    return f"#button{number}"


def state(page, number):
    return page.evaluate(f"{COLUMN}.tHead.rows[0].cells[{number}].ariaSort")


def numbers(texts):
    return [float(text.replace("−", "-").replace(",", "")) for text in texts]


def test_every_figure_is_drawn(page):
    boxes = page.evaluate(
        "[...document.querySelectorAll('figure svg')].map(f => [f.getBoundingClientRect().width, f.getBBox().height])"
    )
    assert len(boxes) == 22
    assert all(width > 200 and height > 50 for width, height in boxes)
    labels = page.evaluate("[...document.querySelectorAll('figure svg')].map(f => f.getAttribute('aria-label'))")
    assert all(labels)


def test_only_the_page_is_asked_for(page):
    assert [url for url in page.requests if not url.startswith("data:")] == [page.evaluate("location.href")]


def test_network_is_forbidden(browser, path):
    page = browser.page(800, 600)
    page.open(path)
    page.evaluate("fetch('http://localhost:9/').catch(() => 0)")
    page.wait_for("true")
    assert any("Content Security Policy" in text for text in page.console)
    assert [url for url in page.requests if url.startswith("http")] == []
    page.close()


def test_click_sorts_by_number(page):
    before = column(page, 3)
    page.click(mark(page, 3))
    assert column(page, 3) == sorted(before, key=lambda text: numbers([text]))
    assert numbers(column(page, 3))[0] < 0 < 1000 < numbers(column(page, 3))[-1]
    assert state(page, 3) == "ascending"
    page.click("#button3")
    assert numbers(column(page, 3)) == sorted(numbers(before), reverse=True)
    assert state(page, 3) == "descending"
    page.click(mark(page, 0))
    assert (state(page, 0), state(page, 3)) == ("ascending", "none")


def test_keys_sort_by_text(page):
    mark(page, 1)
    page.evaluate("document.getElementById('button1').focus()")
    page.press("Enter")
    assert column(page, 1) == sorted(column(page, 1))
    page.press("Space")
    assert column(page, 1) == sorted(column(page, 1), reverse=True)
    page.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "seeds"


def test_rows_stay_whole_and_missing_values_stay_last(page):
    given = ["—", "−∞", "10 %", "9 %", "1,000 %", "∞", "", "2e-05", "1.5 [1, 2]"]
    rows = "".join(f"<tr><td>{cell}</td></tr>" for cell in given)
    table = f"<table><thead><tr><th>a</th></tr></thead><tbody>{rows}</tbody></table>"
    page.evaluate(f"document.body.innerHTML = '{table}'; sortBy(document.querySelector('th'))")
    cells = "[...document.querySelectorAll('td')].map(cell => cell.textContent)"
    assert page.evaluate(cells) == ["−∞", "2e-05", "1.5 [1, 2]", "9 %", "10 %", "1,000 %", "∞", "—", ""]
    page.evaluate("sortBy(document.querySelector('th'))")
    assert page.evaluate(cells) == ["∞", "1,000 %", "10 %", "9 %", "1.5 [1, 2]", "2e-05", "−∞", "—", ""]


def test_downloads_have_content(page, path):
    found = dict(
        page.evaluate(
            "[...document.querySelectorAll('a[download]')].map(link => [link.download, atob(link.href.split(',')[1])])"
        )
    )
    assert sorted(found) == ["auc.csv", "curves.csv", "gaps.csv", "runs.csv", "verdicts.csv"]
    for name, text in found.items():
        assert text.encode("latin-1") == (path.parent / "page-data" / name).read_bytes()
        assert text.count("\n") > 5


def test_contents_lead_to_sections(page):
    links = page.evaluate("[...document.querySelectorAll('nav a')].map(link => link.getAttribute('href'))")
    assert len(links) == 9
    assert all(page.evaluate(f"document.querySelector('{link}').tagName") == "SECTION" for link in links)


@pytest.mark.parametrize(("width", "mobile"), [(375, True), (768, False), (1200, False)])
def test_page_does_not_scroll_sideways(browser, path, width, mobile):
    page = browser.page(width, 800, mobile)
    page.open(path)
    assert page.evaluate(OVERFLOW) <= 0
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    assert page.evaluate(OVERFLOW) <= 0
    tables = page.evaluate("[...document.querySelectorAll('.wide')].map(box => box.getBoundingClientRect().right)")
    assert max(tables) <= width
    size = page.evaluate(
        "Math.min(...[...document.querySelectorAll('td, p')].map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert size >= 12
    page.close()


def test_prints(page, tmp_path):
    page.pdf(tmp_path / "page.pdf")
    content = (tmp_path / "page.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert len(content) > 50_000
    assert page.evaluate("[...document.querySelectorAll('details')].every(fold => fold.open)")  # paper unfolds nothing
