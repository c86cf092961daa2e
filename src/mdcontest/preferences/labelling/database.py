"""What was given and answered, in one SQLite file: an answer counts once it is committed, and is never lost after that.

    given     one row a pair that was put into somebody's hands
    answers   one row an answer; at most one of a giving is in force, the others were taken back

One thread writes. It takes everything that waits and commits it together, so fifty people at once cost hardly more disk
time than one. `key` is made by whoever answers: sending the same answer again finds the row and adds nothing.
"""

from __future__ import annotations

import contextlib
import json
import queue
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdcontest.errors import FileFormatError, InputError, RunError, VersionError
from mdcontest.preferences.labelling.pairs import Given
from mdcontest.preferences.references import Segment

FILE = "labels.sqlite"
VERSION = 1
NEW, SENDING, SENT, RETRACTED = 0, 1, 2, 3
"""How far an answer is on its way into the dataset; SENDING is noted before, so that a crash in between is seen."""
TABLES = """
CREATE TABLE given (
    id TEXT PRIMARY KEY, annotator TEXT NOT NULL, repeat_of TEXT, time REAL NOT NULL,
    left_trajectory TEXT NOT NULL, left_start INTEGER NOT NULL, left_length INTEGER NOT NULL,
    right_trajectory TEXT NOT NULL, right_start INTEGER NOT NULL, right_length INTEGER NOT NULL
) STRICT;
CREATE TABLE answers (
    id TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, given TEXT NOT NULL REFERENCES given (id), label TEXT NOT NULL,
    time REAL NOT NULL, seconds REAL, withdrawn REAL, sent INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX in_force ON answers (given) WHERE withdrawn IS NULL;
"""
Statement = tuple[str, Sequence[Any]]


@dataclass(frozen=True)
class Answer:
    """An answer as it is stored."""

    id: str
    key: str
    given: str
    label: str
    time: float
    seconds: float | None
    """How long the person took."""
    withdrawn: float | None
    sent: int


