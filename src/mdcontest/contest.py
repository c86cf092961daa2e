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

from mdcontest.arrays import Array, is_number, read_numbers
from mdcontest.errors import PREVIEWED, FileFormatError, InputError, preview
from mdcontest.files import read_record, to_json, write_record
from mdcontest.margins import Dense, Margin, RewardDifference, margin_from_record, margin_to_record
from mdcontest.names import Timed, read_names, stored_names
from mdcontest.transitions import Transitions, read_transitions

FORMAT = "mdcontest/contest"
FIELDS = (
    *("format", "version", "name", "comment", "states", "actions", "state_names", "action_names", "horizon"),
    *("start", "transitions", "margin"),
)
"""The fields of a file; `comment` is for people."""


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
        return Dense(M.reshape((self.num_states, self.num_actions) * 2))

    # --- reading ------------------------------------------------------------------------------------------

    @property
    def transitions(self) -> Any:
        """P: an array [S, A, S], or sparse [S·A, S] (a restart is written in, which fills rows)."""
        P = self.dynamics.full()
        return P.copy() if sp.issparse(P) else P.reshape(self.num_states, self.num_actions, self.num_states)

    def read_rule(self, rule: ArrayLike) -> Array:
        """A decision rule as an array [S, A] with rows that sum to one, or an error naming the state."""
        d = read_numbers(rule, "a decision rule")
        if d.shape not in ((self.num_pairs,), (self.num_states, self.num_actions)):
            raise InputError(f"a decision rule has shape ({self.num_states}, {self.num_actions}), got {d.shape}")
        d = d.reshape(self.num_states, self.num_actions)
        bad = ~(np.isfinite(d).all(axis=1) & (d >= 0).all(axis=1) & (np.abs(d.sum(axis=1) - 1) <= 1e-8))
        if bad.any():
            s = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"the rule in state {self.state_names[s]} is {d[s].tolist()}, no distribution over actions"
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
        if not (isinstance(horizon, int | np.integer) and horizon >= 1):
            raise InputError(f"the horizon must be a whole number of steps, at least 1, got {horizon}")
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


def load_contest(path: str | PathLike[str], *, max_bytes: int = 1 << 30) -> Contest:
    """Read a contest written by `Contest.save` or by hand (docs: "The contest file").

    Raises:
        FileFormatError: the file is missing, truncated, corrupt, of another version, or declares more than
            `max_bytes` of data.
        InputError: the file is readable but what it describes is no contest.
    """
    record = read_record(path, FORMAT, max_bytes=max_bytes)
    try:
        states, actions = _whole(record, "states"), _whole(record, "actions")
        horizon = None if record.get("horizon") is None else _whole(record, "horizon")
        unknown = set(record) - set(FIELDS)
        if unknown:
            raise FileFormatError(f"unknown field {sorted(unknown)[0]!r}; a contest has {', '.join(FIELDS)}")
        transitions = _read_stored_transitions(record["transitions"], states, actions)
        restart = record["transitions"].get("restart")
        names = {key: _words(record.get(key), key) for key in ("state_names", "action_names")}
        contest = Contest._made(
            read_transitions(transitions, record["start"], restart),
            margin_from_record(_with_pairs_named(record["margin"], states, actions)),
            _text(record.get("name", "contest"), "name"),
            **names,
            horizon=horizon,
        )
    except KeyError as error:
        raise FileFormatError(f"{path}: the field {error} is missing") from None
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FileFormatError(f"{path}: a field has the wrong type: {error}") from None
    if (contest.num_states, contest.num_actions) != (states, actions):
        raise FileFormatError(
            f"{path}: declares {states} states and {actions} actions, "
            f"holds {contest.num_states} and {contest.num_actions}"
        )
    return contest


def _with_pairs_named(margin: Any, states: int, actions: int) -> Any:
    """A plain matrix of margins as [S, A, S, A], so that an error can name its pairs."""
    if not (isinstance(margin, dict) and margin.get("kind") == "dense" and set(margin) == {"kind", "M"}):
        return margin
    M = np.asarray(margin["M"], float)
    return {
        "kind": "dense",
        "M": M.reshape(states, actions, states, actions) if M.size == (states * actions) ** 2 else M,
    }


def _whole(record: dict[str, Any], key: str) -> int:
    value = record[key]
    if isinstance(value, bool) or not isinstance(value, int):
        raise FileFormatError(f"{key} must be a whole number, got {value!r}")
    return value


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise FileFormatError(f"{key} must be a text, got {value!r}")
    return value


def _words(value: Any, key: str) -> list[str] | None:
    if value is not None and not (isinstance(value, list) and all(isinstance(word, str) for word in value)):
        raise FileFormatError(f"{key} must be a list of texts")
    return value


def _read_stored_transitions(stored: Any, states: int, actions: int) -> Any:
    if not isinstance(stored, dict):
        raise FileFormatError("transitions must be an object with the field 'dense', or 'data', 'indices' and 'indptr'")
    forms = ({"dense"}, {"data", "indices", "indptr"})
    if set(stored) - {"restart"} not in forms:
        raise FileFormatError(
            "transitions must have the field 'dense', or 'data', 'indices' and 'indptr', and may have 'restart'; "
            f"these have {', '.join(sorted(map(repr, stored)))}"
        )
    if "dense" in stored:
        return stored["dense"]
    data = np.asarray(stored["data"], float)
    indices, indptr = (np.asarray(stored[key]) for key in ("indices", "indptr"))
    if states < 1 or actions < 1 or len(indptr) != states * actions + 1:
        raise FileFormatError(f"indptr must have {states}·{actions} + 1 entries, got {len(indptr)}")
    for values, name in ((indices, "indices"), (indptr, "indptr")):
        if values.ndim != 1 or not (np.issubdtype(values.dtype, np.integer) or values.size == 0):
            raise FileFormatError(f"{name} must be a list of whole numbers")
    if indptr.min() < 0 or indptr.max() > len(indices):  # before any difference is taken: differences can wrap around
        raise FileFormatError(f"indptr must lie between 0 and {len(indices)}, the number of indices")
    narrow = np.int32 if max(len(indices), states * actions) < 2**31 else np.int64
    if len(indices) and (indices.min() < 0 or indices.max() >= states):
        raise FileFormatError("data, indices and indptr do not describe a sparse matrix with one column a state")
    indices, indptr = indices.astype(narrow, copy=False), indptr.astype(narrow, copy=False)
    sound = (
        data.ndim == 1 and indptr[0] == 0 and indptr[-1] == len(indices) == len(data) and (np.diff(indptr) >= 0).all()
    )
    if not sound:
        raise FileFormatError("data, indices and indptr do not describe a sparse matrix with one column a state")
    return sp.csr_array((data, indices, indptr), shape=(states * actions, states))
