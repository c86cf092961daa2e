"""Generalised advantage estimation (UpdateAdv in Algorithms 3 and 4), with ends of episodes told apart.

A terminated episode is worth nothing from there on. One that is cut off (truncated) would have gone on, so the critic's
value of the state it was cut off in stands for the rest.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def generalised_advantages(
    cumulant: Any, value: Any, next_value: Any, ended: Any, discount: float, trace: float
) -> tuple[Any, Any]:
    """Â_t = δ_t + γλ Â_{t+1} within an episode, δ_t = c_t + γ V(s_{t+1}) − V(s_t); returns Â and Â + V.

    All arrays have shape [T, N]. `next_value` already is 0 (or whatever follows) where an episode terminated; `ended`
    marks the last step of an episode, terminated or cut off, past which no advantage flows.
    """
    delta = cumulant + discount * next_value - value

    def backward(later: Any, step: Any) -> tuple[Any, Any]:
        delta_t, ended_t = step
        advantage = delta_t + discount * trace * jnp.where(ended_t, 0.0, later)
        return advantage, advantage

    _, advantages = jax.lax.scan(backward, jnp.zeros(delta.shape[1:]), (delta, ended), reverse=True, unroll=8)
    return advantages, advantages + value


def normalised(advantages: Any) -> Any:
    """To mean 0 and (unbiased) deviation 1."""
    return (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
