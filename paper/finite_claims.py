"""Claims about solving finite contests, judged by the tables of finite.py, state_counts.py and bench/solvers.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evidence import Evidence, number, shown
from finite_figures import FIT_PAIRS, FIT_POLICIES, STAYS, summarise_rates, summarise_sizes
from judging import BY_TEST, NOTHING, Claim, Finding, above, all_of, decided, judged_table, known
from process_sizes import summarise_processes
from state_counts import summarise_states

COMMAND = "python paper/finite.py"
MILLION, DAY, YEAR = 1e6, 24 * 3600.0, 365 * 24 * 3600.0
LARGE = 990_000
"""Pairs of a contest that is large: a million, and a grid of 333 by 600 cells that comes close."""
HALF = -0.5
"""The slope of log gap against log K that the theorem promises at least."""


def _of_sizes(judge: Callable[[dict[str, Any]], Finding]) -> Callable[[Evidence], Finding]:
    return lambda evidence: judged_table(evidence.finite("sizes"), summarise_sizes, judge)


def _of_rates(judge: Callable[[dict[str, Any]], Finding]) -> Callable[[Evidence], Finding]:
    return lambda evidence: judged_table(evidence.finite("rates"), summarise_rates, judge)


# --- exact methods ----------------------------------------------------------------------------------------


def _program_solves(found: dict[str, Any]) -> Finding:
    said = (
        f"{found['contests']} random contests of up to {found['lp_largest_pairs']} pairs: largest certified gap "
        f"{number(found['lp_largest_gap'])} of the margin's bound, {found['lp_unsolved']} unsolved"
    )
    return Finding(said, decided(found["lp_unsolved"] == 0))


def _counts(found: dict[str, Any]) -> Finding:
    same = found["counts_of_the_theorem"]
    return Finding(
        f"our program has {'exactly' if same else 'not'} those counts on all {found['contests']}", decided(same)
    )


def _game_explodes(found: dict[str, Any]) -> Finding:
    factors = ", ".join(f"{number(f)} with {a} actions" for a, f in found["game_factor_per_state"].items())
    said = (
        f"seconds of the game grow by a factor of {factors} with each state, from {FIT_POLICIES} policies on; at "
        f"{found['game_largest_policies']} policies ({found['game_largest_states']} states) it takes "
        f"{number(found['game_largest_seconds'])} s and the program {number(found['lp_seconds_there'])} s"
    )
    within = [known(f, a**0.5 < f < a**4) for a, f in found["game_factor_per_state"].items()]
    return Finding(f"{said} (polynomial: less than |A|⁴, and more than √|A|, a state)", decided(all_of(within)))


def _program_is_polynomial(found: dict[str, Any]) -> Finding:
    said = (
        f"from {FIT_PAIRS} pairs on seconds grow as (|S||A|)^{number(found['lp_exponent'])} "
        f"(by contest {shown(found['lp_exponents'])}); {number(found['lp_largest_seconds'])} s at "
        f"{found['lp_largest_pairs']} pairs (polynomial: an exponent below 4)"
    )
    return Finding(said, decided(known(found["lp_exponent"], found["lp_exponent"] < 4)))


def _same_class(found: dict[str, Any]) -> Finding:
    contest, process = (
        f"|S|^{number(found[f'{name}_exponent'])} (by contest {shown(found[f'{name}_exponents'])})"
        for name in ("contest", "process")
    )
    said = (
        f"both are one linear program; on the same transitions, from {found['fitted_from']:.0f} states on, seconds "
        f"grow as {contest} for contests and as {process} for processes, {number(found['contest_largest'])} s and "
        f"{number(found['process_largest'])} s at {found['pairs']:.0f} pairs"
    )
    exponents = [found[f"{name}_exponent"] for name in ("contest", "process")]
    return Finding(said, decided(known(sum(exponents), max(exponents) < 4)))


def _size_is_linear(found: dict[str, Any]) -> Finding:
    same = found["counts_of_the_theorem"]
    said = f"the counts of `thm:lp`, which are linear in |S|, are {'' if same else 'not '}those of our program on all"
    return Finding(f"{said} {found['contests']}; its margins alone are |S|²|A|² numbers", decided(same))


def _time_is_linear(found: dict[str, Any]) -> Finding:
    said = (
        f"seconds grow as |S|^{number(found['contest_exponent'])} (by contest {shown(found['contest_exponents'])}; "
        "linear: an exponent of at most 1.2)"
    )
    return Finding(said, decided(known(found["contest_exponent"], found["contest_exponent"] <= 1.2)))


def _program_is_too_large(found: dict[str, Any]) -> Finding:
    """A million pairs, by how the program's time has grown so far; its margins would be the matrix alone."""
    seconds = found["lp_largest_seconds"] * (MILLION / found["lp_largest_pairs"]) ** found["lp_exponent"]
    said = (
        f"the margins of a million pairs alone would be {MILLION**2 * 8 / 1e12:.0f} terabytes, and at the measured "
        f"growth it would take {number(seconds / YEAR)} years (our test: more than a day)"
    )
    return Finding(said, decided(known(seconds, seconds > DAY)))


