"""The schedule of a sweep, with an executor in memory: order, slots, retries, deaths, interrupts, and what is noted."""

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from mdcontest.errors import InputError
from mdcontest.experiments import engine
from mdcontest.experiments.engine import DONE, FAILED, RUNNING, WAITING, read_failures, run_jobs
from mdcontest.experiments.jobs import Ending, Job
from mdcontest.learn.runs import FORMAT

KILLED = Ending("its process was killed by signal 9", died=True)
BROKEN = Ending("the robot fell over")


class Fake:
    """Ends jobs in the order they were started, each as the next entry of its plan says."""

    def __init__(self, slots=2, plans=None):
        self.slots, self.plans = slots, {key: list(plan) for key, plan in (plans or {}).items()}
        self.started, self.running, self.most, self.log = [], [], 0, []
        self.interrupt_after = None
        """Raise KeyboardInterrupt after so many calls of ended."""

    def start(self, job):
        assert job.label not in [one.label for one in self.running], "it runs already"
        self.started.append(job.label)
        self.running.append(job)
        self.most = max(self.most, len(self.running))
        assert len(self.running) <= self.slots

    def ended(self, timeout):
        self.log.append("ended")
        if self.interrupt_after is not None and len(self.log) > self.interrupt_after:
            self.interrupt_after = None
            raise KeyboardInterrupt
        if not self.running:
            return []
        job = self.running.pop(0)
        plan = self.plans.get(job.label, [])
        step = plan.pop(0) if plan else Ending()
        return [(job, step(job) if callable(step) else step)]

    def interrupt(self):
        self.log.append("interrupt")

    def close(self):
        self.log.append("close")


def silent(entries, changed):
    pass


@pytest.fixture
def job(tmp_path):
    def job(label, then=()):
        return Job("train", str(tmp_path / label), {"name": label}, label, tuple(then))

    return job


def finish(job_folder, status="finished"):
    job_folder.mkdir(parents=True, exist_ok=True)
    (job_folder / "run.json").write_text(json.dumps({"format": FORMAT, "version": 1, "status": status}))


def states(entries):
    return {entry.job.label: entry.state for entry in entries}


def advance(number, ending=KILLED):
    """It got as far as that checkpoint before it ended."""

    def step(job):
        (Path(job.folder) / "checkpoints" / f"{number:08d}").mkdir(parents=True, exist_ok=True)
        return ending

    return step


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


# --- errors and deaths ------------------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 1, 2, 7])
def test_an_error_is_tried_again_exactly_so_often(retries, job, tmp_path):
    fake = Fake(1, {"a": [BROKEN] * 100})
    entries = run_jobs([job("a"), job("b")], fake, retries, silent)
    assert fake.started.count("a") == retries + 1
    assert states(entries) == {"a": FAILED, "b": DONE}
    assert entries[0].error == "the robot fell over"
    assert len(read_failures(tmp_path / "a")) == retries + 1


def test_one_that_is_tried_again_goes_to_the_end_of_the_queue(job):
    fake = Fake(1, {"a": [BROKEN]})
    entries = run_jobs([job("a"), job("b"), job("c")], fake, 1, silent)
    assert fake.started == ["a", "b", "c", "a"]
    assert states(entries) == {"a": DONE, "b": DONE, "c": DONE}
    assert entries[0].error is None


def test_negative_retries_are_refused(job):
    fake = Fake()
    with pytest.raises(InputError, match="retries must not be negative, got -1"):
        run_jobs([job("a")], fake, -1, silent)
    assert fake.started == []


def test_deaths_without_progress_are_bounded(job, tmp_path):
    fake = Fake(1, {"a": [KILLED] * 1000})
    entries = run_jobs([job("a")], fake, 0, silent)
    assert fake.started == ["a"] * engine.DEATHS
    assert states(entries) == {"a": FAILED}
    assert len(read_failures(tmp_path / "a")) == engine.DEATHS


