"""What `bench/solvers.py` measured, as a table on the console and as the tables of docs/benchmarks.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cases
import numpy as np

from mdcontest.errors import FileFormatError

ACCEPTED = 1e-8
"""A gap up to this, relative to the margin's bound, counts as solved: ten times what is asked for, for peers' sake."""
BEGIN, END = "<!-- tables from bench/results/solvers.json -->", "<!-- end of the tables -->"
Row = dict[str, Any]


def load(path: Path) -> dict[str, Any]:
    """The results in a file."""
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        return {**results, "rows": list(results["rows"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileFormatError(
            f"{path} holds no results of bench/solvers.py ({error}); remove it to start anew"
        ) from None


# --- reading rows -----------------------------------------------------------------------------------------


def solved(row: Row) -> bool:
    """Whether it ended in time with a certified gap that is small enough."""
    return row["outcome"] == "certified" and row["gap"] <= ACCEPTED


def by_case(results: dict[str, Any]) -> dict[tuple[str, int], list[Row]]:
    """The rows of each case and number of threads, in the order of the cases."""
    order = [case.name for quick in (False, True) for case in cases.cases(quick)]
    found: dict[tuple[str, int], list[Row]] = {}
    for row in sorted(results["rows"], key=lambda row: (order.index(row["case"]), row["threads"])):
        found.setdefault((row["case"], row["threads"]), []).append(row)
    return found


def best(rows: list[Row], among: Any) -> Row | None:
    """The quickest row of a case that solved it, of the contenders for which `among` holds."""
    return min((r for r in rows if among(r["contender"]) and solved(r)), key=lambda r: r["seconds"], default=None)


def is_highs(name: str) -> bool:
    """Whether a contender is HiGHS."""
    return name in cases.HIGHS


def is_ours(name: str) -> bool:
    """Whether a contender is a solver of this package."""
    return not cases.is_peer(name)


def growth(rows: list[Row]) -> float | None:
    """The exponent p of seconds ≈ n^p through the sizes that were solved, by least squares; None with fewer than two.

    Times below a hundredth of a second are mostly overhead and left out.
    """
    points = sorted({(row["pairs"], row["seconds"]) for row in rows if solved(row) and row["seconds"] > 0.01})
    if len({pairs for pairs, _ in points}) < 2:
        return None
    n, seconds = np.log(np.array(points, float)).T
    return float(np.polyfit(n, seconds, 1)[0])


def series(results: dict[str, Any], row: Row) -> list[Row]:
    """All sizes of a row's contender, model and margin."""
    same = ("model", "margin", "contender", "threads")
    return [other for other in results["rows"] if all(other[key] == row[key] for key in same)]


# --- texts ------------------------------------------------------------------------------------------------


def seconds_text(row: Row) -> str:
    """Seconds; in parentheses if the gap is too large."""
    if row["outcome"] == "over the limit":
        return f"> {row['limit']:.3g}"
    if row["outcome"] == "failed":
        return "failed: " + str(row.get("why", "no word"))[:60]
    text = f"{row['seconds']:.3g}" if row["seconds"] < 1000 else f"{row['seconds']:.0f}"
    return text if solved(row) else f"({text})"


def gap_text(row: Row) -> str:
    """The certified gap relative to the margin's bound."""
    return f"{row['gap']:.0e}" if "gap" in row else "–"


def memory_text(row: Row) -> str:
    """Peak memory."""
    return f"{row['megabytes']:.0f}" if "megabytes" in row else "–"


def ratio_text(row: Row | None, other: Row | None) -> str:
    """How many times as fast the first is as the second; at least so many times if the second never ended."""
    if row is None or other is None or not solved(row):
        return "–"
    if solved(other):
        return f"{other['seconds'] / row['seconds']:.3g}"
    return f"> {other['limit'] / row['seconds']:.3g}" if other["outcome"] == "over the limit" else "–"


def label(row: Row) -> str:
    """The contender, with what `solve` chose."""
    return (
        f"{row['contender']} → {row['solver']}"
        if row["contender"] == cases.AUTO and "solver" in row
        else row["contender"]
    )


def best_highs(rows: list[Row]) -> Row | None:
    """The quickest HiGHS that solved a case, or one that ran over the limit if none did."""
    over = [row for row in rows if is_highs(row["contender"]) and row["outcome"] == "over the limit"]
    return best(rows, is_highs) or (max(over, key=lambda row: row["limit"]) if over else None)


def lu_share(row: Row) -> float | None:
    """What share of its time an interior point would need for its factorisations alone at LAPACK's own speed."""
    if "lu_seconds" not in row:
        return None
    return float(row["info"]["factorisations"] * row["lu_seconds"] / row["seconds"])


