"""A page of the browser in browser.py: opened, clicked, typed into, printed; what it asks for and complains about."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import json
import os
import re
import time
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from browser import Browser

TIMEOUT = 120.0  # seconds for one command, a load or a wait
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
