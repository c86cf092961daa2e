"""What `mdcontest train --margin ask` can be told, and what asks people while the run trains."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mdcontest.learn.asking import Asking


def add_asking(train: argparse.ArgumentParser) -> None:
    """Add its options."""
    ask = train.add_argument_group("with --margin ask")
    ask.add_argument("--ask-port", type=int, default=0, metavar="N", help="of the labelling page (default any)")
    ask.add_argument("--ask-length", type=int, default=50, metavar="N", help="steps of a clip (default 50)")
    ask.add_argument("--ask-first", type=int, default=20, metavar="N", help="answers before the first fit (default 20)")
    ask.add_argument("--ask-model", default="skew", metavar="skew|reward|general", help="what is fitted (default skew)")
    ask.add_argument("--pace", type=float, metavar="N", help="at most so many steps a second, for people to keep up")


def make_asking(options: argparse.Namespace) -> Asking:
    """What asks people while a run trains."""
    from mdcontest.learn.asking import Asking, AskSettings
    from mdcontest.preferences.labelling.launch import start_labelling
    from mdcontest.preferences.labelling.server import require_label_packages

    require_label_packages()
    how = AskSettings(
        first_labels=options.ask_first,
        length=options.ask_length,
        model=options.ask_model,
        port=options.ask_port,
        pace=options.pace,
    )
    return Asking(how, lambda text: print(text, flush=True), start_labelling)
