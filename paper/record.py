"""Put finished runs into the results of the repository: python paper/record.py FOLDER...

FOLDER is a folder of runs, as the studies here and mdcontest sweep write them. What is recorded already stays as it is,
so parts of a study may be run on several machines, at several times, and merged one after the other.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections import Counter
from pathlib import Path

import recorded
from study import guarded

from mdcontest.experiments.store import Store
from mdcontest.folders import lock_folder, make_folder

MEGABYTE = 1e6
LOCK, PATIENCE = ".record.lock", 60.0
"""Who records into the same tables meanwhile is waited for so many seconds: both would write what they have read."""


def main() -> int:
    """Merge folders of runs into the tables."""
    parser = argparse.ArgumentParser(description="Put finished runs into the results of the repository.")
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="folders of runs")
    parser.add_argument("--results", default=str(recorded.FOLDER), metavar="FOLDER", help="default paper/results")
    return guarded(_record, parser.parse_args())


def _record(options: argparse.Namespace) -> int:
    results, stores = Path(options.results), [Store(folder) for folder in options.folders]
    for problem in [problem for store in stores for problem in store.problems]:
        print(f"note: {problem}", file=sys.stderr)
    make_folder(results)
    with lock_folder(results, LOCK, "recording into", PATIENCE) or contextlib.nullcontext():
        tables, counts = recorded.read_tables(results), Counter[str]()
        for run in [run for store in stores for run in store.runs]:
            counts[recorded.merge(tables, run) if run.is_finished else "unfinished"] += 1
        size = recorded.write_tables(tables, results) / MEGABYTE
    said = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(f"{said}; {len(tables['runs'])} runs in {results}, {size:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
