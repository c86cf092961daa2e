"""The browser harness itself: what it reports is what a page did, and nothing is left behind."""

import contextlib
import os
import stat
import struct
from pathlib import Path

import pytest

import browser as harness
from browser import Browser, require_browser
from browser_page import BrowserError, JavaScriptError, is_local

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Small</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head><body>
<div style="height: 3000px">Scroll down.</div>
<button id="add" onclick="document.title = 'clicked ' + event.isTrusted">Add</button> <input id="name">
<p id="hidden" hidden>Hidden</p></body></html>"""


@pytest.fixture
def page(browser, tmp_path):
    page = browser.page(800, 600)
    page.open(write(tmp_path, PAGE))
    yield page
    page.close()


def write(folder, text, name="page.html"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_evaluate(page):
    assert page.evaluate("document.title") == "Small"
    assert page.evaluate("[1, {a: 'ν'}]") == [1, {"a": "ν"}]
    assert page.evaluate("new Promise(done => setTimeout(() => done(7), 10))") == 7
    assert page.evaluate("'x'.repeat(300000)") == "x" * 300000
    assert page.evaluate(f"'{'y' * 300000}'.length") == 300000  # more than a pipe holds, in either direction
    with pytest.raises(JavaScriptError, match="no good"):
        page.evaluate("(() => { throw new Error('no good') })()")
    with pytest.raises(JavaScriptError, match="later"):
        page.evaluate("Promise.reject(new Error('later'))")
    assert page.console == []


def test_click_and_keys(page):
    page.click("#add")
    assert page.evaluate("document.title") == "clicked true"
    assert page.evaluate("scrollY") > 1000
    page.click("#name")
    for key in ("a", "B", "2", " ", "+", "Backspace"):
        page.press(key)
    assert page.evaluate("document.activeElement.value") == "aB2 "
    page.press("Shift+Tab")
    assert page.evaluate("document.activeElement.id") == "add"
    page.evaluate("document.title = ''")
    page.press("Enter")
    assert page.evaluate("document.title") == "clicked true"
    with pytest.raises(BrowserError, match="not on the page"):
        page.click("#nowhere")
    with pytest.raises(BrowserError, match="not visible"):
        page.click("#hidden")
    with pytest.raises(BrowserError, match="unknown key"):
        page.press("Entr")


def test_a_click_that_leads_to_another_page(page, tmp_path):
    write(tmp_path, "<title>Second</title>", "second.html")
    page.open(write(tmp_path, "<title>First</title><a href='second.html'>Next</a>"))
    page.click("a")
    assert page.wait_for("document.title === 'Second'")
    with pytest.raises(BrowserError, match="not true in"):
        page.wait_for("false", seconds=0.1)


def test_console(page):
    page.evaluate("console.log('fine'); console.error('bad', 3); console.warn('hm')")
    assert page.console == ["error: bad 3", "warning: hm"]


def test_uncaught_exceptions_and_dialogs(page, tmp_path):
    text = "<script>throw new Error('while loading')</script><button onclick='confirm(1) && missing()'>Go</button>"
    page.open(write(tmp_path, text))
    page.click("button")
    loading, dialog, clicked = page.console
    assert loading.startswith("uncaught: Error: while loading")
    assert dialog == "dialog: 1"
    assert clicked.startswith("uncaught: ReferenceError: missing is not defined")


def test_requests_that_leave_the_machine(page, tmp_path):
    """Of the page, and of a worker, which reports apart."""
    worker = "fetch('http://example.invalid/worker').catch(() => postMessage('done'))"
    page.open(
        write(
            tmp_path,
            f"""<img src="http://example.invalid/x.png"><img src="here.png"><img src="data:image/gif;base64,R0lGOD">
            <script>const worker = new Worker(URL.createObjectURL(new Blob([`{worker}`])));
            const done = new Promise(resolve => worker.onmessage = message => resolve(message.data));
            const socket = new WebSocket("ws://example.invalid/socket");</script>""",
        )
    )
    assert page.evaluate("done") == "done"
    outside = ["http://example.invalid/worker", "http://example.invalid/x.png", "ws://example.invalid/socket"]
    assert sorted(page.leaves_machine()) == outside
    assert any(url.endswith("/here.png") for url in page.requests)
    assert any("ERR_NAME_NOT_RESOLVED" in line for line in page.console)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:8000/a", True),
        ("https://[::1]/", True),
        ("http://localhost/", True),
        ("blob:null/1", True),
        ("http://127.0.0.1.example.invalid/", False),
        ("http://10.0.0.1/", False),
        ("ftp://localhost/", False),
        ("https://example.invalid/127.0.0.1", False),
    ],
)
def test_what_is_local(url, local):
    assert is_local(url) is local


def test_screenshot_and_pdf(page, tmp_path):
    whole, part, pdf = tmp_path / "whole.png", tmp_path / "part.png", tmp_path / "page.pdf"
    page.screenshot(whole)
    page.screenshot(part, full_page=False)
    assert size_of(part) == (800, 600)
    width, height = size_of(whole)
    # A scroll bar may take a few pixels of the width.
    assert 780 <= width <= 800
    assert height > 3000
    page.pdf(pdf)
    assert pdf.read_bytes().startswith(b"%PDF")


def size_of(png):
    data = png.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", data[16:24])


def test_two_pages_at_once_are_independent(browser, tmp_path):
    path = write(tmp_path, PAGE)
    first, second = browser.page(800, 600), browser.page(640, 480)
    first.open(path)
    second.open(path)
    first.evaluate("localStorage.setItem('who', 'first'); console.error('only here')")
    assert second.evaluate("localStorage.getItem('who')") is None
    assert first.console == ["error: only here"]
    assert second.console == []
    # Neither is in the background: both are shown, both are painted, both take clicks.
    for page in (first, second, first):
        page.evaluate("document.title = ''")
        page.click("#add")
        assert page.evaluate("document.title") == "clicked true"
        assert page.evaluate("document.hasFocus() && document.visibilityState") == "visible"
        assert page.evaluate("new Promise(requestAnimationFrame)") > 0
    second.screenshot(tmp_path / "second.png", full_page=False)
    assert size_of(tmp_path / "second.png") == (640, 480)
    first.close()
    assert second.evaluate("innerWidth") == 640
    with pytest.raises(BrowserError):
        first.evaluate("1")
    second.close()


def test_a_phone(browser, tmp_path):
    page = browser.page(390, 844, mobile=True)
    page.open(write(tmp_path, PAGE))
    assert page.evaluate("[innerWidth, innerHeight, matchMedia('(pointer: coarse)').matches]") == [390, 844, True]
    page.click("#add")
    assert page.evaluate("document.title") == "clicked true"
    page.screenshot(tmp_path / "phone.png")
    assert size_of(tmp_path / "phone.png")[0] == 390
    # Without the viewport line a phone shows a wide page made small; a click still lands.
    page.open(write(tmp_path, PAGE.replace("viewport", "other")))
    assert page.evaluate("document.documentElement.clientWidth") > 390
    page.click("#add")
    assert page.evaluate("document.title") == "clicked true"
    page.close()


def test_what_cannot_be_opened(page, tmp_path):
    with pytest.raises(BrowserError, match="ERR_FILE_NOT_FOUND"):
        page.open(tmp_path / "nothing.html")


def test_a_command_that_is_not_answered(page, monkeypatch):
    monkeypatch.setattr(Browser.command, "__defaults__", (None, 0.2))
    with pytest.raises(BrowserError, match=r"Runtime.evaluate: no answer from Chromium in 0.2 s"):
        page.evaluate("new Promise(() => {})")


def processes_of(browser):
    """Those of its group, zombies included, and those elsewhere that were told of its folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            told = browser._folder.encode() in (path / "cmdline").read_bytes()
            if told or os.getpgid(int(path.name)) == browser._process.pid:
                found.append(path.name)
    return found


