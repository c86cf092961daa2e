"""Pages in headless Chromium, driven over its debugging pipe (the Chrome DevTools Protocol) with nothing to install.

with Browser() as browser:
    page = browser.page(1280, 800)
    page.open(path)
    page.click("#next")
    assert page.evaluate("document.title") == "Second step"
    assert not page.console and not page.leaves_machine()
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import Future

import pytest

from browser_page import TIMEOUT, BrowserError, Page, RefusedError

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


def adopt_orphans(on: bool) -> None:
    """Makes the processes that Chromium leaves behind ours to wait for; in a container nobody else may."""
    with contextlib.suppress(AttributeError):  # only Linux has it
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)
