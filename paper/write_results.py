"""Redraw every figure and table from the recorded results: make paper. Nothing is trained."""

from __future__ import annotations

import argparse
import re
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
    from figures import all_figures, as_png
    from results_page import results_page

    from mdcontest.folders import make_folder

    began, out = time.monotonic(), Path(options.out)
    recorded.require_runs(Path(options.results))
    make_folder(out / "figures")
    evidence = Evidence(Path(options.results))
    figures = {name: as_png(figure) for name, figure in all_figures(evidence)}
    page = results_page(evidence, list(figures))
    _replace(out, page, figures)
    print(f"{out / 'RESULTS.md'} and {len(figures)} figures, after {time.monotonic() - began:.0f} s")
    return 0


def _replace(out: Path, page: str, figures: dict[str, bytes]) -> None:
    """Figures first, then the page that shows them, and only then those that the page before showed go."""
    from mdcontest.files import atomic_write

    old = figures_of(out / "RESULTS.md", page)
    for name, image in figures.items():
        with atomic_write(out / "figures" / f"{name}.png") as file:
            file.write(image)
    with atomic_write(out / "RESULTS.md") as file:
        file.write(page.encode())
    for name in old - set(figures):
        (out / "figures" / f"{name}.png").unlink(missing_ok=True)


def figures_of(path: Path, ours: str) -> set[str]:
    """Names of the figures that a page shows, if it has the heading of ours; another's are not ours to remove."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return set()
    found = re.findall(r"^!\[([^]/]+)\]\(figures/\1\.png\)$", text, re.MULTILINE)
    return set(found) if text.partition("\n")[0] == ours.partition("\n")[0] else set()


if __name__ == "__main__":
    sys.exit(main())
