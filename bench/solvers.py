"""Every solver of finite contests beside HiGHS: seconds, certified gap, peak memory, growth.

python bench/solvers.py --quick              # about five minutes on two cores
python bench/solvers.py --threads 2          # hours; interrupted, what was measured is kept
python bench/solvers.py --only 'grid, low rank'
python bench/solvers.py --plot-only          # the table and the plot again, from bench/results/solvers.json

Each measurement is a fresh process with its number of threads fixed. Building the contest and compiling (a solve of
200 pairs) come before the clock starts. Ours is timed from `solve(contest)` to the certified answer; a peer from a
contest in memory to its answer, the building of its program included, its certification not. Who runs over the limit is
killed and shown as such, and takes no part at larger sizes. Peers besides HiGHS: `pip install -e '.[bench]'`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "finite"))

import cases
import plot
import processes
import tables
from cases import Case

from mdcontest.files import atomic_write

BENCH = Path(__file__).resolve().parent
RESULTS = BENCH / "results" / "solvers.json"
PLOT = BENCH.parent / "docs" / "images" / "solvers.svg"
PAGE = BENCH.parent / "docs" / "benchmarks.md"
ENOUGH = 0.1
"""A measurement longer than this share of the limit is not repeated."""
PACKAGES = ("numpy", "scipy", "highspy", "numba")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the small sizes, once each")
    parser.add_argument("--only", default="", help="cases whose name contains this, such as 'grid' or 'n=1e4'")
    parser.add_argument("--contender", default="", help="contenders whose name contains this, such as 'HiGHS'")
    parser.add_argument("--threads", type=int, choices=(1, 2), default=1, help="of every contender (default 1)")
    parser.add_argument("--limit", type=float, help="seconds a measurement (default 10 with --quick, else 300)")
    parser.add_argument("--repeats", type=int, help="of short measurements (default 1 with --quick, else 3)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="results; those already there are kept")
    parser.add_argument("--plot-only", action="store_true", help="measure nothing")
    options = parser.parse_args()
    options.limit = options.limit or (10.0 if options.quick else 300.0)
    options.repeats = options.repeats or (1 if options.quick else 3)
    results = tables.load(options.out) if options.out.exists() else {"rows": []}
    if not options.plot_only:
        measure(options, results)
    tables.show(results)
    if options.out == RESULTS:
        plot.write(results, PLOT)
        tables.write_into_page(results, PAGE)


def measure(options: argparse.Namespace, results: dict[str, Any]) -> None:
    """Run the cases asked for; every case is on disk as soon as it is over."""
    too_slow: set[tuple[str, str]] = set()
    for case in cases.cases(options.quick, options.only):
        wanted = [name for name in case.contenders if options.contender in name]
        rows = run_case(case, wanted, options, too_slow)
        new = {(row["case"], row["contender"], row["threads"]) for row in rows}
        kept = [row for row in results["rows"] if (row["case"], row["contender"], row["threads"]) not in new]
        results.clear()
        results.update(description(options), rows=kept + rows)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(options.out) as file:
            file.write((json.dumps(results, indent=1) + "\n").encode())


def description(options: argparse.Namespace) -> dict[str, Any]:
    """What the numbers depend on besides the code."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def run_case(
    case: Case, wanted: list[str], options: argparse.Namespace, too_slow: set[tuple[str, str]]
) -> list[dict[str, Any]]:
    """A row a contender; repeats go round all of them, so that they share what else the machine does."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
    for number in range(options.repeats):
        for name in wanted:
            if (case.series.title, name) in too_slow:
                continue
            if number and runs[name][-1].get("seconds", options.limit) > ENOUGH * options.limit:
                continue
            found = processes.run(case, name, options.threads, options.limit) | {"limit": options.limit}
            runs[name].append(found)
            print(f"{case.name:<34} {name:<26} {tables.seconds_text(found)}", file=sys.stderr, flush=True)
            if found["outcome"] in ("over the limit", "failed"):
                too_slow.add((case.series.title, name))
    return [summary(case, name, found, options) for name, found in runs.items() if found]


def summary(case: Case, name: str, runs: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """The run of median time, with all times beside it."""
    finished = sorted((run for run in runs if "seconds" in run), key=lambda run: run["seconds"])
    middle = finished[(len(finished) - 1) // 2] if finished else runs[-1]
    about = {"case": case.name, "model": case.series.model, "margin": case.series.margin, "contender": name}
    about |= {"threads": options.threads, "pairs": case.pairs}
    return about | middle | {"all_seconds": [run["seconds"] for run in finished]}


if __name__ == "__main__":
    main()