def test_deaths_with_progress_are_not(job):
    """Three hundred deaths, a new checkpoint before each."""
    fake = Fake(1, {"a": [advance(i) for i in range(300)]})
    entries = run_jobs([job("a")], fake, 0, silent)
    assert fake.started == ["a"] * 301
    assert states(entries) == {"a": DONE}


def test_progress_starts_the_count_anew(job):
    almost = [KILLED] * (engine.DEATHS - 1)
    fake = Fake(1, {"a": [*almost, advance(1), *almost[1:], advance(2), *almost[1:]]})
    assert states(run_jobs([job("a")], fake, 0, silent)) == {"a": DONE}
    fake = Fake(1, {"b": [*almost, advance(1), *almost]})
    assert states(run_jobs([job("b")], fake, 0, silent)) == {"b": FAILED}


def test_deaths_and_errors_are_counted_apart(job):
    fake = Fake(1, {"a": [KILLED, BROKEN, KILLED, KILLED, BROKEN, KILLED, BROKEN]})
    entries = run_jobs([job("a")], fake, 2, silent)
    assert fake.started == ["a"] * 7
    assert (entries[0].state, entries[0].errors, entries[0].deaths) == (FAILED, 3, 4)


def test_somebody_else_interrupts_a_job(job, tmp_path):
    """Who sends a worker SIGTERM wants it to stop."""
    fake = Fake(1, {"a": [Ending("interrupted", interrupted=True)]})
    entries = run_jobs([job("a", [job("a gap")]), job("b")], fake, 9, silent)
    assert fake.started == ["a", "b"]
    assert states(entries) == {"a": FAILED, "b": DONE}


def test_what_is_written_down(job, tmp_path):
    fake = Fake(1, {"a": [BROKEN, KILLED]})
    run_jobs([job("a")], fake, 1, silent)
    record = json.loads((tmp_path / "a" / "failures.json").read_text())
    assert (record["format"], record["version"]) == ("mdcontest/failures", 1)
    assert [(one["job"], one["error"], one["died"]) for one in record["failures"]] == [
        ("a", BROKEN.error, False),
        ("a", KILLED.error, True),
    ]
    assert all(datetime.fromisoformat(one["time"]).tzinfo is not None for one in record["failures"])
    assert read_failures(tmp_path / "a") == record["failures"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["failures.json"]
    assert read_failures(tmp_path / "b") == []


def test_only_the_last_failures_are_kept(job, tmp_path):
    fake = Fake(1, {"a": [replace(BROKEN, error=f"error {i}") for i in range(150)]})
    run_jobs([job("a")], fake, 149, silent)
    assert [one["error"] for one in read_failures(tmp_path / "a")] == [f"error {i}" for i in range(50, 150)]


@pytest.mark.parametrize("content", ["", '{"format": "mdcontest/failures", "version": 1}', "[]"])
def test_a_damaged_list_of_failures_does_not_end_the_sweep(content, job, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "failures.json").write_text(content)
    fake = Fake(1, {"a": [BROKEN]})
    assert states(run_jobs([job("a")], fake, 1, silent)) == {"a": DONE}
    with pytest.raises(InputError, match=r"failures\.json"):
        read_failures(tmp_path / "a")


def test_a_disk_that_takes_nothing_does_not_end_the_sweep(job, tmp_path):
    (tmp_path / "a").write_text("a file where a folder should be")
    fake = Fake(1, {"a": [BROKEN] * 3})
    assert states(run_jobs([job("a"), job("b")], fake, 1, silent)) == {"a": FAILED, "b": DONE}


def test_notes_are_kept_once(job):
    noted = Ending(notes=("slow disk", "hot", "hot"))
    fake = Fake(1, {"a": [replace(BROKEN, notes=("slow disk",)), noted]})
    (entry,) = run_jobs([job("a")], fake, 1, silent)
    assert entry.notes == ["slow disk", "hot"]


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
