"""What an agent would have returned earlier: policies of a finished run at any iteration, from its stored iterates."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import jax
import numpy as np

from mdcontest.errors import InputError
from mdcontest.learn import cloning
from mdcontest.learn.agent import Agent
from mdcontest.learn.iterates import Iterates
from mdcontest.learn.policy import Policy
from mdcontest.learn.returned import ActingPolicy

CLONED = "cloned"
KINDS = ("last", "mixture", CLONED)


@dataclass(frozen=True)
class _Fixed:
    policy: Policy
    iterates: Iterates
    is_mixture: bool


class PastPolicy(ActingPolicy):
    """The policy that was returned after some steps; it no longer changes."""

    def __init__(self, agent: Agent, steps: int, returned: str, fixed: _Fixed) -> None:
        super().__init__(agent.task, np.random.default_rng(agent.seed))
        self.steps, self.returned, self.last = steps, returned, _policy_after(agent, steps)
        """Steps it had been trained for, how it is made of the iterates, and the last iterate by then."""
        self.horizon = agent.settings.horizon
        self._fixed = fixed

    @property
    def policy(self) -> Policy:
        return self._fixed.policy

    @property
    def iterates(self) -> Iterates:
        return self._fixed.iterates

    @property
    def is_mixture(self) -> bool:
        return self._fixed.is_mixture


def past_policy(agent: Agent, steps: int, returned: str | None = None) -> PastPolicy:
    """The policy the agent would have returned after `steps` steps, which count in whole iterations.

    `returned` is last, mixture or cloned; None is what the agent's settings say. Cloning needs a run that was trained
    with returned = cloned, because only such a run keeps the outcomes to clone from.
    """
    kind = returned or agent.settings.returned
    if kind not in KINDS:
        raise InputError(f"returned must be one of {', '.join(KINDS)}, got {kind!r}")
    count, batch = len(agent.learner.iterates), agent.settings.batch_size
    k = steps // batch
    if not 0 <= k <= count:
        raise InputError(f"{agent.task.name}: the run has {count * batch} steps so far, none at {steps}")
    stored = agent.learner.iterates.head(k)
    fixed = _Fixed(_policy_after(agent, k * batch), stored, kind == "mixture" and k > 0)
    if kind == CLONED and k > 0:
        fixed = replace(fixed, policy=_cloned_after(agent, k))
    return PastPolicy(agent, k * batch, kind, fixed)


def _policy_after(agent: Agent, steps: int) -> Policy:
    """The last iterate by then: the one that iteration k + 1 sampled from, or the newest of all."""
    k, stored = steps // agent.settings.batch_size, agent.learner.iterates
    newest = agent.learner.policy
    return Policy(newest.weights, copy.deepcopy(newest.moments)) if k == len(stored) else stored.policy(k)


def _cloned_after(agent: Agent, k: int) -> Policy:
    learner, buffer = agent.learner, agent.learner.cloning_buffer
    if buffer is None:
        raise InputError(
            f"{agent.task.name}: the run kept no outcomes to clone from; train it with returned = cloned, or ask for "
            "the mixture, which needs none"
        )
    if k == len(learner.iterates) and (clone := learner.clone) is not None:
        return Policy(clone.weights, copy.deepcopy(clone.moments))
    start = _policy_after(agent, k * agent.settings.batch_size)
    rng = np.random.default_rng([agent.seed, k])
    with jax.default_device(jax.devices("cpu")[0]):
        kept = buffer.head(k * agent.settings.batch_size)
        cloned = cloning.clone(kept, start.weights, start.moments, agent.settings, rng)
    return Policy(jax.device_get(cloned), start.moments)
