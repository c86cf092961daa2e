"""People go on after clips were lost, after clips cannot be made any more, and after requests were cancelled."""

import asyncio
import contextlib
import sqlite3

import pytest

from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.labelling import session as module
from mdcontest.preferences.labelling.choice import Choice
from preferences.labelling import sessions
from preferences.labelling.sessions import EmptyStudio, held, make_dataset, play


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    for pause in ("LOOK_EVERY", "LONGEST_PAUSE"):
        monkeypatch.setattr(module, pause, 0.02)
    return make_dataset(tmp_path / "dataset", count=6)


def in_session(dataset, use, **options):
    """With short clips, of which there are many: hardly any two pairs share one."""
    return sessions.in_session(dataset, use, length=5, **options)


async def answer_some(session, count):
    """Answer `count` pairs; what was given."""
    done = []
    for _ in range(count):
        done.append((await held(session, "Ada", seconds=30.0))[0])
        await session.answer("Ada", done[-1].id, "first", done[-1].id, None)
    return done


def test_repetitions_are_filmed_again_where_their_clips_are_gone(dataset):
    in_session(dataset, lambda session: answer_some(session, 8), repeat=0.0)
    done = in_session(dataset, lambda session: answer_some(session, 6), studio=EmptyStudio, repeat=0.9)
    assert sum(given.repeat_of is not None for given in done) >= 2


def test_clips_that_go_while_somebody_labels(dataset):
    async def use(session):
        await answer_some(session, 8)
        await held(session, "Ada")
        session.studio = EmptyStudio(dataset.path)
        assert await session.hold("Ada") == []
        assert "being filmed" in session.nothing_left()
        return await answer_some(session, 6)

    assert any(given.repeat_of is not None for given in in_session(dataset, use, repeat=0.9))


def test_who_holds_pairs_that_cannot_be_filmed_any_more_gets_others(dataset):
    """The simulator was upgraded: trajectories recorded before look different, and the cache was emptied."""
    in_session(dataset, lambda session: answer_some(session, 8), repeat=0.9)
    old = set(dataset.index())
    dataset.add_trajectories([play(dataset.task(), seed, 12) for seed in range(50, 56)])

    async def use(session):
        done = await answer_some(session, 12)
        assert "cannot be filmed" in session.problem
        return done

    done = in_session(dataset, use, fails=old, studio=EmptyStudio, repeat=0.9)
    assert not old & {side.trajectory for given in done for side in (given.left, given.right)}


def test_many_that_cannot_be_filmed_are_dropped_without_a_pause(dataset, monkeypatch):
    """What an earlier session gave and could not film comes up again at every start: nobody waits for each in turn."""
    monkeypatch.setattr(module, "LONGEST_PAUSE", 1000.0)

    async def take(session):
        return [await held(session, f"person {number}") for number in range(7)]

    in_session(dataset, take, repeat=0.0)
    old = set(dataset.index())
    dataset.add_trajectories([play(dataset.task(), seed, 12) for seed in range(50, 56)])

    def is_old(key):
        return any(place[0] in old for place in key)

    draw = Choice.draw
    monkeypatch.setattr(
        Choice, "draw", lambda self, count, known: draw(self, count, lambda key: known(key) or is_old(key))
    )
    in_session(dataset, lambda session: answer_some(session, 2), fails=old, studio=EmptyStudio, repeat=0.0)


def test_cancelled_requests_change_nothing_and_can_be_made_again(dataset):
    async def use(session):
        mine = (await held(session, "Ada"))[0]
        with _busy(session.database.path):
            first = session.database.withdraw("nobody's", 0.0)
            while not session.database._waiting.empty():
                await asyncio.sleep(0.001)
            requests = [session.answer("Ada", mine.id, "first", "key", None), session.hold("Bob")]
            tasks = [asyncio.create_task(request) for request in requests]
            await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        async with asyncio.timeout(10):
            await asyncio.wrap_future(first)
            theirs = (await held(session, "Bob"))[0]
            assert session.database.answers() == []
            await session.answer("Bob", theirs.id, "second", "his key", None)
            await session.answer("Ada", mine.id, "first", "key", None)

    in_session(dataset, use)
    assert {entry.label for entry in Dataset.open(dataset.path).entries()} == {"first", "second"}


def test_an_answer_whose_request_was_cancelled_while_it_was_stored_counts_once(dataset):
    """It is in the database by then: sent again it is found there, and the pair is not asked about again."""

    async def use(session):
        mine = (await held(session, "Ada"))[0]
        with _busy(session.database.path):
            task = asyncio.create_task(session.answer("Ada", mine.id, "first", "key", None))
            await asyncio.sleep(0)
            while not session.database._waiting.empty():
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)  # the writer has it in hand and waits for the other process
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        async with asyncio.timeout(10):
            while not session.database.answers():
                await asyncio.sleep(0.001)
            for _ in range(2):
                assert (await session.answer("Ada", mine.id, "first", "key", None)).label == "first"
            assert session.progress("Ada")["answered"] == 1
            assert mine.id not in {given.id for given in await held(session, "Ada")}

    in_session(dataset, use)
    assert [entry.label for entry in Dataset.open(dataset.path).entries()] == ["first"]


@contextlib.contextmanager
def _busy(path):
    """Within, another process writes to the database: requests wait."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        yield
        blocker.execute("ROLLBACK")
