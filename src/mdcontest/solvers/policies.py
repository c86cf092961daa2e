"""All |A|^|S| deterministic policies of a tiny contest, and their occupancies."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from mdcontest.arrays import Array
from mdcontest.contest import Contest
from mdcontest.errors import SizeError
from mdcontest.solvers.base import require_count


def deterministic_occupancies(contest: Contest, max_policies: int) -> Array:
    """Occupancies of all |A|^|S| deterministic policies, shape [|A|^|S|, n]."""
    states, actions = contest.num_states, contest.num_actions
    require_count(max_policies, "max_policies")
    exponent = states * math.log10(actions)
    if exponent > math.log10(max_policies) + 1e-9:
        raise SizeError(
            f"{actions}^{states}, about 1e{exponent:.1f}, deterministic policies are over the limit of {max_policies}: "
            "this is why solvers.LinearProgram() exists"
        )
    P: Any = contest.dynamics.full()
    P = (P.toarray() if sp.issparse(P) else P).reshape(states, actions, states)
    policies = np.array(list(itertools.product(range(actions), repeat=states)))
    chains = P[np.arange(states), policies]
    # νᵀ(I − P_π + 1 1ᵀ/S) = 1ᵀ/S has the stationary law as its only solution (unichain).
    systems = np.eye(states) - chains + 1 / states
    right = np.full((len(policies), states, 1), 1 / states)
    nu = np.linalg.solve(np.swapaxes(systems, 1, 2), right)[..., 0]
    X = np.zeros((len(policies), states, actions))
    X[np.arange(len(policies))[:, None], np.arange(states), policies] = np.maximum(nu, 0.0)
    return X.reshape(len(policies), -1) / X.sum(axis=(1, 2))[:, None]
