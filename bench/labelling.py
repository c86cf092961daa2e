"""Fifty people label at once: how long an answer and the next pair take, and whether every answer is stored once.

python bench/labelling.py [--annotators 50] [--labels 10000]

Everybody answers without looking, one request after the other on one connection, from this machine. The clips are real,
filmed by the server before and meanwhile. The baseline is the same number of connections asking the same server for a
file of 200 bytes: what HTTP costs here without any labelling.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from mdcontest import tasks
from mdcontest.outcomes import Outcomes
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.labelling import LabellingServer, start_labelling
from mdcontest.preferences.trajectories import Trajectory

STEPS = 10
NOTHING = "/static/icon.svg"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annotators", type=int, default=50)
    parser.add_argument("--labels", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # n trajectories of one segment each make n(n − 1)/2 pairs; some more than wanted, for those in hand at the end.
        count = int(np.sqrt(2 * (options.labels + 4 * options.annotators))) + 2
        dataset = make_dataset(Path(folder) / "dataset", count)
        with start_labelling(dataset.path, length=STEPS, repeat=0.0, pairs=options.labels) as server:
            wait_for_clips(dataset.path, count)
            idle, answers, pairs, seconds = asyncio.run(label(server, options.annotators, options.labels))
        entries = Dataset.open(dataset.path).entries()
    different = {frozenset([entry.first, entry.second]) for entry in entries}
    print(f"{options.annotators} annotators, {len(answers)} answers acknowledged in {seconds:.1f} s", end="")
    print(f", {len(answers) / seconds:.0f} a second")
    print(f"stored: {len(entries)}, about {len(different)} different pairs")
    for name, times in (("baseline: a small file", idle), ("an answer, stored", answers), ("the next pair", pairs)):
        median, p99, most = 1000 * np.quantile(times, [0.5, 0.99, 1.0])
        print(f"{name:<24} median {median:6.1f} ms   p99 {p99:6.1f} ms   max {most:6.1f} ms   ({len(times)} requests)")
    if not len(entries) == len(different) == len(answers) == options.labels:
        raise SystemExit("labels were lost or doubled")


def make_dataset(path: Path, count: int) -> Dataset:
    """Trajectories of a corridor that never ends, each as long as a clip."""
    task = tasks.make("RPSContinuous", end=0.0)
    dataset, env, played = Dataset.create(path, task, STEPS), task.make_env(STEPS), []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        obs, actions = [env.reset(seed=seed)[0]], rng.uniform(-1, 1, (STEPS, 1))
        obs += [env.step(action)[0] for action in actions]
        outcomes = Outcomes(np.array(obs[:-1]), actions, np.zeros(STEPS), np.array(obs[1:]))
        played.append(Trajectory(outcomes, False, seed, "bench"))
    dataset.add_trajectories(played)
    return dataset


def wait_for_clips(path: Path, count: int) -> None:
    """Until the server has filmed as much as it does ahead of time, at most a minute."""
    for _ in range(600):
        if len(list((path / "clips").glob("*.mp4"))) >= min(count, 8):
            return
        asyncio.run(asyncio.sleep(0.1))


class Connection:
    """HTTP/1.1 on one connection, by hand: the client shares the cores with what it measures."""

    async def open(self, server: LabellingServer) -> Connection:
        """Connect."""
        self._host, self._token = str(urlsplit(server.url).netloc), server.token
        self._in, self._out = await asyncio.open_connection("127.0.0.1", server.port)
        return self

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[float, bytes]:
        """How long a request took, and what came back."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nAuthorization: Bearer {self._token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        before = time.perf_counter()
        self._out.write(head.encode() + content)
        lines = (await self._in.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
        answer = await self._in.readexactly(length)
        took = time.perf_counter() - before
        if not lines[0].startswith("http/1.1 200"):
            raise RuntimeError(f"{path}: {lines[0]}: {answer!r}")
        return took, answer


async def label(
    server: LabellingServer, annotators: int, labels: int
) -> tuple[list[float], list[float], list[float], float]:
    """Seconds of each idle request, each answer and each pair, and of all answers together."""
    connections = [await Connection().open(server) for _ in range(annotators)]
    idle: list[float] = []
    answers: list[float] = []
    pairs: list[float] = []

    async def look(connection: Connection) -> None:
        idle.extend([(await connection.ask("GET", NOTHING))[0] for _ in range(max(labels // annotators // 5, 1))])

    async def work(connection: Connection, name: str, number: int) -> None:
        rng = np.random.default_rng(number)
        while True:
            took, found = await connection.ask("GET", f"/api/pair?annotator={name}")
            state = json.loads(found)
            if state["pair"] is None:
                if state["progress"]["total"] >= labels:
                    return
                await asyncio.sleep(0.02)  # the page waits longer
                continue
            pairs.append(took)
            choice = str(rng.choice(["left", "right", "equal", "incomparable"]))
            said = {"annotator": name, "pair": state["pair"]["id"], "label": choice, "key": str(uuid.uuid4())}
            answers.append((await connection.ask("POST", "/api/answer", said))[0])

    await asyncio.gather(*(look(connection) for connection in connections))
    before = time.perf_counter()
    await asyncio.gather(*(work(connection, f"person{i}", i) for i, connection in enumerate(connections)))
    return idle, answers, pairs, time.perf_counter() - before


if __name__ == "__main__":
    main()
