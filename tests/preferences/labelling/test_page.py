"""The page in a browser: whole sessions by keyboard and by mouse, videos that play, crashes, telephones, strangers."""

import contextlib
import sqlite3

import pytest

from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.labelling import start_labelling
from preferences.labelling.sessions import TOKEN, make_dataset, play

READY = "document.querySelectorAll('#answers button:enabled').length === 4"
SAVED = "document.querySelector('#status').textContent"
TIMES = "[...document.querySelectorAll('video')].map(video => video.currentTime)"
NUMBERS = "document.querySelector('#numbers').textContent"
KEYS = {
    "ArrowLeft": "first",
    "ArrowRight": "second",
    "ArrowDown": "equal",
    "ArrowUp": "incomparable",
    "x": "incomparable",
}
BUTTONS = {"left": "first", "right": "second", "equal": "equal", "incomparable": "incomparable"}
LOST = "document.querySelector('#lost').hidden"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return make_dataset(tmp_path_factory.mktemp("page") / "dataset", count=12)


@pytest.fixture(scope="module")
def server(dataset, tmp_path_factory):
    text = tmp_path_factory.mktemp("text") / "instructions.md"
    text.write_text("Prefer the *better* room.\n\n<img src=x onerror=alert(1)> Be quick.", encoding="utf-8")
    with start_labelling(dataset.path, length=12, repeat=0.0, pairs=500, instructions=text, token=TOKEN) as server:
        yield server


@contextlib.contextmanager
def visiting(browser, server, name, width=600, height=560, mobile=False):
    """A page on which `name` labels; in the end it has complained of nothing else and asked nobody else."""
    page = browser.page(width, height, mobile)
    page.open(server.url)
    page.wait_for("document.querySelector('#who').open")
    enter(page, name)
    page.wait_for(READY)
    yield page
    assert page.console == []
    assert page.leaves_machine() == []
    page.close()


def enter(page, name):
    page.click("#who-name")
    for letter in name:
        page.press("Space" if letter == " " else letter)
    page.press("Enter")


def answer(page, way, key):
    """Say one thing and wait until it is stored."""
    page.wait_for(READY)
    page.evaluate("document.querySelector('#status').textContent = ''")
    page.press(key) if way == "key" else page.click(f"[data-label={key}]")
    page.wait_for(f"{SAVED}.startsWith('Saved')")


def entries(dataset, name):
    """What the database holds of one person: labels in force, in the order of the answers."""
    connection = sqlite3.connect(dataset.path / "labels.sqlite")
    rows = connection.execute(
        "SELECT a.label FROM answers a JOIN given g ON g.id = a.given "
        "WHERE g.annotator = ? AND a.withdrawn IS NULL ORDER BY a.rowid",
        (name,),
    ).fetchall()
    connection.close()
    return [label for (label,) in rows]


