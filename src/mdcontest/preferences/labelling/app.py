"""The paths of the labelling server.

GET  /                       the page; asks for the token where it is missing
GET  /static/NAME            its script, style and icon
GET  /clips/NAME.mp4         a clip, by its hash
GET  /api/pair?annotator=    the pair to look at, and the next one
POST /api/answer             {"annotator", "pair", "label": left | right | equal | incomparable, "key", "seconds"}
POST /api/undo               {"annotator", "pair"}
GET  /api/state?annotator=   progress, the task, instructions, what went wrong
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from mdcontest.errors import InputError, RunError
from mdcontest.preferences.labelling.clips import clip_name
from mdcontest.preferences.labelling.pairs import Given
from mdcontest.preferences.labelling.session import ConflictError, Session, UnknownPairError
from mdcontest.preferences.labels import EQUAL, FIRST, INCOMPARABLE, SECOND
from mdcontest.preferences.references import Segment

SIDES = {"left": FIRST, "right": SECOND, EQUAL: EQUAL, INCOMPARABLE: INCOMPARABLE}
"""What is said on the page, and how it is stored: the left one is the first."""
LONGEST_NAME, LONGEST_KEY, LONGEST_SECONDS = 60, 100, 1e9
FILES = {
    "page.html": "text/html; charset=utf-8",
    "login.html": "text/html; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "login.js": "text/javascript; charset=utf-8",
    "sending.js": "text/javascript; charset=utf-8",
    "clips.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
CLIP = re.compile("[0-9a-f]{32}")
Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(session: Session) -> Starlette:
    """The application, without its doors (see doors.py)."""
    return Starlette(
        routes=[
            Route("/", _page),
            Route("/static/{name}", _static),
            Route("/clips/{name}.mp4", _answered(session, _clip)),
            Route("/api/pair", _answered(session, _pair)),
            Route("/api/answer", _answered(session, _answer), methods=["POST"]),
            Route("/api/undo", _answered(session, _undo), methods=["POST"]),
            Route("/api/state", _answered(session, _state)),
        ],
        exception_handlers={HTTPException: _not_here},
    )


def _answered(session: Session, endpoint: Callable[[Session, Request], Awaitable[Response]]) -> Endpoint:
    """The endpoint, with errors as a status and a sentence."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(session, request)
        except InputError as error:
            return JSONResponse({"error": str(error)}, _status(error))

    return answer


async def _not_here(request: Request, error: Exception) -> Response:
    """A path or a method that there is not, in the same form as every other error."""
    if not isinstance(error, HTTPException):
        raise error
    why = "there is no such path" if error.status_code == 404 else f"{request.method} is not answered at this path"
    return JSONResponse({"error": why}, error.status_code, headers=error.headers)


def _status(error: InputError) -> int:
    kinds = {UnknownPairError: 404, ConflictError: 409, RunError: 503}
    return next((status for kind, status in kinds.items() if isinstance(error, kind)), 400)


# --- files ------------------------------------------------------------------------------------------------


async def _page(request: Request) -> Response:
    if request.scope.get("let_in"):
        return Response(_read("page.html"), media_type=FILES["page.html"])
    tried = "token" in request.query_params
    return Response(_read("login.html"), 403 if tried else 401, media_type=FILES["login.html"])


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in FILES or name.endswith(".html"):
        return JSONResponse({"error": "there is no such file"}, 404)
    return Response(_read(name), media_type=FILES[name], headers={"cache-control": "no-cache"})


def _read(name: str) -> bytes:
    return (Path(__file__).parent / "static" / name).read_bytes()


async def _clip(session: Session, request: Request) -> Response:
    name = request.path_params["name"]
    path = session.studio.path(name)
    if not CLIP.fullmatch(name) or not path.is_file():
        session.studio.look_again()  # somebody may have emptied the folder; what people have in hand is filmed again
        return JSONResponse({"error": "there is no such clip"}, 404)
    kept = {"cache-control": "private, max-age=86400, immutable"}
    return FileResponse(path, media_type="video/mp4", headers=kept)


# --- the API ----------------------------------------------------------------------------------------------


async def _pair(session: Session, request: Request) -> Response:
    annotator = read_name(request.query_params.get("annotator"))
    held = await session.hold(annotator)
    shown = [*map(_shown, held), None, None][:2]
    message = None if held else session.nothing_left()
    found = {"pair": shown[0], "next": shown[1], "message": message, "problem": session.problem}
    return JSONResponse({**found, "progress": session.progress(annotator)})


def _shown(given: Given) -> dict[str, Any]:
    def side(segment: Segment) -> dict[str, Any]:
        about = {"trajectory": segment.trajectory, "start": segment.start, "length": segment.length}
        return {"clip": f"/clips/{clip_name(segment)}.mp4", **about}

    return {"id": given.id, "left": side(given.left), "right": side(given.right)}


async def _answer(session: Session, request: Request) -> Response:
    body = await _body(request)
    annotator, id, key = read_name(body.get("annotator")), _text(body, "pair"), _text(body, "key")
    label = SIDES.get(_text(body, "label"))
    if label is None:
        raise InputError(f"{body['label'][:40]!r} is no label; say {', '.join(SIDES)}")
    seconds = body.get("seconds")
    if not (seconds is None or (type(seconds) in (int, float) and 0 <= seconds <= LONGEST_SECONDS)):
        raise InputError("seconds must be how long it took, a number that is not negative")
    stored = await session.answer(annotator, id, label, key, None if seconds is None else float(seconds))
    return JSONResponse({"id": stored.id, "progress": session.progress(annotator)})


async def _undo(session: Session, request: Request) -> Response:
    body = await _body(request)
    annotator = read_name(body.get("annotator"))
    undone = await session.undo(annotator, _text(body, "pair"))
    return JSONResponse({"undone": undone, "progress": session.progress(annotator)})


async def _state(session: Session, request: Request) -> Response:
    given = request.query_params.get("annotator")
    annotator = None if given is None else read_name(given)
    options = session.options
    about = {"task": session.dataset.task_name, "length": options.length, "instructions": options.instructions}
    return JSONResponse({**about, "problem": session.problem, "progress": session.progress(annotator)})


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise InputError("the body is not JSON") from None
    if not isinstance(body, dict):
        raise InputError("the body must be a JSON object")
    return body


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_KEY or not value.isprintable():
        raise InputError(f"{name} must be a text of 1 to {LONGEST_KEY} printable characters")
    return value


def read_name(value: Any) -> str:
    """An annotator's name: 1 to 60 characters, none of which controls anything."""
    if not isinstance(value, str):
        raise InputError("annotator is missing: say who labels")
    name = unicodedata.normalize("NFC", value).strip()
    if not 1 <= len(name) <= LONGEST_NAME:
        raise InputError(f"a name has 1 to {LONGEST_NAME} characters, this one {len(name)}")
    if any(unicodedata.category(letter)[0] == "C" or letter in "\u2028\u2029" for letter in name):
        raise InputError("a name cannot hold control characters")
    return name
