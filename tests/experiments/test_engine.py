"""The schedule of a sweep, with an executor in memory: order, slots, what is done already, watching and interrupts."""

import json
from dataclasses import replace

import pytest

from fake_executor import BROKEN, Fake, silent, states
from mdcontest.experiments.engine import DONE, FAILED, RUNNING, WAITING, run_jobs
from mdcontest.experiments.jobs import Ending
from mdcontest.learn.runs import FORMAT


def finish(job_folder, status="finished"):
    job_folder.mkdir(parents=True, exist_ok=True)
    (job_folder / "run.json").write_text(json.dumps({"format": FORMAT, "version": 1, "status": status}))


# --- order ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1, 2, 3, 50])
def test_in_order_and_never_more_than_there_are_slots(slots, job):
    names = [f"run{i:02d}" for i in range(20)]
    fake = Fake(slots)
    entries = run_jobs([job(name) for name in names], fake, 0, silent)
    assert fake.started == names
    assert fake.most == min(slots, 20)
    assert states(entries) == dict.fromkeys(names, DONE)
    assert fake.log[-1] == "close"


def test_nothing_to_do(job):
    fake = Fake()
    assert run_jobs([], fake, 0, silent) == []
    assert fake.log == ["close"]


def test_slots_that_come_and_go(job):
    """Nodes of a cluster do."""

    class Changing(Fake):
        sizes = iter([3, 3, 3, 3] + [1] * 6 + [2] * 1000)

        @property
        def slots(self):
            return max(next(self.sizes), len(self.running))

        @slots.setter
        def slots(self, value):
            pass

    fake = Changing()
    entries = run_jobs([job(f"run{i}") for i in range(9)], fake, 0, silent)
    assert set(states(entries).values()) == {DONE}


def test_follow_ups_begin_when_their_run_is_done(job):
    jobs = [job("a", [job("a gap", [job("a trace")]), job("a gap 2")]), job("b", [job("b gap")])]
    fake = Fake(1, {"b": [BROKEN]})
    entries = run_jobs(jobs, fake, 0, silent)
    assert fake.started == ["a", "b", "a gap", "a gap 2", "a trace"]
    assert states(entries) == {"a": DONE, "b": FAILED, "a gap": DONE, "a gap 2": DONE, "a trace": DONE}


def test_what_is_done_is_not_started_but_what_follows_it_is(job, tmp_path):
    finish(tmp_path / "a")
    fake = Fake()
    entries = run_jobs([job("a", [job("a gap")]), job("b")], fake, 0, silent)
    assert sorted(fake.started) == ["a gap", "b"]
    assert set(states(entries).values()) == {DONE}
    assert entries[0].began == 0.0


def test_an_unfinished_run_is_started(job, tmp_path):
    finish(tmp_path / "a", "running")
    finish(tmp_path / "b", "failed")
    fake = Fake()
    run_jobs([job("a"), job("b")], fake, 0, silent)
    assert fake.started == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": "mdcontest/run", "ver', "truncated or not JSON"),
        ('{"format": "mdcontest/run", "version": 2}', "has version 2, this program reads version 1"),
        ('{"format": "mdcontest/contest", "version": 1}', "expected 'mdcontest/run'"),
        ("", "truncated or not JSON"),
    ],
)
def test_a_damaged_run_fails_with_its_sentence_and_the_others_finish(content, message, job, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "run.json").write_text(content)
    fake = Fake()
    entries = run_jobs([job("a"), job("b", [job("b gap")]), job("c")], fake, 5, silent)
    assert fake.started == ["a", "c"]
    assert states(entries) == {"a": DONE, "b": FAILED, "c": DONE}
    assert message in entries[1].error
    assert str(tmp_path / "b" / "run.json") in entries[1].error
    assert (tmp_path / "b" / "run.json").read_text() == content
    assert not (tmp_path / "b" / "failures.json").exists()


def test_all_damaged(job, tmp_path):
    """Nobody waits for jobs that were never started."""
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("")
    fake = Fake()
    assert set(states(run_jobs([job("a"), job("b")], fake, 0, silent)).values()) == {FAILED}
    assert fake.started == []


# --- watching and interrupting ----------------------------------------------------------------------------


def test_who_watches_sees_every_state(job):
    seen = []
    fake = Fake(1)
    run_jobs([job("a", [job("a gap")]), job("b")], fake, 0, lambda entries, changed: seen.append(states(entries)))
    assert seen[0] == {"a": DONE, "b": WAITING, "a gap": WAITING}
    assert seen[-1] == {"a": DONE, "b": DONE, "a gap": DONE}
    running = []
    fake = Fake(2)
    run_jobs([job("c"), job("d")], fake, 0, lambda entries, changed: running.append([e.state for e in entries]))
    assert running[0] == [DONE, RUNNING]


def test_an_interrupt_waits_for_running_jobs_and_is_raised(job):
    fake = Fake(2)
    fake.interrupt_after = 1
    with pytest.raises(KeyboardInterrupt):
        run_jobs([job(f"run{i}") for i in range(6)], fake, 0, silent)
    assert fake.started == ["run0", "run1", "run2"]
    assert fake.running == []
    assert fake.log == ["ended", "ended", "interrupt", "ended", "ended", "close"]


def test_an_interrupt_while_somebody_watches(job):
    fake = Fake(2)

    def watch(entries, changed):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs([job("a"), job("b")], fake, 0, watch)
    assert fake.running == []
    assert fake.log[-1] == "close"


def test_interrupted_twice(job):
    """The second one does not wait any more; the executor ends what still runs."""

    class Stubborn(Fake):
        def ended(self, timeout):
            self.log.append("ended")
            raise KeyboardInterrupt

    fake = Stubborn(2)
    with pytest.raises(KeyboardInterrupt):
        run_jobs([job("a"), job("b")], fake, 0, silent)
    assert fake.log == ["ended", "interrupt", "ended", "close"]


def test_jobs_and_endings_go_through_a_pipe(job):
    one = Ending("broken", True, False, ("note",))
    assert Ending.of_text(one.text()) == one
    assert json.loads(job("a", [job("b")]).text()) == {
        "kind": "train",
        "folder": job("a").folder,
        "content": {"name": "a"},
    }
    assert len({job("a").key, job("b").key, replace(job("a"), kind="gap").key}) == 3
    assert job("a").key == job("a", [job("b")]).key
