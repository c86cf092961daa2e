"""Closed doors: what is refused, with which status and which sentence, and that nothing behind them has run."""

import asyncio
import json

import pytest

from mdcontest.errors import InputError
from mdcontest.preferences.labelling.app import make_app, read_name
from mdcontest.preferences.labelling.doors import LARGEST_BODY, SECURITY, Doors
from preferences.labelling.sessions import TOKEN, error_of, held, in_session, make_dataset, request

HERE = "127.0.0.1:8123"
HOST = ("Host", HERE)
BEARER = ("Authorization", f"Bearer {TOKEN}")
COOKIE = ("Cookie", f"other=1; label={TOKEN}")
ORIGIN = ("Origin", f"http://{HERE}")
JSON = ("Content-Type", "application/json")


class Behind:
    """An application that counts who got through."""

    def __init__(self):
        self.calls = []

    async def __call__(self, scope, receive, send):
        body = (await receive())["body"] if scope["method"] == "POST" else b""
        self.calls.append((scope["path"], scope.get("let_in"), body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"in"})


def ask(method, path, *headers, body=b"", query="", **options):
    """Status, headers and body, and whether the application was reached and as whom."""
    behind = Behind()
    doors = Doors(behind, TOKEN, "label", ["127.0.0.1"], **options)
    answer = asyncio.run(request(doors, method, path, body, headers, query))
    return *answer, behind.calls


def refused(status, *call, **options):
    got, headers, content, calls = ask(*call, **options)
    assert (got, calls) == (status, [])
    assert TOKEN not in content.decode() + str(headers)
    assert set(SECURITY) <= set(headers)
    return error_of(content)


def test_the_token_opens():
    for way in (BEARER, COOKIE):
        status, headers, _, calls = ask("GET", "/api/pair", HOST, way)
        assert (status, calls) == (200, [("/api/pair", True, b"")])
        assert headers["cache-control"] == "no-store"
        assert SECURITY.items() <= headers.items()
    assert ask("POST", "/api/answer", HOST, BEARER, JSON, body=b"{}")[3] == [("/api/answer", True, b"{}")]
    assert ask("POST", "/api/answer", HOST, COOKIE, ORIGIN, JSON, body=b"{}")[3] == [("/api/answer", True, b"{}")]


def test_the_link_becomes_a_cookie_and_leaves_the_address():
    status, headers, _, calls = ask("GET", "/", HOST, query=f"token={TOKEN}")
    assert (status, headers["location"], calls) == (303, "/", [])
    assert headers["set-cookie"].startswith(f"label={TOKEN}; HttpOnly; SameSite=Strict")


@pytest.mark.parametrize(
    "path", ["/api/pair", "/api/state", "/clips/" + "0" * 32 + ".mp4", "/nowhere", "//", "/static"]
)
def test_no_token(path):
    assert "token" in refused(401, "GET", path, HOST)


def test_static_files_and_the_page_that_asks_for_the_token_need_none():
    assert ask("GET", "/static/page.js", HOST)[3] == [("/static/page.js", None, b"")]
    assert ask("GET", "/", HOST)[3] == [("/", False, b"")]
    assert ask("GET", "/", HOST, query="token=wrong")[3] == [("/", False, b"")]


@pytest.mark.parametrize("wrong", ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ä" * len(TOKEN), "None"])
def test_wrong_token(wrong):
    refused(401, "GET", "/api/pair", HOST, ("Authorization", f"Bearer {wrong}"))
    refused(401, "GET", "/api/pair", HOST, ("Cookie", f"label={wrong}"))
    refused(401, "GET", "/api/pair", HOST, COOKIE, ("Authorization", f"Bearer {wrong}"))


def test_token_in_the_wrong_place():
    body = json.dumps({"token": TOKEN}).encode()
    refused(401, "GET", "/api/pair", HOST, query=f"token={TOKEN}")
    refused(401, "POST", "/", HOST, JSON, query=f"token={TOKEN}")
    refused(401, "POST", "/api/answer", HOST, ORIGIN, JSON, body=body)
    refused(401, "GET", "/api/pair", HOST, ("Cookie", f"token={TOKEN}"))
    refused(401, "GET", "/api/pair", HOST, ("X-Token", TOKEN))
    refused(401, "GET", "/api/pair", HOST, ("Authorization", f"Basic {TOKEN}"))
    refused(401, "GET", f"/{TOKEN}", HOST)
    assert ask("GET", "/", HOST, query=f"tokens={TOKEN}")[3] == [("/", False, b"")]
    assert ask("GET", "/", HOST, query=f"token={TOKEN}&token=x")[3] == [("/", False, b"")]


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1:9999", "http://127.0.0.1", f"http://{HERE}.evil.example"],
)
def test_another_sites_page(origin):
    given = ("Origin", origin)
    assert "page" in refused(403, "POST", "/api/answer", HOST, COOKIE, given, JSON, body=b"{}")
    refused(403, "POST", "/api/answer", HOST, BEARER, given, JSON, body=b"{}")
    refused(403, "GET", "/api/pair", HOST, COOKIE, given)


def test_a_page_that_hides_where_it_is_from():
    refused(403, "POST", "/api/answer", HOST, COOKIE, JSON, body=b"{}")
    for site in ("cross-site", "same-site"):
        refused(403, "GET", "/api/pair", HOST, COOKIE, ("Sec-Fetch-Site", site))


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8123", "127.0.0.1.evil.example", "", "10.0.0.1:8123"])
def test_a_name_that_was_made_to_point_here(host):
    assert "--allow-host" in refused(421, "GET", "/api/pair", ("Host", host), BEARER)
    refused(421, "GET", "/", ("Host", host), query=f"token={TOKEN}")
    refused(421, "GET", "/static/page.js", ("Host", host))


