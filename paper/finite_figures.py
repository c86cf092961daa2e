"""What finite.py measured, as two figures and as the numbers of a results page.

A table is what `mdcontest.tables.read_table` returns: columns by name. finite.py says what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mdcontest.arrays import Array
from mdcontest.errors import InputError
from mdcontest.report.plots import GREY
from mdcontest.report.statistics import Interval, student_interval
from mdcontest.report.study_plots import COLORS, LINES, MARKERS, add_legend, drawing

Table = Mapping[str, Any]
FIT_PAIRS = 100
"""Smaller programs take what any call takes, so growth is fitted from here on, if two such sizes were measured."""
FIT_POLICIES = 200
"""The same for games."""
STAYS = 3.0
"""A gap that falls by less, while K grows by a hundred and a rate of 1/√K would make it ten, does not converge."""
FLOOR = 1e-16
"""Gaps below this, relative to the margin's bound, are rounding and may be zero; logarithms are taken of this."""
LEAST_SHOWN = 1e-6
"""The axis of gaps ends here: a last iterate that converges soon leaves any axis on which the others can be read."""
PROVED = "the theorem's learning rate"
"""What its bound is about."""
PANELS = {
    PROVED: ("hpi theorem", "hpi-pg theorem"),
    "the adaptive learning rate": ("hpi adaptive", "hpi last"),
}
NAMES = {"hpi theorem": "HPI", "hpi-pg theorem": "HPI-PG", "hpi adaptive": "HPI", "hpi last": "its last iterate"}


def column(table: Table, name: str) -> Array:
    """Numbers, those that are missing as NaN."""
    return np.array([np.nan if value is None else float(value) for value in table[name]])


def medians(x: Array, y: Array) -> tuple[Array, Array]:
    """The distinct x in order, and the median of y at each."""
    distinct = np.unique(x)
    return distinct, np.array([np.median(y[x == value]) for value in distinct])


def slope(x: Array, y: Array) -> float:
    """Of the straight line through (x, y) with the least squares; NaN for fewer than two distinct x."""
    return float(np.polyfit(x, y, 1)[0]) if len(np.unique(x)) > 1 else float("nan")


def slopes_by(contests: Array, x: Array, y: Array) -> Interval:
    """The slope in each contest's own rows, with Student's interval over contests."""
    return student_interval([slope(x[contests == one], y[contests == one]) for one in np.unique(contests)])


# --- sizes ------------------------------------------------------------------------------------------------


def sizes_figure(table: Table) -> Figure:
    """Seconds against |S| on logarithmic axes: medians over contests as lines, each contest as a dot."""
    states, actions = column(table, "states"), column(table, "actions")
    with drawing(4.8, 3.4) as figure:
        axes, handles, names = figure.subplots(), [], []
        for i, (method, said) in enumerate({"lp": "LP", "game": "matrix game"}.items()):
            seconds = column(table, f"{method}_seconds")
            for j, count in enumerate(np.unique(actions)):
                rows = (actions == count) & np.isfinite(seconds)
                look: dict[str, Any] = {"color": COLORS[i], "marker": MARKERS[j], "markersize": 4}
                axes.loglog(states[rows], seconds[rows], linestyle="", alpha=0.3, **look)
                handles += axes.loglog(*medians(states[rows], seconds[rows]), linestyle=LINES[j], **look)
                names.append(f"{said}, |A| = {count:.0f}")
        _finish(axes, "number of states |S|", "processor seconds")
        add_legend(figure, handles, names)
    return figure


