"""Who is asked about which pair: every pair goes to as many people as wanted, never to more at a time.

A pair is *given* to a person for a while, its lease. Who comes back within it gets the same pair again, after a reload
for example; when it has run out the pair goes to others. Now and then a person is asked about an earlier pair again
with its sides swapped: how often the answers agree is the person's consistency. Nothing here waits or writes; the
database keeps what was given and answered, and `restore` brings a queue to where another has been.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from mdcontest.errors import InputError
from mdcontest.preferences.labelling.pairs import Given, Key, Pair
from mdcontest.preferences.labels import EQUAL, FIRST, INCOMPARABLE, SECOND
from mdcontest.preferences.references import Segment

LEASE = 120.0
"""Seconds for which a pair is a person's own without a sign of life."""
HOLD = 2
"""Pairs a person has at a time: the one that is looked at, and the next one, which is being loaded."""
REPEAT_AFTER = 5
"""Answers of the same person between a pair and its repetition, at least."""
SWAPPED = {FIRST: SECOND, SECOND: FIRST, EQUAL: EQUAL, INCOMPARABLE: INCOMPARABLE}


@dataclass
class _Offer:
    """A pair and who has had it."""

    pair: Pair
    given: list[Given] = field(default_factory=list)

    def taken(self, now: float) -> int:
        """Places that are filled: answers, and leases that run."""
        return sum(given.label is not None or given.runs(now) for given in self.given)

    def answered(self) -> int:
        """Places that are filled for good."""
        return sum(given.label is not None for given in self.given)


@dataclass
class _Person:
    """What one person has in hand, has answered, and was asked again."""

    open: list[Given] = field(default_factory=list)
    done: list[Given] = field(default_factory=list)
    """In the order of the answers."""
    again: set[str] = field(default_factory=set)
    """Ids of the givings that have a repetition, or can have none."""
    looked: int = 0
    """Answers before this one need no repetition any more."""
    next_again: bool | None = None
    """Whether the next question is to be a repetition; None until it is drawn, once a question and not once a look."""

    def to_repeat(self) -> Given | None:
        """The oldest pair that was answered long enough ago and not asked again."""
        while self.looked < len(self.done) - REPEAT_AFTER:
            given = self.done[self.looked]
            if given.repeat_of is None and given.id not in self.again:
                return given
            self.looked += 1
        return None


