"""Certified gaps of the first-order methods against iterations and seconds, and the rates fitted to them.

python bench/first_order.py [--iterations 10000] [--image docs/images/first-order.svg]
python bench/first_order.py --large
python bench/first_order.py --etas

Three contests of 400 pairs, one plotted. With --large, what extragradient takes for 10 000 and 100 000 pairs instead;
with --etas, learning rates of optimistic HPI on twelve contests of 40 pairs.
Rates: the exponent p of gap ~ K^p, and the digits gained per 1000 iterations, each from a straight line through the
measured gaps between a tenth of the iterations and the end (or 1e-12).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure

from mdcontest import Contest, margins, solve
from mdcontest.report.plots import BLUE, GREY, ORANGE, STYLE
from mdcontest.solution import History
from mdcontest.solvers import HPI, Extragradient, OptimisticHPI

STATES, ACTIONS = 100, 4
LARGE = {2500: (1e-9, 6e-12), 25_000: (1e-9,)}
"""States of the large contests, and the tolerances they are solved to."""
FLOOR = 1e-12
"""Gaps below this, relative to the bound, are rounding."""


def garnet(margin: margins.Margin, states: int = STATES, restart: float = 0.01) -> Contest:
    """Random sparse transitions, three successors a pair, with a restart."""
    rng, n = np.random.default_rng(0), states * ACTIONS
    later = rng.integers(states, size=3 * n)
    chance = rng.dirichlet(np.ones(3), size=n).reshape(-1)
    P = sp.csr_array((chance, (np.repeat(np.arange(n), 3), later)), shape=(n, states))
    return Contest(P, np.full(states, 1 / states), margin).with_restart(restart)


def low_rank(states: int = STATES, seed: int = 1) -> margins.Margin:
    """Rank 8, features and J normal."""
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(8, 8))
    return margins.LowRank(rng.normal(size=(states * ACTIONS, 8)), J - J.T)


def dense(states: int = STATES, seed: int = 2) -> margins.Margin:
    """No structure at all."""
    G = np.random.default_rng(seed).normal(size=(states * ACTIONS,) * 2)
    return margins.Dense(G - G.T)


def signs(states: int = STATES, seed: int = 3) -> margins.Margin:
    """The mean of three signs of differences of normal features."""
    return margins.Signs(np.random.default_rng(seed).normal(size=(states * ACTIONS, 3)), np.full(3, 1 / 3))


CONTESTS: dict[str, Callable[..., margins.Margin]] = {"rank 8": low_rank, "dense": dense, "three signs": signs}
PLOTTED = "rank 8"
LINES = ((GREY, "-"), (BLUE, "-"), (BLUE, "--"), (ORANGE, "--"), (ORANGE, "-"))
"""Colour and dash of each method."""


def methods(iterations: int) -> dict[str, Any]:
    """What is compared. Extragradient ends by itself where rounding begins."""
    return {
        "HPI (Algorithm 1), average": HPI(iterations),
        "optimistic HPI, average": OptimisticHPI(iterations, iterate="average"),
        "optimistic HPI, last": OptimisticHPI(iterations, iterate="last"),
        "extragradient, restarts to the last": Extragradient(iterations, iterate="last"),
        "extragradient, restarts to the better": Extragradient(iterations),
    }


def rates(history: History, unit: float) -> tuple[float, float]:
    """The exponent of a power law, and the digits gained per 1000 iterations."""
    k, gaps = history.iterations.astype(float), history.gaps / unit
    ended = np.flatnonzero(gaps <= FLOOR)
    end = int(ended[0]) if len(ended) else len(gaps)
    used = (k >= k[end - 1] / 10) & (np.arange(len(k)) < end) & (gaps > 0)
    power = np.polyfit(np.log(k[used]), np.log(gaps[used]), 1)[0]
    digits = -1000 * np.polyfit(k[used], np.log10(gaps[used]), 1)[0]
    return float(power), float(digits)


def plot(found: dict[str, History], unit: float, path: Path) -> None:
    """Gaps against iterations and against seconds, side by side."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, 4), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for (name, history), (colour, style) in zip(found.items(), LINES, strict=True):
            gaps = np.maximum(history.gaps / unit, FLOOR)
            for panel, along in zip(panels, (history.iterations, history.seconds), strict=True):
                panel.loglog(along, gaps, style, color=colour, label=name, linewidth=1.5)
        panels[0].set(xlabel="iterations", ylabel="certified gap / bound")
        panels[1].set(xlabel="seconds on one core")
        panels[0].legend(fontsize=8, loc="lower left")
        for panel in panels:
            panel.grid(alpha=0.25)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, metadata={"Date": None, "Creator": None} if path.suffix == ".svg" else None)


