"""The command `mdcontest`. Exit codes: 0 solved, 1 not solved to tolerance or certificate refuted, 2 bad input."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import mdcontest as mdc
from mdcontest.errors import InputError
from mdcontest.files import to_json
from mdcontest.progress import progress_bar
from mdcontest.solution import FORMAT as SOLUTION_FORMAT

SOLVED, NOT_SOLVED, BAD_INPUT = 0, 1, 2
SOLVERS: dict[str, Callable[..., Any]] = {
    "linear-program": mdc.solvers.LinearProgram,
    "hpi": mdc.solvers.HPI,
    "hpi-pg": mdc.solvers.HPIPG,
    "policy-game": mdc.solvers.PolicyGame,
    "mirror-descent": mdc.solvers.MirrorDescent,
}
"""The methods by the names that --solver takes."""
MAX_TABLE_STATES = 40
"""Rules of larger contests are not printed; --out or --json has them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; errors in the input are one line on standard error, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show ε shows \\u03b5
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except InputError as error:
        print(f"mdcontest: error: {error}", file=sys.stderr)
        return BAD_INPUT
    except MemoryError:
        print("mdcontest: error: not enough memory for this contest", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("mdcontest: interrupted before there was a solution", file=sys.stderr)
        return 130
    except OSError as error:
        # The reader of our output has left (`mdcontest … | head`), or the disk it goes to is full.
        if not isinstance(error, BrokenPipeError):
            print(f"mdcontest: error: cannot write the output: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # keeps Python from complaining on exit
        return NOT_SOLVED if isinstance(error, BrokenPipeError) else BAD_INPUT


# --- the commands -----------------------------------------------------------------------------------------


def _solve(options: argparse.Namespace) -> int:
    contest = mdc.load_contest(options.file, max_bytes=options.max_bytes)
    solver = _solver(options)
    if options.out:
        _require_writable(options.out, options.file)
    with progress_bar(show=not options.quiet) as report:
        solution = mdc.solve(contest, solver, tol=options.tol, progress=report)
    if options.out:
        solution.save(options.out)
    if options.json:
        print(to_json(SOLUTION_FORMAT, solution.to_record()), end="")
    else:
        print(_describe(contest, solution))
        if options.out:
            print(f"written to {options.out}")
    return SOLVED if solution.status == mdc.Status.SOLVED else NOT_SOLVED


def _check(options: argparse.Namespace) -> int:
    contest = mdc.load_contest(options.file, max_bytes=options.max_bytes)
    found = mdc.check_conditions(contest)
    if options.json:
        verdicts = {"unichain": found.unichain, "aperiodic": found.aperiodic}
        record: dict[str, Any] = {
            name: {"verdict": str(verdict), "witness": str(verdict.witness) if verdict.witness else None}
            for name, verdict in verdicts.items()
        }
        tau = found.tau if found.tau < float("inf") else None
        print(json.dumps(record | {"tau": tau, "tau_from": found.tau_from}))
    else:
        print(contest)
        print(found)
    if found.unichain == "no":
        print("mdcontest: error: solvers refuse this contest; a restart (with_restart) mends it", file=sys.stderr)
        return BAD_INPUT
    return SOLVED


def _verify(options: argparse.Namespace) -> int:
    contest = mdc.load_contest(options.file, max_bytes=options.max_bytes)
    solution = mdc.load_solution(options.solution, max_bytes=options.max_bytes)
    report = mdc.verify(contest, solution, tol=options.tol, exact=options.exact)
    if options.json:
        numbers = {"gap": 0.0 if isinstance(report.gap, Fraction) else report.gap} | report.residuals
        finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        gap = str(report.gap) if isinstance(report.gap, Fraction) else finite.pop("gap")
        finite.pop("gap", None)
        print(json.dumps({"holds": report.holds, "gap": gap, "residuals": finite, "faults": list(report.faults)}))
    else:
        print(report)
    return SOLVED if report else NOT_SOLVED


def _example(options: argparse.Namespace) -> int:
    if options.name is None:
        for name in mdc.examples.EXAMPLES:
            print(f"{name:22} {mdc.examples.about(name)}")
        return SOLVED
    contest = mdc.examples.make(options.name)
    if options.out:
        contest.save(options.out)
        print(f"written to {options.out}")
    else:
        print(contest.to_json(), end="")
    return SOLVED


def _demo(options: argparse.Namespace) -> int:
    from mdcontest.demo import run_demo  # needs the extra "report"

    return run_demo(Path(options.out), iterations=options.iterations)


# --- helpers ----------------------------------------------------------------------------------------------


def _solver(options: argparse.Namespace) -> Any:
    """The solver the flags ask for, or None to let the library choose."""
    given = {key: getattr(options, key) for key in ("iterations", "eta") if getattr(options, key) is not None}
    if options.solver == "auto":
        if given:
            raise InputError(f"--{next(iter(given))} needs an iterative method: add --solver hpi")
        return None
    try:
        return SOLVERS[options.solver](**given)
    except TypeError:
        raise InputError(f"--solver {options.solver} takes no --{' or --'.join(given)}") from None


def _solver_name(text: str) -> str:
    """linear_program, LinearProgram and lp are linear-program, and so on."""
    plain = text.lower().replace("_", "").replace("-", "")
    names = {name.replace("-", ""): name for name in SOLVERS} | {"lp": "linear-program"}
    return names.get(plain, text)


def _eta(text: str) -> float | str:
    if text in ("adaptive", "theorem"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither adaptive, theorem nor a number") from None


def _require_writable(path: str, contest: str) -> None:
    """Fail before a long solve rather than after it."""
    target, folder = Path(path), Path(path).parent
    if target.suffix.lower() not in (".json", ".npz"):
        raise InputError(f"{path}: the ending must be .json or .npz, it decides the form of the file")
    try:
        if target.exists() and target.samefile(contest):
            raise InputError(f"--out {path} would replace the contest itself; name another file")
        if target.is_dir():
            raise InputError(f"{path} is a folder; name a file in it")
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise InputError(f"cannot write {path}: {folder} is no folder that can be written to")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


def _describe(contest: mdc.Contest, solution: mdc.Solution) -> str:
    """What a person wants to see of a solution."""
    relative = solution.gap / contest.margin.bound if contest.margin.bound else 0.0
    lines = [
        str(contest),
        f"solver   {solution.solver}: {solution.why}",
        f"status   {solution.status}: {solution.status.advice}",
        f"gap      {solution.gap:.3g}, which is {relative:.3g} of the margin's bound {contest.margin.bound:.6g}",
    ]
    if contest.num_states > MAX_TABLE_STATES:
        return "\n".join([*lines, f"rule     {contest.num_states} states; --out or --json writes it"])
    width = max(len(name) for name in [*contest.state_names, "state"])
    columns = [max(len(name), 8) for name in contest.action_names]
    head = "  ".join(name.rjust(w) for name, w in zip(contest.action_names, columns, strict=True))
    lines.append(f"\n{'state'.ljust(width)}  {'time':>8}  {head}")
    for s, name in enumerate(contest.state_names):
        shares = "  ".join(f"{p:{w}.4f}" for p, w in zip(solution.rule[s], columns, strict=True))
        lines.append(f"{name.ljust(width)}  {solution.occupancy[s].sum():8.4f}  {shares}")
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mdcontest",
        description="Solve Markov decision contests: decision problems given by pairwise preferences.",
        epilog="Exit codes: 0 solved, checked or verified; 1 not solved to tolerance or refuted; 2 bad input.",
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

    solve = command("solve", _solve, "Solve a contest and certify the gap of the solution.")
    solve.add_argument(
        "--solver", choices=["auto", *SOLVERS], type=_solver_name, default="auto", help="the method (default: by size)"
    )
    solve.add_argument(
        "--tol", type=float, default=1e-9, help="the gap asked for, relative to the margin's bound (default 1e-9)"
    )
    solve.add_argument("--iterations", type=int, help="iteration limit of an iterative method")
    solve.add_argument("--eta", type=_eta, help="learning rate of hpi: adaptive, theorem or a number")
    solve.add_argument("--out", metavar="FILE", help="write the solution, .json or .npz")
    solve.add_argument("--quiet", action="store_true", help="no progress on standard error")

    command("check", _check, "Tell whether a contest is unichain and aperiodic, and how slowly it can mix.")

    verify = command("verify", _verify, "Check a solution's certificate from the contest alone.")
    verify.add_argument("solution", metavar="SOLUTION", help="a solution, .json or .npz")
    verify.add_argument("--tol", type=float, default=1e-8, help="how far each residual may be off (default 1e-8)")
    verify.add_argument("--exact", action="store_true", help="bound the gap over the rationals (small contests)")

    example = command("example", _example, "Print or write a contest that ships with the package.", reads=False)
    example.add_argument("name", metavar="NAME", nargs="?", help="which one; without it they are listed")
    example.add_argument("--out", metavar="FILE", help="write it there, .json or .npz, instead of printing it")

    demo = command("demo", _demo, "Solve the shipped contests and write an HTML report.", reads=False)
    demo.add_argument(
        "--out", metavar="FOLDER", default="build/demo", help="where the report goes (default build/demo)"
    )
    demo.add_argument("--iterations", type=int, default=3000, help="iterations of HPI (default 3000)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
