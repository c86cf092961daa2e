"""`mdcontest solve`, `check`, `verify` and `example`: finite contests in files."""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mdcontest as mdc
from mdcontest.commands.outputs import refuse_parts
from mdcontest.errors import InputError
from mdcontest.files import place_of, to_json
from mdcontest.names import printable
from mdcontest.progress import progress_bar
from mdcontest.solution import FORMAT as SOLUTION_FORMAT

SOLVED, NOT_SOLVED, BAD_INPUT = 0, 1, 2
SOLVERS: dict[str, Callable[..., Any]] = {
    "linear-program": mdc.solvers.LinearProgram,
    "interior-point": mdc.solvers.InteriorPoint,
    "policy-generation": mdc.solvers.PolicyGeneration,
    "hpi": mdc.solvers.HPI,
    "hpi-pg": mdc.solvers.HPIPG,
    "optimistic-hpi": mdc.solvers.OptimisticHPI,
    "extragradient": mdc.solvers.Extragradient,
    "policy-game": mdc.solvers.PolicyGame,
    "mirror-descent": mdc.solvers.MirrorDescent,
}
"""The methods by the names that --solver takes."""
MAX_TABLE_STATES = 40
"""Rules of larger contests are not printed; --out or --json has them."""


def add_commands(command: Any) -> None:
    """Add the parsers; `command(name, run, help, reads)` makes one."""
    solve = command("solve", run_solve, "Solve a contest and certify the gap of the solution.")
    solve.add_argument(
        "--solver",
        choices=["auto", *SOLVERS],
        type=_solver_name,
        default="auto",
        help="the method (default: chosen from structure, size and memory)",
    )
    solve.add_argument(
        "--tol", type=float, default=1e-9, help="the gap asked for, relative to the margin's bound (default 1e-9)"
    )
    solve.add_argument("--time-limit", type=float, metavar="SECONDS", help="return the best so far after this time")
    solve.add_argument("--iterations", type=int, help="iteration limit of an iterative method")
    solve.add_argument(
        "--eta", type=_eta, help="learning rate: adaptive, theorem (hpi methods) or a number (mirror-descent, too)"
    )
    solve.add_argument("--device", choices=["auto", "cpu", "gpu"], help="where interior-point factors (default auto)")
    solve.add_argument("--out", metavar="FILE", help="write the solution, .json or .npz")
    solve.add_argument("--quiet", action="store_true", help="no progress on standard error")

    command("check", run_check, "Tell whether a contest is unichain and aperiodic, and how slowly it can mix.")

    verify = command("verify", run_verify, "Check a solution's certificate from the contest alone.")
    verify.add_argument("solution", metavar="SOLUTION", help="a solution, .json or .npz")
    verify.add_argument("--tol", type=float, default=1e-8, help="how far each residual may be off (default 1e-8)")
    verify.add_argument("--exact", action="store_true", help="bound the gap over the rationals (small contests)")

    example = command("example", run_example, "Print or write a contest that ships with the package.", reads=False)
    example.add_argument("name", metavar="NAME", nargs="?", help="which one; without it they are listed")
    example.add_argument("--out", metavar="FILE", help="write it there, .json or .npz, instead of printing it")


# --- the commands -----------------------------------------------------------------------------------------


def run_solve(options: argparse.Namespace) -> int:
    """Solve a contest and print or write the solution."""
    contest = mdc.load_contest(options.file, max_bytes=options.max_bytes)
    solver = _solver(options)
    if options.out:
        _require_writable(options.out, options.file)
    with progress_bar(show=not options.quiet) as report:
        solution = mdc.solve(contest, solver, tol=options.tol, time_limit=options.time_limit, progress=report)
    try:
        if options.out:
            solution.save(options.out)
    finally:  # where it cannot be written after all, what was found is on the screen at least
        record = to_json(SOLUTION_FORMAT, solution.to_record()) if options.json else None
        print(_describe(contest, solution) if record is None else record, end="\n" if record is None else "")
    if options.out and not options.json:
        print(f"written to {options.out}")
    return SOLVED if solution.status == mdc.Status.SOLVED else NOT_SOLVED


