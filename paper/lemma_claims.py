"""Claims about marginal values, occupancies and nontransitive margins: tables of lemmas.py and nontransitive.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evidence import Evidence, number
from judging import Claim, Finding, decided, judged_table, known
from lemma_games import PLAYS
from lemmas import OF_AN_ASCENT, ROUNDING, summarise_lemmas
from nontransitive import summarise

PLAYED = 0.01
"""The gap up to which fictitious play has solved a game, of the margin's bound: no rate is proved for it."""
LEMMAS_COMMAND, MARGINS_COMMAND = "python paper/lemmas.py", "python paper/nontransitive.py"


# --- lemmas on marginal values ----------------------------------------------------------------------------


def _lemma(where: str, statement: str, text: str, most: float = ROUNDING) -> Claim:
    """A claim that holds if no contest has a larger residual."""

    def judge(found: dict[str, Any]) -> Finding:
        one = found[statement]
        said = f"largest residual {number(one['largest'])} over {one['contests']} contests"
        return Finding(said, decided(one["largest"] <= most))

    return Claim(where, text, _of_lemmas(judge), LEMMAS_COMMAND)


def _of_lemmas(judge: Callable[[dict[str, Any]], Finding]) -> Callable[[Evidence], Finding]:
    return lambda evidence: judged_table(evidence.finite("lemmas"), summarise_lemmas, judge)


def _periodic_values(found: dict[str, Any]) -> Finding:
    one, swing = found["aperiodicity"], found["aperiodicity swing"]["largest"]
    said = (
        f"partial sums do not settle: they go on moving by up to {number(swing)} of the margin's bound. Their Cesàro "
        f"averages, which solve the Poisson equation, are finite, and with them Q = c + P V and lem:pd hold without "
        f"aperiodicity: largest residual {number(one['largest'])} over {one['contests']} periodic contests"
    )
    return Finding(said, decided(known(swing, swing > ROUNDING)))


def _plays(found: dict[str, Any]) -> Finding:
    one, play = found["mirror descent"], found["fictitious play"]
    said = (
        f"mirror descent: largest excess of its gap over 1.5 M_max √(log N / K), for N policies and K = 1000: "
        f"{number(one['largest'])} over {one['contests']} contests of up to 300 policies; fictitious play: largest gap "
        f"after {PLAYS} steps {number(play['largest'])} of the margin's bound (solved: at most {PLAYED})"
    )
    return Finding(said, decided(one["largest"] <= ROUNDING and play["largest"] <= PLAYED))


def _generalises(found: dict[str, Any]) -> Finding:
    advantage, least = found["advantage"]["largest"], found["deterministic"]
    said = (
        f"a difference of rewards has the advantages of the process, within {number(advantage)} (`ap:hpi-clip` below); "
        f"and while a process always has a deterministic optimum, in {least['not rounding']} of {least['contests']} "
        "contests every deterministic policy loses to some policy, in one by at least "
        f"{number(least['largest'])} of the margin's bound"
    )
    return Finding(said, decided(known(least["largest"], advantage <= ROUNDING < least["largest"])))


def averaging_misjudges(evidence: Evidence) -> Finding:
    """ap:sppo, exactly: what an action is credited with if each step counts the mean of its episode."""

    def judge(found: dict[str, Any]) -> Finding:
        shrinks, values = found["averaging"], found["averaging, values"]
        said = (
            f"over all trajectories of 4 steps in {shrinks['contests']} contests: values of states are off by up to "
            f"{number(values['largest'])} of the margin's bound, since they take up what came before; of an action's "
            f"advantage (T − t) / T is left, within {number(shrinks['largest'])}. So late actions count too little, "
            "and the order of actions in a state stays as it is"
        )
        return Finding(said, decided(known(shrinks["largest"], values["largest"] > ROUNDING >= shrinks["largest"])))

    return judged_table(evidence.finite("lemmas"), summarise_lemmas, judge)


# --- the nontransitive margins ----------------------------------------------------------------------------


def _of_margins(judge: Callable[[dict[str, Any]], Finding]) -> Callable[[Evidence], Finding]:
    return lambda evidence: judged_table(evidence.finite("nontransitive"), summarise, judge)


def _must_be_a_circle(found: dict[str, Any]) -> Finding:
    circle, opposites, inside = (found[name]["largest"] for name in ("circle", "opposites", "inside"))
    said = (
        f"gaps: all directions alike {number(circle)}, further in "
        f"{number(inside)}, and two opposite directions alone {number(opposites)}: a circle is a solution, and not the "
        "only one"
    )
    return Finding(said, decided(circle <= ROUNDING < opposites))


