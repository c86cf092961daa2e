"""Contest: an environment (S, A, P, μ) and a margin M over its pairs z = (s, a).

Indices once and for all: rule[s, a], x[s, a], transitions[s, a, s'], flat pair index s·A + a.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from mdcontest.arrays import Array, is_number, is_whole, read_numbers, tolerance_of
from mdcontest.errors import PREVIEWED, InputError, preview
from mdcontest.files import to_json, write_record
from mdcontest.margins import Dense, Margin, RewardDifference, margin_to_record
from mdcontest.names import Timed, read_names, stored_names
from mdcontest.transitions import Transitions, read_transitions

FORMAT = "mdcontest/contest"


class Contest:
    """A finite Markov decision contest. Immutable; the transformations return new contests."""

    def __init__(
        self,
        transitions: Any,
        start: ArrayLike,
        margin: Margin | ArrayLike,
        *,
        name: str = "contest",
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> None:
        """
        Args:
            transitions: P(s'|s, a) as an array [S, A, S], or sparse with one row a pair, [S·A, S].
            start: μ, shape [S].
            margin: a `Margin`, or the matrix M as an array [n, n] or [S, A, S, A].
            name: what reports call the contest.
            state_names: one label a state, for reports and error texts.
            action_names: one label an action.
        """
        self._set(read_transitions(transitions, start), margin, name, state_names, action_names)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise AttributeError(f"a contest is immutable: {name} cannot be changed, but another contest can be made")
        super().__setattr__(name, value)

    def _set(
        self,
        transitions: Transitions,
        margin: Margin | ArrayLike,
        name: str,
        state_names: Sequence[str] | None,
        action_names: Sequence[str] | None,
        horizon: int | None = None,
    ) -> Contest:
        self.dynamics = transitions
        self.num_states, self.num_actions = transitions.num_states, transitions.num_actions
        self.num_pairs = self.num_states * self.num_actions
        self.start = transitions.start
        self.margin = self._read_margin(margin).bind(self.num_states, self.num_actions)
        if horizon is not None and (horizon < 1 or self.num_states % horizon):
            raise InputError(f"{self.num_states} states cannot be {horizon} layers of equal size")
        if not isinstance(name, str):
            raise InputError(f"the name of a contest is a text, got {name!r}")
        self.name = name
        self.state_names = read_names(state_names, self.num_states, "state")
        self.action_names = read_names(action_names, self.num_actions, "action")
        self.horizon = horizon
        return self

    @classmethod
    def _made(cls, *parts: Any, **options: Any) -> Contest:
        """A contest from transitions that were checked before; the arguments are those of `_set`."""
        return cls.__new__(cls)._set(*parts, **options)

    def _read_margin(self, margin: Margin | ArrayLike) -> Margin:
        if isinstance(margin, Margin):
            return margin
        if sp.issparse(margin):
            raise InputError("the margin is a sparse matrix; pass margin.toarray(), or a structured margin")
        M = read_numbers(margin, "the margin")
        if M.shape not in ((self.num_pairs,) * 2, (self.num_states, self.num_actions) * 2):
            raise InputError(
                f"the margin has shape {M.shape}; {self.num_states} states × {self.num_actions} actions need "
                f"({self.num_pairs}, {self.num_pairs}), flat pair index s·A + a"
            )
        return Dense(np.asarray(margin).reshape((self.num_states, self.num_actions) * 2))

    # --- reading ------------------------------------------------------------------------------------------

    @property
    def transitions(self) -> Any:
        """P: an array [S, A, S], or sparse [S·A, S] (a restart is written in and fills rows; not too many)."""
        P = self.dynamics.full()
        return P.copy() if sp.issparse(P) else P.reshape(self.num_states, self.num_actions, self.num_states)

    def read_rule(self, rule: ArrayLike) -> Array:
        """A decision rule as an array [S, A] with rows that sum to one, or an error naming the state."""
        d = read_numbers(rule, "a decision rule")
        if d.shape not in ((self.num_pairs,), (self.num_states, self.num_actions)):
            raise InputError(f"a decision rule has shape ({self.num_states}, {self.num_actions}), got {d.shape}")
        d = d.reshape(self.num_states, self.num_actions)
        off = np.abs(d.sum(axis=1) - 1)
        bad = ~(np.isfinite(d).all(axis=1) & (d >= 0).all(axis=1) & (off <= tolerance_of(rule)))
        if bad.any():
            s = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"the rule in state {self.state_names[s]} is {d[s].tolist()}, no distribution over actions: "
                f"it sums to {d[s].sum():.10g}"
            )
        return d / d.sum(axis=1, keepdims=True)

    def describe_states(self, states: Sequence[int]) -> str:
        """States by name, shortened for error texts."""
        shown = states[: PREVIEWED + 1]
        return preview([str(self.state_names[s]) for s in shown], PREVIEWED, len(states))

    def __repr__(self) -> str:
        return f"Contest({self.name!r}: {self.num_states} states, {self.num_actions} actions, {self.margin!r})"

    # --- making other contests ------------------------------------------------------------------------------

    @classmethod
    def from_mdp(cls, transitions: Any, start: ArrayLike, reward: ArrayLike, **names: Any) -> Contest:
        """A Markov decision process as a contest, M_r(z, z') = r(z) − r(z') (eq. reward-express)."""
        return cls(transitions, start, RewardDifference(reward), **names)

    def with_restart(self, eps: float) -> Contest:
        """P' = (1 − ε) P + ε 1 μᵀ: unichain and aperiodic for every ε in (0, 1]. Policies stay what they are."""
        if not (is_number(eps) and 0 < eps <= 1):
            raise InputError(f"the restart probability must lie in (0, 1], got {eps!r}")
        changed = self.dynamics.with_restart(float(eps))
        return self._like(changed, self.margin, f"{self.name}, restart {float(eps):g}")

    def discounted(self, gamma: float) -> Contest:
        """The γ-discounted contest, as the average contest of the chain that restarts with probability 1 − γ.

        Its occupancies are the normalised discounted ones, (1 − γ) Σ_t γ^t Pr(S_t = s, A_t = a), so a stationary
        rule is optimal here exactly if it is optimal for the discounted criterion (app. unichain).
        """
        if not (is_number(gamma) and 0 <= gamma < 1):
            raise InputError(f"the discount must lie in [0, 1), got {gamma!r}")
        changed = self.dynamics.with_restart(1 - float(gamma))
        return self._like(changed, self.margin, f"{self.name}, discount {_short(float(gamma))}")

    def finite_horizon(self, horizon: int) -> Contest:
        """The contest of `horizon` steps from μ, as the average contest of the time-expanded chain.

        State t·S + s is state s at time t; after the last step the chain starts over. `original_policy(rule)` gives
        the time-dependent policy, shape [horizon, S, A].
        """
        if not (is_whole(horizon) and horizon >= 1):
            raise InputError(f"the horizon must be a whole number of steps, at least 1, got {horizon!r}")
        return Contest._made(
            self.dynamics.time_expanded(int(horizon)),
            self.margin.tiled(int(horizon)),
            f"{self.name}, horizon {horizon}",
            Timed(self.state_names, int(horizon)),
            self.action_names,
            int(horizon),
        )

    def original_policy(self, rule: ArrayLike) -> Array:
        """The policy of the contest this one was made from.

        A stationary rule [S, A] for `with_restart` and `discounted` (it is the same rule), one rule a time step
        [horizon, S, A] for `finite_horizon`, and the rule itself for a contest that was not made from another.
        """
        d = self.read_rule(rule)
        return d if self.horizon is None else d.reshape(self.horizon, -1, self.num_actions)

    def _like(self, transitions: Transitions, margin: Margin, name: str) -> Contest:
        return Contest._made(transitions, margin, name, self.state_names, self.action_names, self.horizon)

    # --- files ----------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the contest to a .json file (for people) or a .npz file (for size)."""
        write_record(path, FORMAT, self.to_record())

    def to_json(self) -> str:
        """The contest as the text of a .json file."""
        return to_json(FORMAT, self.to_record())

    def to_record(self) -> dict[str, Any]:
        """Plain values and arrays, the form in which files hold a contest."""
        P = self.dynamics.matrix
        transitions: dict[str, Any] = (
            {"data": P.data, "indices": P.indices, "indptr": P.indptr}
            if sp.issparse(P)
            else {"dense": P.reshape(self.num_states, self.num_actions, self.num_states)}
        )
        if self.dynamics.restart is not None:
            transitions["restart"] = self.dynamics.restart
        return {
            "name": self.name,
            "states": self.num_states,
            "actions": self.num_actions,
            "state_names": stored_names(self.state_names),
            "action_names": stored_names(self.action_names),
            "horizon": self.horizon,
            "start": self.start,
            "transitions": transitions,
            "margin": margin_to_record(self.margin),
        }


def _short(gamma: float) -> str:
    """A discount in few digits, but never as 1."""
    return next(text for text in (f"{gamma:.{digits}g}" for digits in range(6, 18)) if float(text) < 1)
