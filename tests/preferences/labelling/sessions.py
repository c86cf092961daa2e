"""What the tests of the labelling page share: small datasets, sessions without filming, requests without a network."""

import asyncio
import json

import numpy as np

from mdcontest import tasks
from mdcontest.outcomes import Outcomes
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.labelling.pairs import Pair
from mdcontest.preferences.labelling.session import LabelOptions, Session
from mdcontest.preferences.references import Segment
from mdcontest.preferences.trajectories import Trajectory

TOKEN = "a-token-of-the-tests-0123"


def play(task, seed, steps):
    """One episode of random actions."""
    env, reader = task.make_env(steps), task.spaces[0]
    env.action_space.seed(seed)
    rows, over = [], False
    obs = np.array(reader.flatten(env.reset(seed=seed)[0]), float)
    while not over:
        action = env.action_space.sample()
        after, reward, terminated, truncated, _ = env.step(action)
        rows.append((obs, np.asarray(action), float(reward), np.array(reader.flatten(after), float)))
        obs, over = rows[-1][3], terminated or truncated
    env.close()
    before, taken, rewards, following = (np.array(column) for column in zip(*rows, strict=True))
    outcomes = Outcomes(reader.raw(before), taken, rewards, reader.raw(following))
    return Trajectory(outcomes, bool(terminated), seed, "test")


def make_dataset(path, count=8, steps=12, name="RPSContinuous", **settings):
    """A dataset of `count` episodes of at most `steps` steps."""
    settings = settings or ({"end": 0.0} if name == "RPSContinuous" else {})
    task = tasks.make(name, **settings)
    dataset = Dataset.create(path, task, steps)
    dataset.add_trajectories([play(task, seed, steps) for seed in range(count)])
    return dataset


def pair(number, length=10):
    return Pair(Segment(f"a{number:04}", 0, length), Segment(f"b{number:04}", 3, length))


class InstantStudio:
    """Films nothing and says it did; fails for the trajectories it was told to."""

    def __init__(self, folder, fails=()):
        self.folder, self.fails = folder, fails

    def path(self, name):
        return self.folder / "clips" / f"{name}.mp4"

    def has(self, segment):
        return segment.trajectory not in self.fails

    def look_again(self):
        pass

    async def film(self, segment):
        from mdcontest.preferences.labelling.studio import ClipError

        if segment.trajectory in self.fails:
            raise ClipError(f"{segment.trajectory} cannot be filmed")

    async def stop(self):
        pass


class EmptyStudio(InstantStudio):
    """Has no clip until it is filmed, as after somebody has emptied the folder."""

    def __init__(self, folder, fails=()):
        super().__init__(folder, fails)
        self.filmed = set()

    def has(self, segment):
        return segment in self.filmed

    async def film(self, segment):
        await super().film(segment)
        self.filmed.add(segment)


def in_session(dataset, use, fails=(), clock=None, studio=InstantStudio, **options):
    """The result of `await use(session)` in a session whose clips are there at once."""

    async def run():
        settings = LabelOptions(**{"length": 12, **options})
        session = Session(dataset, settings, **({} if clock is None else {"clock": clock}))
        session.studio = studio(dataset.path, fails)
        await session.start()
        try:
            return await use(session)
        finally:
            await session.stop()

    return asyncio.run(run())


async def held(session, annotator, seconds=10.0):
    """The pairs in somebody's hands, once there are some."""
    for _ in range(int(seconds / 0.01)):
        if found := await session.hold(annotator):
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"no pairs for {annotator}: {session.nothing_left()} {session.problem}")


async def request(app, method, path, body=b"", headers=(), query=""):
    """Status, headers and body of the answer of an ASGI application."""
    sent = []
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "root_path": ""}
    scope |= {"query_string": query.encode(), "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 1)}
    scope["headers"] = [(name.lower().encode(), value.encode()) for name, value in headers]
    chunks = [body[i : i + 10_000] for i in range(0, len(body), 10_000)] or [b""]

    async def receive():
        chunk = chunks.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}, content


def error_of(content):
    return json.loads(content)["error"]