def large_with_structure(evidence: Evidence) -> Finding:
    """The large contests of the benchmark that were solved and certified, and those that were not."""
    rows = [row for row in evidence.benchmarks if row["contender"] == "solve" and row["margin"] != "dense"]
    good, bad = ([row for row in rows if (row["outcome"] == "certified") == wanted] for wanted in (True, False))
    large = [row for row in good if row["pairs"] >= LARGE]
    if not good:
        return NOTHING
    said = "; ".join(f"{row['case']}: {number(row['seconds'])} s" for row in large)
    said += "".join(f". Not solved within {row['limit']:.0f} s: {row['case']}" for row in bad)
    return Finding(f"certified, {said}. By this library's methods, not by the program above", decided(not large))


def large_without_structure(evidence: Evidence) -> Finding:
    """The largest dense margin of the benchmark; beyond what fits into memory nothing can be said of any method."""
    rows = [row for row in evidence.benchmarks if row["contender"] == "solve" and row["margin"] == "dense"]
    solved = max((row for row in rows if row["outcome"] == "certified"), key=lambda row: row["pairs"], default=None)
    if solved is None:
        return NOTHING
    pairs = solved["pairs"]
    said = f"{pairs} pairs in {number(solved['seconds'])} s on two cores, whose margins are {pairs**2:.2g} numbers"
    more = "up to 32000 pairs were solved on a graphics card (`docs/benchmarks.md`), larger ones were not tried"
    return Finding(f"{said}; {more}", decided(None), BY_TEST)


# --- Hedged Policy Iteration ------------------------------------------------------------------------------


def _bound(method: str) -> Callable[[dict[str, Any]], Finding]:
    def judge(found: dict[str, Any]) -> Finding:
        one = found[method]
        said = (
            f"holds in {one['bound_holds']:.0%} of {one['rows']} runs of up to K = {one['largest_K']} iterations; in "
            f"{one['bound_below_1']:.0%} of them it is below the margin's own bound, so that it says something; at the "
            f"largest K it is {number(one['bound_over_gap_at_largest_K'])} times the gap (median)"
        )
        return Finding(said, decided(one["bound_holds"] == 1.0))

    return judge


def _rate(found: dict[str, Any]) -> Finding:
    theorem, adaptive = (found[name]["median_slope"] for name in ("hpi theorem", "hpi adaptive"))
    within = found["hpi theorem"]["bound_holds"] == 1.0
    said = (
        "never above the bound of the row before, which falls as 1/√K; median slope of log gap against log K: "
        f"{number(adaptive)} with the adaptive η (mean {shown(found['hpi adaptive']['slopes'])}), {number(theorem)} "
        "with the theorem's η, which is so small that little moves by "
        f"K = {found['hpi theorem']['largest_K']}"
    )
    return Finding(said, decided(known(adaptive, within and adaptive <= HALF)))


def _without_states(found: dict[str, Any]) -> Finding:
    said = (
        f"at the same bound on τ, {found['K']} iterations with the adaptive η leave {number(found['left_fewest'])} of "
        f"the uniform rule's gap with {found['fewest']} states and {number(found['left_most'])} with {found['most']} "
        f"(medians; it goes as |S|^{number(found['exponent'])}, by contest {shown(found['exponents'])}); gaps "
        f"themselves fall from {number(found['gap_fewest'])} to {number(found['gap_most'])}, as contests of more "
        "states are easier"
    )
    grows = above(found["exponents"], 0.1)
    return Finding(f"{said} (our test: an exponent below 0.1)", decided(None if grows is None else not grows), BY_TEST)


