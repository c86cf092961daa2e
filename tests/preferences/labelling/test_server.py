"""The server as a process: its link, its API, its end, and its child's life."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from datasets import compared
from fitted_margins import random_margin
from mdcontest.cli import main
from mdcontest.errors import InputError, RunError
from mdcontest.preferences.dataset import Dataset
from mdcontest.preferences.inputs import Field
from mdcontest.preferences.labelling import Client, start_labelling
from mdcontest.preferences.labelling import server as server_module
from mdcontest.preferences.labelling.server import TOKEN as VARIABLE
from preferences.labelling.sessions import TOKEN, make_dataset
from sweeps import alive, children, command, one_clear_line, wait_until

BENCH = Path(__file__).parents[3] / "bench" / "labelling.py"


@pytest.fixture
def dataset(tmp_path):
    return make_dataset(tmp_path / "dataset", count=5)


def answered(dataset):
    return {entry.id: entry for entry in Dataset.open(dataset.path).entries()}


def some_pair(client):
    found = []
    assert wait_until(lambda: found.append(client.pair()) or found[-1] is not None)
    return found[-1]


@contextlib.contextmanager
def by_command(dataset, *options):
    """`mdcontest label` as a process and its link; Ctrl-C in the end, after which it has said nothing more."""
    process = subprocess.Popen(
        command("label", dataset.path, "--length", 12, "--quiet", *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {VARIABLE: TOKEN},
    )
    try:
        link = process.stdout.readline().strip()
        assert link.endswith(f"/?token={TOKEN}")
        yield link
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=180)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


def test_a_script_answers_over_the_api(dataset, monkeypatch, capsys):
    with by_command(dataset, "--repeat", 0, "--pairs", 6) as link, Client(link, "robot") as client:
        ids = {}
        for number in range(6):
            pair = some_pair(client)
            ids[client.answer(pair, "left", f"key {number}")["id"]] = pair
            assert client.answer(pair, "left", f"key {number}")["id"] in ids  # the same once more
        assert client.pair() is None
        assert "Thank you" in client.look()["message"]
        assert client.undo(pair)
        assert some_pair(client)["id"] == pair["id"]
        last = client.answer(pair, "right")["id"]
        state = client.state()
        assert (state["task"], state["progress"]["total"], state["problem"]) == ("RPSContinuous", 6, None)
        with pytest.raises(InputError, match="404"):
            client.answer({"id": "nothing"}, "left")
        monkeypatch.setattr(server_module, "PATIENCE", 0.4)
        assert main(["label", str(dataset.path), "--quiet"]) == 2
        assert "another server" in capsys.readouterr().err
        with Client(link.replace(TOKEN, "x" * 20), "robot") as stranger, pytest.raises(InputError, match="401"):
            stranger.pair()
    stored = answered(dataset)
    assert len(stored) == 6
    assert (stored[last].label, stored[last].first.trajectory) == ("second", pair["left"]["trajectory"])
    with pytest.raises(RunError, match="did not answer"):
        client.pair()


PARENT = """
import sys, threading
from mdcontest.preferences.labelling import start_labelling
print(start_labelling(sys.argv[1], length=6, repeat=0.0, token=sys.argv[2], port=int(sys.argv[3])).url, flush=True)
threading.Event().wait()
"""


def test_a_server_that_is_killed_and_one_whose_parent_is(dataset, count):
    """No acknowledged answer is lost and none is doubled, also those sent again; no process is left."""
    server, said, sent = start_labelling(dataset.path, length=6, repeat=0.0, token=TOKEN), {}, []
    for _ in range(count(1, 4) - 1):
        sent += answer_until_killed(server, said)
        server = start_labelling(dataset.path, length=6, repeat=0.0, token=TOKEN, port=server.port)
    sent += answer_until_killed(server, said)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(dataset.path), TOKEN, str(server.port)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        link = parent.stdout.readline().strip()
        assert said.keys() <= answered(dataset).keys()  # what it was told of before it died is in the dataset by now
        for name, pair, key in sent:
            with Client(link, name) as client:
                said[client.answer(pair, "left", key)["id"]] = pair
        with Client(link, "Ada") as client:
            said[client.answer(some_pair(client), "equal")["id"]] = None
        (running,) = children(parent.pid)
        # With every clip on disk already there may be nothing left to film.
        filming = children(running[0])
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    assert wait_until(lambda: not alive([running, *filming]))
    assert answered(dataset).keys() == said.keys()
    database = sqlite3.connect(dataset.path / "labels.sqlite")
    assert database.execute("SELECT count(*), count(DISTINCT given) FROM answers").fetchone() == (len(said),) * 2
    database.close()


def answer_until_killed(server, said):
    """Three people answer until the server is killed; what they tried to send, and in `said` what was acknowledged."""
    sent = []

    def work(name):
        with Client(server.url, name) as client, pytest.raises(RunError):
            while True:
                pair = client.pair()
                if pair is not None:
                    sent.append((name, pair, f"{pair['id']} key"))
                    said[client.answer(pair, "left", sent[-1][2])["id"]] = pair

    threads = [threading.Thread(target=work, args=(f"person {i}",)) for i in range(3)]
    enough = len(said) + 10
    for thread in threads:
        thread.start()
    assert wait_until(lambda: len(said) >= enough)
    server.kill()
    for thread in threads:
        thread.join()
    return sent


def test_what_cannot_be_served(tmp_path, dataset, monkeypatch, capsys):
    (tmp_path / "noise.txt").write_bytes(b"\xff\xfe")
    random_margin("skew", fields=(Field("obs", 3),)).save(tmp_path / "wide")
    locked, other = (make_dataset(tmp_path / name, count=1) for name in ("locked", "other"))
    (locked.path / "labels.lock").mkdir()
    with contextlib.closing(sqlite3.connect(other.path / "labels.sqlite")) as database:
        database.execute("PRAGMA user_version = 1")
    given = {
        "no dataset": [tmp_path / "nowhere"],
        "UTF-8": [dataset.path, "--instructions", tmp_path / "noise.txt"],
        "too long": [dataset.path, "--instructions", "/dev/zero"],
        "1 to 2000 steps": [dataset.path, "--length", 10**9],
        "overlap": [dataset.path, "--overlap", 0],
        "--seed": [dataset.path, "--seed", -1],
        "--margin": [dataset.path, "--margin", tmp_path / "nowhere"],
        "it was learned from another task": [dataset.path, "--margin", tmp_path / "wide"],
        "cannot write": [locked.path],
        "no such table": [other.path],
        VARIABLE: [dataset.path],
    }
    for words, options in given.items():
        monkeypatch.setenv(VARIABLE, "ένα-μακρύ-κλειδί-που-δεν-γράφεται" if words == VARIABLE else TOKEN)
        assert main(["label", "--quiet", *map(str, options)]) == 2
        said = capsys.readouterr()
        assert one_clear_line(said.err)
        assert words in said.err


def test_the_end_tells_answers_on_the_page_from_the_comparisons_there_are(dataset, monkeypatch, capsys):
    """Those of teachers, of files and of repeated pairs are in the dataset too."""
    ids = list(dataset.index())
    dataset.add_comparisons(compared(ids, np.random.default_rng(0), 7))
    monkeypatch.setattr(server_module, "serve", lambda *_, **__: 3)
    assert main(["label", str(dataset.path)]) == 0
    (end,) = [line for line in capsys.readouterr().err.splitlines() if "stopped" in line]
    assert "pairs answered on the page: 3;" in end
    assert end.endswith(f"comparisons in {dataset.path}, with all others: 7")


def test_missing_packages(monkeypatch, dataset):
    monkeypatch.setattr("mdcontest.preferences.labelling.server.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'mdcontest\[label\]'"):
        start_labelling(dataset.path)


def test_many_at_once(count):
    """The benchmark with fewer people: every answer is stored, none twice; how fast is not asked here."""
    people, labels = count(10, 50), count(200, 2000)
    done = subprocess.run(
        [sys.executable, BENCH, "--annotators", str(people), "--labels", str(labels)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert f"stored: {labels}, about {labels} different pairs" in done.stdout
