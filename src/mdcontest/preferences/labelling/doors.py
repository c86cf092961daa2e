"""Who may come in. Every request passes here first; what is refused gets one sentence that says why.

Host      must be this machine's loopback names, the address that is listened at, or one that was allowed: a web
          page whose name was made to point here (DNS rebinding) asks with its own name
token     on every path but the static files; in the link once, which is turned into a cookie, then in the cookie,
          or in `Authorization: Bearer` for scripts; nowhere else
Origin    of what changes something must be this page's own (no other site can answer in somebody's name); scripts
          with a bearer token have none
body      JSON of at most 64 KiB
"""

from __future__ import annotations

import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

LOOPBACK = ("localhost", "127.0.0.1", "::1")
LARGEST_BODY = 1 << 16
STATIC = "/static/"
SECURITY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "media-src 'self' blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Refusal(Exception):  # noqa: N818 -- an answer, not a fault
    """A status and the sentence that goes with it."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Doors:
    """The application behind its doors."""

    def __init__(self, app: App, token: str, cookie: str, hosts: list[str], *, any_address: bool = False) -> None:
        self._app, self._token, self._cookie = app, token, cookie
        self._hosts = {host.lower().strip("[]") for host in (*LOOPBACK, *hosts)}
        self._any_address = any_address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            raise RuntimeError(f"only HTTP is spoken here, not {scope['type']}")
        guarded = _with_headers(send, scope["path"])
        try:
            headers = _headers(scope)
            self._require_host(headers)
            if not scope["path"].startswith(STATIC):
                if self._enters(scope, headers):
                    return await _reply(guarded, 303, b"", [("location", "/"), ("set-cookie", self._made_cookie())])
                scope["let_in"] = self._is_let_in(scope, headers)
            if scope["method"] not in ("GET", "HEAD"):
                _require_json(headers)
                receive = await _limited(receive, headers)
        except Refusal as refusal:
            body = json.dumps({"error": refusal.why}).encode()
            return await _reply(guarded, refusal.status, body, [("content-type", "application/json")])
        await self._app(scope, receive, guarded)

    def _require_host(self, headers: dict[str, str]) -> None:
        name = host_name(headers.get("host", ""))
        if name in self._hosts or (self._any_address and _is_address(name)):
            return
        raise Refusal(
            421, f"this server does not answer to the name {name[:80]!r}; start it with --allow-host to allow it"
        )

    def _enters(self, scope: Scope, headers: dict[str, str]) -> bool:
        """Whether this is the link with the right token; the token is looked for nowhere else in addresses."""
        if scope["path"] != "/" or scope["method"] != "GET" or not scope["query_string"]:
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return len(given) == 1 and self._is_token(given[0])

    def _is_let_in(self, scope: Scope, headers: dict[str, str]) -> bool:
        """Whether the token is there and in its place; only the start page, which then asks for it, does without."""
        bearer = headers.get("authorization", "")
        if bearer:
            scheme, _, given = bearer.partition(" ")
            if scheme.lower() != "bearer" or not self._is_token(given.strip()):
                raise Refusal(401, "the token in Authorization is wrong; the server printed the right one in its link")
            self._require_own_page(scope, headers, absent=True)
            return True
        if not self._is_token(_cookie(headers, self._cookie)):
            if scope["path"] == "/" and scope["method"] == "GET":
                return False
            raise Refusal(401, "open the link with the token that the server printed; it is asked for on every path")
        self._require_own_page(scope, headers, absent=scope["method"] in ("GET", "HEAD"))
        return True

    def _require_own_page(self, scope: Scope, headers: dict[str, str], absent: bool) -> None:
        """The request comes from this server's page, or from no page at all where that is allowed."""
        origin = headers.get("origin")
        if origin is None:
            if not absent:
                raise Refusal(403, "a request that changes something needs an Origin, or a token in Authorization")
            if scope["path"] != "/" and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
                raise Refusal(403, "this request comes from another site's page")
        elif origin.lower() not in (f"http://{headers['host'].lower()}", f"https://{headers['host'].lower()}"):
            raise Refusal(403, f"this request comes from a page of {origin[:80]}, not from this server's")

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="replace"), self._token.encode())

    def _made_cookie(self) -> str:
        return f"{self._cookie}={self._token}; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000"


def host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    """An address cannot be made to point elsewhere, as a name can."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _headers(scope: Scope) -> dict[str, str]:
    """The headers; one that must not be ambiguous may come once only."""
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in found and name in ("host", "origin", "authorization", "content-type", "content-length"):
            raise Refusal(400, f"the header {name} comes twice")
        found[name] = f"{found[name]}; {value}" if name in found else value
    return found


def _cookie(headers: dict[str, str], name: str) -> str:
    """The cookie of this name, or nothing. Others on this host may hold anything, and must not hide it."""
    for part in headers.get("cookie", "").split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return ""


def _require_json(headers: dict[str, str]) -> None:
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "send JSON, with the header Content-Type: application/json")


async def _limited(receive: Receive, headers: dict[str, str]) -> Receive:
    """The body, read here and now, if it is small enough."""
    too_large = Refusal(413, f"the body is larger than {LARGEST_BODY} bytes")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > LARGEST_BODY:
        raise too_large
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the connection ended before the body did")
        body += message.get("body", b"")
        if len(body) > LARGEST_BODY:
            raise too_large
        if not message.get("more_body", False):
            break
    left: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> MutableMapping[str, Any]:
        return left.pop() if left else await receive()

    return again


def _with_headers(send: Send, path: str) -> Send:
    """Adds the security headers to every answer; nothing but static files and clips is kept by anybody."""

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = message.setdefault("headers", [])
            present = {name.lower() for name, _ in headers}
            kept = SECURITY if b"cache-control" in present else SECURITY | {"cache-control": "no-store"}
            message["headers"] = [*headers, *((name.encode(), value.encode()) for name, value in kept.items())]
        await send(message)

    return sent


async def _reply(send: Send, status: int, body: bytes, headers: list[tuple[str, str]]) -> None:
    lines = [*headers, ("content-length", str(len(body)))]
    raw = [(name.encode(), value.encode("latin-1")) for name, value in lines]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