# --- tables -----------------------------------------------------------------------------------------------


def show(results: dict[str, Any]) -> None:
    """Everything, on the console."""
    from rich.console import Console
    from rich.table import Table

    columns = ("case", "contender", "threads", "seconds", "gap / bound", "MB", "× best HiGHS", "growth", "LU share")
    table = Table(*columns)
    for rows in by_case(results).values():
        for row in sorted(rows, key=lambda row: row.get("seconds", np.inf)):
            power, share = growth(series(results, row)), lu_share(row)
            table.add_row(
                row["case"],
                label(row),
                str(row["threads"]),
                seconds_text(row),
                gap_text(row),
                memory_text(row),
                ratio_text(row, best_highs(rows)),
                "–" if power is None else f"n^{power:.2f}",
                "–" if share is None else f"{share:.0%}",
            )
        table.add_section()
    Console(width=150).print(table)


def case_table(results: dict[str, Any]) -> list[str]:
    """A Markdown row a case: what `solve` did, the best solver here, the best HiGHS, the best other package."""
    lines = [
        "| case | threads | `solve` chose | s | gap / bound | MB | best here | s | best HiGHS | s | MB | ratio |",
        "|---|---:|---|---:|---:|---:|---|---:|---|---:|---:|---:|",
    ]
    for (name, threads), rows in by_case(results).items():
        auto = next((row for row in rows if row["contender"] == cases.AUTO), None)
        ours, highs = best(rows, lambda name: is_ours(name) and name != cases.AUTO), best_highs(rows)
        cells = [name, str(threads)]
        cells += [auto.get("solver", "–"), seconds_text(auto), gap_text(auto), memory_text(auto)] if auto else ["–"] * 4
        cells += [ours["contender"], seconds_text(ours)] if ours else ["–", "–"]
        cells += (
            [highs["contender"].removeprefix("HiGHS "), seconds_text(highs), memory_text(highs)] if highs else ["–"] * 3
        )
        lines.append("| " + " | ".join([*cells, ratio_text(auto or ours, highs)]) + " |")
    return lines


def package_table(results: dict[str, Any]) -> list[str]:
    """A Markdown row a reward-difference case: `solve` beside the packages for Markov decision processes."""
    packages = list(cases.mdp_peers.PACKAGES)
    lines = [
        f"| case | threads | `solve`, s | {', s | '.join(packages)}, s |",
        "|---|---:|---:" + "|---:" * len(packages) + "|",
    ]
    for (name, threads), rows in by_case(results).items():
        found = {row["contender"]: seconds_text(row) for row in rows}
        if any(package in found for package in packages):
            cells = [name, str(threads), *(found.get(who, "–") for who in (cases.AUTO, *packages))]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def growth_table(results: dict[str, Any]) -> list[str]:
    """A Markdown row a series: exponents of the contenders that solved it at two sizes or more."""
    lines = ["| series | threads | seconds grow like |", "|---|---:|---|"]
    done: dict[tuple[str, int], dict[str, str]] = {}
    for rows in by_case(results).values():
        for row in rows:
            power = growth(series(results, row))
            if power is not None:
                key = (f"{row['model']}, {row['margin']}", row["threads"])
                done.setdefault(key, {})[row["contender"]] = f"{row['contender']} n^{power:.1f}"
    return lines + [f"| {name} | {threads} | {'; '.join(found.values())} |" for (name, threads), found in done.items()]


def markdown(results: dict[str, Any]) -> str:
    """The tables of the page, and when and on what they were measured."""
    packages = ", ".join(f"{name} {number}" for name, number in results["packages"].items())
    about = f"Last measured on {results['date']}: {results['cores']} cores, Python {results['python']}, {packages}."
    parts = [[about], case_table(results), package_table(results), growth_table(results)]
    dense = [row for row in results["rows"] if row["margin"] == "dense" and row["contender"] == "InteriorPoint"]
    shares = [(row, lu_share(row)) for row in dense if row["pairs"] >= 1200 and solved(row) and "lu_seconds" in row]
    text = "\n\n".join("\n".join(part) for part in parts)
    for row, share in shares:
        text += (
            f"\n\nAt {row['case']} the interior point's {row['info']['factorisations']} factorisations would take "
            f"{share:.0%} of its {seconds_text(row)} s at the speed LAPACK's `dgetrf` had in the same process."
        )
    return text


def write_into_page(results: dict[str, Any], page: Path) -> None:
    """Put the tables between the two marks of the page, if there is one."""
    if page.exists():
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        page.write_text(f"{before}{BEGIN}\n\n{markdown(results)}\n\n{END}{after}", encoding="utf-8")
