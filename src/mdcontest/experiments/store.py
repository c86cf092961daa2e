"""The folder of runs as a database: what training, gaps and traces wrote, read back and checked.

FOLDER/<run>/run.json, episodes.parquet, progress.parquet, gaps/*.json, behaviour/*.parquet, failures.json
FOLDER/runs.parquet, FOLDER/gaps.parquet       one row a run, one row a bracket; written by `write_index`
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdcontest import tasks
from mdcontest.errors import FileFormatError, InputError, VersionError
from mdcontest.experiments.engine import FAILURES, read_failures
from mdcontest.gap.bracket import GapBracket
from mdcontest.gap.curve import BEHAVIOUR, BEHAVIOUR_COLUMNS, BEHAVIOUR_FORMAT, GAPS, OWN, read_gap
from mdcontest.learn.export import (
    EPISODES,
    EPISODES_FILE,
    EPISODES_FORMAT,
    IDENTITY,
    PROGRESS,
    PROGRESS_FILE,
    PROGRESS_FORMAT,
    read_log,
)
from mdcontest.learn.logs import Logs
from mdcontest.learn.runs import DESCRIPTION, FINISHED, read_description
from mdcontest.settings import paper_settings
from mdcontest.tables import read_table, write_table

RUNS_FORMAT, GAPS_FORMAT = "mdcontest/runs", "mdcontest/gaps"
RUNS_COLUMNS = {
    **IDENTITY,
    "variant": "string",
    "status": "string",
    "steps": "int64",
    "episodes": "int64",
    "seconds": "float64",
    "settings": "string",
    "versions": "string",
    "error": "string",
}
GAPS_COLUMNS = {
    **IDENTITY,
    "variant": "string",
    "step": "int64",
    "returned": "string",
    "lower": "float64",
    "best_response": "float64",
    "best_response_low": "float64",
    "best_response_high": "float64",
    "upper": "float64",
    "ceiling": "float64",
    "ceiling_low": "float64",
    "ceiling_high": "float64",
    "exact": "float64",
    "confidence": "float64",
}

VARIED_IN_PAPER = ("comparison_horizon", "returned", "eta")


@dataclass(frozen=True)
class Gap:
    """A bracket at a step of a run."""

    step: int
    returned: str
    bracket: GapBracket
    by_own: bool = True
    """Judged by the task's own margin, rather than by a learned one."""


class Run:
    """One run, as its folder says."""

    def __init__(self, folder: Path, description: dict[str, Any] | None = None) -> None:
        self.folder, self.name = folder, folder.name
        self.description = read_description(folder) if description is None else description
        try:
            self.task = str(self.description["task"]["name"])
            self.algorithm, self.seed = str(self.description["algorithm"]), int(self.description["seed"])
            self.settings: dict[str, Any] = dict(self.description["settings"])
            self.task_settings: dict[str, Any] = dict(self.description["task"]["settings"] or {})
            self.learned = self.description["task"].get("margin")
            """Tells learned margins apart; None where it was trained on the task's own."""
            self.versions = {str(name): str(value) for name, value in self.description["versions"].items()}
            self.status, self.error = str(self.description["status"]), self.description.get("error")
            done = self.description.get("steps") if self.is_finished else None
            asked = int(self.description["steps_asked"])
            self.target = asked if done is None else int(done)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(f"{folder / DESCRIPTION} is incomplete: {error!r}") from None
        self.learned_as = "learned"
        """What its learned margin is called among the store's; all the same where each seed has one."""
        self.variant = self.algorithm
        """The algorithm, and what tells its runs on this task apart from others in the store."""

    @property
    def is_finished(self) -> bool:
        return self.status == FINISHED

    @functools.cached_property
    def episodes(self) -> dict[str, Any]:
        """step, return and length of every finished episode."""
        return self._log(EPISODES_FILE, EPISODES_FORMAT, EPISODES, Logs.EPISODES)

    @functools.cached_property
    def progress(self) -> dict[str, Any]:
        """One row an iteration."""
        return self._log(PROGRESS_FILE, PROGRESS_FORMAT, PROGRESS, Logs.PROGRESS)

    def _log(self, file: str, format: str, schema: dict[str, str], log: str) -> dict[str, Any]:
        """From the table of a finished run, from the growing CSV file of any other."""
        own = {name: kind for name, kind in schema.items() if name not in IDENTITY}
        if self.is_finished and (self.folder / file).is_file():
            found = read_table(self.folder / file, format, schema)
            return {name: found[name] for name in own}
        return read_log(self.folder / log, own)

    @functools.cached_property
    def gaps(self) -> list[Gap]:
        """All brackets, by step."""
        found = []
        for source, record in self.gap_records():
            judge = record.get("margin")
            by_own = judge == OWN or (judge is None and self.learned is None)
            try:
                found.append(Gap(int(record["step"]), str(record["returned"]), GapBracket.of_record(record), by_own))
            except (KeyError, TypeError, ValueError) as error:
                raise FileFormatError(f"{source} is incomplete: {error!r}") from None
        return found

    def gap_records(self) -> list[tuple[str, dict[str, Any]]]:
        """Where each bracket is written, and what it says."""
        return [(str(path), read_gap(path)) for path in sorted((self.folder / GAPS).glob("step*.json"))]

    @functools.cached_property
    def behaviour(self) -> list[dict[str, Any]]:
        """What its policies do, one table a step."""
        files = sorted((self.folder / BEHAVIOUR).glob("step*.parquet"))
        return [read_table(path, BEHAVIOUR_FORMAT, BEHAVIOUR_COLUMNS) for path in files]

    @property
    def steps(self) -> int:
        """Steps done."""
        done = self.progress["steps"]
        return int(done[-1]) if len(done) else 0

    @property
    def identity(self) -> list[Any]:
        return [self.name, self.task, self.algorithm, self.seed]


