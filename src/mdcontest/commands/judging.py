"""`mdcontest gap`, `trace` and `report`: looking at runs that are there."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from mdcontest.commands.options import steps
from mdcontest.commands.outputs import require_page
from mdcontest.commands.sweeping import DONE, place_arguments, work
from mdcontest.commands.training import prepare
from mdcontest.errors import InputError
from mdcontest.interrupts import noted


def add_commands(command: Any) -> None:
    """Add the parsers; `command(name, run, help, reads)` makes one."""
    gap = command("gap", run_gap, "Bracket the optimality gap of a run's policy, or of its policies over time.", False)
    gap.add_argument("run_folders", metavar="RUN", nargs="+", help="the folder of a run, or a folder of runs")
    gap.add_argument("--every", type=steps, metavar="N", help="every so many steps, not only at the end")
    gap.add_argument("--returned", metavar="KIND", help="last, mixture or cloned, or several with commas")
    gap.add_argument("--trajectories", type=int, metavar="N", help="episodes to respond to (default 100)")
    gap.add_argument("--steps", type=steps, metavar="N", help="training steps of a best response (default 200000)")
    gap.add_argument("--restarts", type=int, metavar="N", help="best responses trained (default 2)")
    gap.add_argument("--evaluation-steps", type=steps, metavar="N", help="fresh steps at least (default 50000)")
    gap.add_argument("--confidence", type=float, metavar="X", help="of each interval (default 0.95)")
    gap.add_argument("--seed", type=int, default=0, metavar="S", help="of everything random in it (default 0)")
    gap.add_argument(
        "--margin",
        metavar="FOLDER",
        help='judge by this learned margin, or by the task\'s "own" (default: what it was trained on)',
    )
    gap.add_argument("--json", action="store_true", help="print the results as JSON")
    place_arguments(gap)

    trace = command("trace", run_trace, "Sample what a run's policies do over time, for the report.", reads=False)
    trace.add_argument("run_folders", metavar="RUN", nargs="+", help="the folder of a run, or a folder of runs")
    trace.add_argument("--every", type=steps, metavar="N", help="every so many steps, not only at the end")
    place_arguments(trace)

    report = command("report", run_report, "Write a page about a folder of runs: curves, verdicts, gaps.", reads=False)
    report.add_argument("folder", metavar="FOLDER", help="a folder of runs")
    report.add_argument("--out", default="report.html", metavar="PAGE.html", help="default report.html")
    report.add_argument("--title", metavar="TEXT", help="of the page")
    report.add_argument("--baseline", metavar="NAME", help="what others are compared with (default sppo)")


def run_gap(options: argparse.Namespace) -> int:
    """Measure what is not measured yet, and print all of it."""
    with noted():
        return _gap(options)


def _gap(options: argparse.Namespace) -> int:
    prepare()
    from mdcontest.experiments.jobs import gap_job
    from mdcontest.experiments.sweep import read_kinds
    from mdcontest.gap.bracket import GapBracket
    from mdcontest.gap.curve import read_gap, requests
    from mdcontest.gap.estimate import GapSettings

    names = ("trajectories", "steps", "restarts", "evaluation_steps", "confidence")
    how = GapSettings(**{name: getattr(options, name) for name in names if getattr(options, name) is not None})
    if options.seed < 0:
        raise InputError(f"--seed must not be negative, got {options.seed}")
    kinds: list[str | None] = [None] if options.returned is None else [*read_kinds(options.returned)]
    folder, runs = _runs(options.run_folders)
    wanted = [
        r for run in _readable(runs) for r in requests(run, options.every, kinds, options.seed, how, options.margin)
    ]
    jobs = [gap_job(request, Path(request.run).name) for request in wanted]
    code = work(jobs, folder, options, "the same command goes on", summary=False)
    found = [(request, read_gap(request.file)) for request in wanted if request.file.is_file()]
    if options.json:
        print(json.dumps([{"run": request.run, **record} for request, record in found]))
        return code
    for request, record in found:
        print(f"{Path(request.run).name}, {record['returned']} policy after {record['step']} steps:")
        print(GapBracket.of_record(record))
    return code


def run_trace(options: argparse.Namespace) -> int:
    """Sample what policies do."""
    with noted():
        return _trace(options)


def _trace(options: argparse.Namespace) -> int:
    prepare()
    from mdcontest.experiments.jobs import trace_job
    from mdcontest.gap.curve import has_behaviour, requests
    from mdcontest.gap.estimate import GapSettings
    from mdcontest.learn.loading import task_of
    from mdcontest.learn.runs import read_description

    folder, runs = _runs(options.run_folders)
    jobs = []
    for run in _readable(runs):
        if not has_behaviour(task_of(read_description(run).get("task", {}), run)):
            print(f"mdcontest: note: {run.name}: its task has neither positions nor classes to draw", file=sys.stderr)
            continue
        wanted = requests(run, options.every, [None], 0, GapSettings())
        at = [request.steps for request in wanted]
        at = at if options.every is None else [0, *at]
        jobs.append(trace_job(str(run), at, wanted[0].returned, run.name))
    return work(jobs, folder, options, "the same command goes on")


def _readable(runs: list[Path]) -> list[Path]:
    """The finished runs; of several, one that is not finished or not readable is named and left out."""
    from mdcontest.learn.spec import is_finished

    if len(runs) == 1:
        return runs  # whoever asks for this one alone gets the whole error
    found = []
    for run in runs:
        try:
            if is_finished(run):
                found.append(run)
            else:
                print(f"mdcontest: note: {run.name} is not finished and left out", file=sys.stderr)
        except InputError as error:
            print(f"mdcontest: note: left out: {error}", file=sys.stderr)
    if not found:
        raise InputError(f"none of the {len(runs)} runs is finished; mdcontest train --resume FOLDER finishes them")
    return found


def _runs(folders: list[str]) -> tuple[Path, list[Path]]:
    """The folder to lock and to index, and the runs in it."""
    from mdcontest.learn.spec import find_runs

    runs = list(dict.fromkeys(Path(os.path.abspath(run)) for folder in folders for run in find_runs(Path(folder))))
    parents = {run.parent for run in runs}
    if len(parents) > 1:
        raise InputError(f"these runs lie in {len(parents)} folders; name runs of one folder at a time")
    return parents.pop(), runs


def run_report(options: argparse.Namespace) -> int:
    """Write the page."""
    prepare()
    require_page("--out", options.out)
    from mdcontest.experiments.store import Store
    from mdcontest.report.study_page import write_report

    store = Store(options.folder)
    for warning in write_report(store, Path(options.out), title=options.title, baseline=options.baseline):
        print(f"mdcontest: note: {warning}", file=sys.stderr)
    print(f"{len(store.runs)} run{'s' * (len(store.runs) != 1)}; report: {options.out}")
    return DONE
