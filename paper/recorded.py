"""The results in the repository: what every run of the paper's studies came to, as small Parquet tables.

results/runs.parquet        one row a run: what was trained, on what, and a fingerprint of all its episodes
results/curves.parquet      100 rows a run: return, length and margin against the first policy along training
results/gaps.parquet        one row a bracket of the optimality gap
results/behaviour.parquet   where policies are, and in which class

A run of these tables is a `Run` like one of a folder, so everything that reports know about folders works on them: its
curve stands in for its episodes, and gives the same means on the same grid.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from mdcontest.errors import InputError
from mdcontest.experiments.store import Store
from mdcontest.experiments.stored import Run
from mdcontest.experiments.variants import tell_apart
from mdcontest.folders import make_folder
from mdcontest.gap.curve import BEHAVIOUR_COLUMNS
from mdcontest.report import statistics as st
from mdcontest.report.study_curves import POINTS
from mdcontest.tables import read_table, write_table

FOLDER = Path(__file__).parent / "results"
POSITIONS = 400
"""Of a policy at a step; enough to see a circle."""
RUN = {"run": "string"}
SCHEMAS = {
    "runs": RUN
    | {"task": "string", "algorithm": "string", "seed": "int64", "steps": "int64", "episodes": "int64"}
    | {"seconds": "float64", "fingerprint": "string", "description": "string"},
    "curves": RUN | {"step": "int64", "return": "float64", "length": "float64", "margin": "float64"},
    "gaps": RUN
    | {"step": "int64", "returned": "string", "best_response": "float64", "lower": "float64", "upper": "float64"}
    | {"record": "string"},
    "behaviour": RUN
    | {name: kind for name, kind in BEHAVIOUR_COLUMNS.items() if name not in ("task", "algorithm", "seed", "run")},
}
"""Columns by table. `description` is run.json, `record` a bracket's file, both as JSON texts."""
Tables = dict[str, list[dict[str, Any]]]
"""Rows by table."""


# --- reading ----------------------------------------------------------------------------------------------


class RecordedRun(Run):
    """A run of the tables."""

    def __init__(self, row: dict[str, Any], tables: dict[str, list[dict[str, Any]]]) -> None:
        super().__init__(Path(row["run"]), json.loads(row["description"]))
        self.fingerprint, self.seconds = str(row["fingerprint"]), float(row["seconds"])
        curve = tables["curves"]
        known = [point for point in curve if point["return"] is not None]
        self.episodes = {
            "step": [point["step"] for point in known],
            "return": [point["return"] for point in known],
            "length": [point["length"] for point in known],
        }
        self.progress = {
            "steps": [point["step"] for point in curve],
            "margin_vs_first": [point["margin"] for point in curve],
        }
        self._records = [json.loads(gap["record"]) for gap in tables["gaps"]]
        self.behaviour = _split(tables["behaviour"])

    def gap_records(self) -> list[tuple[str, dict[str, Any]]]:
        return [(f"gaps.parquet, {self.name}", record) for record in self._records]


class RecordedStore(Store):
    """Recorded runs as a store, told apart among themselves."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.folder, self.runs, self.problems = FOLDER, list(runs), []
        tell_apart(self.runs)


def read_runs(folder: Path = FOLDER) -> list[RecordedRun]:
    """All runs there are, in the order of their names."""
    tables = read_tables(folder)
    parts = {name: _by_run(tables[name]) for name in ("curves", "gaps", "behaviour")}
    return [
        RecordedRun(row, {name: part.get(row["run"], []) for name, part in parts.items()}) for row in tables["runs"]
    ]


def require_runs(folder: Path) -> None:
    """An error where nothing was ever recorded: an empty page, or no run at all, would not tell a slip in a name."""
    if not (folder / "runs.parquet").is_file():
        raise InputError(f"there are no recorded runs in {folder}: it has no runs.parquet; name another with --results")


def read_tables(folder: Path = FOLDER) -> Tables:
    """Rows of every table; none where there is no file, nor of runs that were not written to the end."""
    found: Tables = {}
    for name, schema in SCHEMAS.items():
        path = folder / f"{name}.parquet"
        columns = read_table(path, _format(name), schema) if path.is_file() else {key: [] for key in schema}
        values = [list(map(_plain, columns[key])) for key in schema]
        found[name] = [dict(zip(schema, row, strict=True)) for row in zip(*values, strict=True)]
    known = {row["run"] for row in found["runs"]}
    return {name: [row for row in rows if row["run"] in known] for name, rows in found.items()}


def _split(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Behaviour as a run's folder has it: one table a step and kind of policy, column by column."""
    tables: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        tables.setdefault((row["step"], row["returned"]), []).append(row)
    return [{name: [row[name] for row in part] for name in part[0]} for part in tables.values()]


def _by_run(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["run"], []).append(row)
    return found