def _must_be_thirds(found: dict[str, Any]) -> Finding:
    off, loss = found["thirds"]["largest"], found["only thirds"]["least"]
    said = (
        f"shares of the exact solution are within {number(off)} of thirds; others have a gap of at least "
        f"{number(loss)} times their distance from them"
    )
    return Finding(said, decided(off <= ROUNDING < loss))


def _as_printed(found: dict[str, Any]) -> Finding:
    broken, ahead = found["printed, not skew"]["largest"], found["printed, ahead"]["largest"]
    said = (
        "the print does not say what its `angle` and its `theta` are; with π for both it is not skew on "
        f"{broken:.0%} of random pairs, and prefers who is ahead counter-clockwise on {ahead:.0%} of near ones (other "
        "values give other shares); this library has the skew margin of the text"
    )
    return Finding(said, decided(broken <= ROUNDING and ahead > 0.5))


def _best_of_three(found: dict[str, Any]) -> Finding:
    differs = found["two of three"]["largest"]
    said = (
        f"appendix and code compare the dominant score instead; the two margins disagree on {differs:.0%} of random "
        "pairs. This library has the one of the code, and `BestTwoOfThree` beside it"
    )
    return Finding(said, decided(differs <= ROUNDING))


def _tau_grows(found: dict[str, Any]) -> Finding:
    tau, at_least = found["tau"], found["tau at least"]
    said = (
        f"a lazy walk around a ring: τ is at least {number(at_least['least'])} with the fewest states and "
        f"{number(at_least['largest'])} with {tau['most']:.0f}, by what a reward of at most 1 can be worth under one "
        f"rule; the certified bound goes from {number(tau['least'])} to {number(tau['largest'])}"
    )
    return Finding(said, decided(at_least["largest"] > tau["least"]))


LEMMAS = [
    Claim(
        "sec:approximate-solution-methods",
        "HPI's rate may depend on |S| through τ, which can grow with it",
        _of_margins(_tau_grows),
        MARGINS_COMMAND,
    ),
    Claim(
        "sec:exact-solution-methods",
        "Contests are a strict generalisation of decision processes",
        _of_lemmas(_generalises),
        LEMMAS_COMMAND,
    ),
    _lemma("lem:marg-basic", "lem:marg-basic 1", "Values are bounded: |V| ≤ M_max τ and |Q| ≤ 2 M_max τ"),
    _lemma("lem:marg-basic", "lem:marg-basic 2", "Q is the cumulant plus the expected V of the next state"),
    _lemma("lem:marg-basic", "lem:marg-basic 3", "V is the mean of Q over the rule's actions"),
    _lemma("lem:pd", "lem:pd", "A policy's average margin against another is its mean of that other's Q − V"),
    _lemma(
        "sec:approximate-solution-methods",
        "improvement",
        "A rule whose mean of another's Q is nowhere below that one's V does not lose to it",
    ),
    _lemma("sec:approximate-solution-methods", "gap >= 0", "The optimality gap is never negative"),
    _lemma(
        "sec:approximate-solution-methods",
        "gap",
        "It is zero if and only if the policy is optimal, that is, no policy wins against it",
    ),
    _lemma(
        "sec:approximate-solution-methods",
        "concave",
        "The objectives of the policy-gradient form are convex problems in the probabilities",
    ),
    _lemma(
        "sec:approximate-solution-methods",
        "update",
        "The objective in step 3 of Algorithm 2 is maximised by the update of Algorithm 1",
        OF_AN_ASCENT,
    ),
    _lemma("lem:unichain", "hull", "Occupancies are the convex hull of those of the |A|^|S| deterministic policies"),
    Claim(
        "sec:approximate-solution-methods",
        "In principle mirror descent or fictitious play over deterministic policies solves the game",
        _of_lemmas(_plays),
        LEMMAS_COMMAND,
    ),
    _lemma("sec:exact-solution-methods", "flow", "The flow equations describe all occupancies, and nothing else"),
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
        "In a periodic contest marginal values may diverge",
        _of_lemmas(_periodic_values),
        LEMMAS_COMMAND,
    ),
]

BY_MARGIN = "(our test: by the margin alone, as if a policy could be anywhere it likes)"
ABOUT_MARGINS = {
    f"The optimal policy of Reacher-NT must trace a circle {BY_MARGIN}": ("sec:experiments", _must_be_a_circle),
    f"The optimal policy of Walker2d-NT must be in each of the three classes a third of the time {BY_MARGIN}": (
        "sec:experiments",
        _must_be_thirds,
    ),
    "The margin of Walker2d-NT is a best-two-of-three rule": ("sec:experiments", _best_of_three),
    "The margin of Reacher-NT, as in the pseudocode, prefers who is ahead counter-clockwise": (
        "ap:mujoco-nt",
        _as_printed,
    ),
}
MARGINS = [Claim(where, text, _of_margins(judge), MARGINS_COMMAND) for text, (where, judge) in ABOUT_MARGINS.items()]