class Queue:
    """The pairs of a labelling session; times are seconds, and the caller's."""

    def __init__(
        self,
        *,
        overlap: int = 1,
        repeat: float = 0.1,
        goal: int | None = None,
        lease: float = LEASE,
        length: int | None = None,
        seed: int = 0,
    ) -> None:
        if overlap < 1:
            raise InputError(f"overlap is the number of people asked about a pair, at least 1, got {overlap}")
        if not 0 <= repeat < 1:
            raise InputError(f"repeat is the share of pairs that are asked again, from 0 to below 1, got {repeat}")
        if goal is not None and goal < 1:
            raise InputError(f"the goal must be at least one pair, got {goal}")
        self.overlap, self.repeat, self.goal, self.lease, self._length = overlap, repeat, goal, lease, length
        self._rng = np.random.default_rng(seed)
        self._offers: dict[Key, _Offer] = {}
        self._wanting: dict[Key, _Offer] = {}  # those with places left, the most wanted first
        self._given: dict[str, Given] = {}
        self._people: dict[str, _Person] = {}
        self._answers = 0

    # --- pairs ------------------------------------------------------------------------------------------------

    def knows(self, key: Key) -> bool:
        """Whether the pair has been offered before."""
        return key in self._offers

    def offer(self, pair: Pair) -> bool:
        """Add a pair whose clips are there; False for one that is known."""
        if self.knows(pair.key):
            return False
        self._offers[pair.key] = self._wanting[pair.key] = _Offer(pair)
        return True

    def drop(self, pair: Pair) -> None:
        """Never give this pair, e.g. because its clips cannot be made; who has it in hand gets another instead."""
        self._wanting.pop(pair.key, None)
        for given in self._offers.setdefault(pair.key, _Offer(pair)).given:
            self._person(given.annotator).again.add(given.id)
        for person in self._people.values():
            for given in person.open:
                given.lapsed = given.lapsed or given.pair.key == pair.key

    def free(self, now: float) -> int:
        """Pairs that could be given to somebody new."""
        return sum(offer.taken(now) < self.overlap for offer in self._wanting.values())

    # --- people -----------------------------------------------------------------------------------------------

    def hold(self, annotator: str, now: float) -> tuple[list[Given], list[Given]]:
        """The pairs this person has in hand, the one to look at first; and those of them that are new."""
        for other in self._people.values():
            for held_by_other in other.open:  # the clock may have been set back: nobody waits for longer than a lease
                held_by_other.expires = min(held_by_other.expires, now + self.lease)
        person = self._person(annotator)
        person.open = held = [given for given in person.open if self._keep(given, now)]
        fresh: list[Given] = []
        while len(held) < HOLD and (given := self._next(annotator, now)) is not None:
            self._enter(given)
            fresh.append(given)
        return held[:HOLD], fresh

    def _person(self, annotator: str) -> _Person:
        return self._people.setdefault(annotator, _Person())

    def _keep(self, given: Given, now: float) -> bool:
        """Extend a lease, also one that ran out as long as nobody else has the place."""
        if given.lapsed or (given.repeat_of is not None and self.reached):
            return False
        if given.expires <= now and given.repeat_of is None:
            given.lapsed = self._offers[given.pair.key].taken(now) >= self.overlap
            if given.lapsed:
                return False
        given.expires = now + self.lease
        return True

    def _next(self, annotator: str, now: float) -> Given | None:
        if self.goal is not None and self._answers + self._under_way(now) >= self.goal:
            return None
        person = self._person(annotator)
        if person.next_again is None:
            person.next_again = bool(self._rng.random() < self.repeat)
        if person.next_again and (earlier := person.to_repeat()) is not None:
            return self._make(annotator, earlier.right, earlier.left, earlier.id, now)
        for offer in self._wanting.values():
            if offer.taken(now) < self.overlap and all(given.annotator != annotator for given in offer.given):
                sides = [offer.pair.one, offer.pair.other]
                if self._rng.random() < 0.5:
                    sides.reverse()
                return self._make(annotator, sides[0], sides[1], None, now)
        return None

    def _make(self, annotator: str, left: Segment, right: Segment, repeat_of: str | None, now: float) -> Given:
        name = hashlib.sha256(f"{self._rng.bytes(16).hex()} {now} {annotator}".encode()).hexdigest()[:24]
        return Given(name, annotator, left, right, repeat_of, now, now + self.lease)

    def _under_way(self, now: float) -> int:
        open = (given for person in self._people.values() for given in person.open)
        return sum(given.runs(now) for given in open if given.repeat_of is None)

    def _enter(self, given: Given) -> None:
        self._given[given.id] = given
        person = self._person(given.annotator)
        person.next_again = None
        person.open.append(given)
        if given.repeat_of is None:
            self._offers.setdefault(given.pair.key, _Offer(given.pair)).given.append(given)
        else:
            person.again.add(given.repeat_of)

    def release(self, given: Given) -> None:
        """Take back what could not be handed out."""
        person = self._person(given.annotator)
        self._given.pop(given.id)
        person.open = [other for other in person.open if other is not given]  # a dropped pair has left it already
        person.next_again = given.repeat_of is not None
        if given.repeat_of is None:
            self._offers[given.pair.key].given.remove(given)
        else:
            person.again.discard(given.repeat_of)
            person.looked = 0

    def find(self, id: str) -> Given | None:
        """What was given under this id."""
        return self._given.get(id)

    # --- answers ----------------------------------------------------------------------------------------------

    def answer(self, given: Given, label: str, now: float) -> None:
        """Note an answer. One that comes after its lease counts too: nobody's work is thrown away."""
        given.label, given.answered = label, now
        person = self._person(given.annotator)
        person.open = [other for other in person.open if other is not given]
        person.done.append(given)
        if given.repeat_of is None:
            self._answers += 1
            if self._offers[given.pair.key].answered() >= self.overlap:
                self._wanting.pop(given.pair.key, None)

    def undo(self, given: Given, now: float) -> None:
        """Take an answer back; the pair is in the same hands again, before all others."""
        given.label, given.lapsed, given.expires = None, False, now + self.lease
        person = self._person(given.annotator)
        person.done.remove(given)
        person.open.insert(0, given)
        person.looked = 0
        if given.repeat_of is None:
            self._answers -= 1
            offer = self._offers[given.pair.key]
            if offer.answered() < self.overlap:
                self._want(given.pair)

    def restore(self, given: Iterable[Given]) -> None:
        """Take over what a database has kept; pairs with places left are wanted again."""
        answered: list[tuple[Given, str]] = []
        for one in given:
            if one.label is not None:
                answered.append((one, one.label))
                one.label = None
            self._enter(one)
            if one.repeat_of is None:
                self._want(one.pair)
        for one, label in sorted(answered, key=lambda entry: entry[0].answered):
            self.answer(one, label, one.answered)

    def _want(self, pair: Pair) -> None:
        """Give it to others too; one of another length, of before a restart, is only for those who have it in hand."""
        if self._length in (None, pair.one.length):
            self._wanting[pair.key] = self._offers[pair.key]

    # --- numbers ----------------------------------------------------------------------------------------------

    @property
    def answers(self) -> int:
        """Pairs answered by everybody together, repetitions not counted."""
        return self._answers

    @property
    def reached(self) -> bool:
        """Whether there are as many answers as were wanted."""
        return self.goal is not None and self._answers >= self.goal

    def people(self, now: float) -> int:
        """How many people have a pair in hand."""
        return sum(any(given.runs(now) for given in person.open) for person in self._people.values())

    def needed(self, now: float) -> list[Pair]:
        """Pairs whose clips must be there: first those in hand, repetitions too, then those with places left."""
        in_hand = [given.pair for person in self._people.values() for given in person.open if given.runs(now)]
        free = [offer.pair for offer in self._wanting.values()]
        return list({pair.key: pair for pair in [*in_hand, *free]}.values())

    def progress(self, annotator: str) -> dict[str, int | str | None]:
        """A person's numbers: pairs answered, repetitions, how many of these agree, and the last giving answered."""
        done = self._people.get(annotator, _Person()).done
        repeated = [(given, self._given[given.repeat_of]) for given in done if given.repeat_of is not None]
        both = [(again, first) for again, first in repeated if first.label is not None]
        agreed = sum(SWAPPED[str(again.label)] == first.label for again, first in both)
        last = done[-1].id if done else None
        return {"answered": len(done) - len(repeated), "repeated": len(both), "agreed": agreed, "last": last}