def main() -> None:
    """Measure, print, plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=10_000, help="of each method (default 10000)")
    parser.add_argument("--image", type=Path, default=Path("docs/images/first-order.svg"), help="where the plot goes")
    parser.add_argument("--large", action="store_true", help="time extragradient on large contests")
    parser.add_argument("--etas", action="store_true", help="compare learning rates of optimistic HPI")
    options = parser.parse_args()
    if options.large:
        print_large()
    elif options.etas:
        print_etas()
    else:
        print_rates(options.iterations, options.image)


def print_large() -> None:
    """Processor seconds until extragradient's own certified gap is small enough; restart 0.001."""
    print(f"{'pairs':>7} {'tol':>8} {'iterations':>10} {'seconds':>8} {'gap/bound':>10}")
    for states, tolerances in LARGE.items():
        contest = garnet(low_rank(states), states, restart=0.001)
        for tol in tolerances:
            began = time.process_time()
            proposal = Extragradient().propose(contest, tol * contest.margin.bound, lambda progress: None)
            seconds, reached = time.process_time() - began, proposal.history.gaps[-1] / contest.margin.bound
            print(
                f"{states * ACTIONS:>7} {tol:>8.0e} {proposal.info['iterations']:>10} {seconds:>8.1f} {reached:>10.1e}"
            )


def print_etas(iterations: int = 1500, states: int = 10) -> None:
    """Geometric mean and largest gap over twelve contests: of the average, of the last iterate, of the better one."""
    contests = [garnet(margin(states, seed), states) for seed in range(4) for margin in CONTESTS.values()]
    print(f"{'method':<16} {'eta':>12} {'average':>18} {'last':>18} {'better':>18}   mean, largest")
    for kind, eta in ((HPI, "adaptive"), *((OptimisticHPI, eta) for eta in ("adaptive", 0.1, 1.0, 3.0, 10.0))):
        gaps = []
        for contest in contests:
            unit = contest.margin.bound
            rate = eta if isinstance(eta, str) else eta / unit
            runs = [{}] if kind is HPI else [{"iterate": "average"}, {"iterate": "last"}]
            gaps.append([solve(contest, kind(iterations, eta=rate, **run), tol=FLOOR).gap / unit for run in runs])
        table = np.maximum(np.array(gaps), FLOOR)
        columns = [*table.T, table.min(axis=1)] if kind is OptimisticHPI else list(table.T)
        shown = " ".join(f"{np.exp(np.log(column).mean()):>9.1e} {column.max():>8.1e}" for column in columns)
        print(f"{kind.name:<16} {eta if isinstance(eta, str) else f'{eta:g}/bound':>12} {shown}", flush=True)


def print_rates(iterations: int, image: Path) -> None:
    """All methods on all contests of 400 pairs."""
    print(
        f"{'contest':<12} {'method':<38} {'iterations':>10} {'seconds':>8} {'gap':>10} {'K^p':>6} {'digits/1000':>12}"
    )
    for contest_name, margin in CONTESTS.items():
        contest, found = garnet(margin()), {}
        unit = contest.margin.bound
        for name, method in methods(iterations).items():
            history = found[name] = solve(contest, method, tol=FLOOR).history
            power, digits = rates(history, unit)
            reached = f"{history.iterations[-1]:>10} {history.seconds[-1]:>8.2f} {history.gaps[-1] / unit:>10.1e}"
            print(f"{contest_name:<12} {name:<38} {reached} {power:>6.2f} {digits:>12.2f}", flush=True)
        if contest_name == PLOTTED:
            plot(found, unit, image)


if __name__ == "__main__":
    main()
