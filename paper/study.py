"""What the commands here share: a study, which is sweeps at full or at quick scale, and a measurement's options."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import recorded

from mdcontest.commands.options import seeds, steps
from mdcontest.commands.sweeping import print_estimate, work
from mdcontest.commands.training import prepare
from mdcontest.errors import InputError
from mdcontest.experiments.jobs import GAP
from mdcontest.experiments.sweep import Sweep
from mdcontest.folders import make_folder
from mdcontest.interrupts import noted
from mdcontest.settings import algorithm_name

if TYPE_CHECKING:
    from mdcontest.experiments.jobs import Job
    from mdcontest.experiments.store import Store

QUICK_TABLES = "build/paper/finite-quick"
"""Where quick measurements go: those in paper/results are the committed ones."""


@dataclass(frozen=True)
class Study:
    """One figure of the paper."""

    name: str
    """Of its folder and page."""
    title: str
    figure: str
    """The paper's label."""
    full: Sequence[Sweep]
    """As the paper ran it, and what is looked at beside it."""
    quick: Sequence[Sweep]
    """The same at a scale that ends within 10 minutes on 2 cores; shows that everything works, not the result."""
    baseline: str = "sppo"


def main(study: Study) -> int:
    """Run the study, or go on with it, and write its page."""
    parser = argparse.ArgumentParser(description=f"{study.title} ({study.figure}).")
    add_options(parser)
    parser.add_argument("--missing", action="store_true", help="only runs that paper/results does not have")
    return guarded(lambda options: _run(study, options), parser.parse_args())


