"""A dataset of preferences on disk: raw trajectories, and what was said about stretches of them.

DATASET/dataset.json               format, version, task, horizon
DATASET/trajectories/*.parquet     see trajectory_parts.py
DATASET/comparisons/*.parquet      see comparison_log.py

Files are written whole and never changed, so several processes may add to a dataset at once; what is added twice is
there once. A file that a process was killed over is not there at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdcontest import tasks
from mdcontest.arrays import Ints
from mdcontest.errors import InputError, preview
from mdcontest.folders import make_folder
from mdcontest.outcomes import Outcomes
from mdcontest.preferences.comparison_log import ComparisonLog
from mdcontest.preferences.comparisons import Comparisons, Segments
from mdcontest.preferences.description import (
    is_described,
    read_description,
    write_description,
)
from mdcontest.preferences.references import Comparison, Segment
from mdcontest.preferences.trajectories import Trajectory, TrajectoryInfo, join, require_layout
from mdcontest.preferences.trajectory_parts import open_part, read_infos, read_trajectories, write_part
from mdcontest.tasks import Task
from mdcontest.tasks.records import task_record

TRAJECTORIES, COMPARISONS = "trajectories", "comparisons"
OF_A_RUN = "preferences"
"""The folder of a run that holds its own dataset."""


class Dataset:
    """Trajectories of one task and comparisons of their segments; made by `create`, `open` or `at`."""

    def __init__(self, path: Path, record: dict[str, Any], task: Task | None) -> None:
        self.path, self._record, self._task = path, record, task
        self._parts: dict[str, list[TrajectoryInfo]] = {}
        self._log = ComparisonLog(path / COMPARISONS)

    @classmethod
    def create(cls, path: str | Path, task: Task, horizon: int | None = None) -> Dataset:
        """A new, empty dataset for trajectories of `task`, played with this horizon (None: the task's own)."""
        folder = Path(path)
        if is_described(folder):
            raise InputError(f"{folder} already holds a dataset; open it with Dataset.open, or name another folder")
        return cls._make(folder, task, horizon)

    @classmethod
    def _make(cls, folder: Path, task: Task, horizon: int | None) -> Dataset:
        for name in (TRAJECTORIES, COMPARISONS):
            make_folder(folder / name)
        return cls(folder, write_description(folder, task, horizon), task)

    @classmethod
    def open(cls, path: str | Path, task: Task | None = None) -> Dataset:
        """The dataset in a folder; a task that the registry did not make must be passed again."""
        folder = Path(path)
        found = cls(folder, read_description(folder), task)
        if task is not None:
            found._require_task(task)
        return found

    @classmethod
    def at(cls, path: str | Path, task: Task, horizon: int | None = None) -> Dataset:
        """The dataset of this task in a folder, made if there is none; another task or horizon is an error."""
        if not is_described(Path(path)):
            return cls._make(Path(path), task, horizon)  # another process may do the same at this moment
        found = cls.open(path, task)
        if found.horizon != horizon:
            raise InputError(f"{path} was played with the horizon {found.horizon}, not {horizon}; name another folder")
        return found

    @property
    def horizon(self) -> int | None:
        """Steps after which episodes were cut off; None: as the task says."""
        return self._record["horizon"]

    def task(self) -> Task:
        """The task whose trajectories these are."""
        if self._task is None:
            about = self._record["task"]
            if not about["registered"]:
                raise InputError(
                    f"{self.path} is of a task of its own ({about['name']}); pass it: Dataset.open(path, task=…); "
                    "on the command line, give the package an entry point and collect anew"
                )
            self._task = tasks.make(about["name"], **about["settings"])
        return self._task

    @property
    def task_name(self) -> str:
        """What its task is called."""
        return str(self._record["task"]["name"])

    def _require_task(self, task: Task) -> None:
        mine, given = self._record["task"], task_record(task)
        if mine != given:
            key = next(key for key in given if mine.get(key) != given[key])
            raise InputError(
                f"{self.path} is a dataset of another task: its {key} is {mine.get(key)!r}, not {given[key]!r}; "
                "name another folder"
            )

    # --- trajectories -------------------------------------------------------------------------------------

    def add_trajectories(self, trajectories: Sequence[Trajectory]) -> list[str]:
        """Store what is not there yet, in one new part; the ids of all that were given."""
        known = self.index()
        new = {t.id: t for t in trajectories if t.id not in known}
        if new:
            parts = sorted((self.path / TRAJECTORIES).glob("*.parquet"))
            expected = open_part(parts[0])[1] if parts else next(iter(new.values())).layout
            for trajectory in new.values():
                require_layout(trajectory.layout, expected, f"the dataset {self.path}")
            make_folder(self.path / TRAJECTORIES, parents=False)
            write_part(self.path / TRAJECTORIES, list(new.values()))
        return [trajectory.id for trajectory in trajectories]

    def index(self) -> dict[str, TrajectoryInfo]:
        """All trajectories by id, without their outcomes, in the order of where they come from."""
        for path in (self.path / TRAJECTORIES).glob("*.parquet"):
            if path.name not in self._parts:
                self._parts[path.name] = read_infos(path)
        found = {info.id: info for part in sorted(self._parts) for info in self._parts[part]}
        return dict(sorted(found.items(), key=lambda item: (item[1].source, item[1].steps, item[0])))

    def trajectory(self, id: str) -> Trajectory:
        """One trajectory as it was played."""
        return self.trajectories([id])[0]

    def trajectories(self, ids: Iterable[str]) -> list[Trajectory]:
        """Several trajectories; each part is opened once."""
        wanted, known = list(ids), self.index()
        if missing := [id for id in wanted if id not in known]:
            raise InputError(f"there is no trajectory {preview(missing)} in {self.path}, which has {len(known)}")
        by_part: dict[str, dict[str, TrajectoryInfo]] = {}
        for id in wanted:
            by_part.setdefault(known[id].part, {})[id] = known[id]
        found: dict[str, Trajectory] = {}
        for part, infos in by_part.items():
            read = read_trajectories(self.path / TRAJECTORIES / part, list(infos.values()))
            found |= {trajectory.id: trajectory for trajectory in read}
        return [found[id] for id in wanted]

    def table(self, ids: Iterable[str] | None = None) -> tuple[Outcomes, dict[str, int]]:
        """The outcomes of all trajectories, or of some, in one batch, and the first row of each."""
        wanted = list(self.index() if ids is None else dict.fromkeys(ids))
        if not wanted:
            raise InputError(f"there are no trajectories in {self.path}; mdcontest collect adds some")
        read = self.trajectories(wanted)
        ends = np.cumsum([len(trajectory) for trajectory in read]).tolist()
        return join(read), {t.id: end - len(t) for t, end in zip(read, ends, strict=True)}

    # --- comparisons --------------------------------------------------------------------------------------

    def add_comparisons(self, comparisons: Iterable[Comparison]) -> int:
        """Store what does not hold yet, in one new part; how many are new, of which revised answers are none.

        An answer under an id of its own is stored again if it is given again, later: a revision from before that may
        be still to come. Other ids say what was said, so there is none.
        """
        known, given = self.index(), list(comparisons)
        rows = [self.checked(comparison, known) for comparison in given]
        self._log.refresh()
        self._log.require_told_apart(rows)
        return self._log.append(
            [row for row, one in zip(rows, given, strict=True) if one.id or not self._log.holds(row)]
        )

    def checked(self, comparison: Comparison, known: dict[str, TrajectoryInfo] | None = None) -> Comparison:
        """A comparison as it is stored, or an error: about itself, or about what it refers to in this dataset."""
        index = self.index() if known is None else known
        found = comparison.checked()
        self._require_inside(found.first, index)
        self._require_inside(found.second, index)
        return found

    def _require_inside(self, segment: Segment, known: dict[str, TrajectoryInfo]) -> None:
        info = known.get(segment.trajectory)
        if info is None:
            raise InputError(f"there is no trajectory {segment.trajectory!r} in {self.path}, which has {len(known)}")
        end = segment.start + segment.length
        if end > info.length and not (info.terminated and segment.start <= info.length):
            why = "ended after" if info.terminated else "was cut off after"
            raise InputError(
                f"a segment is steps {segment.start} to {end - 1} of the trajectory {info.id}, which {why} "
                f"{info.length} steps"
            )

    def withdraw(self, ids: Iterable[str], time: float) -> None:
        """Take comparisons back; they stay in their files, and no longer count."""
        self._log.append(self._log.withdrawals(ids, time))

    def entries(self) -> list[Comparison]:
        """All comparisons that hold, by time and id."""
        return self._log.entries()

    def comparisons(self, *, annotator: str | Collection[str] | None = None, source: str | None = None) -> Comparisons:
        """The comparisons that hold, of some annotators or a source if asked for, over a table of what they compare."""
        people = {annotator} if isinstance(annotator, str) else annotator
        found = [
            entry
            for entry in self.entries()
            if (people is None or entry.annotator in people) and source in (None, entry.source)
        ]
        if not found:
            wanted = [f"{name} {value!r}" for name, value in (("annotator", annotator), ("source", source)) if value]
            raise InputError(
                f"there are no comparisons {'of ' + ' and '.join(wanted) + ' ' if wanted else ''}in {self.path}"
            )
        used = {segment.trajectory for entry in found for segment in (entry.first, entry.second)}
        infos = self.index()
        for entry in found:  # they were inside when they were stored; a part may be gone since
            self._require_inside(entry.first, infos)
            self._require_inside(entry.second, infos)
        outcomes, rows = self.table(id for id in infos if id in used)
        first, second = (
            segments_of([getattr(entry, side) for entry in found], rows, infos) for side in ("first", "second")
        )
        return Comparisons.of_segments(outcomes, first, second, [entry.label for entry in found])

    def merge(self, other: Dataset) -> tuple[int, int]:
        """Add everything another dataset of the same task has; how many trajectories and comparisons were new."""
        for key in ("task", "horizon"):
            if self._record[key] != other._record[key]:
                raise InputError(
                    f"{other.path} has the {key} {other._record[key]!r}, {self.path} {self._record[key]!r}; only "
                    "datasets of the same task and horizon are merged"
                )
        known = self.index()
        self._require_all_inside(other, known | other.index())
        missing: dict[str, list[TrajectoryInfo]] = {}
        for info in other.index().values():
            if info.id not in known:
                missing.setdefault(info.part, []).append(info)
        for part, infos in missing.items():
            self.add_trajectories(read_trajectories(other.path / TRAJECTORIES / part, infos))
        self._log.refresh()
        return sum(map(len, missing.values())), self._log.append(other._log.rows())

    def _require_all_inside(self, other: Dataset, known: dict[str, TrajectoryInfo]) -> None:
        """Nothing is merged where a part of the other one is gone: no margin could be fitted to what was."""
        for entry in other.entries():
            for segment in (entry.first, entry.second):
                if segment.trajectory not in known:
                    raise InputError(
                        f"{other.path} has comparisons of the trajectory {segment.trajectory!r}, which is no longer in "
                        "it; put its file back, or withdraw them, before it is merged"
                    )

    def __repr__(self) -> str:
        return f"Dataset({self.path}, {self.task_name}, {len(self.index())} trajectories)"


def segments_of(segments: Sequence[Segment], rows: dict[str, int], infos: dict[str, TrajectoryInfo]) -> Segments:
    """Segments of trajectories as stretches of a table in which the trajectories begin at `rows`."""
    start: Ints = np.array([segment.start for segment in segments], int)
    length: Ints = np.array([segment.length for segment in segments], int)
    first = np.array([rows[segment.trajectory] for segment in segments], int)
    own = np.array([infos[segment.trajectory].length for segment in segments], int)
    inside = np.clip(own - start, 0, length)
    return Segments(first + start, inside, length - inside)
