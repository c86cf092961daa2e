"""`mdcontest label`: a page on which people say which of two clips they prefer."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mdcontest.commands.training import DONE, prepare
from mdcontest.errors import InputError

MOST_INSTRUCTIONS = 1 << 16
TRAJECTORIES = 100
"""Episodes collected of a run that has no dataset yet."""


def add_commands(command: Any) -> None:
    """Add the parser; `command(name, run, help, reads)` makes one."""
    label = command("label", run_label, "Serve a page on which people compare clips of trajectories.", reads=False)
    label.add_argument("folder", metavar="DATASET", help="a dataset, or a run, of which trajectories are collected")
    label.add_argument("--port", type=int, default=0, metavar="N", help="default: a free one")
    label.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="to listen at (default 127.0.0.1)")
    label.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a further name the page is opened under"
    )
    label.add_argument("--pairs", type=int, metavar="N", help="comparisons wanted (default: no end)")
    label.add_argument("--length", type=int, default=50, metavar="N", help="steps of a clip (default 50)")
    label.add_argument("--repeat", type=float, default=0.1, metavar="X", help="share asked again (default 0.1)")
    label.add_argument("--overlap", type=int, default=1, metavar="K", help="people asked about a pair (default 1)")
    label.add_argument("--instructions", metavar="FILE", help="a text that the page shows")
    label.add_argument("--margin", metavar="FOLDER", help="a fitted margin; pairs it is least sure about come first")
    label.add_argument("--seed", type=int, default=0, metavar="S", help="of the choice of pairs (default 0)")
    label.add_argument("--quiet", action="store_true", help="print the link only")
    label.add_argument("--end-with-input", action="store_true", help=argparse.SUPPRESS)


def run_label(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""

    prepare()
    from mdcontest.preferences.dataset import Dataset
    from mdcontest.preferences.labelling.server import require_label_packages, serve
    from mdcontest.preferences.labelling.session import LabelOptions

    require_label_packages()
    if options.seed < 0:
        raise InputError(f"--seed must not be negative, got {options.seed}")
    how = LabelOptions(
        length=options.length,
        goal=options.pairs,
        repeat=options.repeat,
        overlap=options.overlap,
        margin=None if options.margin is None else Path(options.margin),
        instructions=_instructions(options.instructions),
        seed=options.seed,
    )
    folder = _dataset(Path(options.folder), options.seed, options.quiet)
    if how.margin is not None:
        _require_readable(how.margin, folder)
    if not options.quiet:
        print(f"mdcontest: the answers go into {folder}; Ctrl-C ends", file=sys.stderr)
    answers = serve(
        folder,
        how,
        host=options.host,
        port=options.port,
        allow_hosts=options.allow_host,
        end_with_input=options.end_with_input,
    )
    if not options.quiet:
        stored = len(Dataset.open(folder).entries())
        said = f"pairs answered on the page: {answers}; comparisons in {folder}, with all others: {stored}"
        print(f"mdcontest: stopped; {said}", file=sys.stderr)
    return DONE


def _dataset(folder: Path, seed: int, quiet: bool) -> Path:
    """The folder of a dataset; of a run, its own, with trajectories collected where it has none."""
    from mdcontest.learn.runs import DESCRIPTION
    from mdcontest.preferences.dataset import OF_A_RUN, Dataset

    if not (folder / DESCRIPTION).is_file():
        return Dataset.open(folder).path
    own = folder / OF_A_RUN
    if (own / "dataset.json").is_file() and Dataset.open(own).index():
        return own
    from mdcontest.learn.collect import collect

    if not quiet:
        print(f"mdcontest: collecting trajectories of {folder.name}", file=sys.stderr)
    collect(folder, own, TRAJECTORIES, seed, progress=not quiet)
    return own


def _require_readable(margin: Path, folder: Path) -> None:
    """An error, before anybody is asked, where the margin is of another task; that there is none may be yet to come."""
    from mdcontest.learn.margins import require_readable
    from mdcontest.preferences import load_margin
    from mdcontest.preferences.dataset import Dataset
    from mdcontest.preferences.labelling.choice import MARGIN_FILE

    if (margin / MARGIN_FILE).is_file():
        require_readable(Dataset.open(folder).task().with_margin(load_margin(margin)))


def _instructions(file: str | None) -> str:
    if file is None:
        return ""
    try:
        with Path(file).open("rb") as text:
            content = text.read(MOST_INSTRUCTIONS + 1)  # no more: it may be a device without an end
        if len(content) > MOST_INSTRUCTIONS:
            raise InputError(f"{file} is too long: instructions have at most {MOST_INSTRUCTIONS} bytes")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{file} is no UTF-8 text") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from None
