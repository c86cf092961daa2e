"""Stored once, or not at all: keys, undo, group commit, kills, and what a disk can do."""

import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from mdcontest.errors import FileFormatError, InputError, RunError, VersionError
from mdcontest.preferences.labelling.database import Answer, Database
from mdcontest.preferences.labelling.pairs import Given
from mdcontest.preferences.references import Segment


def given(number, annotator="Ada", repeat_of=None):
    left, right = Segment(f"t{number}", 0, 5), Segment("u", number, 5)
    return Given(f"g{number}", annotator, left, right, repeat_of, 1.0 + number, 121.0 + number)


def answer(number, key=None, label="first", at="g"):
    return Answer(f"a{number}", key or f"k{number}", f"{at}{number}", label, 2.0 + number, 0.5, None, 0)


@pytest.fixture
def database(tmp_path):
    made = Database(tmp_path / "labels.sqlite")
    made.give([given(i) for i in range(20)]).result()
    yield made
    made.close()


def test_what_is_stored_comes_back(database, tmp_path):
    database.answer(answer(3, label="equal")).result()
    other = Database(tmp_path / "labels.sqlite")
    kept = other.given(lease=120.0)
    other.close()
    assert [g.id for g in kept] == [f"g{i}" for i in range(20)]
    assert [(g.label, g.answered) for g in kept if g.label] == [("equal", 5.0)]
    assert kept[4] == given(4)


def test_a_key_stores_once(database):
    database.answer(answer(1, key="k")).result()
    with pytest.raises(InputError, match="UNIQUE"):
        database.answer(answer(1, key="k")).result()
    assert database.of_key("k").id == "a1"
    assert len(database.answers()) == 1


def test_a_pair_has_one_answer_in_force(database):
    database.answer(answer(1, key="k")).result()
    with pytest.raises(InputError, match="UNIQUE"):
        database.answer(Answer("other", "other key", "g1", "second", 9.0, None, None, 0)).result()
    assert database.withdraw("g1", 10.0).result() == 1
    assert database.withdraw("g1", 11.0).result() == 0
    database.answer(Answer("other", "other key", "g1", "second", 12.0, None, None, 0)).result()
    assert [(a.id, a.withdrawn) for a in database.answers()] == [("a1", 10.0), ("other", None)]
    assert next(g.label for g in database.given(1.0) if g.id == "g1") == "second"


def test_an_answer_to_nothing_is_refused(database):
    with pytest.raises(InputError, match="FOREIGN KEY"):
        database.answer(answer(99)).result()


