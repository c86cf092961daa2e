"""Pages in headless Chromium, driven over its debugging pipe (the Chrome DevTools Protocol) with nothing to install.

with Browser() as browser:
    page = browser.page(1280, 800)
    page.open(path)
    page.click("#next")
    assert page.evaluate("document.title") == "Second step"
    assert not page.console and not page.leaves_machine()
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import ipaddress
import itertools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from urllib.parse import urlsplit

import pytest

TIMEOUT = 30.0  # seconds for one command, a load or a wait
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "/usr/bin/chromium")
MISSING = "no Chromium found: install Debian's chromium to run the browser tests"
OPTIONS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",  # root and most containers have none to offer, and the pages opened are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers often have too small a /dev/shm
    "--mute-audio",
    "--autoplay-policy=no-user-gesture-required",
    # Nothing leaves the machine: Chromium's own traffic is off, and what a page asks for outside fails at once.
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.*, EXCLUDE [::1]",
    # Several pages at once: one that is not in front keeps its timers and its video at full speed.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}
# Keys with a name: their virtual key code, and the text they type.
KEYS = {
    "Backspace": (8, ""),
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    "Space": (32, " "),
    "PageUp": (33, ""),
    "PageDown": (34, ""),
    "End": (35, ""),
    "Home": (36, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "Delete": (46, ""),
}
CENTRE = """(selector => {
    const element = document.querySelector(selector);
    if (!element) return "is not on the page";
    element.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
    const box = element.getBoundingClientRect();
    if (!box.width || !box.height) return "is not visible";
    return [box.x + box.width / 2, box.y + box.height / 2];
})(%s)"""


class BrowserError(RuntimeError):
    """Chromium did not start, ended, did not answer in time, or could not do what was asked."""


class RefusedError(BrowserError):
    """Chromium answered a command with an error."""


class JavaScriptError(BrowserError):
    """The evaluated JavaScript threw."""


def find_browser() -> str | None:
    """Where Chromium is, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def require_browser() -> str:
    """Where Chromium is; without one the test is skipped, or fails under MDCONTEST_BROWSER=required (as in CI)."""
    found = find_browser()
    if found is None:
        (pytest.fail if os.environ.get("MDCONTEST_BROWSER") == "required" else pytest.skip)(MISSING)
    return found


