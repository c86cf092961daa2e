"""Reading a contest from a file, whoever wrote it; `Contest.save` writes one."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from mdcontest.arrays import read_numbers
from mdcontest.contest import FORMAT, Contest
from mdcontest.errors import FileFormatError, InputError
from mdcontest.files import read_record
from mdcontest.margins import margin_from_record
from mdcontest.transitions import read_transitions

FIELDS = (
    *("format", "version", "name", "comment", "states", "actions", "state_names", "action_names", "horizon"),
    *("start", "transitions", "margin"),
)
"""The fields of a file; `comment` is for people."""


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
    M = read_numbers(margin["M"], "M")
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
    data = read_numbers(stored["data"], "data")
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
