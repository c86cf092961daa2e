"""`mdcontest train TASK --margin ask`: trains, asks, refits, and never waits for a person."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import mdcontest as mdc
from fitted_margins import STEP, random_margin
from mdcontest.learn import asking as asking_module
from mdcontest.learn.asking import MARGIN, Asking, AskSettings
from mdcontest.learn.spec import find_runs
from mdcontest.preferences.asked import AskedMargin
from mdcontest.preferences.dataset import OF_A_RUN, Dataset, segments_of
from mdcontest.preferences.labelling.client import Client
from mdcontest.preferences.references import Segment
from sweeps import TINY, ended_afterwards, one_clear_line, pause, run, start, wait_until

pytest.importorskip("starlette", reason="the page is not installed here: pip install 'mdcontest[label]'")
FULL = os.environ.get("MDCONTEST_COUNTS") == "full"
ASK = ["train", "RPSContinuous", "--margin", "ask", *TINY, "--seed", 0, "--ask-length", 5, "--quiet"]


def link_in(output):
    found = re.search(r"http://\S+", output.read_text())
    return found and found.group()


class Person:
    """Somebody who knows the true margin and answers at the page until told to stop."""

    def __init__(self, link, folder):
        self.link, self.folder, self.answers = link, folder, 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(20)

    def work(self):
        dataset = Dataset.open(self.folder)
        with contextlib.suppress(mdc.RunError, mdc.InputError), Client(self.link, "a person") as client:
            while not self.stop.is_set():
                pair = client.pair()
                if pair is None:
                    pause(0.05)
                    continue
                client.answer(pair, self.judge(dataset, pair))
                self.answers += 1

    def judge(self, dataset, pair):
        sides = [Segment(pair[s]["trajectory"], pair[s]["start"], pair[s]["length"]) for s in ("left", "right")]
        outcomes, rows = dataset.table()
        one, other = (segments_of([side], rows, dataset.index()).rows()[0] for side in sides)
        margin = dataset.task().margin.matrix(outcomes[one[one >= 0]], outcomes[other[other >= 0]])
        value = margin.mean() if margin.size else 0.0
        return "equal" if value == 0 else "left" if value > 0 else "right"


@pytest.mark.timeout(900)
def test_labels_reach_the_run_while_it_goes_on(tmp_path, count):
    """The first margin takes the place of none, the second that of the first; at reduced counts after the run."""
    output, margins = tmp_path / "said", count(1, 2)
    arguments = [*ASK, "--out", tmp_path / "runs", "--steps", 100_000, "--pace", 200, "--ask-first", 12]
    with ended_afterwards(start(*arguments, output=output, keep_stdout=True)) as process:
        assert wait_until(lambda: link_in(output) or process.poll() is not None, 180), output.read_text()
        (folder,) = find_runs(tmp_path / "runs")
        with Person(link_in(output), folder / OF_A_RUN):
            assert wait_until(lambda: f"margin {margins}, from" in output.read_text(), 400), output.read_text()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130, output.read_text()
    assert "Traceback" not in output.read_text()
    assert "failed" not in output.read_text()
    agent = mdc.load_agent(folder)
    assert isinstance(agent.task.margin, AskedMargin)
    learned = agent.task.margin.current
    assert learned.report["fitted_to"] + learned.report["held_out"] >= 12
    dataset = Dataset.open(folder / OF_A_RUN)
    assert {entry.annotator for entry in dataset.entries()} == {"a person"}
    assert len(dataset.index()) >= 4
    # What was learned is used: not everything is alike to it.
    z = agent.learner.opponents.first
    assert np.abs(agent.task.cumulant(z, z)).max() > 0
    agent.close()
    again = ["fit", folder / OF_A_RUN, "--out", folder / MARGIN, "--members", 1, "--updates", 20, "--penalty", 0]
    code, _, err = run(*again, "--quiet")
    assert code == 0, err


@pytest.mark.timeout(900)
def test_a_run_goes_on_asking_as_before(tmp_path):
    """Pace and clips are the run's own: people who come back find the same page, and steps have not run away."""
    output, again = tmp_path / "said", tmp_path / "said again"
    arguments = [*ASK, "--out", tmp_path / "runs", "--steps", 100_000, "--pace", 200, "--ask-length", 7]
    for file, more in ((output, arguments), (again, ["train", "--resume", tmp_path / "runs", "--ask-first", 15])):
        with ended_afterwards(start(*more, output=file, keep_stdout=True)) as process:
            assert wait_until(lambda file=file, process=process: link_in(file) or process.poll() is not None, 180)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130, file.read_text()
    (folder,) = find_runs(tmp_path / "runs")
    record = json.loads((folder / "asking.json").read_text())
    kept = {name: record[name] for name in ("pace", "length", "first_labels", "model")}
    assert kept == {"pace": 200.0, "length": 7, "first_labels": 15, "model": "skew"}