def summarise_sizes(table: Table) -> dict[str, Any]:
    """How both exact methods grow, how far the game went, and how exact they are."""
    ran = np.array(table["game_run"], bool)
    if not ran.any():
        raise InputError("no row of the table has game_run, so there is nothing to compare; run more contests")
    policies, lp_seconds, game_seconds = (column(table, name) for name in ("policies", "lp_seconds", "game_seconds"))
    largest = ran & (policies == policies[ran].max())
    unsolved = {"lp": table["lp_solved"], "game": np.array(table["game_solved"], object)[ran]}
    return {
        "contests": len(ran),
        "lp_exponent": lp_exponent(table),
        "lp_exponents": lp_exponents(table),
        "lp_largest_pairs": int(pairs(table).max()),
        "lp_largest_seconds": float(np.median(lp_seconds[pairs(table) == pairs(table).max()])),
        "game_factor_per_state": {int(count): game_factor(table, count) for count in np.unique(table["actions"])},
        "game_largest_policies": int(policies[largest][0]),
        "game_largest_states": int(column(table, "states")[largest][0]),
        "game_largest_actions": int(column(table, "actions")[largest][0]),
        "game_largest_seconds": float(np.median(game_seconds[largest])),
        "lp_seconds_there": float(np.median(lp_seconds[largest])),
        "lp_largest_gap": float(column(table, "lp_gap").max()),
        "game_largest_gap": float(column(table, "game_gap")[ran].max()),
        "lp_unsolved": sum(not one for one in unsolved["lp"]),
        "game_unsolved": sum(not one for one in unsolved["game"]),
        "counts_of_the_theorem": all(
            np.array_equal(table[f"lp_{what}"], table[f"theorem_{what}"]) for what in ("variables", "constraints")
        ),
    }


def pairs(table: Table) -> Array:
    """|S||A| of each row."""
    return column(table, "states") * column(table, "actions")


def lp_exponent(table: Table) -> float:
    """p of seconds ~ (|S||A|)^p, through the medians."""
    n, seconds = medians(pairs(table), column(table, "lp_seconds"))
    large = _enough(n, n >= FIT_PAIRS)
    return slope(np.log(n[large]), np.log(seconds[large]))


def lp_exponents(table: Table) -> Interval:
    """The same from the first contests of all sizes, the second, and so on."""
    n, seconds = pairs(table), column(table, "lp_seconds")
    large = _enough(n, n >= FIT_PAIRS)
    return slopes_by(column(table, "contest")[large], np.log(n[large]), np.log(seconds[large]))


def game_factor(table: Table, actions: float) -> float:
    """By what the game's seconds are multiplied with each state that is added, through the medians."""
    rows = np.array(table["game_run"], bool) & (column(table, "actions") == actions)
    states, seconds = medians(column(table, "states")[rows], column(table, "game_seconds")[rows])
    large = _enough(states, actions**states >= FIT_POLICIES)
    return float(np.exp(slope(states[large], np.log(seconds[large]))))


def _enough(values: Array, wanted: Any) -> Any:
    """The rows wanted, or all where these have fewer than two values."""
    return wanted if len(np.unique(values[wanted])) > 1 else np.full(len(values), True)


# --- rates ------------------------------------------------------------------------------------------------


def rates_figure(table: Table) -> Figure:
    """Gap against K, a panel for each learning rate: medians over contests as lines, the range as a band."""
    with drawing(7.2, 4.2) as figure:
        panels = figure.subplots(1, len(PANELS), sharey=True)
        for axes, (title, methods) in zip(panels, PANELS.items(), strict=True):
            curves = [curve for method in methods for curve in curves_of(table, method)]
            for i, (name, iterations, gaps) in enumerate(curves):
                _range(axes, i, name, iterations, gaps)
            if title == PROVED:
                counts, bound = medians(column(table, "K"), column(table, "bound"))
                axes.loglog(counts, bound, color=GREY, linestyle="--", label="the theorem's bound, median contest")
            axes.set_title(title)
            _finish(axes, "iterations K", "")
            axes.legend(frameon=False, fontsize=8.5, handlelength=3.2, loc="upper left", bbox_to_anchor=(0, -0.2))
        panels[0].set_ylim(bottom=LEAST_SHOWN)
        panels[0].set_ylabel("gap / bound of the margin")
    return figure


def curves_of(table: Table, method: str) -> list[tuple[str, Array, Array]]:
    """(name, K, gaps) of a method; its last iterates apart by whether the exact solution mixes actions."""
    iterations, gaps = gaps_of(table, method)
    if method != "hpi last":
        return [(NAMES[method], iterations, gaps)]
    mixing = column(rows_of(table, method), "mixed_states") > 0
    kinds = (("mixed", mixing), ("deterministic", ~mixing))
    return [(f"{NAMES[method]}, {kind} solutions", iterations[rows], gaps[rows]) for kind, rows in kinds if rows.any()]


