"""A bound on τ = sup_π ‖H_π‖_∞, the constant of lem:deviation and thm:hpi-convergence.

The smaller of two bounds, and at least 1 as the paper asks:

    2/ε   with ε = Σ_s' min_sa P(s'|s, a): then ‖P_π^t − P_π*‖_∞ ≤ 2(1 − ε)^t for every policy;
    2T    with T the longest expected time that any policy takes to a state t none can avoid: for |c| ≤ 1 the values
          h(s) = E_s Σ_{u < hit} (c − g) lie in an interval of length 2T, and so does H c = h − ν·h around 0.
          It needs no aperiodicity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from numpy.typing import NDArray

from mdcontest.components import with_bottom
from mdcontest.transitions import Transitions

LONGEST = 1e15
"""Steps: times beyond have no digits left for a step more or less, so that they bound nothing."""


def bound_on_tau(transitions: Transitions, epsilon: float, hubs: list[int]) -> tuple[float, str]:
    """(bound, where it comes from); infinite without a minorisation and without a state all policies reach."""
    bounds = [(2 / epsilon, f"2/ε with the common part ε = {epsilon:.6g}")] if epsilon > 0 else []
    for t in hubs:
        longest = longest_expected_time(transitions, t)
        if np.isfinite(longest):
            bounds.append((2 * longest, f"twice the longest expected time to state {t}"))
    if not bounds:
        return np.inf, "no bound was found"
    tau, source = min(bounds)
    return (tau, source) if tau >= 1 else (1.0, f"{source}, raised to 1")


def longest_expected_time(transitions: Transitions, target: int) -> float:
    """An upper bound on max_π max_s E_s^π[time to reach target]; infinite if none can be certified.

    Policy iteration finds times T for a policy that is nearly the slowest. Whatever it found, if T ≥ 0 falls by at
    least `drop` > 0 a step on average, whichever action is taken, no policy takes longer than max T / drop.
    """
    P: Any = transitions.full() if not transitions.is_sparse else transitions.matrix
    states, actions = transitions.num_states, transitions.num_actions
    chosen, elsewhere = np.zeros(states, np.int64), np.arange(states) != target
    times = np.zeros(states)
    for _ in range(1000):
        pairs = np.arange(states) * actions + chosen
        restart = None if transitions.restart is None else transitions.restart[pairs]
        try:
            times = _expected_times(P[pairs], restart, transitions.start, target)
        except (np.linalg.LinAlgError, RuntimeError):  # reached so rarely that the equations are singular in float64
            return np.inf
        if not np.abs(times).max() < LONGEST:
            return np.inf
        later = transitions.expect(times).reshape(states, actions)
        better = (later.max(axis=1) > later[np.arange(states), chosen] * (1 + 1e-12)) & elsewhere
        if not better.any():
            break
        chosen = np.where(better, np.argmax(later, axis=1), chosen)
    if states == 1:
        return 0.0
    drop = float((times[:, None] - later)[elsewhere].min())
    # Differences of large numbers: what rounding can have added is taken off again.
    drop -= 1e-15 * states * float(times.max())
    return float(times.max()) / drop if drop > 0 and times.min() >= 0 else np.inf


def _expected_times(
    step: Any, restart: NDArray[np.float64] | None, start: NDArray[np.float64], target: int
) -> NDArray[np.float64]:
    """E_s[time to reach target] for one chain: (I − P without target) T = 1, a restart being one more equation."""
    keep = np.delete(np.arange(len(start)), target)
    times = np.zeros(len(start))
    if len(keep) == 0:
        return times
    if not sp.issparse(step):
        times[keep] = np.linalg.solve(np.eye(len(keep)) - step[np.ix_(keep, keep)], np.ones(len(keep)))
        return times
    inner, right = sp.eye_array(len(keep)) - step[keep][:, keep], np.ones(len(keep))
    if restart is not None:
        inner = sp.eye_array(len(keep) + 1) - with_bottom(step[keep][:, keep], restart[keep], start[keep])
        right = np.append(right, 0.0)
    times[keep] = spla.splu(sp.csc_array(inner)).solve(right)[: len(keep)]
    return times
