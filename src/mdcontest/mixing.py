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

from mdcontest.transitions import Transitions


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
    """max_π max_s E_s^π[time to reach target], by policy iteration; every policy must reach it."""
    P: Any = transitions.full() if not transitions.is_sparse else transitions.matrix
    states, actions = transitions.num_states, transitions.num_actions
    chosen = np.zeros(states, np.int64)
    times = np.zeros(states)
    for _ in range(1000):
        pairs = np.arange(states) * actions + chosen
        restart = None if transitions.restart is None else transitions.restart[pairs]
        try:
            times = _expected_times(P[pairs], restart, transitions.start, target)
        except (np.linalg.LinAlgError, RuntimeError):  # reached so rarely that the equations are singular in float64
            return np.inf
        if not (np.isfinite(times).all() and times.min() >= 0):
            return np.inf
        one_more = (1 + transitions.expect(times)).reshape(states, actions)
        current = one_more[np.arange(states), chosen]
        better = one_more.max(axis=1) > current + 1e-10 * (1 + current)
        better[target] = False
        if not better.any():
            break
        chosen = np.where(better, np.argmax(one_more, axis=1), chosen)
    # What no policy improves by more than 1e-10 is the maximum up to that factor.
    return float(times.max()) * (1 + 1e-6)


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
    inner = sp.eye_array(len(keep)) - step[keep][:, keep]
    right = np.ones(len(keep))
    if restart is not None:
        into, out = sp.csr_array(-restart[keep][:, None]), sp.csr_array(-start[keep][None, :])
        inner = sp.block_array([[inner, into], [out, sp.eye_array(1)]])
        right = np.append(right, 0.0)
    times[keep] = spla.splu(sp.csc_array(inner)).solve(right)[: len(keep)]
    return times
