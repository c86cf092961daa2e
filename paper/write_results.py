"""Redraw every figure and table from the recorded results: make paper. Nothing is trained."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import recorded
from study import guarded

PAGE = Path(__file__).parent / "RESULTS.md"


def main() -> int:
    """Write RESULTS.md and the figures beside it."""
    parser = argparse.ArgumentParser(description="Write RESULTS.md and its figures from the recorded results.")
    parser.add_argument("--results", default=str(recorded.FOLDER), metavar="FOLDER", help="default paper/results")
    parser.add_argument("--out", default=str(PAGE.parent), metavar="FOLDER", help="where to write (default paper)")
    return guarded(_write, parser.parse_args())


def _write(options: argparse.Namespace) -> int:
    from evidence import Evidence
    from figures import all_figures, write_figure
    from results_page import results_page

    from mdcontest.files import atomic_write

    began, out = time.monotonic(), Path(options.out)
    evidence, names = Evidence(Path(options.results)), list[str]()
    for name, figure in all_figures(evidence):
        write_figure(figure, out / "figures" / f"{name}.png")
        names.append(name)
    for old in set((out / "figures").glob("*.png")) - {out / "figures" / f"{name}.png" for name in names}:
        old.unlink()  # of a study that is no longer there
    with atomic_write(out / "RESULTS.md") as file:
        file.write(results_page(evidence, names).encode())
    print(f"{out / 'RESULTS.md'} and {len(names)} figures, after {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