class Browser:
    """One Chromium process with a profile of its own; both are gone when the context ends."""

    _running = 0

    def __init__(self, binary: str | None = None):
        self._binary = binary or find_browser()
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._pending: dict[int, Future] = {}
        self._pages: dict[str, Page] = {}
        self._stderr: list[bytes] = []
        self._news = threading.Condition()  # a page has loaded, or Chromium has ended
        self._ended = False

    def __enter__(self) -> Browser:
        if self._binary is None:
            raise BrowserError(MISSING)
        # Chromium makes a socket in here, whose path must be short: a long TMPDIR would stop it from starting.
        self._folder = tempfile.mkdtemp(prefix="browser-", dir="/tmp")
        try:
            self._start()
            self.command("Browser.getVersion")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        # Home and temporary files go into the folder too, so that removing it removes everything Chromium wrote.
        environment = os.environ | {"HOME": self._folder, "TMPDIR": self._folder}
        for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
            environment.pop(name, None)
        # The pipe is expected at descriptors 3 and 4. A shell moves stdin and stdout there, because doing it in
        # Python between fork and exec is not safe with threads running.
        move = 'exec "$@" 3<&0 4>&1 </dev/null >&2'
        adopt_orphans(True)
        self._process = subprocess.Popen(
            ["sh", "-c", move, "sh", self._binary, *OPTIONS, f"--user-data-dir={self._folder}/profile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # one group, to be killed as one
        )
        Browser._running += 1
        os.set_blocking(self._process.stdin.fileno(), False)  # so that a write can time out
        self._errors = threading.Thread(target=self._keep_stderr, daemon=True)
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._errors.start()
        self._reader.start()

    def __exit__(self, *_) -> None:
        try:
            if hasattr(self, "_reader"):
                self._stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _stop(self) -> None:
        try:
            with contextlib.suppress(BrowserError):
                self.command("Browser.close", timeout=5)
            self._reader.join(5)
        finally:
            # The group's leader has not been waited for, so its number cannot belong to anyone else yet.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            with contextlib.suppress(ChildProcessError):  # raised when none of the group is left
                while True:
                    os.waitpid(-self._process.pid, 0)
            Browser._running -= 1
            adopt_orphans(Browser._running > 0)
            # stderr ends with the last process that holds it: from then on nobody writes into the folder.
            for thread, pipe in ((self._reader, self._process.stdout), (self._errors, self._process.stderr)):
                thread.join(5)
                pipe.close()
            self._process.stdin.close()

    def page(self, width: int, height: int, mobile: bool = False) -> Page:
        """A new page of this size in a session of its own: it shares no cookies or storage with the others."""
        context = self.command("Target.createBrowserContext")["browserContextId"]
        # In a window of its own every page is the one in front, and is painted.
        target = self.command(
            "Target.createTarget",
            url="about:blank",
            browserContextId=context,
            width=width,
            height=height,
            newWindow=True,
        )["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._pages[session] = page = Page(self, context, session)
        page._prepare(width, height, mobile)
        return page

    def command(self, method: str, session: str | None = None, timeout: float = TIMEOUT, **params):
        """The result of a command of the protocol."""
        reply = self._post(method, session, timeout, **params)
        try:
            return reply.result(timeout)
        except TimeoutError:
            raise BrowserError(f"{method}: no answer from Chromium in {timeout:g} s") from None

    def _post(self, method: str, session: str | None, timeout: float = TIMEOUT, **params) -> Future:
        """Sends a command without waiting for its answer."""
        message = {"id": next(self._ids), "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        rest = json.dumps(message).encode() + b"\0"
        deadline = time.monotonic() + timeout
        with self._lock:
            if self._ended:
                raise self._gone()
            self._pending[message["id"]] = reply = Future()
            pipe = self._process.stdin.fileno()
            while rest:
                if not select.select([], [pipe], [], max(0, deadline - time.monotonic()))[1]:
                    raise BrowserError(f"{method}: Chromium has stopped reading commands ({timeout:g} s)")
                try:
                    rest = rest[os.write(pipe, rest) :]
                except BlockingIOError:
                    continue  # room for some bytes, but not for these: wait again
                except BrokenPipeError:
                    break  # Chromium has ended; the reader sees that too and says so in the reply
        return reply

    def _listen(self) -> None:
        """Reads Chromium's messages until it ends, then fails what still waits for an answer."""
        parts: list[bytes] = []
        try:
            while chunk := self._process.stdout.read1(1 << 16):
                *ends, start = chunk.split(b"\0")
                for end in ends:
                    self._receive(json.loads(b"".join([*parts, end])))
                    parts = []
                parts.append(start)
        finally:
            self._errors.join(2)  # what Chromium said last belongs into the error
            with self._lock:
                self._ended = True
                waiting, self._pending = self._pending, {}
            for reply in waiting.values():
                reply.set_exception(self._gone())
            with self._news:
                self._news.notify_all()

    def _receive(self, message: dict) -> None:
        if "id" in message:
            reply = self._pending.pop(message["id"], None)
            if reply is None:
                return
            if "error" in message:
                reply.set_exception(RefusedError(message["error"].get("message", str(message["error"]))))
            else:
                reply.set_result(message["result"])
        elif page := self._pages.get(message.get("sessionId")):
            # An answer to the event may find Chromium gone; whoever waits for it is told.
            with contextlib.suppress(BrowserError):
                page._on_event(message["method"], message["params"], message["sessionId"])

    def _keep_stderr(self) -> None:
        while chunk := self._process.stderr.read1(1 << 16):
            self._stderr.append(chunk)

    def _gone(self) -> BrowserError:
        said = b"".join(self._stderr).decode(errors="replace").strip()
        return BrowserError(f"Chromium ({self._binary}) did not start or has ended. It said:\n{said[-4000:]}")


class Page:
    """A page. What it has asked for and complained about is kept from its first load to its last."""

    def __init__(self, browser: Browser, context: str, session: str):
        self._browser, self._context, self._session = browser, context, session
        self._loaded: set[str] = set()
        self.console: list[str] = []  # "error: …", "warning: …", "uncaught: …", "dialog: …"
        self.requests: list[str] = []

    def _prepare(self, width: int, height: int, mobile: bool) -> None:
        self._command("Page.enable")
        self._command("Page.setLifecycleEventsEnabled", enabled=True)
        for reply in self._watch(self._session):
            reply.result(TIMEOUT)
        self._command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
        )
        self._command("Emulation.setTouchEmulationEnabled", enabled=mobile)
        self._command("Emulation.setFocusEmulationEnabled", enabled=True)

    def open(self, url_or_path: str | os.PathLike) -> None:
        """Opens an address or a file, and waits for its load event."""
        url = os.fspath(url_or_path)
        if not re.match(r"[a-z][a-z0-9+.-]+:", url):
            url = Path(url).resolve().as_uri()
        answer = self._command("Page.navigate", url=url)
        if answer.get("errorText"):
            raise BrowserError(f"{url}: {answer['errorText']}")
        loader = answer.get("loaderId")  # none when only the fragment changed: there is nothing to load
        news = self._browser._news
        with news:
            news.wait_for(lambda: loader is None or loader in self._loaded or self._browser._ended, TIMEOUT)
        if self._browser._ended:
            raise self._browser._gone()
        if loader is not None and loader not in self._loaded:
            raise BrowserError(f"{url}: not loaded in {TIMEOUT:g} s; console: {self.console}")

    def evaluate(self, js: str):
        """The value of an expression, of its promise where it is one; JavaScriptError where it throws."""
        answer = self._command("Runtime.evaluate", expression=js, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise JavaScriptError(exception_text(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait_for(self, js: str, seconds: float = TIMEOUT):
        """The value of an expression once it is truthy, also across a navigation."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(RefusedError):  # the page that was asked has just been left
                if value := self.evaluate(js):
                    return value
                self.evaluate("new Promise(done => setTimeout(done, 20))")
        raise BrowserError(f"not true in {seconds:g} s: {js}; console: {self.console}")

    def click(self, selector: str) -> None:
        """Scrolls the element into view and clicks its centre with the mouse."""
        centre = self.evaluate(CENTRE % json.dumps(selector))
        if isinstance(centre, str):
            raise BrowserError(f"{selector} {centre}")
        x, y = centre
        self._command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind, held in (("mousePressed", 1), ("mouseReleased", 0)):
            self._command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=held, clickCount=1)
        self._settle()

    def press(self, key: str) -> None:
        """Presses and releases a key: one character, a name of KEYS, or either after modifiers ("Shift+Tab")."""
        *held, name = key.split("+") if len(key) > 1 else [key]
        if (len(name) != 1 and name not in KEYS) or not set(held) <= set(MODIFIERS):
            raise BrowserError(f"unknown key {key!r}")
        name = "Space" if name == " " else name
        letter = f"Key{name.upper()}" if name.isalpha() else f"Digit{name}" if name.isdigit() else ""
        number, text = KEYS.get(name) or (ord(name.upper()) if letter else 0, name)
        event = {
            "key": " " if name == "Space" else name,
            "code": name if name in KEYS else letter,
            "windowsVirtualKeyCode": number,
            "modifiers": sum(MODIFIERS[modifier] for modifier in held),
        }
        # A shortcut types nothing.
        typed = {"text": text} if text and set(held) <= {"Shift"} else {}
        self._command("Input.dispatchKeyEvent", type="keyDown" if typed else "rawKeyDown", **event, **typed)
        self._command("Input.dispatchKeyEvent", type="keyUp", **event)
        self._settle()

    def screenshot(self, path: str | os.PathLike, full_page: bool = True) -> None:
        """Writes a PNG of the whole page, or of what is in view; one CSS pixel is one pixel."""
        clip = {}
        if full_page:
            size = self._command("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"clip": {**size, "scale": 1}, "captureBeyondViewport": True}
        Path(path).write_bytes(base64.b64decode(self._command("Page.captureScreenshot", format="png", **clip)["data"]))

    def pdf(self, path: str | os.PathLike) -> None:
        """Writes the page as it prints."""
        printed = self._command("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        Path(path).write_bytes(base64.b64decode(printed["data"]))

    def leaves_machine(self) -> list[str]:
        """The requested addresses that are not on this machine."""
        return [url for url in list(self.requests) if not is_local(url)]

    def close(self) -> None:
        """Closes the page and forgets its session; the browser does so in the end for every page."""
        self._browser.command("Target.disposeBrowserContext", browserContextId=self._context)

    def _command(self, method: str, **params):
        return self._browser.command(method, self._session, **params)

    def _settle(self) -> None:
        """Lets what the page said while it handled an input arrive before the caller looks at it."""
        with contextlib.suppress(RefusedError):  # the input led to another page
            self._command("Runtime.evaluate", expression="0")

    def _watch(self, session: str) -> list[Future]:
        """Reports the requests and complaints of a page, or of a frame or worker that runs in a process of its own."""
        attach = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
        return [
            self._browser._post("Runtime.enable", session),
            self._browser._post("Log.enable", session),
            self._browser._post("Network.enable", session),
            self._browser._post("Target.setAutoAttach", session, **attach),
            self._browser._post("Runtime.runIfWaitingForDebugger", session),
        ]

    def _on_event(self, method: str, params: dict, session: str) -> None:
        """Runs on the reader's thread: it may send commands, and never waits for their answers."""
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(params["url"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            words = (str(part.get("value", part.get("description", part["type"]))) for part in params["args"])
            self.console.append(f"{params['type']}: {' '.join(words)}")
        elif method == "Runtime.exceptionThrown":
            self.console.append(f"uncaught: {exception_text(params['exceptionDetails'])}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            entry = params["entry"]
            self.console.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}".rstrip())
        elif method == "Page.javascriptDialogOpening":
            # Left open it would block the page, and every command to it.
            self.console.append(f"dialog: {params['message']}")
            self._browser._post("Page.handleJavaScriptDialog", session, accept=True)
        elif method == "Inspector.targetCrashed":
            self.console.append("error: the page has crashed")
        elif method == "Target.attachedToTarget":
            self._browser._pages[params["sessionId"]] = self
            self._watch(params["sessionId"])
        elif method == "Page.lifecycleEvent" and params["name"] == "load":
            with self._browser._news:
                self._loaded.add(params["loaderId"])
                self._browser._news.notify_all()


def adopt_orphans(on: bool) -> None:
    """Makes the processes that Chromium leaves behind ours to wait for; in a container nobody else may."""
    with contextlib.suppress(AttributeError):  # only Linux has it
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def exception_text(details: dict) -> str:
    """What was thrown, with its stack where it is an Error."""
    thrown = details.get("exception", {})
    return str(thrown.get("description", thrown.get("value", details.get("text"))))


def is_local(url: str) -> bool:
    """Whether asking for this address stays on the machine."""
    parts = urlsplit(url)
    if parts.scheme in ("file", "data", "blob", "about"):
        return True
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
        return False
    if parts.hostname == "localhost" or parts.hostname.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(parts.hostname).is_loopback
    except ValueError:
        return False