class Store:
    """All runs of a folder. What cannot be read is left out and named in `problems`; nothing is ever changed."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.runs: list[Run] = []
        self.problems: list[str] = []
        """One sentence each about what could not be read, or never began."""
        for path in _run_folders(self.folder):
            self._add(path)
        if not self.runs and not self.problems:
            raise InputError(f"there is no run in {self.folder}: no folder in it has a {DESCRIPTION}")
        tell_apart(self.runs)

    def _add(self, path: Path) -> None:
        try:
            if not (path / DESCRIPTION).exists():
                self.problems.append(f"{path} never began: {read_failures(path)[-1]['error']}")
                return
            run = Run(path)
            # Read now: a file that is cut short is found here.
            _ = run.episodes, run.progress, run.gaps, run.behaviour, run.steps
            self.runs.append(run)
        except VersionError:
            raise  # of another version of the format: half of a study would be misleading
        except (InputError, LookupError, TypeError, AttributeError, ValueError) as error:
            self.problems.append(f"{path} is left out: {error if isinstance(error, InputError) else repr(error)}")

    @property
    def versions(self) -> dict[str, list[str]]:
        """Versions of this package → the runs made with it."""
        found: dict[str, list[str]] = {}
        for run in self.runs:
            found.setdefault(run.versions.get("mdcontest", "unknown"), []).append(run.name)
        return found

    def write_index(self) -> None:
        """FOLDER/runs.parquet and FOLDER/gaps.parquet: the whole study in one line of pandas or DuckDB."""
        write_table(self.folder / "runs.parquet", RUNS_FORMAT, RUNS_COLUMNS, _columns(RUNS_COLUMNS, self._run_rows()))
        gaps = [_gap_row(run, gap) for run in self.runs for gap in run.gaps]
        write_table(self.folder / "gaps.parquet", GAPS_FORMAT, GAPS_COLUMNS, _columns(GAPS_COLUMNS, gaps))

    def _run_rows(self) -> list[list[Any]]:
        return [
            [
                *run.identity,
                run.variant,
                run.status,
                run.steps,
                len(run.episodes["step"]),
                float(run.progress["seconds"][-1] or 0) if len(run.progress["seconds"]) else 0.0,
                json.dumps(run.settings),
                json.dumps(run.versions),
                run.error,
            ]
            for run in self.runs
        ]


def _run_folders(folder: Path) -> list[Path]:
    try:
        if (folder / DESCRIPTION).is_file():
            return [folder]
        entries = sorted(folder.iterdir())
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the folder {folder}: {getattr(error, 'strerror', None) or error}") from None
    return [entry for entry in entries if _is_there(entry / DESCRIPTION) or _is_there(entry / FAILURES)]


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder that may not be looked into
        return False


def _gap_row(run: Run, gap: Gap) -> list[Any]:
    below, above = gap.bracket.best_response, gap.bracket.ceiling
    over = [None] * 3 if above is None else [above.value, above.low, above.high]
    found = [gap.bracket.lower, below.value, below.low, below.high, gap.bracket.upper, *over, gap.bracket.exact]
    return [*run.identity, run.variant, gap.step, gap.returned, *found, gap.bracket.confidence]


def _columns(schema: dict[str, str], rows: list[list[Any]]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(schema)}


def tell_apart(runs: list[Run]) -> None:
    """Name what differs between runs of one algorithm on one task, so that only equal runs are averaged."""
    presets = {run.name: _follows_paper(run) for run in runs}
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.task, run.algorithm), []).append(run)
    for (_, algorithm), group in groups.items():
        _tell_margins_apart(group)
        mixed = len({presets[run.name] for run in group}) > 1
        for paper in {presets[run.name] for run in group}:
            alike = [run for run in group if presets[run.name] == paper]
            choices = [_choices(run) for run in alike]
            keys = dict.fromkeys(key for choice in choices for key in choice)
            varied = [key for key in keys if len({json.dumps(choice.get(key)) for choice in choices}) > 1]
            for run, choice in zip(alike, choices, strict=True):
                told = [f"{key}={_short(choice.get(key))}" for key in varied]
                run.variant = " ".join([algorithm, *(["paper"] if mixed and paper else []), *told])


def _tell_margins_apart(group: list[Run]) -> None:
    """Several learned margins of one seed are different variants; one a seed, each of its own data, are one."""
    learned = {(run.seed, run.learned) for run in group if run.learned is not None}
    if len(learned) > len({seed for seed, _ in learned}):
        for run in group:
            run.learned_as = f"learned-{str(run.learned)[:4]}"


def _choices(run: Run) -> dict[str, Any]:
    """What was chosen for a run."""
    own = {f"task.{key}": value for key, value in run.task_settings.items()}
    margin = "own" if run.learned is None else run.learned_as
    return {**run.settings, **own, "steps": run.target, "margin": margin}


def _follows_paper(run: Run) -> bool:
    """Whether it has all settings of the paper's preset, but for what a study of the paper itself varies."""
    paper = paper_settings(run.algorithm, _group(run.task))
    return all(run.settings.get(key) == value for key, value in paper.items() if key not in VARIED_IN_PAPER)


@functools.cache
def _group(task: str) -> str:
    try:
        return tasks.make(task).group
    except InputError:
        return ""


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)  # never the same for two values
    return json.dumps(value) if isinstance(value, list) else str(value)
