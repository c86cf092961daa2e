"""Sessions: pairs are given, answered, undone, sent into the dataset; what fails is said; what dies is made up for."""

import asyncio
import contextlib
import time

import pytest

from mdcontest.errors import InputError, RunError
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.labelling import session as module
from mdcontest.preferences.labelling.database import NEW, SENDING, Database
from mdcontest.preferences.labelling.sending import send
from mdcontest.preferences.labelling.session import ConflictError, UnknownPairError
from preferences.labelling.sessions import held, in_session, play


def test_answers_end_up_in_the_dataset(dataset):
    async def use(session):
        said = []
        for i, label in enumerate(("first", "second", "equal", "incomparable")):
            given = (await held(session, "Ada"))[0]
            await session.answer("Ada", given.id, label, f"key {i}", 1.5)
            said.append((given.left, given.right, label))
        return said

    said = in_session(dataset, use)
    entries = Dataset.open(dataset.path).entries()
    assert [(entry.first, entry.second, entry.label) for entry in entries] == said
    assert {(entry.annotator, entry.source) for entry in entries} == {("Ada", "page")}
    assert all(abs(entry.time - time.time()) < 600 for entry in entries)
    assert in_session(dataset, lambda session: asyncio.sleep(0, session.queue.answers)) == 4
    assert len(Dataset.open(dataset.path).entries()) == 4  # nothing is sent twice


def test_the_same_key_stores_once_and_another_answer_is_refused(dataset):
    async def use(session):
        one, other = await held(session, "Ada")
        tries = [session.answer("Ada", one.id, "first", "key", None) for _ in range(5)]
        ids = {answer.id for answer in await asyncio.gather(*tries)}
        assert len(ids) == 1
        with pytest.raises(ConflictError, match="answered already"):
            await session.answer("Ada", one.id, "second", "new key", None)
        with pytest.raises(ConflictError, match="key was used"):
            await session.answer("Ada", other.id, "first", "key", None)
        with pytest.raises(ConflictError, match="somebody else"):
            await session.answer("Bob", other.id, "first", "his key", None)
        with pytest.raises(UnknownPairError):
            await session.answer("Ada", "no such pair", "first", "k", None)
        return session.progress("Ada")["answered"]

    assert in_session(dataset, use) == 1
    assert len(Dataset.open(dataset.path).entries()) == 1


def test_undo_before_and_after_an_answer_was_sent(dataset):
    async def use(session):
        first, second = await held(session, "Ada")
        await session.answer("Ada", first.id, "first", "k1", None)
        await session._send()
        await session.answer("Ada", second.id, "first", "k2", None)
        assert await session.undo("Ada", first.id)
        assert await session.undo("Ada", second.id)
        assert not await session.undo("Ada", second.id)  # a repeated request finds nothing left to do
        assert (await held(session, "Ada"))[0].id == second.id
        await session.answer("Ada", second.id, "second", "k3", None)
        return second

    second = in_session(dataset, use)
    (entry,) = Dataset.open(dataset.path).entries()
    assert (entry.first, entry.label) == (second.left, "second")


def test_a_process_that_died_while_it_sent(dataset):
    """Answers that reached the dataset, or did not, with the note of it missing; one of each is then taken back."""

    async def use(session):
        ids = []
        for i in range(4):
            given = (await held(session, "Ada"))[0]
            ids.append((given.id, (await session.answer("Ada", given.id, "first", f"k{i}", None)).id))
        answers = session.database.answers()
        half = [answer for answer in answers if answer.id in (ids[0][1], ids[1][1])]
        database = session.database
        send(_only(database, half), dataset, session.queue.find, 0.0)  # two are there
        database.mark([answer_id for _, answer_id in ids], SENDING).result()  # and all were being sent
        for number in (0, 2):
            await session.undo("Ada", ids[number][0])
        return {ids[1][1], ids[3][1]}

    wanted = in_session(dataset, use)
    assert {entry.id for entry in Dataset.open(dataset.path).entries()} == wanted


def _only(database, answers):
    class Some:
        mark = database.mark

        def answers(self, unsent):
            return answers

    return Some()


def test_a_dataset_that_cannot_be_written_loses_nothing(dataset, monkeypatch):
    async def use(session):
        given = (await held(session, "Ada"))[0]
        await session.answer("Ada", given.id, "first", "k", None)
        with monkeypatch.context() as patch:
            patch.setattr(dataset, "add_comparisons", _full)
            with pytest.raises(RunError):
                await session._send()
        assert Dataset.open(dataset.path).entries() == []

    in_session(dataset, use)
    assert len(Dataset.open(dataset.path).entries()) == 1