def test_how_to_ask_without_asking_is_an_error(tmp_path):
    code, _, err = run("train", "RPSContinuous", *TINY, "--pace", 50, "--steps", 640, "--out", tmp_path)
    assert code == 2
    assert one_clear_line(err)
    assert "--pace is for runs that ask people: add --margin ask" in err


@pytest.mark.parametrize(("algorithm", "critic"), [(mdc.HPIClip, "discounted"), (mdc.HPI, "average")])
def test_a_policy_stays_as_it_is_until_somebody_has_spoken(algorithm, critic):
    task, tiny = mdc.tasks.make("RPSContinuous"), {"num_steps": 64, "minibatches": 2, "epochs": 2, "hidden": (8,)}
    agent = algorithm(task.with_margin(AskedMargin()), 0, **tiny, critic=critic)
    before, rates = agent.learner.params, []
    optimiser, averages = agent.learner.optimiser_state, agent.learner.averages
    agent.learn(4 * 64, False, lambda agent, progress: rates.append(progress.learning_rate))
    for part in before:
        assert all(np.array_equal(value, agent.learner.params[part][name]) for name, value in before[part].items())
    assert rates == [0.0] * 4
    assert agent.learner.optimiser_state is optimiser, "no momentum towards the critic's errors"
    assert agent.learner.averages is averages
    assert agent.learner.scale.count == 0, "the first margin is not scaled by zeros"
    agent.task.margin.current = random_margin("skew", fields=STEP)
    agent.learn(64, False, lambda agent, progress: rates.append(progress.learning_rate))
    assert rates[-1] > 0
    assert agent.learner.scale.count == 64


@pytest.mark.timeout(900)
def test_nobody_answers(tmp_path):
    """It trains to its end all the same; resuming and judging know that there is no margin yet."""
    code, said, err = run(*ASK, "--out", tmp_path, "--steps", 512)
    assert (code, err) == (0, "")
    assert "http://127.0.0.1:" in said
    (folder,) = find_runs(tmp_path)
    agent = mdc.load_agent(folder)
    assert agent.task.margin.current is None
    z = agent.learner.opponents.first
    assert not agent.task.cumulant(z, z).any()
    agent.close()
    code, said, err = run("train", "--resume", folder)
    assert (code, err) == (0, "")
    assert "already finished" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "0-1"], "one run at a time"),
        (["--algo", "ppo"], "PPO learns from rewards"),
        (["--ask-first", "3"], "at least 10 answers"),
        (["--pace", "0"], "pace must be"),
        (["--ask-length", "0"], "length must be"),
        (["--ask-model", "rewrad"], "did you mean reward"),
    ][: 6 if FULL else 2],
)
def test_what_cannot_be_asked_is_one_clear_line(arguments, message, tmp_path):
    base = [part for part in ASK if part not in ("--seed", 0)] if "--seeds" in arguments else ASK
    code, said, err = run(*base, *arguments, "--out", tmp_path / "runs", "--steps", 512)
    assert (code, said) == (2, "")
    assert one_clear_line(err)
    assert message in err


def test_a_sweep_cannot_ask(tmp_path):
    arguments = ["sweep", "--tasks", "RPSContinuous", *TINY, "--margin", "ask", "--out", tmp_path / "runs"]
    code, _, err = run(*arguments)
    assert code == 2
    assert one_clear_line(err)
    assert "train --margin ask" in err


def test_settings_are_checked():
    for setting, message in [({"growth": 1.0}, "growth"), ({"model": "rewrad"}, "reward"), ({"pace": 0}, "pace")]:
        with pytest.raises(mdc.InputError, match=message):
            AskSettings(**setting)
    assert AskSettings().host == "127.0.0.1"


class EndedServer:
    url, alive, stopped = "http://127.0.0.1:1/?token=x", False, 0

    def stop(self):
        self.stopped += 1


def test_a_page_that_ended_and_a_margin_that_cannot_be_read_are_said(tmp_path, monkeypatch):
    """Training goes on in both cases; a pace slower than any clock is no error, either."""
    said, server = [], EndedServer()
    task = mdc.tasks.make("RPSContinuous")
    agent = mdc.HPIClip(task.with_margin(AskedMargin()), 0, num_steps=64, minibatches=2, epochs=1, hidden=(8,))

    def break_it(agent, progress):
        (agent.folder / MARGIN).mkdir(exist_ok=True)
        (agent.folder / MARGIN / "margin.json").write_text("{")
        asking._fit = subprocess.Popen([sys.executable, "-c", ""])
        asking._fit.wait()
        asking(agent, progress)

    with Asking(AskSettings(length=5), said.append, lambda *_, **__: server) as asking:
        agent.learn(192, False, break_it, folder=tmp_path / "run")
        asking.settings = AskSettings(pace=1e-300)
        monkeypatch.setattr(asking_module, "LONGEST_WAIT", 0.01)
        asking._keep_pace(SimpleNamespace(steps=10**6))
    assert sum("page has ended" in text for text in said) == 1
    assert sum("cannot be read, training goes on" in text for text in said) == 3
    assert server.stopped == 1
    agent.close()
