"""A client for scripts that answer: the requests that the page makes, all but those for its clips.

with Client(link, "a script") as client:
    while client.state()["progress"]["total"] < 100:
        if (pair := client.pair()) is None:
            time.sleep(0.1)  # the next clips are being filmed, or there are no more pairs: look()["message"] says which
        else:
            client.answer(pair, "left")
"""

from __future__ import annotations

import http.client
import json
import uuid
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from mdcontest.errors import InputError, RunError

SECONDS = 30.0
"""How long a request may take."""


class Client:
    """One annotator's connection to a labelling server, by the link that it printed."""

    def __init__(self, link: str, annotator: str) -> None:
        parts = urlsplit(link)
        token = parse_qs(parts.query).get("token")
        if parts.scheme != "http" or parts.hostname is None or not token:
            raise InputError(f"{link!r} is no link of a labelling server: http://HOST:PORT/?token=…")
        self.annotator = annotator
        self._headers = {"Authorization": f"Bearer {token[0]}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)

    def pair(self) -> dict[str, Any] | None:
        """The pair to look at: {"id", "left": {"clip", "trajectory", "start", "length"}, "right": …}, or None.

        None is not the end: while clips are being filmed there is none either. look()["message"] says why.
        """
        return self.look()["pair"]

    def look(self) -> dict[str, Any]:
        """{"pair", "next": the pair after it, "message": why there is none, "problem": what went wrong, "progress"}."""
        return self._ask("GET", f"/api/pair?annotator={quote(self.annotator, safe='')}")

    def answer(self, pair: dict[str, Any], label: str, key: str | None = None) -> dict[str, Any]:
        """Say left, right, equal or incomparable; returns once it is stored. The same key again stores nothing new."""
        body = {"annotator": self.annotator, "pair": pair["id"], "label": label, "key": key or str(uuid.uuid4())}
        return self._ask("POST", "/api/answer", body)

    def undo(self, pair: dict[str, Any]) -> bool:
        """Take the answer about this pair back."""
        return bool(self._ask("POST", "/api/undo", {"annotator": self.annotator, "pair": pair["id"]})["undone"])

    def state(self) -> dict[str, Any]:
        """Progress, the task, the instructions, and what went wrong."""
        return self._ask("GET", f"/api/state?annotator={quote(self.annotator, safe='')}")

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        content = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, content, self._headers)
            response = self._connection.getresponse()
            status, answer = response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()  # the next request opens a new one
            raise RunError(f"the labelling server did not answer: {type(error).__name__}: {error}") from None
        if status != 200:
            raise InputError(f"the labelling server refused ({status}): {answer.get('error')}")
        return dict(answer)