def test_answers_about_lost_trajectories_wait_and_hold_nothing_up(dataset):
    """The server starts, the others are sent, and those are sent when their trajectories are there again."""

    async def answer(session):
        for number, given in enumerate(await held(session, "Ada")):
            await session.answer("Ada", given.id, "first", f"k{number}", None)

    in_session(dataset, answer)
    for part in (dataset.path / "comparisons").iterdir():
        part.unlink()
    with contextlib.closing(Database(dataset.path / "labels.sqlite")) as database:
        database.mark([answer.id for answer in database.answers()], NEW).result()
    (part,) = (dataset.path / "trajectories").iterdir()
    one = Dataset.open(dataset.path).trajectories(list(dataset.index())[:2])
    part.rename(dataset.path / "kept")
    Dataset.open(dataset.path).add_trajectories(one)

    async def wait(session):
        assert "no longer in" in session.problem

    with pytest.raises(InputError, match="no longer in"):  # said once more at the end
        in_session(Dataset.open(dataset.path), wait)
    (dataset.path / "kept").rename(part)
    in_session(Dataset.open(dataset.path), lambda session: asyncio.sleep(0))
    assert len(Dataset.open(dataset.path).entries()) == 2


def _full(*_):
    raise RunError("no space left")


def test_a_database_that_cannot_be_written_gives_nothing_away(dataset):
    async def use(session):
        held_before = await held(session, "Ada")
        session.database.submit([("CREATE TRIGGER no BEFORE INSERT ON given BEGIN SELECT RAISE(ABORT, 'no'); END", ())])
        with pytest.raises(InputError):
            await session.hold("Bob")
        session.database.submit([("DROP TRIGGER no", ())]).result()
        return held_before, await held(session, "Bob")

    mine, theirs = in_session(dataset, use)
    assert not {given.pair.key for given in mine} & {given.pair.key for given in theirs}


def test_a_session_goes_on_after_another(dataset):
    async def first(session):
        one, other = await held(session, "Ada")
        await session.answer("Ada", one.id, "equal", "k", None)
        return one, other

    one, other = in_session(dataset, first)

    async def second(session):
        found = await held(session, "Ada")
        assert found[0].id == other.id  # a reload finds the pair that was in hand
        assert one.pair.key not in {given.pair.key for given in found}
        assert (await session.answer("Ada", one.id, "equal", "k", None)).given == one.id  # a retry after the crash
        return session.progress("Ada")

    assert in_session(dataset, second) == {**in_session(dataset, second), "answered": 1}


def test_clips_that_cannot_be_made_are_left_out_and_said(dataset, capsys):
    bad = next(iter(dataset.index()))

    async def use(session):
        seen = set()
        while found := await _more(session):
            given = found[0]
            seen |= {given.left.trajectory, given.right.trajectory}
            await session.answer("Ada", given.id, "first", given.id, None)
        return seen, session.problem, session.nothing_left()

    seen, problem, message = in_session(dataset, use, fails=[bad], repeat=0.0)
    assert seen == set(dataset.index()) - {bad}
    assert f"{bad} cannot be filmed" in problem
    assert problem in capsys.readouterr().err
    assert "no more pairs" in message


async def _more(session):
    """What Ada has in hand; nothing once the session has said for a while that there is nothing more."""
    quiet = 0
    while quiet < 100:
        if found := await session.hold("Ada"):
            return found
        message = session.nothing_left()
        quiet += "no more pairs" in message or "Thank you" in message
        await asyncio.sleep(0.01)
    return []


def test_new_trajectories_are_found(dataset, monkeypatch):
    monkeypatch.setattr(module, "LOOK_EVERY", 0.02)

    async def use(session):
        while found := await _more(session):
            await session.answer("Ada", found[0].id, "first", found[0].id, None)
        assert session.queue.answers == 15  # 6 segments
        dataset.add_trajectories([play(dataset.task(), 99, 12)])
        return len(await held(session, "Ada"))

    assert in_session(dataset, use, repeat=0.0) > 0


def test_the_goal_ends_it(dataset):
    async def use(session):
        while found := await _more(session):
            await session.answer("Ada", found[0].id, "first", found[0].id, None)
        return session.queue.answers, session.nothing_left()

    answers, message = in_session(dataset, use, goal=4, repeat=0.0)
    assert answers == 4
    assert "Thank you" in message
