"""Claims about finite contests, judged by the tables of paper/finite.py, paper/lemmas.py and bench/solvers.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evidence import Evidence, number
from finite_figures import summarise_rates, summarise_sizes
from judging import Claim, Finding, decided
from lemmas import OF_AN_ASCENT, ROUNDING, summarise_lemmas
from state_counts import summarise_states

COMMAND, LEMMAS_COMMAND = "python paper/finite.py", "python paper/lemmas.py"
LARGE = 1_000_000
"""Pairs of a contest that is large."""
HALF = -0.5
"""The slope of log gap against log K that the theorem promises at least."""


def _of_sizes(judge: Callable[[dict[str, Any]], Finding]) -> Callable[[Evidence], Finding]:
    return lambda evidence: _judged(evidence.finite("sizes"), summarise_sizes, judge)


def _of_rates(judge: Callable[[dict[str, Any]], Finding]) -> Callable[[Evidence], Finding]:
    return lambda evidence: _judged(evidence.finite("rates"), summarise_rates, judge)


def _judged(
    table: Any, summarise: Callable[[Any], dict[str, Any]], judge: Callable[[dict[str, Any]], Finding]
) -> Finding:
    return Finding("not run", decided(None)) if table is None else judge(summarise(table))


# --- exact methods ----------------------------------------------------------------------------------------


def _program_solves(found: dict[str, Any]) -> Finding:
    said = (
        f"{found['contests']} random contests of up to {found['lp_largest_pairs']} pairs: largest certified gap "
        f"{number(found['lp_largest_gap'])} of the margin's bound, {found['unsolved']} unsolved"
    )
    return Finding(said, decided(found["unsolved"] == 0))


def _counts(found: dict[str, Any]) -> Finding:
    same = found["counts_of_the_theorem"]
    return Finding(
        f"our program has {'exactly' if same else 'not'} those counts on all {found['contests']}", decided(same)
    )


def _game_explodes(found: dict[str, Any]) -> Finding:
    factors = ", ".join(f"{number(f)} with {a} actions" for a, f in found["game_factor_per_state"].items())
    said = (
        f"seconds of the game grow by a factor of {factors} with each state; at {found['game_largest_policies']} "
        f"policies ({found['game_largest_states']} states) it takes {number(found['game_largest_seconds'])} s and the "
        f"program {number(found['lp_seconds_there'])} s"
    )
    return Finding(said, decided(all(f > a**0.5 for a, f in found["game_factor_per_state"].items())))


def _program_is_polynomial(found: dict[str, Any]) -> Finding:
    said = (
        f"seconds grow as (|S||A|)^{number(found['lp_exponent'])}; {number(found['lp_largest_seconds'])} s at "
        f"{found['lp_largest_pairs']} pairs"
    )
    return Finding(said, decided(found["lp_exponent"] < 4))


def large_is_out_of_reach(evidence: Evidence) -> Finding:
    """The largest contests of the benchmark that were solved and certified."""
    rows = [r for r in evidence.benchmarks if r["contender"] == "solve" and r["outcome"] == "certified"]
    large = [r for r in rows if r["pairs"] >= LARGE]
    said = "; ".join(f"{r['case']}: {number(r['seconds'])} s" for r in large)
    dense = max((r for r in rows if r["margin"] == "dense"), key=lambda r: r["pairs"])
    said += f". Dense margins: {dense['pairs']} pairs in {number(dense['seconds'])} s"
    return Finding(said, decided(not large))


# --- Hedged Policy Iteration ------------------------------------------------------------------------------


def _bound(method: str) -> Callable[[dict[str, Any]], Finding]:
    def judge(found: dict[str, Any]) -> Finding:
        one = found[method]
        said = (
            f"holds in {one['bound_holds']:.0%} of {one['rows']} runs up to K = {one['largest_K']}, where it is "
            f"{number(one['median_bound_over_gap'])} times the gap (median)"
        )
        return Finding(said, decided(one["bound_holds"] == 1.0))

    return judge


def _rate(found: dict[str, Any]) -> Finding:
    theorem, adaptive = (found[name]["median_slope"] for name in ("hpi theorem", "hpi adaptive"))
    said = (
        f"median slope of log gap against log K: {number(adaptive)} with the adaptive η; {number(theorem)} with the "
        f"theorem's, whose η is so small that little moves by K = {found['hpi theorem']['largest_K']}"
    )
    return Finding(said, decided(adaptive <= HALF))


def _without_states(found: dict[str, Any]) -> Finding:
    said = (
        f"at the same bound on τ, the gap after {found['K']} iterations is {number(found['gap_fewest'])} with "
        f"{found['fewest']} states and {number(found['gap_most'])} with {found['most']} (medians; it goes as "
        f"|S|^{number(found['exponent'])})"
    )
    return Finding(said, decided(found["exponent"] <= 0.1))


def _last_iterate(found: dict[str, Any]) -> Finding:
    last = found["last iterate"]
    said = (
        f"of {last['mixed']} contests whose solution must mix, the last iterate's gap fell by less than a factor of "
        f"ten in {last['mixed_that_stay']}, while K grew by a hundred; where it need not mix, in "
        f"{last['stays'] - last['mixed_that_stay']} of {last['contests'] - last['mixed']}"
    )
    return Finding(said, decided(last["mixed_that_stay"] > 0 if last["mixed"] else None))


# --- lemmas on marginal values ----------------------------------------------------------------------------


def _lemma(where: str, statement: str, text: str, most: float = ROUNDING) -> Claim:
    """A claim that holds if no contest has a larger residual."""

    def judge(found: dict[str, Any]) -> Finding:
        one = found[statement]
        said = f"largest residual {number(one['largest'])} over {one['contests']} contests"
        return Finding(said, decided(one["largest"] <= most))

    return Claim(where, text, _of_lemmas(judge), LEMMAS_COMMAND)


def _of_lemmas(judge: Callable[[dict[str, Any]], Finding]) -> Callable[[Evidence], Finding]:
    return lambda evidence: _judged(evidence.finite("lemmas"), summarise_lemmas, judge)


def _needs_aperiodicity(found: dict[str, Any]) -> Finding:
    """Of sums as they are defined the claim is right, and that is said; it is judged by what the lemmas need."""
    one, swing = found["aperiodicity"], found["aperiodicity swing"]["largest"]
    said = (
        f"plain partial sums do not settle (they go on moving by up to {number(swing)} of the margin's bound), and of "
        f"them the claim is right; their Cesàro averages, which solve the Poisson equation, are finite, and with them "
        f"Q = c + P V and lem:pd hold all the same: largest residual {number(one['largest'])} over {one['contests']} "
        f"periodic contests"
    )
    return Finding(said, decided(not one["largest"] <= ROUNDING))


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
        "The game over deterministic policies takes time that grows as |A|^|S|",
        _of_sizes(_game_explodes),
        COMMAND,
    ),
    Claim(
        "sec:exact-solution-methods",
        "The linear program takes time polynomial in |S||A|, like that of a decision process",
        _of_sizes(_program_is_polynomial),
        COMMAND,
    ),
    Claim(
        "sec:exact-solution-methods",
        "Exact methods are not suitable for large environments",
        large_is_out_of_reach,
        "python bench/solvers.py",
    ),
    Claim(
        "thm:hpi-convergence", "HPI's gap is at most 4 M_max τ √(log|A| / K)", _of_rates(_bound("hpi theorem")), COMMAND
    ),
    Claim("thm:hpi-convergence", "HPI converges at the rate 1/√K", _of_rates(_rate), COMMAND),
    Claim(
        "sec:approximate-solution-methods", "HPI's last iterate does not converge", _of_rates(_last_iterate), COMMAND
    ),
    Claim(
        "sec:approximate-solution-methods",
        "HPI's rate depends on |S| only through how fast policies mix",
        lambda evidence: _judged(evidence.finite("states"), summarise_states, _without_states),
        "python paper/state_counts.py",
    ),
    Claim("prop:pg-form", "The policy-gradient form keeps that bound", _of_rates(_bound("hpi-pg theorem")), COMMAND),
    _lemma("lem:marg-basic", "lem:marg-basic 1", "Values are bounded: |V| ≤ M_max τ and |Q| ≤ 2 M_max τ"),
    _lemma("lem:marg-basic", "lem:marg-basic 2", "Q is the cumulant plus the expected V of the next state"),
    _lemma("lem:marg-basic", "lem:marg-basic 3", "V is the mean of Q over the rule's actions"),
    _lemma("lem:pd", "lem:pd", "A policy's average margin against another is its mean of that other's Q − V"),
    _lemma("sec:approximate-solution-methods", "improvement", "A policy greedy for another's Q does not lose to it"),
    _lemma("sec:approximate-solution-methods", "gap >= 0", "The optimality gap is never negative"),
    _lemma("lem:omm", "lem:omm occupancy", "The rule in proportion to an averaged occupancy has that occupancy"),
    _lemma(
        "lem:omm",
        "lem:omm maximiser",
        "In visited states that rule is the one that maximises Σ x log d",
        OF_AN_ASCENT,
    ),
    _lemma(
        "ap:hpi-clip", "advantage", "If the margin is a difference of rewards, Q − V is the advantage of the reward"
    ),
    Claim(
        "lem:marg-basic",
        "The lemmas on marginal values need an aperiodic contest, as the values may diverge in a periodic one",
        _of_lemmas(_needs_aperiodicity),
        LEMMAS_COMMAND,
    ),
]