def _plain(value: Any) -> Any:
    """Nothing of NumPy, and a number that is none as nothing."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value


def _format(name: str) -> str:
    return f"mdcontest/paper-{name}"


# --- writing ----------------------------------------------------------------------------------------------


def rows_of(run: Run) -> Tables:
    """Everything that is recorded of a finished run in a folder."""
    seconds = [value for value in run.progress["seconds"] if value is not None]
    head = {
        "run": run.name,
        "task": run.task,
        "algorithm": run.algorithm,
        "seed": run.seed,
        "steps": run.target,
        "episodes": len(run.episodes["step"]),
        "seconds": float(seconds[-1]) if seconds else 0.0,
        "fingerprint": fingerprint(run.episodes),
        "description": json.dumps({k: v for k, v in run.description.items() if k not in ("format", "version")}),
    }
    own = {"run": run.name}
    gaps = [record for _, record in run.gap_records()]
    return {
        "runs": [head],
        "curves": [own | point for point in curve_of(run)],
        "gaps": [
            own
            | {"step": gap["step"], "returned": gap["returned"], "best_response": gap["best_response"]["value"]}
            | {"lower": gap["lower"], "upper": gap["upper"], "record": json.dumps(gap)}
            for gap in gaps
        ],
        "behaviour": [own | row for table in run.behaviour for row in _thinned(table)],
    }


def fingerprint(episodes: dict[str, Any]) -> str:
    """Of the steps, returns and lengths of all episodes: equal only if they are, to the last bit."""
    steps, lengths = (np.asarray(episodes[name], np.int64) for name in ("step", "length"))
    return hashlib.sha256(
        steps.tobytes() + np.asarray(episodes["return"], float).tobytes() + lengths.tobytes()
    ).hexdigest()


def curve_of(run: Run) -> list[dict[str, Any]]:
    """Means on the grid that reports use; a run without any episode has none."""
    grid = st.step_grid(run.target, min(POINTS, run.target))
    steps, margins = run.progress["steps"], map(_plain, run.progress["margin_vs_first"])
    known = [(step, margin) for step, margin in zip(steps, margins, strict=True) if margin is not None]
    columns = {
        "return": st.curve_on_grid(run.episodes["step"], run.episodes["return"], grid),
        "length": st.curve_on_grid(run.episodes["step"], run.episodes["length"], grid),
        "margin": st.curve_on_grid([step for step, _ in known], [margin for _, margin in known], grid),
    }
    return [
        {"step": int(step)} | {name: _plain(float(values[i])) for name, values in columns.items()}
        for i, step in enumerate(grid)
    ]


def _thinned(table: dict[str, Any]) -> list[dict[str, Any]]:
    names = [name for name in SCHEMAS["behaviour"] if name != "run"]
    rows = [
        dict(zip(names, values, strict=True)) for values in zip(*(map(_plain, table[n]) for n in names), strict=True)
    ]
    places = [row for row in rows if row["kind"] == "position"]
    kept = places[:: max(1, -(-len(places) // POSITIONS))]
    return [row for row in rows if row["kind"] != "position"] + kept


def merge(tables: Tables, run: Run) -> str:
    """Add a run, or what is new of its gaps and behaviour; says which of "new", "more" and "known" it was.

    The same run with other episodes is an error: then one of the two machines, or versions, computes something else.
    """
    found = rows_of(run)
    known = next((row for row in tables["runs"] if row["run"] == run.name), None)
    if known is not None and known["fingerprint"] != found["runs"][0]["fingerprint"]:
        raise InputError(
            f"{run.name} is recorded with other episodes, made on {_where(known)}; this one was made on "
            f"{_where(found['runs'][0])}. Take it out of the folder, or record into an empty one with --results"
        )
    before = sum(map(len, tables.values()))
    for name in ("runs", "curves") if known is None else ():
        tables[name] += found[name]
    for name, keys in (("gaps", ("run", "record")), ("behaviour", ("run", "step", "returned"))):
        there = {tuple(row[key] for key in keys) for row in tables[name] if row["run"] == run.name}
        tables[name] += [row for row in found[name] if tuple(row[key] for key in keys) not in there]
    after = sum(map(len, tables.values()))
    return "new" if known is None else "more" if after > before else "known"


def _where(row: dict[str, Any]) -> str:
    versions = json.loads(row["description"])["versions"]
    return f"{versions.get('processor', 'an unknown processor')} with jax {versions.get('jax')}"


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Two brackets of one policy go by what they say, so that it does not matter which was recorded first."""
    return row["run"], row.get("step", 0), row.get("returned", ""), row.get("record", "")


def write_tables(tables: Tables, folder: Path = FOLDER) -> int:
    """Write them, in the order of names and steps; their size in bytes.

    The table of runs comes last: a run that is in it has all its rows in the others, whatever ends the program.
    """
    make_folder(folder)
    for name, schema in reversed(SCHEMAS.items()):
        rows = sorted(tables[name], key=_place)
        columns = {key: [row[key] for row in rows] for key in schema}
        write_table(folder / f"{name}.parquet", _format(name), schema, columns)
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))