def add_options(parser: argparse.ArgumentParser) -> None:
    """What every study can be told."""
    parser.add_argument("--quick", action="store_true", help="a small version, within 10 minutes on 2 cores")
    parser.add_argument("--out", metavar="FOLDER", help="runs and page go here (default build/paper/NAME)")
    parser.add_argument("--tasks", metavar="A,B", help="only these tasks")
    parser.add_argument("--algos", metavar="x,y", help="only these algorithms")
    parser.add_argument("--seeds", type=seeds, metavar="S", help="0-9 or 0,2,5")
    parser.add_argument("--steps", type=steps, metavar="N", help="environment steps of each run")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--own", action="store_true", help="this library's settings instead of the paper's")
    whose.add_argument("--paper", action="store_true", help="the paper's settings only, where a study has both")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes at a time (default one a core)")
    parser.add_argument("--ray", metavar="ADDRESS", help="run on a Ray cluster instead")
    parser.add_argument("--retries", type=int, default=2, metavar="N", help="of a job that fails (default 2)")
    parser.add_argument("--dry-run", action="store_true", help="print what would run, and what it would take")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def guarded(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Its exit code; bad input is one line, and so is an interrupt."""
    try:
        with noted():
            return run(options)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def measuring(about: str, run: Callable[[bool, Path], None], arguments: Sequence[str] | None) -> int:
    """The command line of a measurement on finite contests: `run` is told whether to be quick, and where to write."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="a small version, within 20 seconds")
    parser.add_argument("--out", metavar="FOLDER", help=f"default paper/results, with --quick {QUICK_TABLES}")
    return guarded(lambda options: _measure(run, options), parser.parse_args(arguments))


def _measure(run: Callable[[bool, Path], None], options: argparse.Namespace) -> int:
    folder, began = Path(options.out or (QUICK_TABLES if options.quick else recorded.FOLDER)), time.monotonic()
    make_folder(folder)
    run(options.quick, folder)
    print(f"written to {folder} after {time.monotonic() - began:.0f} s")
    return 0


def _run(study: Study, options: argparse.Namespace) -> int:
    prepare()
    from mdcontest.experiments.store import Store

    sweeps = change_sweeps(study.quick if options.quick else study.full, options, study.full)
    folder = Path(options.out or f"build/paper/{study.name}{'-quick' if options.quick else ''}")
    runs, began = folder / "runs", time.monotonic()
    jobs = wanted([job for sweep in sweeps for job in sweep.jobs(runs)], options.missing)
    if options.dry_run:
        return print_dry_run(jobs, runs, options)
    if not jobs:
        print("nothing is missing: all of these runs are recorded")
        return 0
    code = work(jobs, runs, options, "the same command goes on")
    page = write_page(Store(runs), folder, study.title, study.baseline)
    print(f"{study.figure}: {page}, after {time.monotonic() - began:.0f} s")
    return code


def print_dry_run(jobs: list[Job], runs: Path, options: argparse.Namespace) -> int:
    """One table of what would be run, each training once and with its brackets."""
    if not jobs:
        print("0 runs would be made: all of these runs are recorded")
        return 0
    code = print_estimate(jobs, runs, options.jobs)
    if options.missing:
        print("runs that are recorded are left out")
    return code


def write_page(store: Store, folder: Path, title: str, baseline: str | None) -> Path:
    """The report about a study's runs."""
    from mdcontest.report.study_page import write_report

    page = folder / "report.html"
    known = {name for run in store.runs for name in (run.variant, run.algorithm)}
    chosen = baseline if baseline in known else None  # a folder with runs of other lengths has others
    for warning in write_report(store, page, title=title, baseline=chosen):
        print(f"note: {warning}", file=sys.stderr)
    return page


def wanted(jobs: list[Job], missing: bool) -> list[Job]:
    """Each run once, whichever sweeps it is part of; only those that were never recorded, if that is asked for.

    A run whose brackets were not all recorded is wanted, too.
    """
    tables: recorded.Tables = recorded.read_tables() if missing else {"runs": [], "gaps": []}
    known = {row["run"] for row in tables["runs"]}
    measured = {(row["run"], row["step"], row["returned"]) for row in tables["gaps"]}
    found: dict[str, Job] = {}
    for job in jobs:
        there = found.setdefault(job.folder, job)
        after = {one.key: one for one in (*there.then, *job.then)}
        found[job.folder] = replace(there, then=tuple(after.values()))

    def is_recorded(job: Job) -> bool:
        run, gaps = Path(job.folder).name, [after.content for after in job.then if after.kind == GAP]
        return run in known and all((run, gap["steps"], gap["returned"]) in measured for gap in gaps)

    return [job for job in found.values() if not is_recorded(job)]


def change_sweeps(sweeps: Sequence[Sweep], options: argparse.Namespace, full: Sequence[Sweep] = ()) -> list[Sweep]:
    """The sweeps with what the command line says; those of which nothing is left are left out.

    `full` is the whole study, if `sweeps` are its quick version: tasks and algorithms must be among those it has.
    """
    study = full or sweeps
    if options.paper:
        study, sweeps = ([sweep for sweep in part if sweep.preset is not None] for part in (study, sweeps))
    own_part = [sweep for sweep in study if sweep.preset is None] if options.own else []
    tasks = _chosen("--tasks", options.tasks, [task for sweep in study for task in sweep.tasks], "")
    known = [name for sweep in own_part or study for name in sweep.algorithms]
    algorithms = _chosen("--algos", options.algos, known, "in our own settings " if own_part else "", algorithm_name)
    found = []
    for sweep in [sweep for sweep in sweeps if options.own and sweep.preset is None] or sweeps:
        left = [name for name in sweep.algorithms if name in algorithms]
        there = sweep.tasks if options.tasks is None else [name for name in tasks if name in _tasks_of(sweep, study)]
        if left and there:
            found.append(_changed(sweep, options, algorithms=left, tasks=there))
    if not found:
        raise InputError(f"nothing is left to run: this study does not have {options.algos} on {options.tasks}")
    return found


def _tasks_of(sweep: Sweep, study: Sequence[Sweep]) -> set[str]:
    """What it may be run on: a quick version has fewer tasks than the sweep of the study that does the same."""
    alike = [one for one in study if _does(one) == _does(sweep)]
    return {task for one in (sweep, *alike) for task in one.tasks}


def _does(sweep: Sweep) -> tuple[Any, ...]:
    return tuple(sweep.algorithms), sweep.settings, sweep.grid


def _chosen(
    option: str, text: str | None, known: Sequence[str], where: str, read: Callable[[str], str] = str
) -> list[str]:
    """The names that an option lists, each once, or all that are known; one that is not is an error."""
    known = list(dict.fromkeys(known))
    if text is None:
        return known
    names = list(dict.fromkeys(read(name.strip()) for name in text.split(",")))
    if strange := [repr(name) for name in names if name not in known]:
        are = "is" if len(known) == 1 else "are"
        raise InputError(f"{option} has {', '.join(strange)}: {where}only {', '.join(known)} {are} part of this study")
    return names


def _changed(sweep: Sweep, options: argparse.Namespace, **given: Any) -> Sweep:
    """The sweep with these fields, and the seeds, steps and settings of the command line."""
    given |= {name: getattr(options, name) for name in ("seeds", "steps") if getattr(options, name)}
    if options.own:
        given["preset"] = None
    settings = {name: own for name, own in sweep.task_settings.items() if name in given["tasks"]}
    return replace(sweep, **given, task_settings=settings)
