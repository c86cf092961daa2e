"""The command `mdcontest`.

Exit codes: 0 done, 1 not solved to tolerance, refuted or a run failed, 2 bad input, 130 interrupted, 141 nobody reads
the output any more.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import mdcontest as mdc
from mdcontest.commands import finite, fitting, judging, labelling, playing, preferring, sweeping, training
from mdcontest.commands.finite import BAD_INPUT
from mdcontest.commands.options import steps_or_none
from mdcontest.commands.outputs import refuse_empty
from mdcontest.errors import InputError, too_little_memory

NOBODY_READS = 141
"""What shells report of a program whose reader has left: 128 + SIGPIPE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; errors in the input are one line on standard error, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show ε shows \\u03b5
    options = _parser().parse_args(arguments)
    try:
        refuse_empty(options)
        code: int = options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except InputError as error:
        print(f"mdcontest: error: {error}", file=sys.stderr)
        return BAD_INPUT
    except MemoryError as error:
        print(f"mdcontest: error: {too_little_memory(error)}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("mdcontest: interrupted before it was done", file=sys.stderr)
        return 130
    except OSError as error:
        # The reader of our output has left (`mdcontest … | head`), or the disk it goes to is full.
        if not isinstance(error, BrokenPipeError):
            what = "cannot write the output" if error.filename is None else error.filename
            print(f"mdcontest: error: {what}: {error.strerror}", file=sys.stderr)
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a stdout that is no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # keeps Python from complaining on exit
        return NOBODY_READS if isinstance(error, BrokenPipeError) else BAD_INPUT


def _demo(options: argparse.Namespace) -> int:
    from mdcontest.demo import run_demo  # needs the extra "report"

    return run_demo(Path(options.out), options.iterations, options.steps, options.jobs)


class _Parser(argparse.ArgumentParser):
    """Of one command, or of all: wrong flags are one line, as other bad input is, and it says where help is."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"mdcontest: error: {message}; see {self.prog} --help\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """A command finds its own unknown flags: argparse leaves them to the parser of all, which has other help."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mdcontest",
        description="Decision problems given by pairwise preferences: solve finite ones, train policies on others.",
        epilog="Exit codes: 0 done; 1 not solved to tolerance, refuted, or a run failed; 2 bad input.",
    )
    parser.add_argument("--version", action="version", version=f"mdcontest {mdc.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], help: str, reads: bool = True) -> Any:
        made = commands.add_parser(name, help=help, description=help)
        made.set_defaults(run=run)
        if reads:
            made.add_argument("file", metavar="FILE", help="a contest, .json or .npz")
            made.add_argument(
                "--max-bytes", type=int, default=1 << 30, help="refuse files that unpack to more (default 1 GiB)"
            )
            made.add_argument("--json", action="store_true", help="print the result as JSON")
        return made

    finite.add_commands(command)
    training.add_commands(command)
    playing.add_commands(command)
    sweeping.add_commands(command)
    judging.add_commands(command)
    preferring.add_commands(command)
    fitting.add_commands(command)
    labelling.add_commands(command)

    demo = command(
        "demo", _demo, "Solve the shipped contests, train on Reacher-NT, and write an HTML report.", reads=False
    )
    demo.add_argument(
        "--out", metavar="FOLDER", default="build/demo", help="where the report goes (default build/demo)"
    )
    demo.add_argument("--iterations", type=int, default=3000, help="iterations of HPI (default 3000)")
    demo.add_argument(
        "--steps", type=steps_or_none, default=400_000, help="training steps (default 4e5); 0: no training"
    )
    demo.add_argument("--jobs", type=int, default=2, help="training runs at a time (default 2)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
