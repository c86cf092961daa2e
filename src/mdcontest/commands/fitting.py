"""`mdcontest fit` and `margin`: a margin learned from comparisons, and what it is worth."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdcontest.commands.options import reader_of
from mdcontest.commands.outputs import refuse_runs, require_page
from mdcontest.commands.training import DONE, prepare
from mdcontest.errors import FileFormatError, InputError, did_you_mean, preview
from mdcontest.interrupts import noted

if TYPE_CHECKING:
    from mdcontest.preferences import Comparisons, Learned
    from mdcontest.preferences.dataset import Dataset

COMPARED = ("reward", "skew", "general")
"""The models of --compare-models, the simplest first."""


def add_commands(command: Any) -> None:
    """Add the parsers; `command(name, run, help, reads)` makes one."""
    fit = command("fit", run_fit, "Fit a margin to the comparisons of a dataset, and say what it is worth.", False)
    fit.add_argument("dataset", metavar="DATASET", help="a folder that mdcontest collect made")
    fit.add_argument("--out", required=True, metavar="MARGIN", help="the margin's folder; one in it is replaced")
    fit.add_argument("--model", default="skew", metavar="skew|reward|general", help="default skew")
    fit.add_argument("--members", type=int, default=3, metavar="N", help="of the ensemble (default 3)")
    fit.add_argument("--held-out", type=float, default=0.2, metavar="X", help="share it is judged on (default 0.2)")
    fit.add_argument("--penalty", type=float, metavar="X", help="weight decay (default: the best of several)")
    fit.add_argument("--noise", type=float, default=0.1, metavar="X", help="share of chance answers (default 0.1)")
    fit.add_argument(
        "--inputs", metavar="FIELD,FIELD", help="what it reads of an outcome (default obs,action,next_obs)"
    )
    fit.add_argument(
        "--hidden", type=reader_of("hidden", (64, 64)), default=(64, 64), metavar="N,N", help="default 64,64"
    )
    fit.add_argument("--rank", type=int, default=16, metavar="N", help="features of the cyclic part (default 16)")
    fit.add_argument("--updates", type=int, metavar="N", help="a member (default: by the number of comparisons)")
    fit.add_argument("--annotators", metavar="A,B", help="only what these people said")
    fit.add_argument("--source", metavar="S", help="only comparisons from there, such as page")
    fit.add_argument("--seed", type=int, default=0, metavar="S", help="of everything random in it (default 0)")
    fit.add_argument("--page", metavar="PAGE.html", help="write a page about it")
    fit.add_argument(
        "--compare-models", action="store_true", help="fit reward, skew and general on the same split; save --model's"
    )
    fit.add_argument("--json", action="store_true", help="print the report as JSON")
    fit.add_argument("--quiet", action="store_true", help="no progress on standard error")

    margin = command("margin", run_margin, "Say again what a fitted margin is worth.", reads=False)
    margin.add_argument("folder", metavar="MARGIN", help="a folder that mdcontest fit made, or RUN/margin")
    margin.add_argument("--json", action="store_true", help="print the report as JSON")
    margin.add_argument("--page", metavar="PAGE.html", help="write a page about it")
    margin.add_argument("--data", metavar="DATASET", help="with --page: for pictures, what it was fitted to")


# --- fit --------------------------------------------------------------------------------------------------


def run_fit(options: argparse.Namespace) -> int:
    """Fit, save, print, and write the page."""
    with noted():
        return _fit(options)


def _fit(options: argparse.Namespace) -> int:
    prepare()
    from mdcontest.preferences import FitSettings
    from mdcontest.preferences.dataset import Dataset

    settings = _settings(options)
    FitSettings(**settings)  # a wrong one is found before anything is read
    if options.page is not None:
        _require_page(options.page)
    with _place_for_margin(options.out):
        dataset = Dataset.open(options.dataset)
        which = _filters(dataset, options)
        comparisons = dataset.comparisons(annotator=which["annotators"], source=which["source"])
        data = {"task": dataset.task_name, "dataset": dataset.path.resolve().name, **which}
        margin = _fitted(comparisons, options, settings, data)
        margin.save(options.out)
    if options.page:
        _write_page(options.page, margin, dataset)
    return _say(margin, options, [f"saved to {options.out}"] + [f"page: {options.page}"] * bool(options.page))


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    names = ("model", "members", "held_out", "penalty", "noise", "hidden", "rank", "updates")
    inputs = None if options.inputs is None else _names(options.inputs)
    return {name: getattr(options, name) for name in names} | {"inputs": inputs}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


@contextlib.contextmanager
def _place_for_margin(out: str) -> Iterator[None]:
    """Its folder is there within, and gone again where no margin came of it.

    An error, before minutes are spent, where a margin cannot be put.
    """
    refuse_runs(out, "margin")
    folder = Path(out)
    try:
        if (folder / "margin.json").exists() and _is_trained_on_it(folder.parent):
            raise InputError(f"--out {folder} is what the run was trained on; name another folder for the margin")
        if folder.exists() and not folder.is_dir():
            raise InputError(f"--out {folder} is a file; name a folder")
        if (folder / "dataset.json").exists():
            raise InputError(f"--out {folder} holds a dataset; name another folder for the margin")
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--out {folder}: {getattr(error, 'strerror', None) or error}") from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"--out {folder} may not be written to")
    try:
        yield
    except BaseException:
        for place in missing:
            with contextlib.suppress(OSError):  # something is in it by now
                place.rmdir()
        raise


def _is_trained_on_it(run: Path) -> bool:
    """Whether the folder is a run with a margin of its own; one that asks people fits its margin again and again."""
    from mdcontest.learn.runs import read_description
    from mdcontest.preferences.asked import ASK

    if not (run / "run.json").is_file():
        return False
    with contextlib.suppress(InputError):  # a description that cannot be read may be that of any run
        return bool(read_description(run)["task"].get("margin") != ASK)
    return True


def _require_page(page: str) -> None:
    require_page("--page", page)
    if not os.path.isdir(os.path.dirname(page) or "."):
        raise InputError(f"--page {page}: there is no folder {os.path.dirname(page)}")


def _filters(dataset: Dataset, options: argparse.Namespace) -> dict[str, Any]:
    """Which comparisons to take; a name that nobody in the dataset has is an error."""
    if options.annotators is None and options.source is None:
        return {"annotators": None, "source": None}
    entries = dataset.entries()
    people, sources = ({getattr(entry, name) for entry in entries} for name in ("annotator", "source"))
    asked = None
    if options.annotators is not None:
        # A simulated teacher's name may have commas of its own.
        asked = [options.annotators] if options.annotators in people else _names(options.annotators)
        _require_known(asked, people, "annotators", dataset)
    if options.source is not None:
        _require_known([options.source], sources, "sources", dataset)
    return {"annotators": asked, "source": options.source}


def _require_known(asked: list[str], known: set[str], what: str, dataset: Dataset) -> None:
    for name in asked:
        if name not in known:
            near = did_you_mean(name, sorted(known), what)
            raise InputError(f"nothing in {dataset.path} is by {name!r}{near}")
    if not asked:
        raise InputError(f"--{what} names nobody; there are {preview(sorted(known))}")


def _fitted(
    comparisons: Comparisons, options: argparse.Namespace, settings: dict[str, Any], data: dict[str, Any]
) -> Learned:
    """The margin of --model, its report completed with where it comes from and how the other models did."""
    from mdcontest.preferences import fit_margin
    from mdcontest.preferences.learned import margin_of

    show = not (options.quiet or options.json)
    models = COMPARED if options.compare_models else (options.model,)
    found = {
        model: fit_margin(comparisons, seed=options.seed, progress=show, **settings | {"model": model})
        for model in models
    }
    more: dict[str, Any] = {"data": data}
    if options.compare_models:
        more["models"] = [_beside(model, margin.report) for model, margin in found.items()]
    chosen = found[options.model]
    return margin_of(chosen.ensemble, {**chosen.report, **more})


def _beside(model: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """What the comparison of models shows of one."""
    return {
        "model": model,
        "accuracy": report["accuracy"],
        "log_likelihood": report["log_likelihood"],
        "calibration_error": report["calibration"]["error"],
        "cyclic_share": report["cycles"]["cyclic_share"],
        "penalty": report["penalty"],
    }


# --- margin -----------------------------------------------------------------------------------------------


def run_margin(options: argparse.Namespace) -> int:
    """Print the report that lies beside a margin."""
    prepare()
    from mdcontest.preferences import load_margin
    from mdcontest.preferences.dataset import Dataset

    if options.data and not options.page:
        raise InputError("--data is for the pictures of a page; add --page PAGE.html")
    if options.page is not None:
        _require_page(options.page)
    margin = load_margin(options.folder)
    if "cycles" not in margin.report:
        raise InputError(f"the margin in {options.folder} has no report: mdcontest fit did not make it")
    dataset = Dataset.open(options.data) if options.data else None
    try:
        if options.page:
            _write_page(options.page, margin, dataset)
        return _say(margin, options, [f"page: {options.page}"] if options.page else [])
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise FileFormatError(
            f"the report in {options.folder} was changed or damaged: {error!r}; the margin itself is whole"
        ) from error


def _write_page(page: str, margin: Learned, dataset: Dataset | None) -> None:
    from mdcontest.report.preference_page import write_margin_page

    write_margin_page(Path(page), margin, dataset)


def _say(margin: Learned, options: argparse.Namespace, last: list[str]) -> int:
    from mdcontest.preferences.report_text import model_table, summary

    if options.json:
        print(json.dumps(dict(margin.report)))
        return DONE
    print(summary(margin.report))
    if margin.report.get("models"):
        print(f"\n{model_table(margin.report)}")
    for line in last:
        print(line)
    return DONE
