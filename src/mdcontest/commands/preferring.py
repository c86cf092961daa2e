"""`mdcontest collect`, `compare` and `comparisons`: datasets of trajectories and of what is preferred in them."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdcontest.commands.options import key_values, steps, whole_number
from mdcontest.commands.outputs import refuse_runs, require_ending
from mdcontest.commands.training import DONE, prepare
from mdcontest.errors import InputError
from mdcontest.names import printable

if TYPE_CHECKING:
    from mdcontest.preferences.dataset import Dataset

TRAJECTORIES, MOST_TRAJECTORIES = 500, 10_000_000
PAIRS = 100_000
TEACHER = "probabilistic:relative=0.5"
"""The sign of a margin hides how strong a preference is, and with it whatever a stronger one always outweighs."""


def add_commands(command: Any) -> None:
    """Add the parsers; `command(name, run, help, reads)` makes one."""
    collect = command("collect", run_collect, "Play policies of runs, or read episodes, into a dataset.", reads=False)
    collect.add_argument("run_folders", metavar="RUN", nargs="*", help="the folder of a run, or a folder of runs")
    collect.add_argument("--out", required=True, metavar="DATASET", help="the dataset's folder; made or added to")
    collect.add_argument("--trajectories", type=int, metavar="N", help=f"in all (default {TRAJECTORIES})")
    collect.add_argument("--until", type=steps, metavar="STEPS", help="policies of the first so many training steps")
    collect.add_argument("--seed", type=int, default=0, metavar="S", help="of the episodes (default 0)")
    collect.add_argument("--minari", metavar="ID", help="the episodes of a Minari dataset on this machine instead")
    collect.add_argument("--task", metavar="TASK", help="with --minari: what they are episodes of")
    collect.add_argument(
        "--task-setting", action="append", default=[], metavar="KEY=VALUE", help="with --task: a setting of the task"
    )
    collect.add_argument("--quiet", action="store_true", help="no progress on standard error")

    compare = command("compare", run_compare, "Let a simulated teacher compare segments of a dataset.", reads=False)
    compare.add_argument("dataset", metavar="DATASET", help="a folder that mdcontest collect made")
    compare.add_argument("--pairs", type=whole_number, default=PAIRS, metavar="N", help=f"how many (default {PAIRS})")
    compare.add_argument(
        "--teacher",
        default=TEACHER,
        metavar="T",
        help=f"such as sign, probabilistic:tau=0.5 or noisy:0.1+sign (default {TEACHER})",
    )
    compare.add_argument("--length", type=int, default=1, metavar="L", help="steps of a segment (default 1)")
    compare.add_argument("--seed", type=int, default=0, metavar="S", help="of pairs and answers (default 0)")
    compare.add_argument("--annotator", default="", metavar="NAME", help="stored with the answers (default: T)")
    compare.add_argument("--json", action="store_true", help="print the counts as JSON")

    comparisons = command("comparisons", run_comparisons, "Say what is in a dataset; export, import, merge.", False)
    comparisons.add_argument("dataset", metavar="DATASET", help="a folder that mdcontest collect made")
    comparisons.add_argument("--json", action="store_true", help="print the summary as JSON")
    what = comparisons.add_mutually_exclusive_group()
    what.add_argument(
        "--export", dest="to_file", metavar="FILE", help="write the comparisons to a .jsonl file, one a line"
    )
    what.add_argument("--import", dest="from_file", metavar="FILE", help="add the comparisons of such a file")
    what.add_argument("--merge", metavar="OTHER", help="add everything another dataset has")


# --- collect ----------------------------------------------------------------------------------------------


def run_collect(options: argparse.Namespace) -> int:
    """Add trajectories to a dataset."""
    prepare()
    if options.seed < 0:
        raise InputError(f"--seed must not be negative, got {options.seed}")
    if options.trajectories is not None and not 1 <= options.trajectories <= MOST_TRAJECTORIES:
        raise InputError(
            f"--trajectories must be at least 1 and at most {MOST_TRAJECTORIES}, got {options.trajectories}"
        )
    refuse_runs(options.out, "dataset")
    if options.minari is not None:
        return _collect_minari(options)
    if options.task is not None or options.task_setting:
        raise InputError("--task goes with --minari; a run knows its task")
    if not options.run_folders:
        raise InputError("which runs? name their folders, or --minari ID for episodes of a Minari dataset")
    from mdcontest.learn.collect import collect
    from mdcontest.learn.spec import find_runs

    found = collect(
        [run for folder in options.run_folders for run in find_runs(Path(folder))],
        options.out,
        options.trajectories or TRAJECTORIES,
        options.seed,
        max_steps=options.until,
        progress=not options.quiet,
    )
    return _say_collected(found.dataset, found.new, found.known)


def _collect_minari(options: argparse.Namespace) -> int:
    if options.run_folders or options.until is not None:
        raise InputError("--minari takes the episodes of a dataset; leave out the runs and --until")
    if options.task is None:
        raise InputError("--minari needs --task TASK: which task are these episodes of?")
    from itertools import islice

    from mdcontest import tasks
    from mdcontest.preferences.dataset import Dataset
    from mdcontest.preferences.minari_source import minari_trajectories

    task = tasks.make(options.task, **key_values(options.task_setting))
    read = list(islice(minari_trajectories(options.minari, task), options.trajectories))
    dataset = Dataset.at(options.out, task)
    known = set(dataset.index())
    ids = set(dataset.add_trajectories(read))
    return _say_collected(dataset, len(ids - known), len(ids & known))


def _say_collected(dataset: Dataset, new: int, known: int) -> int:
    infos = dataset.index().values()
    already = f" ({known} were there already)" if known else ""
    print(f"{new} new trajectories{already}; {dataset.path} has {len(infos)}, {sum(i.length for i in infos)} steps")
    return DONE


# --- compare, comparisons ---------------------------------------------------------------------------------


def run_compare(options: argparse.Namespace) -> int:
    """Draw pairs, ask the teacher, store the answers."""
    prepare()
    from mdcontest.preferences.asking import compare
    from mdcontest.preferences.dataset import Dataset

    asked = compare(
        Dataset.open(options.dataset),
        options.teacher,
        options.pairs,
        length=options.length,
        seed=options.seed,
        annotator=options.annotator,
        time=time.time(),
    )
    if options.json:
        print(json.dumps({"asked": asked.asked, "new": asked.new, "labels": asked.counts}))
        return DONE
    print(f"{asked.asked} pairs compared by {options.annotator or options.teacher}, {asked.new} of them new")
    _print_counts(asked.counts)
    return DONE


def run_comparisons(options: argparse.Namespace) -> int:
    """Export, import or merge, or else the summary."""
    prepare()
    from mdcontest.preferences.dataset import Dataset
    from mdcontest.preferences.jsonl import export_comparisons, import_comparisons
    from mdcontest.preferences.summary import summarise

    dataset = Dataset.open(options.dataset)
    if options.to_file is not None:
        require_ending("--export", options.to_file, "comparisons.jsonl", "a file of comparisons")
        print(f"{export_comparisons(dataset, options.to_file)} comparisons written to {options.to_file}")
        return DONE
    if options.from_file is not None:
        print(f"{import_comparisons(dataset, options.from_file)} new comparisons from {options.from_file}")
        return DONE
    if options.merge is not None:
        trajectories, comparisons = dataset.merge(Dataset.open(options.merge))
        print(f"{trajectories} new trajectories and {comparisons} new comparisons from {options.merge}")
        return DONE
    found = summarise(dataset)
    if options.json:
        print(json.dumps(found))
    else:
        _print_summary(found)
    return DONE


def _print_summary(found: dict[str, Any]) -> None:
    print(f"task          {found['task']}")
    print(f"trajectories  {found['trajectories']}, {found['steps']} steps, {found['terminated']} ended by themselves")
    for source, count in found["trajectory_sources"].items():
        print(f"  {count:>9}  {source or '(no source)'}")
    print(f"comparisons   {found['comparisons']}")
    _print_counts(found["labels"])
    for title, counts in (("of length", found["lengths"]), ("from", found["sources"])):
        for name, count in counts.items():
            print(f"  {count:>9}  {title} {name or '(no source)'}")
    for name, about in found["annotators"].items():
        said = _agreeing(about["agreement"])
        who = printable(name) or "(nobody named)"
        print(f"  {about['comparisons']:>9}  by {who}{', with itself' + said if said else ''}")
    if said := _agreeing(found["agreement_between"]):
        print(f"annotators    with each other{said}")


def _agreeing(agreement: dict[str, Any]) -> str:
    """The end of a sentence about repeated answers; nothing where none was repeated."""
    if agreement["share"] is None:
        return ""
    share = f"{100 * agreement['share']:.1f} %"
    return f" agreed in {share} of {agreement['compared']} pairs of answers about the same segments"


def _print_counts(counts: dict[str, int]) -> None:
    for label, count in counts.items():
        print(f"  {count:>9}  {label}")