class Database:
    """The file of one dataset; a second process that writes to it waits for its turn."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reading = self._connect(first=True)
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[tuple[list[Statement], Future[int]] | None] = queue.SimpleQueue()
        self.commits = 0
        """How many transactions there were."""
        self._writer = threading.Thread(target=self._write, name="labels", daemon=True)
        self._writer.start()

    def _connect(self, first: bool = False) -> sqlite3.Connection:
        connection = None
        try:
            connection = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            if first:
                self._prepare(connection)
            return connection
        except (sqlite3.Error, VersionError) as error:
            if connection is not None:
                connection.close()
            if isinstance(error, VersionError):
                raise
            if isinstance(error, sqlite3.OperationalError):  # the place rather than the file
                raise InputError(f"cannot open {self.path}: {error}") from None
            raise FileFormatError(f"{self.path} is corrupt or no database of labels: {error}") from None

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")  # two servers that start at once do not both make the tables
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            for statement in TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
        if version not in (0, VERSION):
            raise VersionError(f"{self.path} has version {version}, this program reads version {VERSION}")

    def close(self) -> None:
        """Write what waits, and close."""
        self._waiting.put(None)
        self._writer.join()
        self._reading.close()

    # --- writing ------------------------------------------------------------------------------------------------

    def submit(self, statements: list[Statement]) -> Future[int]:
        """Done when the statements are committed, all or none; holds the number of rows that changed."""
        done: Future[int] = Future()
        if not self._writer.is_alive():
            done.set_exception(RunError(f"{self.path} is closed"))
            return done
        self._waiting.put((statements, done))
        return done

    def _write(self) -> None:
        connection = self._connect()
        try:
            while (first := self._waiting.get()) is not None:
                batch, last = [first], False
                with contextlib.suppress(queue.Empty):
                    while (more := self._waiting.get_nowait()) is not None:
                        batch.append(more)
                    last = True
                # A request cancelled while it waited is left out: nobody is told of it, and who sends it again finds
                # nothing stored. The others cannot be cancelled any more, so that each of them takes its outcome.
                if wanted := [request for request in batch if request[1].set_running_or_notify_cancel()]:
                    self._commit(connection, wanted)
                if last:
                    return
        finally:
            connection.close()

    def _commit(self, connection: sqlite3.Connection, batch: list[tuple[list[Statement], Future[int]]]) -> None:
        """One transaction for all; a request that breaks a rule fails alone, a disk that fails fails all of them."""
        outcomes: list[tuple[Future[int], int | Exception]] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            for statements, done in batch:
                outcomes.append((done, self._one(connection, statements)))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            failure = RunError(f"cannot write {self.path}: {error}; nothing of this was stored, try again")
            outcomes = [(done, failure) for _, done in batch]
        self.commits += 1
        for done, outcome in outcomes:
            if isinstance(outcome, Exception):
                done.set_exception(outcome)
            else:
                done.set_result(outcome)

    def _one(self, connection: sqlite3.Connection, statements: list[Statement]) -> int | Exception:
        connection.execute("SAVEPOINT one")
        try:
            changed = sum(connection.execute(text, values).rowcount for text, values in statements)
        except sqlite3.IntegrityError as error:
            connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")
            return _refusal(error)
        connection.execute("RELEASE one")
        return changed

    def give(self, given: Iterable[Given]) -> Future[int]:
        """Keep what was put into somebody's hands."""
        insert = "INSERT INTO given VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        return self.submit(
            [
                (
                    insert,
                    (
                        *(g.id, g.annotator, g.repeat_of, g.time),
                        *(g.left.trajectory, g.left.start, g.left.length),
                        *(g.right.trajectory, g.right.start, g.right.length),
                    ),
                )
                for g in given
            ]
        )

    def answer(self, answer: Answer) -> Future[int]:
        """Keep an answer; fails where its key is used or its pair is answered."""
        values = (answer.id, answer.key, answer.given, answer.label, answer.time, answer.seconds)
        return self.submit(
            [("INSERT INTO answers (id, key, given, label, time, seconds) VALUES (?, ?, ?, ?, ?, ?)", values)]
        )

    def withdraw(self, given: str, time: float) -> Future[int]:
        """Take the answer in force about this giving back; changes no row where there is none."""
        return self.submit([("UPDATE answers SET withdrawn = ? WHERE given = ? AND withdrawn IS NULL", (time, given))])

    def mark(self, ids: Iterable[str], sent: int) -> Future[int]:
        """Note how far these answers are on their way into the dataset."""
        update = "UPDATE answers SET sent = ? WHERE id IN (SELECT value FROM json_each(?))"
        return self.submit([(update, (sent, json.dumps(list(ids))))])

    # --- reading ------------------------------------------------------------------------------------------------

    def given(self, lease: float) -> list[Given]:
        """Everything that was put into somebody's hands, with the answers in force, in the order of giving."""
        rows = self._read(
            "SELECT g.*, a.label, a.time FROM given g LEFT JOIN answers a ON a.given = g.id AND a.withdrawn IS NULL "
            "ORDER BY g.rowid"
        )
        return [
            Given(row[0], row[1], Segment(*row[4:7]), Segment(*row[7:10]), row[2], row[3], row[3] + lease, *_said(row))
            for row in rows
        ]

    def of_key(self, key: str) -> Answer | None:
        """The answer with this key, in force or not."""
        rows = self._read("SELECT * FROM answers WHERE key = ?", (key,))
        return Answer(*rows[0]) if rows else None

    def answers(self, *, unsent: bool = False) -> list[Answer]:
        """All answers, or those that the dataset does not know as they are."""
        change = (
            f"WHERE (withdrawn IS NULL AND sent < {SENT}) OR (withdrawn IS NOT NULL AND sent IN ({SENDING}, {SENT}))"
        )
        rows = self._read(f"SELECT * FROM answers {change if unsent else ''} ORDER BY rowid")
        return [Answer(*row) for row in rows]

    def _read(self, text: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            with self._lock:
                return self._reading.execute(text, values).fetchall()
        except sqlite3.Error as error:
            raise FileFormatError(f"{self.path} cannot be read, or is damaged: {error}") from None


def _said(row: Any) -> tuple[str | None, float]:
    return row[10], row[11] or 0.0


def _refusal(error: sqlite3.IntegrityError) -> InputError:
    refused = InputError(f"refused by the database: {error}")
    refused.__cause__ = error  # tells a rule that was broken from a disk that failed
    return refused