@pytest.mark.parametrize("host", ["localhost:8123", "LOCALHOST", "[::1]:8123", "127.0.0.1:22022"])
def test_loopback_names(host):
    assert ask("GET", "/api/pair", ("Host", host), BEARER)[0] == 200


def test_any_address_is_for_servers_that_listen_everywhere():
    assert ask("GET", "/api/pair", ("Host", "10.0.0.1:8123"), BEARER, any_address=True)[0] == 200
    assert ask("GET", "/api/pair", ("Host", "evil.example"), BEARER, any_address=True)[0] == 421


def test_headers_that_contradict_each_other():
    refused(400, "GET", "/api/pair", HOST, ("Host", "localhost"), BEARER)
    refused(400, "POST", "/api/answer", HOST, BEARER, ORIGIN, ("Origin", "http://evil.example"), JSON)


def test_oversized_bodies():
    large = b"x" * (LARGEST_BODY + 1)
    post = ("POST", "/api/answer", HOST, BEARER, JSON)
    assert str(LARGEST_BODY) in refused(413, *post, ("Content-Length", str(len(large))), body=large)
    refused(413, *post, body=large)  # without saying so beforehand
    refused(413, *post, ("Content-Length", "-1"))
    assert ask(*post, body=large[:-1])[0] == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_only_json_is_posted(kind):
    refused(415, "POST", "/api/answer", HOST, BEARER, ("Content-Type", kind), body=b"{}")
    refused(415, "POST", "/api/answer", HOST, BEARER, body=b"{}")


# --- the application behind ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return make_dataset(tmp_path_factory.mktemp("doors") / "dataset")


def asked(dataset, *requests):
    """The answers of the application to requests, each (method, path, body or query)."""

    async def use(session):
        app = Doors(make_app(session), TOKEN, "label", [])
        await held(session, "Ada")
        answers = []
        for method, path, more in requests:
            body, query = (more, "") if method == "POST" else (b"", more)
            answers.append(await request(app, method, path, body, [HOST, BEARER, JSON], query))
        return answers

    return in_session(dataset, use)


@pytest.mark.parametrize(
    "name",
    [
        "../labels.sqlite",
        "..%2Flabels.sqlite",
        "%2e%2e/dataset.json",
        "0" * 31,
        "0" * 33,
        "G" * 32,
        "a" * 31 + "\n",
        "",
    ],
)
def test_path_traversal(dataset, name):
    secret = dataset.path / "secret.mp4"
    secret.write_bytes(b"secret")
    paths = [f"/clips/{name}.mp4", f"/static/{name}", f"/clips/../{name}", f"/static/../../{name}"]
    for status, _, content in asked(dataset, *(("GET", path, "") for path in paths)):
        assert status == 404
        assert b"secret" not in content
        assert b"SQLite" not in content


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"annotator": 3}', b"[" * 60_000, b"{}"])
def test_malformed_json(dataset, body):
    for status, _, content in asked(dataset, ("POST", "/api/answer", body), ("POST", "/api/undo", body)):
        assert status == 400
        assert error_of(content)


def test_what_is_unknown_or_wrong(dataset):
    fine = {"annotator": "Ada", "pair": "nothing", "label": "left", "key": "k"}
    cases = [
        (404, fine),
        (400, fine | {"label": "best"}),
        (400, fine | {"label": None}),
        (400, fine | {"key": "k" * 101}),
        (400, fine | {"pair": "line\nbreak"}),
        (400, fine | {"seconds": "long"}),
        (400, fine | {"seconds": -1}),
        (400, fine | {"seconds": 10**400}),
        (400, fine | {"annotator": ""}),
        (400, fine | {"annotator": "x" * 61}),
        (400, fine | {"annotator": "bell\a"}),
    ]
    answers = asked(dataset, *(("POST", "/api/answer", json.dumps(body).encode()) for _, body in cases))
    assert [status for status, _, _ in answers] == [status for status, _ in cases]
    assert all(len(error_of(content)) > 10 for _, _, content in answers)
    answers = asked(dataset, ("GET", "/api/nothing", ""), ("GET", "/api/answer", ""), ("GET", "/api/pair", ""))
    assert [status for status, _, _ in answers] == [404, 405, 400]
    assert [error_of(content) for _, _, content in answers[:2]] == [
        "there is no such path",
        "GET is not answered at this path",
    ]


def test_names():
    script = "<script>alert(1)</script>"
    assert read_name(f" {script} ") == script  # stored as it is: the page writes it as text
    assert read_name("é") == read_name("e\u0301")
    for wrong in (None, 7, " ", "x" * 61, "a\x00b", "a\u202eb", "a\nb", "\u2028"):
        with pytest.raises(InputError):
            read_name(wrong)


@pytest.mark.parametrize("other", ['x={"a": "b c"}', "a=b c", "a[b]=1", "x=é", "flag", "path=/", ";"])
def test_cookies_of_others_on_this_host_do_not_hide_ours(other):
    """Cookies are shared by all ports: whatever else was served here may have left any."""
    assert ask("GET", "/api/pair", HOST, ("cookie", f"{other}; label={TOKEN}"))[0] == 200
