"""What `mdcontest train --margin ask` can be told, and what asks people while the run trains."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdcontest.errors import InputError
from mdcontest.files import read_record, write_record

if TYPE_CHECKING:
    from mdcontest.learn.asking import Asking

FILE, FORMAT = "asking.json", "mdcontest/asking"
"""In the run's folder: how it asks, so that it goes on asking in the same way."""
FLAGS = {"ask_port": "port", "ask_length": "length", "ask_first": "first_labels", "ask_model": "model", "pace": "pace"}
"""Options, and the fields of AskSettings that they set."""
MAX_BYTES = 1 << 16


def add_asking(train: argparse.ArgumentParser) -> None:
    """Add its options."""
    ask = train.add_argument_group("with --margin ask")
    ask.add_argument("--ask-port", type=int, metavar="N", help="of the labelling page (default any)")
    ask.add_argument("--ask-length", type=int, metavar="N", help="steps of a clip (default 50)")
    ask.add_argument("--ask-first", type=int, metavar="N", help="answers before the first fit, 10 or more (default 20)")
    ask.add_argument("--ask-model", metavar="skew|reward|general", help="what is fitted (default skew)")
    ask.add_argument("--pace", type=float, metavar="N", help="at most so many steps a second, for people to keep up")


def refuse_asking(options: argparse.Namespace) -> None:
    """An error where nobody is asked, and it is said how to ask."""
    given = [name for name in FLAGS if getattr(options, name) is not None]
    if given:
        raise InputError(
            f"--{given[0].replace('_', '-')} is for runs that ask people: add --margin ask, or leave it out"
        )


def make_asking(options: argparse.Namespace, folder: Path) -> Asking:
    """What asks people while the run in this folder trains: as it did before, but for what is said now."""
    from mdcontest.learn.asking import Asking, AskSettings
    from mdcontest.preferences.labelling.launch import start_labelling
    from mdcontest.preferences.labelling.server import require_label_packages

    require_label_packages()
    given = {field: getattr(options, name) for name, field in FLAGS.items() if getattr(options, name) is not None}
    try:
        how = AskSettings(**(_remembered(folder) | given))
    except TypeError as error:
        raise InputError(f"{folder / FILE} is damaged ({error}); delete it, and say again how to ask") from None

    def remember() -> None:
        write_record(folder / FILE, FORMAT, {field: getattr(how, field) for field in FLAGS.values()})

    return Asking(how, lambda text: print(text, flush=True), start_labelling, remember)


def _remembered(folder: Path) -> dict[str, Any]:
    """How the run asked before; nothing where it did not."""
    if not (folder / FILE).is_file():
        return {}
    record = read_record(folder / FILE, FORMAT, max_bytes=MAX_BYTES)
    return {field: record[field] for field in FLAGS.values() if field in record}