def test_nothing_is_left_behind():
    require_browser()
    with pytest.raises(ZeroDivisionError), Browser() as browser:
        page = browser.page(800, 600)
        assert os.path.exists(browser._folder)
        assert processes_of(browser)
        raise ZeroDivisionError
    assert not os.path.exists(browser._folder)
    assert processes_of(browser) == []
    with pytest.raises(BrowserError, match="has ended"):
        page.evaluate("1")


def test_a_browser_that_is_killed():
    require_browser()
    with Browser() as browser:
        page = browser.page(800, 600)
        browser._process.kill()
        with pytest.raises(BrowserError, match="has ended"):
            page.evaluate("new Promise(() => {})")
    assert not os.path.exists(browser._folder)


def test_a_browser_that_does_not_start(tmp_path):
    broken = write(tmp_path, "#!/bin/sh\necho no display today >&2\nexit 1\n", "chromium")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    browser = Browser(str(broken))
    with pytest.raises(BrowserError, match="no display today"), browser:
        pass
    assert not os.path.exists(browser._folder)


def test_without_a_browser(monkeypatch):
    monkeypatch.setattr(harness, "NAMES", ("no-such-browser",))
    monkeypatch.delenv("MDCONTEST_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="install Debian's chromium"):
        require_browser()
    monkeypatch.setenv("MDCONTEST_BROWSER", "required")
    with pytest.raises(pytest.fail.Exception, match="install Debian's chromium"):
        require_browser()
    with pytest.raises(BrowserError, match="no Chromium found"), Browser():
        pass