def test_answers_that_wait_are_committed_together(tmp_path):
    database = Database(tmp_path / "labels.sqlite")
    database.give([given(i) for i in range(500)]).result()
    blocker = sqlite3.connect(tmp_path / "labels.sqlite", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")  # while somebody else writes, requests pile up
    waiting = [database.answer(answer(i)) for i in range(500)]
    bad = database.answer(answer(7, key="another"))
    before = database.commits
    assert not any(done.done() for done in waiting)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert [done.result() for done in waiting] == [1] * 500
    with pytest.raises(InputError):
        bad.result()  # one that breaks a rule fails alone
    assert database.commits - before <= 2
    assert len(database.answers()) == 500
    database.close()


def test_a_cancelled_request_is_not_stored_and_holds_nobody_up(database, tmp_path):
    """A server that ends cancels the requests that still wait."""
    blocker = sqlite3.connect(tmp_path / "labels.sqlite", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    taken = database.answer(answer(0))
    while not database._waiting.empty():
        time.sleep(0.001)
    cancelled, later = database.answer(answer(1)), database.answer(answer(2))
    assert cancelled.cancel()
    blocker.execute("ROLLBACK")
    blocker.close()
    assert (taken.result(10), later.result(10)) == (1, 1)
    assert [a.id for a in database.answers()] == ["a0", "a2"]
    assert database.answer(answer(1)).result(10) == 1  # whoever was told nothing sends it again


def test_a_request_that_is_being_written_cannot_be_cancelled(database, tmp_path):
    blocker = sqlite3.connect(tmp_path / "labels.sqlite", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    taken = database.answer(answer(0))
    for _ in range(1000):
        if taken.running():
            break
        time.sleep(0.001)
    assert not taken.cancel()
    blocker.execute("ROLLBACK")
    blocker.close()
    assert taken.result(10) == 1


def test_many_threads_at_once(tmp_path, count):
    database, people, each = Database(tmp_path / "labels.sqlite"), 10, count(20, 200)
    database.give([given(i) for i in range(people * each)]).result()

    def work(person):
        for i in range(each):
            number = person * each + i
            for _ in range(2):  # everybody sends everything twice
                try:
                    database.answer(answer(number)).result()
                except InputError:
                    assert database.of_key(f"k{number}") is not None

    threads = [threading.Thread(target=work, args=(person,)) for person in range(people)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(a.id for a in database.answers()) == sorted(f"a{i}" for i in range(people * each))
    database.close()


def test_a_disk_that_fails_fails_all_and_keeps_what_was(database):
    database.answer(answer(0)).result()
    database.submit([("PRAGMA max_page_count = 1", ())]).result()  # SQLite takes the disk to be full from now on
    blob = "x" * 20_000
    with pytest.raises(RunError, match="nothing of this was stored"):
        database.answer(Answer("big", "key", "g1", blob, 1.0, None, None, 0)).result()
    database.submit([("PRAGMA max_page_count = 1000000", ())]).result()
    database.answer(answer(1)).result()
    assert [a.id for a in database.answers()] == ["a0", "a1"]


KILLED = """
import os, sys
from pathlib import Path
from mdcontest.preferences.labelling.database import Answer, Database
from mdcontest.preferences.labelling.pairs import Given
from mdcontest.preferences.references import Segment
database = Database(Path(sys.argv[1]))
s = Segment("t", 0, 5)
database.give([Given(f"g{i}", "Ada", s, s, None, 1.0, 2.0) for i in range(5000)]).result()
for i in range(5000):
    database.answer(Answer(f"a{i}", f"k{i}", f"g{i}", "first", 1.0, None, None, 0)).result()
    os.write(1, f"{i}\\n".encode())
"""


def test_nothing_that_was_acknowledged_is_lost_by_a_kill(tmp_path, count):
    for round in range(count(1, 5)):
        path = tmp_path / f"{round}.sqlite"
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
        said = b""
        while said.count(b"\n") < 20 + 40 * round:
            said += process.stdout.read1(1 << 16)
        process.send_signal(signal.SIGKILL)
        said += process.stdout.read()
        process.wait()
        process.stdout.close()
        acknowledged = said.count(b"\n")
        database = Database(path)
        stored = [a.id for a in database.answers()]
        database.close()
        assert acknowledged <= len(stored) <= acknowledged + 1
        assert stored == [f"a{i}" for i in range(len(stored))]


def test_what_is_no_database(tmp_path):
    (tmp_path / "noise.sqlite").write_bytes(b"this is no database, but long enough to be read as one" * 100)
    with pytest.raises(FileFormatError, match="noise"):
        Database(tmp_path / "noise.sqlite")
    later = sqlite3.connect(tmp_path / "later.sqlite")
    later.execute("PRAGMA user_version = 7")
    later.close()
    with pytest.raises(VersionError, match="version 7"):
        Database(tmp_path / "later.sqlite")
    with pytest.raises(InputError, match="cannot open"):
        Database(tmp_path / "nowhere" / "labels.sqlite")


def test_it_is_durable(database):
    connection = database._connect()
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    connection.close()


def test_what_comes_after_the_end_is_told_so(tmp_path):
    """Nobody would ever answer: a server that ends would wait for it for ever."""
    database = Database(tmp_path / "closed.sqlite")
    database.close()
    with pytest.raises(RunError, match="is closed"):
        database.give([given(1)]).result(timeout=60)
