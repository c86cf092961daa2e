"""One run as it was stored: its description, its logs, the brackets of its gap and what its policies did."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdcontest.errors import FileFormatError, what_helps
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
from mdcontest.learn.margins import MARGIN
from mdcontest.learn.runs import DESCRIPTION, FINISHED, JUDGED_BY_RETURN, read_description
from mdcontest.preferences.asked import ASK
from mdcontest.tables import read_table


@dataclass(frozen=True)
class Gap:
    """A bracket at a step of a run."""

    step: int
    returned: str
    bracket: GapBracket
    judge: str = OWN
    """The margin that judged: "own" is the task's, of a learned one it is the digest. Where nobody noted that, in older
    brackets and in runs that ask people, it is the folder."""

    @property
    def by_own(self) -> bool:
        """Judged by the task's own margin, rather than by a learned one."""
        return self.judge == OWN


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
            self.task_parts: dict[str, Any] = _parts(self.description)
            """What else run.json says its task is made of."""
            self.learned: str | None = _text_or_none(self.description["task"].get("margin"), "margin")
            """Tells learned margins apart; None where it was trained on the task's own."""
            self.versions = {str(name): str(value) for name, value in self.description["versions"].items()}
            self.status = str(self.description["status"])
            self.error = _text_or_none(self.description.get("error"), "error")
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
    def task_choices(self) -> dict[str, Any]:
        """Everything by which files tell tasks of one name apart, under names of its own."""
        return {f"task.{key}": value for key, value in (self.task_settings | self.task_parts).items()}

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
            with what_helps(f"without that file the same is read from {log}"):
                found = read_table(self.folder / file, format, schema)
                self._require_own(found, file)
            return {name: found[name] for name in own}
        return read_log(self.folder / log, own)

    def _require_own(self, table: dict[str, Any], file: str) -> None:
        """An error where rows are of another run; a folder may have another name since they were written."""
        for name, own in (("task", self.task), ("algorithm", self.algorithm), ("seed", self.seed)):
            others = {value for value in table[name] if value != own}
            if others:
                raise FileFormatError(
                    f"{self.folder / file} is of another run: its {name} is {min(others, key=str)}, and that of "
                    f"{DESCRIPTION} is {own}"
                )

    @property
    def lacks_episodes(self) -> bool:
        """Whether its folder has no file of episodes, as that of an agent that was only saved."""
        files = [self.folder / name for name in (EPISODES_FILE, Logs.EPISODES)]
        return self.folder.is_dir() and not any(file.is_file() for file in files)

    @functools.cached_property
    def gaps(self) -> list[Gap]:
        """All brackets, by step."""
        found = []
        for source, record in self.gap_records():
            try:
                bracket = GapBracket.of_record(record)
                found.append(Gap(int(record["step"]), str(record["returned"]), bracket, self._judge(record)))
            except (KeyError, TypeError, ValueError) as error:
                raise FileFormatError(f"{source} is incomplete: {error!r}") from None
        return found

    def _judge(self, record: dict[str, Any]) -> str:
        named = record.get("digest") or record.get("margin")
        if named is not None:
            return str(named)
        return f"{self.name}/{MARGIN}" if self.learned == ASK else str(self.learned or OWN)

    def gap_records(self) -> list[tuple[str, dict[str, Any]]]:
        """Where each bracket is written, and what it says."""
        return [(str(path), read_gap(path)) for path in sorted((self.folder / GAPS).glob("step*.json"))]

    @functools.cached_property
    def behaviour(self) -> list[dict[str, Any]]:
        """What its policies do, one table a step."""
        files = sorted((self.folder / BEHAVIOUR).glob("step*.parquet"))
        with what_helps("without that file mdcontest trace, or the sweep, samples it anew"):
            return [read_table(path, BEHAVIOUR_FORMAT, BEHAVIOUR_COLUMNS) for path in files]

    @property
    def steps(self) -> int:
        """Steps done."""
        done = self.progress["steps"]
        return int(done[-1]) if len(done) else 0

    @property
    def identity(self) -> list[Any]:
        return [self.name, self.task, self.algorithm, self.seed]


def _text_or_none(value: Any, name: str) -> str | None:
    if not (value is None or isinstance(value, str)):
        raise TypeError(f"its {name} is {value!r:.60}")
    return value


def _parts(description: dict[str, Any]) -> dict[str, Any]:
    """Where the task came from; of one that the registry does not make, also its parts, but for those left empty."""
    task = description["task"]
    made = {"env": task.get("env"), "registered": task.get("registered")}
    if task.get("registered"):
        return made
    parts = {JUDGED_BY_RETURN: description.get(JUDGED_BY_RETURN), **dict(task.get("parts") or {})}
    return made | {key: value for key, value in parts.items() if value not in (None, [], {})}
