"""What the update of a decision rule maximises, as a function of ρ = d_θ(a|s) / d_k(a|s) and the advantage A.

Each is a mean over outcomes drawn from x^{π_k}. The clipped one is eq. clip of the paper (and PPO's), the hedge ones
are line 13 of Algorithm 3 (alg:hpi-deep).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

LOG_RATIO_LIMIT = 20.0
"""|log ρ| beyond this is a policy that has already run away; e^20 still is a finite number."""


def clipped(log_ratio: Any, advantage: Any, epsilon: float) -> Any:
    """min{ρA, clip_{1±ε}(ρ)A}, shape [B] (eq. clip). Flat in ρ beyond 1 ± ε, on the side to which A pushes."""
    ratio = jnp.exp(log_ratio)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - epsilon, 1 + epsilon) * advantage)


def hedge_printed(log_ratio: Any, advantage: Any, eta: float) -> Any:
    """ρ(A − log ρ / η), shape [B], as printed. Its pointwise optimum is ρ = e^{ηA − 1}: A = 0 pulls ρ to 0.37."""
    bounded = jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return jnp.exp(bounded) * (advantage - bounded / eta)


def hedge_corrected(log_ratio: Any, advantage: Any, eta: float) -> Any:
    """ρA − (ρ log ρ − ρ + 1)/η, shape [B]. Optimum ρ = e^{ηA}, Hedge's own update; the same mean, as E[ρ] = 1."""
    bounded = jnp.clip(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    ratio = jnp.exp(bounded)
    return ratio * advantage - (ratio * bounded - ratio + 1) / eta
