"""Jobs that fail or die, with an executor in memory: how often they are tried again, and what is noted."""

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from fake_executor import BROKEN, KILLED, Fake, silent, states
from mdcontest.errors import InputError
from mdcontest.experiments import engine
from mdcontest.experiments.engine import DONE, FAILED, read_failures, run_jobs
from mdcontest.experiments.jobs import Ending
from mdcontest.learn.runs import FORMAT


def advance(number, ending=KILLED):
    """It got as far as that checkpoint before it ended."""

    def step(job):
        (Path(job.folder) / "checkpoints" / f"{number:08d}").mkdir(parents=True, exist_ok=True)
        return ending

    return step


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


def test_one_that_dies_with_its_work_done_is_done(job, tmp_path):
    """Nobody heard so, but its run says it. It is not said to have failed, nor done in spite of an error."""

    def finish(job):
        record = {"format": FORMAT, "version": 1, "status": "finished"}
        (Path(job.folder)).mkdir(parents=True)
        (Path(job.folder) / "run.json").write_text(json.dumps(record))
        return KILLED

    fake = Fake(1, {"a": [finish]})
    entries = run_jobs([job("a", [job("a gap")])], fake, 0, silent)
    assert fake.started == ["a", "a gap"]
    assert [(entry.state, entry.error) for entry in entries] == [(DONE, None)] * 2
    assert [one["error"] for one in read_failures(tmp_path / "a")] == [KILLED.error]


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