def run_check(options: argparse.Namespace) -> int:
    """Print the verdicts on a contest's conditions."""
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


def run_verify(options: argparse.Namespace) -> int:
    """Check a certificate."""
    contest = mdc.load_contest(options.file, max_bytes=options.max_bytes)
    solution = mdc.load_solution(options.solution, max_bytes=options.max_bytes)
    report = mdc.verify(contest, solution, tol=options.tol, exact=options.exact)
    if options.json:
        numbers = {"gap": 0.0 if isinstance(report.gap, Fraction) else report.gap} | report.residuals
        finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        gap = _all_digits(report.gap) if isinstance(report.gap, Fraction) else finite.pop("gap")
        finite.pop("gap", None)
        print(json.dumps({"holds": report.holds, "gap": gap, "residuals": finite, "faults": list(report.faults)}))
    else:
        print(report)
    return SOLVED if report else NOT_SOLVED


def run_example(options: argparse.Namespace) -> int:
    """List, print or write shipped contests."""
    if options.name is None:
        for name in mdc.examples.EXAMPLES:
            print(f"{name:22} {mdc.examples.about(name)}")
        return SOLVED
    contest = mdc.examples.make(options.name)
    if options.out:
        refuse_parts("--out", options.out)
        contest.save(options.out)
        print(f"written to {options.out}")
    else:
        print(contest.to_json(), end="")
    return SOLVED


# --- helpers ----------------------------------------------------------------------------------------------


def _all_digits(value: Fraction) -> str:
    """Numerator and denominator, however long: Python's limit guards against texts from outside."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return str(value)
    finally:
        sys.set_int_max_str_digits(limit)


def _solver(options: argparse.Namespace) -> Any:
    """The solver the flags ask for, or None to let the library choose."""
    given = {key: getattr(options, key) for key in ("iterations", "eta", "device") if getattr(options, key) is not None}
    if options.solver == "auto":
        if given:
            raise InputError(f"--{next(iter(given))} belongs to one method: say which, such as --solver hpi")
        return None
    method = SOLVERS[options.solver]
    if strange := [name for name in given if name not in inspect.signature(method).parameters]:
        raise InputError(f"--solver {options.solver} takes no --{' or --'.join(strange)}")
    return method(**given)


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
    target = Path(path)
    if target.suffix.lower() not in (".json", ".npz"):
        raise InputError(f"{path}: the ending must be .json or .npz, it decides the form of the file")
    try:
        if target.exists() and target.samefile(contest):
            raise InputError(f"--out {path} would replace the contest itself; name another file")
        if target.is_dir():
            raise InputError(f"{path} is a folder; name a file in it")
        refuse_parts("--out", path)
        folder = place_of(path).parent
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
        f"status   {solution.status}: {_advice(contest, solution)}",
        f"gap      {solution.gap:.3g}, which is {relative:.3g} of the margin's bound {contest.margin.bound:.6g}",
    ]
    if contest.num_states > MAX_TABLE_STATES:
        return "\n".join([*lines, f"rule     {contest.num_states} states; --out or --json writes it"])
    states, actions = (list(map(printable, names)) for names in (contest.state_names, contest.action_names))
    width = max(len(name) for name in [*states, "state"])
    columns = [max(len(name), 8) for name in actions]
    head = "  ".join(name.rjust(w) for name, w in zip(actions, columns, strict=True))
    lines.append(f"\n{'state'.ljust(width)}  {'time':>8}  {head}")
    for s, name in enumerate(states):
        shares = "  ".join(f"{p:{w}.4f}" for p, w in zip(solution.rule[s], columns, strict=True))
        lines.append(f"{name.ljust(width)}  {solution.occupancy[s].sum():8.4f}  {shares}")
    return "\n".join(lines)


def _advice(contest: mdc.Contest, solution: mdc.Solution) -> str:
    """What the status means; a contest without preferences is solved whatever rounding leaves of the gap."""
    if solution.status == mdc.Status.SOLVED and solution.gap > solution.tol * contest.margin.bound:
        return "No margin exceeds the rounding of its own terms: nothing is preferred, and every rule is a solution."
    return solution.status.advice
