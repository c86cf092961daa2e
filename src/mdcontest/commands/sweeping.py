"""`mdcontest sweep`, and how any list of jobs is done from the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdcontest.commands.options import add_settings, given_settings, key_values, seeds, steps
from mdcontest.commands.training import prepare
from mdcontest.errors import InputError
from mdcontest.interrupts import noted, stop_if_asked

if TYPE_CHECKING:
    from mdcontest.experiments.engine import Entry
    from mdcontest.experiments.jobs import Job
    from mdcontest.experiments.sweep import Sweep

DONE, FAILED = 0, 1


def add_commands(command: Any) -> None:
    """Add the parsers; `command(name, run, help, reads)` makes one."""
    sweep = command(
        "sweep", run_sweep, "Train tasks × algorithms × seeds × settings, and survive anything.", reads=False
    )
    sweep.add_argument("file", nargs="?", metavar="FILE", help="a sweep as TOML; flags go before what it says")
    sweep.add_argument("--tasks", metavar="A,B", help="tasks by name; mdcontest tasks lists them")
    sweep.add_argument("--algos", dest="algorithms", metavar="x,y", help="of hpi-clip, hpi, sppo, ppo")
    sweep.add_argument("--seeds", type=seeds, metavar="S", help="0-9 or 0,2,5 (default 0)")
    sweep.add_argument("--steps", type=steps, metavar="N", help="environment steps of each run (default 1e6)")
    sweep.add_argument("--out", metavar="FOLDER", help="the folder of runs (default the file's, or runs)")
    sweep.add_argument("--preset", choices=["paper"], help="the paper's settings for each task and algorithm")
    sweep.add_argument(
        "--grid", action="append", default=[], metavar="SETTING=V,W", help="a setting that varies; one --grid for each"
    )
    sweep.add_argument(
        "--task-setting", action="append", default=[], metavar="KEY=VALUE", help="a setting of every task of the sweep"
    )
    sweep.add_argument("--margin", metavar="FOLDER", help="a learned margin in place of the tasks' own")
    sweep.add_argument("--gap-every", type=steps, metavar="N", help="bracket gaps every so many steps of each run")
    sweep.add_argument("--trace-every", type=steps, metavar="N", help="sample what policies do every so many steps")
    sweep.add_argument("--checkpoint-every", type=int, metavar="N", help="iterations (default 10)")
    sweep.add_argument("--dry-run", action="store_true", help="print what would run, and what it would take")
    place_arguments(sweep)
    add_settings(sweep)


def place_arguments(parser: argparse.ArgumentParser) -> None:
    """Where jobs run, and how often they are tried."""
    parser.add_argument("--jobs", type=int, metavar="N", help="processes at a time (default one a core)")
    parser.add_argument("--ray", metavar="ADDRESS", help="run on a Ray cluster instead: auto, or HOST:PORT")
    parser.add_argument("--retries", type=int, default=2, metavar="N", help="of a job that fails (default 2)")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


# --- sweep ------------------------------------------------------------------------------------------------


def run_sweep(options: argparse.Namespace) -> int:
    """Run, or go on with, a sweep; exit code 1 if some run failed in the end."""
    with noted():
        return _sweep(options)


def _sweep(options: argparse.Namespace) -> int:
    prepare()
    if options.ray:
        from mdcontest.experiments.ray_cluster import import_ray

        import_ray()
    sweep, folder = _read(options)
    out = Path(options.out or folder or "runs")
    jobs = sweep.jobs(out)
    if options.jobs is not None and options.jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {options.jobs}")
    if options.dry_run:
        return print_plan(sweep, out, options.jobs)
    first = {job.content["task"]: job for job in reversed(jobs)}
    for job in first.values():  # an environment that cannot be made is found here, before anything starts
        if not _is_there(job):
            _spec(job).agent().close()
    return work(jobs, out, options, f"mdcontest sweep with the same arguments goes on in {out}")


def _is_there(job: Any) -> bool:
    """Done, or damaged: then the sweep itself says so, and does the others."""
    try:
        return job.is_done()
    except InputError:
        return True


def _spec(job: Any) -> Any:
    from mdcontest.learn.spec import RunSpec

    return RunSpec(**job.content)


def _read(options: argparse.Namespace) -> tuple[Sweep, str | None]:
    """The sweep of the file and the flags."""
    from mdcontest.experiments.sweep import make_sweep, read_sweep

    names = ("tasks", "algorithms", "seeds", "steps", "preset", "trace_every", "checkpoint_every", "margin")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.gap_every is not None:
        given["gap"] = {"every": options.gap_every}
    if settings := given_settings(options):
        given["settings"] = settings
    if options.grid:
        given["grid"] = {key: _values(value) for key, value in key_values(options.grid, "--grid").items()}
        both = [name for name in given["grid"] if name in settings]
        if both:
            raise InputError(
                f"--grid varies {both[0]}, so --{both[0].replace('_', '-')} would have no effect; leave one out"
            )
    if options.file is None and "tasks" not in given:
        raise InputError("which sweep? name a TOML file, or --tasks A,B --algos x,y --seeds 0-9 --steps N")
    if options.task_setting:
        if "tasks" not in given:
            raise InputError("--task-setting needs --tasks; a sweep's file has [task_settings.NAME] instead")
        own = key_values(options.task_setting)
        given["task_settings"] = dict.fromkeys((name.strip() for name in given["tasks"].split(",")), own)
    if options.file is None:
        return make_sweep(given), None
    return read_sweep(options.file, **given)


def _values(value: Any) -> list[Any]:
    """1,4,16 → [1, 4, 16]."""
    from mdcontest.commands.options import json_or_text

    if isinstance(value, list):
        return value
    several = json_or_text(f"[{value}]")  # [64,64],[256] are two values, not four
    return several if isinstance(several, list) else [json_or_text(part) for part in str(value).split(",")]


def print_plan(sweep: Sweep, out: Path, jobs: int | None) -> int:
    """What a sweep would run, and what it would take."""
    return print_estimate(sweep.jobs(out), out, jobs)


def print_estimate(planned: list[Job], out: Path, jobs: int | None) -> int:
    """What these runs, and the brackets that follow them, would take."""
    from mdcontest.experiments.cost import estimate_cost
    from mdcontest.experiments.launch import cores
    from mdcontest.experiments.table import clock

    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {jobs}")
    print("timing each task for a moment …", file=sys.stderr, flush=True)
    lines, workers = estimate_cost(planned), jobs or cores()
    print(f"{'task':<26} {'algorithm':<9} {'runs':>5} {'done':>5} {'steps left':>11} {'steps/s':>8} {'core hours':>10}")
    for line in lines:
        print(
            f"{line.task:<26} {line.algorithm:<9} {line.runs:>5} {line.done:>5} {line.steps:>11,} "
            f"{1 / line.seconds_a_step:>8,.0f} {line.core_seconds / 3600:>10.2f}"
        )
    total = sum(line.core_seconds for line in lines)
    runs, done = sum(line.runs for line in lines), sum(line.done for line in lines)
    print(
        f"{runs} runs into {out}, {done} done; about {total / 3600:.2f} core hours, {clock(total / workers)} on ",
        end="",
    )
    print(f"{workers} cores")
    return DONE


# --- jobs of any kind -------------------------------------------------------------------------------------


def work(jobs: list[Any], out: Path, options: argparse.Namespace, again: str, summary: bool = True) -> int:
    """Do the jobs and say how it went."""
    from mdcontest.experiments import launch

    stop_if_asked()
    try:
        entries = launch.run_sweep(
            jobs,
            out,
            workers=options.jobs,
            ray=options.ray,
            retries=options.retries,
            show=not options.quiet,
        )
    except KeyboardInterrupt:
        brackets = any(one.kind == "gap" for job in jobs for one in (job, *job.then))
        lost = ": brackets that were being measured begin anew" if brackets else ", nothing is lost"
        print(f"mdcontest: interrupted{lost}; {again}", file=sys.stderr)
        raise
    return _summary(entries, out, summary)


def _summary(entries: list[Entry], out: Path, summary: bool) -> int:
    from mdcontest.experiments.engine import FAILED as JOB_FAILED

    failed = [entry for entry in entries if entry.state == JOB_FAILED]
    for entry in entries:
        for note in entry.notes:
            print(f"mdcontest: note: {entry.job.label}: {note}", file=sys.stderr)
    for entry in failed:
        print(f"mdcontest: error: {entry.job.label}: {entry.error}", file=sys.stderr)
    if summary:
        before = sum(entry.began == 0.0 and entry not in failed for entry in entries)
        print(f"{len(entries) - len(failed)} done ({before} of them before), {len(failed)} failed, in {out}")
    return FAILED if failed else DONE
