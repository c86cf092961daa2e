"""A labelling session: pairs are chosen and filmed ahead, given to people, answered, and sent on into the dataset.

Decisions are made in memory on the server's event loop, so no two requests see the same free pair. What must outlive
the process is committed to the database before anybody is told of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sqlite3
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdcontest.errors import InputError, RunError
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.labelling.choice import Choice
from mdcontest.preferences.labelling.database import FILE, Answer, Database
from mdcontest.preferences.labelling.pairs import Given, Key, Pair, Place
from mdcontest.preferences.labelling.queue import LEASE, Queue
from mdcontest.preferences.labelling.sending import LostError, send
from mdcontest.preferences.labelling.studio import ClipError, Studio
from mdcontest.preferences.references import Segment

SEND_EVERY = 10.0
"""Seconds between two looks for answers that the dataset does not have."""
AHEAD, AHEAD_EACH = 6, 4
"""Pairs that lie filmed and free: at least, and for each person."""
LOOK_EVERY = 1.0
"""Seconds between two looks for new trajectories where there are no more pairs."""
LONGEST_PAUSE = 30.0
"""Seconds between two attempts where one clip after the other cannot be made."""


@dataclass(frozen=True)
class LabelOptions:
    """How a session asks."""

    length: int = 50
    """Steps of a clip."""
    goal: int | None = None
    """Answers wanted, of everybody together."""
    repeat: float = 0.1
    """Share of the pairs that a person is asked again."""
    overlap: int = 1
    """People asked about a pair."""
    margin: Path | None = None
    """A fitted margin whose disagreement chooses the pairs."""
    instructions: str = ""
    """What people are told, in plain text."""
    seed: int = 0
    lease: float = LEASE


class UnknownPairError(InputError):
    """No such pair was given."""


class ConflictError(InputError):
    """The pair is answered, was given to another person, or the key stands for another answer."""


class Session:
    """Everything behind the page; its coroutines belong to one event loop."""

    def __init__(self, dataset: Dataset, options: LabelOptions, clock: Callable[[], float] = time.time) -> None:
        self.dataset, self.options, self._clock = dataset, options, clock
        self.database = Database(Path(dataset.path) / FILE)
        kept = self.database.given(options.lease)
        seed = options.seed + len(kept)  # a session that goes on draws others than it did before
        self.queue = Queue(
            overlap=options.overlap,
            repeat=options.repeat,
            goal=options.goal,
            lease=options.lease,
            length=options.length,
            seed=seed,
        )
        self.queue.restore(kept)
        self.choice = Choice(dataset, options.length, options.margin, seed)
        self.studio = Studio(Path(dataset.path))
        self.problem: str | None = None
        """What went wrong last, in words for the page."""
        self._failed: dict[Place, str] = {}
        self._in_a_row = 0
        self._wanted = asyncio.Event()
        self._exhausted = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Send what an earlier process left, and begin to choose and to film."""
        try:
            await self._send()
        except LostError as error:  # a part of the dataset is gone; the rest can be labelled
            self._complain(str(error))
        self._tasks = [asyncio.create_task(self._for_ever(step)) for step in (self._refill, self._send_later)]

    async def stop(self) -> None:
        """End everything; every answer is in the dataset afterwards."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.studio.stop()
        try:
            await self._send()
        except LostError:
            raise
        except InputError as error:
            raise RunError(f"{error}; the answers are in {self.database.path}, the next start sends them") from None
        finally:
            self.database.close()

    # --- what people do -----------------------------------------------------------------------------------------

    async def hold(self, annotator: str) -> list[Given]:
        """The pairs this person is to look at: the present one and the next; fewer where there are no more."""
        held, fresh = self.queue.hold(annotator, self._clock())
        if fresh:
            self._wanted.set()
            try:
                await asyncio.wrap_future(self.database.give(fresh))
            except (InputError, asyncio.CancelledError):  # they may not be stored, and nobody was told of them
                for given in fresh:
                    self.queue.release(given)
                raise
        return [given for given in held if self._is_filmed(given.pair)]

    async def answer(self, annotator: str, id: str, label: str, key: str, seconds: float | None) -> Answer:
        """Store an answer; the same key again finds what is stored."""
        given = self._given(annotator, id)
        now = self._clock()
        name = hashlib.sha256(f"{id} {key}".encode()).hexdigest()[:16]
        made = Answer(name, key, id, label, now, seconds, None, 0)
        try:
            await asyncio.wrap_future(self.database.answer(made))
        except InputError as error:
            if not isinstance(error.__cause__, sqlite3.IntegrityError):
                raise
            stored = self.database.of_key(key)
            if stored is None:
                raise ConflictError("this pair is answered already; undo the answer to change it") from None
            if (stored.given, stored.label) != (id, label):
                raise ConflictError("this key was used for another answer; make a new one for each") from None
            made = stored
        # Also one found stored: the request that stored it may have been cancelled before it came to this.
        if made.withdrawn is None and given.label is None:
            self.queue.answer(given, label, made.time)
        return made

    async def undo(self, annotator: str, id: str) -> bool:
        """Take the answer about this pair back; False where there is none."""
        given = self._given(annotator, id)
        changed = await asyncio.wrap_future(self.database.withdraw(id, self._clock()))
        if changed and given.label is not None:
            self.queue.undo(given, self._clock())
        return bool(changed)

    def _given(self, annotator: str, id: str) -> Given:
        given = self.queue.find(id)
        if given is None:
            raise UnknownPairError(f"there is no pair {id[:40]!r}; GET /api/pair gives one")
        if given.annotator != annotator:
            raise ConflictError("this pair was given to somebody else; GET /api/pair gives one of your own")
        return given

    def progress(self, annotator: str | None) -> dict[str, Any]:
        """Numbers for the page."""
        mine = {} if annotator is None else self.queue.progress(annotator)
        return {"total": self.queue.answers, "goal": self.queue.goal, **mine}

    def nothing_left(self) -> str:
        """Why there is no pair to look at, in words for the page."""
        if self.queue.reached:
            return "All comparisons that were wanted are there. Thank you!"
        now = self._clock()
        lost = not all(map(self._is_filmed, self.queue.needed(now)))
        if self.queue.free(now) and not lost:
            return "There are pairs, but none that you have not seen. Others may add more; this page looks for them."
        if lost or (self.choice.places >= 2 and self._wanted.is_set() and not self._exhausted):
            return "The next clips are being filmed."
        left_out = f" {self.choice.left_out}." if self.choice.left_out else ""
        return f"There are no more pairs at the moment.{left_out} This page looks for new ones by itself."

    # --- what goes on meanwhile -----------------------------------------------------------------------------------

    async def _for_ever(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await step()
            except Exception as error:  # whatever fails here, answers are still taken; the page and the log say so
                self._complain(f"{error if isinstance(error, InputError) else repr(error)}")
                await asyncio.sleep(LOOK_EVERY)

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            print(f"mdcontest: note: {problem}", file=sys.stderr, flush=True)
        self.problem = problem

    async def _refill(self) -> None:
        """Film what people have in hand and is not there, then new pairs until enough lie ready."""
        self._wanted.clear()
        for pair in self.queue.needed(self._clock()):
            if not self._is_filmed(pair):
                await self._film(pair)
        now = self._clock()
        wanted, free = max(AHEAD, AHEAD_EACH * self.queue.people(now)), self.queue.free(now)
        drawn: list[Pair] = []
        if free < wanted and not self.queue.reached:
            self._wanted.set()
            drawn = await asyncio.to_thread(self.choice.draw, 2 * wanted - free, self._is_known)
            self._exhausted = not drawn
            for pair in drawn:
                await self._offer(pair)
            self._wanted.clear()
        if not drawn:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), LOOK_EVERY)

    def _is_known(self, key: Key) -> bool:
        return self.queue.knows(key) or any(place in self._failed for place in key)

    def _is_filmed(self, pair: Pair) -> bool:
        return self.studio.has(pair.one) and self.studio.has(pair.other)

    async def _offer(self, pair: Pair) -> None:
        """Add a new pair; the more in a row cannot be filmed the longer the pause, for new ones hardly ever run out."""
        if await self._film(pair):
            self._in_a_row = 0
            self.queue.offer(pair)
        else:
            self._in_a_row += 1
            await asyncio.sleep(min(LONGEST_PAUSE, 0.01 * 2.0 ** min(self._in_a_row, 50)))

    async def _film(self, pair: Pair) -> bool:
        """Whether both clips are there; a pair without is never given, and the reason is shown."""
        try:
            for side in (pair.one, pair.other):
                await self._film_one(side)
        except ClipError as error:
            self.queue.drop(pair)
            self._complain(f"a pair was left out: {error}")
            return False
        return True

    async def _film_one(self, segment: Segment) -> None:
        place = (segment.trajectory, segment.start, segment.length)
        if place in self._failed:
            raise ClipError(self._failed[place])
        try:
            await self.studio.film(segment)
        except ClipError as error:
            self._failed[place] = str(error)
            raise

    async def _send_later(self) -> None:
        await asyncio.sleep(SEND_EVERY)
        await self._send()

    async def _send(self) -> None:
        await asyncio.to_thread(send, self.database, self.dataset, self.queue.find, self._clock())