def _range(axes: Axes, i: int, name: str, iterations: Array, gaps: Array) -> None:
    """The median, and from the least to the largest gap."""
    counts, middle = medians(iterations, gaps)
    low, high = (np.array([end(gaps[iterations == count]) for count in counts]) for end in (np.min, np.max))
    axes.fill_between(counts, low, high, color=COLORS[i], alpha=0.15, linewidth=0)
    axes.loglog(counts, middle, color=COLORS[i], linestyle=LINES[i], marker=MARKERS[i], markersize=4, label=name)


def _finish(axes: Axes, xlabel: str, ylabel: str) -> None:
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(color="#e8e8e8", linewidth=0.6)
    axes.set_axisbelow(True)


def summarise_rates(table: Table) -> dict[str, Any]:
    """For each method how its gaps compare with the bound and fall with K; and whether the last iterate converges."""
    methods = dict.fromkeys(table["method"])
    return {method: summarise_method(table, method) for method in methods} | {"last iterate": summarise_last(table)}


def summarise_method(table: Table, method: str) -> dict[str, Any]:
    """Shares and medians over its rows; the slope is that of log gap against log K in one contest, then the median."""
    rows = rows_of(table, method)
    contests, bounds = column(rows, "contest"), column(rows, "bound")
    iterations, gaps = gaps_of(table, method)
    logs = np.log(iterations), np.log(gaps)
    slopes = [slope(*(values[contests == one] for values in logs)) for one in np.unique(contests)]
    final = gaps[iterations == iterations.max()]
    return {
        "rows": len(gaps),
        "largest_K": int(iterations.max()),
        "bound_holds": float((gaps <= bounds).mean()),
        "bound_below_1": float((bounds < 1).mean()),  # no gap exceeds 1, so only then the bound says something
        "bound_over_gap_at_largest_K": float(np.median((bounds / gaps)[iterations == iterations.max()])),
        "median_slope": float(np.median(slopes)),
        "slopes": student_interval(slopes),
        "median_gap_at_largest_K": float(np.median(final)),
        "largest_gap_at_largest_K": float(final.max()),
    }


def summarise_last(table: Table) -> dict[str, float]:
    """In how many contests the last iterate's gap fell by less than STAYS from the smallest K to the largest.

    Where the exact solution is deterministic Hedge can converge to it, so contests that need mixing are counted apart.
    """
    iterations, gaps = gaps_of(table, "hpi last")
    rows = rows_of(table, "hpi last")
    contests, mixing = column(rows, "contest"), column(rows, "mixed_states") > 0
    first, last, mixed = (
        np.array([values[(contests == one) & (iterations == count)].item() for one in np.unique(contests)])
        for values, count in ((gaps, iterations.min()), (gaps, iterations.max()), (mixing, iterations.max()))
    )
    stays = last > first / STAYS
    return {
        "contests": len(last),
        "stays": int(stays.sum()),
        "mixed": int(mixed.sum()),
        "mixed_that_stay": int((stays & mixed).sum()),
        "growth_of_K": float(iterations.max() / iterations.min()),
        "largest_fall_mixed": float((first / last)[mixed].max()) if mixed.any() else float("nan"),
        "median_last_over_first": float(np.median(last / first)),
    }


def rows_of(table: Table, method: str) -> dict[str, list[Any]]:
    """The table with the rows of one method."""
    chosen = [i for i, name in enumerate(table["method"]) if name == method]
    if not chosen:
        raise InputError(f"the table has no rows of {method!r}, it has {sorted(set(table['method']))}")
    return {name: [values[i] for i in chosen] for name, values in table.items()}


def gaps_of(table: Table, method: str) -> tuple[Array, Array]:
    """(K, gap) of one method's rows."""
    rows = rows_of(table, method)
    return column(rows, "K"), np.maximum(column(rows, "gap"), FLOOR)
