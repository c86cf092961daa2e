"""The folder of runs as a database: what training, gaps and traces wrote, read back and checked.

FOLDER/<run>/run.json, episodes.parquet, progress.parquet, gaps/*.json, behaviour/*.parquet, failures.json
FOLDER/runs.parquet, FOLDER/gaps.parquet       one row a run, one row a bracket; written by `write_index`
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mdcontest.errors import InputError, VersionError
from mdcontest.experiments.engine import FAILURES, read_failures
from mdcontest.experiments.stored import Gap, Run
from mdcontest.experiments.variants import tell_apart
from mdcontest.learn.export import IDENTITY
from mdcontest.learn.runs import DESCRIPTION
from mdcontest.tables import write_table

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
    "judge": "string",
}


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
    return [*run.identity, run.variant, gap.step, gap.returned, *found, gap.bracket.confidence, gap.judge]


def _columns(schema: dict[str, str], rows: list[list[Any]]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(schema)}