def _last_iterate(found: dict[str, Any]) -> Finding:
    last = found["last iterate"]
    said = (
        f"with the adaptive η, of {last['mixed']} contests whose solution must mix, the last iterate's gap fell by "
        f"less than a factor of {STAYS:g} in {last['mixed_that_stay']}, at most by "
        f"{number(last['largest_fall_mixed'])}, while K grew by {number(last['growth_of_K'])}; where it need not mix, "
        f"in {last['stays'] - last['mixed_that_stay']} of {last['contests'] - last['mixed']}"
    )
    return Finding(said, decided(last["mixed_that_stay"] == last["mixed"] if last["mixed"] else None))


FINITE = [
    Claim(
        "thm:lp", "One linear program solves every finite unichain contest exactly", _of_sizes(_program_solves), COMMAND
    ),
    Claim(
        "thm:lp",
        "It has |S||A| + |S| + 1 variables and 2|S||A| + |S| + 1 constraints, bounds of variables counted",
        _of_sizes(_counts),
        COMMAND,
    ),
    Claim(
        "sec:exact-solution-methods",
        "The game over deterministic policies takes time polynomial in |A|^|S|",
        _of_sizes(_game_explodes),
        COMMAND,
    ),
    Claim(
        "sec:exact-solution-methods",
        "The linear program takes time polynomial in |S||A|",
        _of_sizes(_program_is_polynomial),
        COMMAND,
    ),
    Claim(
        "sec:exact-solution-methods",
        "Solving a contest is in no harder a complexity class than solving a decision process",
        lambda evidence: judged_table(evidence.finite("processes"), summarise_processes, _same_class),
        "python paper/process_sizes.py",
    ),
    Claim(
        "sec:exact-solution-methods",
        "What the linear program takes depends linearly on |S| (we read: its variables and constraints)",
        _of_sizes(_size_is_linear),
        COMMAND,
    ),
    Claim(
        "sec:exact-solution-methods",
        "(A second reading) The time that the linear program takes depends linearly on |S|",
        lambda evidence: judged_table(evidence.finite("processes"), summarise_processes, _time_is_linear),
        "python paper/process_sizes.py",
        by_us=True,
    ),
    Claim(
        "sec:exact-solution-methods",
        "Exact methods, that is the linear program, are not suitable for large environments (a million pairs)",
        _of_sizes(_program_is_too_large),
        COMMAND,
    ),
    *(
        Claim(
            "sec:exact-solution-methods",
            f"(A second reading) No exact method is suitable for large environments, {which}",
            judge,
            "python bench/solvers.py",
            by_us=True,
        )
        for which, judge in {
            "even if margins have a structure": large_with_structure,
            "if margins have no structure": large_without_structure,
        }.items()
    ),
    Claim(
        "thm:hpi-convergence",
        "HPI's gap is at most 4 M_max τ √(log|A| / K), with η = √(log|A| / K) / (2 M_max τ), K ≥ log|A| and no periods",
        _of_rates(_bound("hpi theorem")),
        COMMAND,
    ),
    Claim(
        "thm:hpi-convergence",
        "HPI converges at the rate 1/√K (our test: the bound with the theorem's η, the slope with an adaptive one)",
        _of_rates(_rate),
        COMMAND,
    ),
    Claim(
        "sec:approximate-solution-methods", "HPI's last iterate does not converge", _of_rates(_last_iterate), COMMAND
    ),
    Claim(
        "sec:approximate-solution-methods",
        "HPI's rate does not depend on |S| explicitly: where policies mix equally fast, more states are no worse",
        lambda evidence: judged_table(evidence.finite("states"), summarise_states, _without_states),
        "python paper/state_counts.py",
    ),
    Claim(
        "prop:pg-form",
        "The policy-gradient form keeps the bound of thm:hpi-convergence",
        _of_rates(_bound("hpi-pg theorem")),
        COMMAND,
    ),
]
