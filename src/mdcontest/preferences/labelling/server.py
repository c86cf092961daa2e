"""The labelling server as a process: listens, prints its link, and ends cleanly when it is asked to."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mdcontest.errors import BusyError, InputError
from mdcontest.folders import lock_folder
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.labelling.session import LabelOptions, Session

TOKEN = "MDCONTEST_LABEL_TOKEN"
"""The environment variable that holds the token, for servers that are started again under the same link."""
SHORTEST_TOKEN = 16
LOCK = "labels.lock"
PATIENCE = 10.0
"""Seconds that a server which is just ending may take to let go."""
WILDCARDS = ("0.0.0.0", "::", "")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def require_label_packages() -> None:
    """An error that names the command, where the page's packages are missing."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise InputError(
            f"the labelling page needs {', '.join(missing)}, not installed here: pip install 'mdcontest[label]'"
        )


def serve(
    folder: str | Path,
    options: LabelOptions,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    allow_hosts: list[str] | None = None,
    end_with_input: bool = False,
) -> int:
    """Serve the dataset in `folder` until Ctrl-C; the first line printed is the link. Returns the number of answers."""
    require_label_packages()
    dataset = Dataset.open(folder)
    dataset.task()  # a task that cannot be made is found here
    token = _token()
    with _alone(Path(folder)), _listening(host, port) as listener:
        number = listener.getsockname()[1]
        shown, hosts = _names(host)
        link = f"http://{shown}:{number}/?token={token}"
        return asyncio.run(
            _serve(dataset, options, listener, link, token, [*hosts, *(allow_hosts or [])], host, end_with_input)
        )


async def _serve(
    dataset: Dataset,
    options: LabelOptions,
    listener: socket.socket,
    link: str,
    token: str,
    hosts: list[str],
    host: str,
    end_with_input: bool,
) -> int:
    import uvicorn

    from mdcontest.preferences.labelling.app import make_app
    from mdcontest.preferences.labelling.doors import Doors

    sys.setswitchinterval(0.001)  # seconds; threads that choose and send must not hold up answers
    gc.freeze()  # what the imports made stays; looking through it for garbage takes a tenth of a second each time
    session = Session(dataset, options)
    # Cookies are shared by all ports of a host: two servers on one machine need two names.
    cookie = f"mdcontest_label_{listener.getsockname()[1]}"
    app = Doors(make_app(session), token, cookie, hosts, any_address=host in WILDCARDS)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=3,
    )

    class Server(uvicorn.Server):
        """Leaves the signals to us: uvicorn raises them once more after a clean end."""

        def capture_signals(self) -> Any:
            return contextlib.nullcontext()

    server = Server(config)
    try:
        await session.start()
        with _stopped_by_signals(server, end_with_input):
            print(link, flush=True)
            await server.serve([listener])
    finally:
        await session.stop()
    return session.queue.answers


def _token() -> str:
    given = os.environ.get(TOKEN)
    if given is None:
        return secrets.token_urlsafe(24)
    if len(given) < SHORTEST_TOKEN or not re.fullmatch("[A-Za-z0-9_-]*", given):  # a header holds no other letters
        raise InputError(f"{TOKEN} must be at least {SHORTEST_TOKEN} letters from A to Z, digits, - or _")
    return given


def _names(host: str) -> tuple[str, list[str]]:
    """The name in the link, and the names that are answered to."""
    if host in WILDCARDS:
        name = socket.gethostname()
        return name, [name, socket.getfqdn()]
    return (f"[{host}]" if ":" in host else host), [host]


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One server a dataset: two would not know whom the other asks. One that is just ending is waited for."""
    try:
        lock = lock_folder(folder, LOCK, patience=PATIENCE)
    except BusyError:
        raise BusyError(f"another server labels {folder} already; open its link, or end it first") from None
    try:
        yield
    finally:
        if lock is not None:
            lock.close()


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, for else asyncio leaves small packets waiting for each other: 40 ms an answer.
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(2048)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(f"cannot listen at {host} port {port}: {why}; --port 0 finds a free one") from None
        if host not in LOOPBACK:
            print(
                f"mdcontest: note: listening at {host}: the token and the labels go over the network unencrypted; "
                "use only networks you trust, or an SSH tunnel",
                file=sys.stderr,
            )
        yield listener


@contextlib.contextmanager
def _stopped_by_signals(server: Any, end_with_input: bool) -> Iterator[None]:
    """Within, Ctrl-C, SIGTERM and, if asked for, the end of standard input end the server in good order."""

    def stop(*_: Any) -> None:
        server.should_exit = True

    def wait_for_end() -> None:
        sys.stdin.buffer.read()
        stop()

    if end_with_input:
        threading.Thread(target=wait_for_end, daemon=True).start()
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in found.items() if handler is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