def test_a_whole_session(browser, server, dataset, count):
    wanted = []
    with visiting(browser, server, "Ada L") as page:
        assert "token" not in page.evaluate("location.href")
        for number in range(count(8, 30)):
            way = "key" if number % 2 else "mouse"
            choices = KEYS if way == "key" else BUTTONS
            key = list(choices)[number // 2 % len(choices)]
            answer(page, way, key)
            wanted.append(choices[key])
        assert f"{len(wanted)} by you" in page.evaluate(NUMBERS)
    assert entries(dataset, "Ada L") == wanted


def test_both_videos_play_together_again_and_again(browser, server):
    with visiting(browser, server, "Viewer") as page:
        page.evaluate(
            "(window.seen = [], window.began = 0, "
            "document.querySelector('#left').addEventListener('play', () => began++), "
            f"setInterval(() => seen.push({TIMES}), 30), 0)"
        )
        page.wait_for("began >= 4")  # they have begun anew
        seen = page.evaluate("seen")
        assert (
            page.evaluate("Array.from(document.querySelectorAll('video'), v => [v.videoWidth, v.error])")
            == [[420, None]] * 2
        )
        assert all(len({round(times[side], 2) for times in seen}) > 5 for side in (0, 1))
        inside = [(left, right) for left, right in seen if 0.05 < left < 0.5]
        assert inside
        assert sum(abs(left - right) > 0.15 for left, right in inside) <= len(inside) // 4
        page.press("Space")
        page.wait_for("[...document.querySelectorAll('video')].every(video => video.paused)")
        assert page.evaluate("document.querySelector('#play').textContent").startswith("Play")


def test_the_next_pair_is_there_before_it_is_asked_for(browser, server):
    with visiting(browser, server, "Prefetch") as page:
        page.wait_for("performance.getEntriesByType('resource').filter(e => e.name.includes('/clips/')).length >= 3")
        shown = "Array.from(document.querySelectorAll('video'), video => video.src).join()"
        before = page.evaluate(shown)
        page.press("ArrowLeft")
        page.wait_for(f"{READY} && {shown} !== {before!r}")
        clips = [url for url in page.requests if "/clips/" in url]
        assert len(clips) == len(set(clips))


def test_undo_and_reload(browser, server, dataset):
    with visiting(browser, server, "Grace") as page:
        answer(page, "key", "ArrowLeft")
        answer(page, "key", "ArrowLeft")
        page.press("z")
        page.wait_for(f"{SAVED}.includes('taken back') && {READY}")
        assert entries(dataset, "Grace") == ["first"]
        answer(page, "mouse", "right")
        assert entries(dataset, "Grace") == ["first", "second"]
        page.evaluate("window.old = true, location.reload()")
        page.wait_for(f"!window.old && {READY} && document.querySelector('#name').textContent === 'Grace'")
        assert "2 by you" in page.evaluate(NUMBERS)
        page.click("#undo")  # also what was said before the reload
        page.wait_for(f"{SAVED}.includes('taken back') && {READY}")
        assert entries(dataset, "Grace") == ["first"]
        answer(page, "key", "ArrowDown")
    assert entries(dataset, "Grace") == ["first", "equal"]


def test_two_people_at_once_and_a_name_that_is_a_script(browser, server, dataset):
    script = "<img src=x onerror=alert(1)>"
    shown = "[...document.querySelectorAll('video')].map(video => video.src)"
    with visiting(browser, server, script) as one, visiting(browser, server, "Bob") as other:
        for _ in range(3):
            answer(one, "key", "ArrowLeft")
            answer(other, "key", "ArrowRight")
        assert one.evaluate("document.querySelector('#name').textContent") == script
        assert one.evaluate("document.querySelectorAll('img').length") == 0
        assert one.evaluate(shown) != other.evaluate(shown)
        assert "<img src=x" in one.evaluate("document.querySelector('#text').textContent")
    assert (entries(dataset, script), entries(dataset, "Bob")) == (["first"] * 3, ["second"] * 3)
    connection = sqlite3.connect(dataset.path / "labels.sqlite")
    twice = (
        "SELECT count(*) FROM given a JOIN given b ON a.annotator < b.annotator AND "
        "min(a.left_trajectory, a.right_trajectory) = min(b.left_trajectory, b.right_trajectory) AND "
        "max(a.left_trajectory, a.right_trajectory) = max(b.left_trajectory, b.right_trajectory) AND "
        "a.annotator IN (?1, ?2) AND b.annotator IN (?1, ?2)"
    )
    assert connection.execute(twice, (script, "Bob")).fetchone() == (
        0,
    )  # one segment a trajectory: nobody had another's pair
    connection.close()


def test_another_name(browser, server, dataset):
    with visiting(browser, server, "First") as page:
        answer(page, "key", "ArrowLeft")
        page.click("#rename")
        page.evaluate("document.querySelector('#who-name').value = ''")
        enter(page, "Second")
        page.wait_for("document.querySelector('#name').textContent === 'Second'")
        answer(page, "key", "ArrowRight")
        page.press("Tab")
        assert page.evaluate("document.activeElement.matches('button:focus-visible, summary:focus-visible')")
    assert (entries(dataset, "First"), entries(dataset, "Second")) == (["first"], ["second"])


def test_no_pairs_then_some_then_a_crash_after_a_click(browser, tmp_path, count):
    dataset, clicks = make_dataset(tmp_path / "dataset", count=1), 0
    server = start_labelling(dataset.path, length=12, repeat=0.0, token=TOKEN)
    page = browser.page(600, 560)
    try:
        page.open(server.url)
        page.wait_for("document.querySelector('#who').open")
        enter(page, "Ada")
        page.wait_for("document.querySelector('#message').textContent.includes('no more pairs')")
        dataset.add_trajectories([play(dataset.task(), seed, 12) for seed in range(50, 57)])
        for _ in range(count(1, 6)):
            answer(page, "key", "ArrowLeft")
            page.wait_for(READY)
            page.evaluate("document.querySelector('[data-label=right]').click()")
            server.kill()
            clicks += 2
            page.wait_for(f"!{LOST} || {SAVED}.startsWith('Saved')")
            server = start_labelling(dataset.path, length=12, repeat=0.0, token=TOKEN, port=server.port)
            page.wait_for(f"{LOST} && sessionStorage.getItem('mdcontest.outbox') === '[]'")
        assert f"{clicks} by you" in page.wait_for(f"{NUMBERS}.includes('{clicks} by') && {NUMBERS}")
    finally:
        server.stop()
    assert [said for said in page.console if "net::ERR_" not in said] == []  # but those of the crash
    page.close()
    assert entries(dataset, "Ada") == ["first", "second"] * (clicks // 2)
    assert len(Dataset.open(dataset.path).entries()) == clicks


def test_a_look_that_is_older_than_the_answer_shows_no_pair_again(browser, tmp_path):
    """The answer about the only pair leaves late, and a look that found it still open comes back later still."""
    dataset = make_dataset(tmp_path / "dataset", count=2)
    held = (
        "(window.late = {}, window.plain = window.fetch, window.fetch = async (path, options) => {"
        "  if (path === '/api/answer') await new Promise(go => late.answer = go);"
        "  const reply = await plain(path, options);"
        "  if (path.startsWith('/api/pair') && !late.look) await new Promise(go => late.look = go);"
        "  return reply;"
        "}, 0)"
    )
    with (
        start_labelling(dataset.path, length=12, repeat=0.0, token=TOKEN) as server,
        visiting(browser, server, "Ada") as page,
    ):
        page.evaluate(held)
        page.press("ArrowLeft")
        page.wait_for("Boolean(late.answer && late.look)")  # the page looks every two seconds where it shows no pair
        page.evaluate("(late.answer(), 0)")
        page.wait_for(f"{SAVED}.startsWith('Saved')")
        none = "document.querySelector('#message').textContent.includes('no more pairs')"
        page.wait_for(none)
        page.evaluate("(late.look(), new Promise(done => setTimeout(done, 200)))")
        assert page.evaluate(f"document.querySelector('#answers').hidden && {none}")
    assert entries(dataset, "Ada") == ["first"]


def test_strangers_are_asked_for_the_token(browser, server):
    page = browser.page(800, 600)
    plain = server.url.partition("?")[0]
    page.open(plain)
    page.wait_for("document.querySelector('#token') && document.querySelector('#wrong').hidden")
    page.click("#token")
    for letter in "wrong":
        page.press(letter)
    page.press("Enter")
    page.wait_for("document.querySelector('#wrong') && !document.querySelector('#wrong').hidden")
    assert page.evaluate("location.search") == ""
    page.evaluate(f"document.querySelector('#token').value = {server.token!r}")
    page.click(".main")
    page.wait_for("document.querySelector('#who')?.open")
    assert page.evaluate("location.href") == plain
    assert page.evaluate("document.cookie") == ""  # no script can read it
    assert page.leaves_machine() == []
    page.close()


def test_telephone(browser, server):
    with visiting(browser, server, "Phone", 375, 700, mobile=True) as page:
        assert page.evaluate(OVERFLOW) <= 0
        boxes = page.evaluate(
            "[...document.querySelectorAll('#answers button, video')].map(e => e.getBoundingClientRect())"
            ".map(b => [b.left, b.right, b.bottom, b.height])"
        )
        assert all(0 <= left < right <= 375 and bottom <= 700 for left, right, bottom, _ in boxes)
        assert all(height >= 48 for *_, height in boxes)
        answer(page, "mouse", "left")


def test_names_for_those_who_do_not_see(browser, server):
    with visiting(browser, server, "Reader") as page:
        parts = "[...document.querySelectorAll('button, video, select, progress, input')]"
        assert (
            page.evaluate(f"{parts}.filter(e => !(e.ariaLabel || e.textContent.trim() || e.labels?.length)).length")
            == 0
        )
        assert page.evaluate("document.querySelector('#status').ariaLive") == "polite"
        assert page.evaluate("document.documentElement.lang") == "en"


def test_reduced_motion(browser, server):
    page = browser.page(600, 560)
    page._command("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    page.open(server.url)
    page.wait_for("document.querySelector('#who').open")
    enter(page, "Calm")
    page.wait_for(READY)
    assert page.evaluate("[...document.querySelectorAll('video')].every(video => video.paused)")
    page.evaluate(
        "(window.far = [0, 0], document.querySelectorAll('video').forEach((video, side) => "
        "video.addEventListener('timeupdate', () => far[side] = Math.max(far[side], video.currentTime))), 0)"
    )
    page.press("Space")
    page.wait_for("far.every(time => time > 0.1)")
    page.wait_for("document.querySelector('#play').textContent.startsWith('Play')")  # once, not for ever
    assert page.console == []
    page.close()
