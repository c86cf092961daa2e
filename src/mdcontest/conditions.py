"""Is a contest unichain, is it aperiodic, and how slowly can it mix? (sec. infinite, app. unichain)

Each verdict is yes, no or unknown; yes and no come with a witness (witnesses.py) that checks itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from mdcontest.contest import Contest
from mdcontest.errors import NotUnichainError
from mdcontest.graph import ContestGraph
from mdcontest.mixing import bound_on_tau
from mdcontest.periods import aperiodic_verdict
from mdcontest.unichain import unavoidable_states, unichain_verdict
from mdcontest.witnesses import DisjointClasses, Minorisation, Verdict, overlap_of_rows


@dataclass(frozen=True)
class Conditions:
    """What is known of a contest's chains."""

    unichain: Verdict
    """Does every policy have a single recurrent class? With its witness."""
    aperiodic: Verdict
    """Is every recurrent class of every policy aperiodic? With its witness."""
    tau: float
    """An upper bound on τ of lem:deviation; infinite where none was found."""
    tau_from: str
    """Where that bound comes from."""

    def __str__(self) -> str:
        no_proof = "no proof either way was found"
        return "\n".join(
            [
                f"unichain:  {self.unichain}, {self.unichain.witness or no_proof}",
                f"aperiodic: {self.aperiodic}, {self.aperiodic.witness or no_proof}",
                f"tau:       at most {self.tau:.6g}, {self.tau_from}",
            ]
        )


SHARPENED_STATES = 300
"""Up to here, where a common part bounds τ already, states that no policy can avoid are tried for a better bound."""

_known: WeakKeyDictionary[Contest, Conditions] = WeakKeyDictionary()
_unichain: WeakKeyDictionary[Contest, Verdict] = WeakKeyDictionary()


def check_conditions(contest: Contest) -> Conditions:
    """Verdicts on unichain and aperiodic with their witnesses, and a bound on τ. Remembered for each contest."""
    if contest not in _known:
        _known[contest] = _check(contest)
    return _known[contest]


def _check(contest: Contest) -> Conditions:
    epsilon, measure = overlap_of_rows(contest.dynamics)
    if epsilon > 0:
        unichain = aperiodic = Verdict("yes", Minorisation(epsilon, measure))
        if contest.num_states > SHARPENED_STATES:  # a second bound on τ would cost more than it can be worth
            return Conditions(unichain, aperiodic, *bound_on_tau(contest.dynamics, epsilon, []))
    graph = ContestGraph(contest.dynamics)
    if epsilon == 0:
        unichain = unichain_verdict(graph)
    hubs = unavoidable_states(contest.dynamics, graph) if unichain == "yes" else []
    if epsilon == 0:
        aperiodic = aperiodic_verdict(graph, hubs)
    tau, tau_from = bound_on_tau(contest.dynamics, epsilon, hubs)
    return Conditions(unichain, aperiodic, tau, tau_from)


def unichain_condition(contest: Contest) -> Verdict:
    """The verdict on unichain alone, which costs much less than a bound on τ. Remembered for each contest."""
    if contest in _known:
        return _known[contest].unichain
    if contest not in _unichain:
        epsilon, measure = overlap_of_rows(contest.dynamics)
        proved = Verdict("yes", Minorisation(epsilon, measure)) if epsilon > 0 else None
        _unichain[contest] = proved or unichain_verdict(ContestGraph(contest.dynamics))
    return _unichain[contest]


def refuse_if_not_unichain(contest: Contest) -> Verdict:
    """The verdict, or an error naming two classes if the contest is provably not unichain."""
    found = unichain_condition(contest)
    if found == "no":
        witness: DisjointClasses = found.witness
        named = " and in ".join(contest.describe_states(part.states) for part in (witness.first, witness.second))
        raise NotUnichainError(witness.first.states, witness.second.states, named)
    return found
