"""A learner as a record for a checkpoint, and back: everything that the next iteration depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from mdcontest.errors import FileFormatError, InputError, RunError
from mdcontest.learn import cloning, iterates
from mdcontest.learn.iterates import Iterates
from mdcontest.learn.learner import Learner
from mdcontest.learn.policy import Moments
from mdcontest.learn.rows import Rows
from mdcontest.learn.update import Averages
from mdcontest.outcomes import Outcomes
from mdcontest.tasks import ObservationReader


def learner_record(learner: Learner) -> dict[str, Any]:
    """Numbers, texts and arrays from which `restore_learner` goes on bit for bit."""
    opponents = learner.opponents
    return {
        "iteration": learner.iteration,
        "steps": learner.steps,
        "started": learner.started,
        "params": learner.params,
        "optimiser": [np.asarray(leaf) for leaf in jax.tree.leaves(learner.optimiser_state)],
        "averages": [float(value) for value in learner.averages],
        "moments": _moments_record(learner.policy.moments),
        "scale": learner.scale.record(),
        "queue": _outcomes_record(opponents.queue),
        "first": _outcomes_record(opponents.first),
        "generators": {name: rng.bit_generator.state for name, rng in learner.rngs.items()},
        "collector": learner.collector.record() if learner.started else None,
        "iterates": learner.iterates.rows.record(),
        "cloning": None if learner.cloning_buffer is None else learner.cloning_buffer.record(),
        "cloned": learner.cloned,
        "cloned_moments": None if learner.cloned_moments is None else _moments_record(learner.cloned_moments),
    }


def restore_learner(learner: Learner, record: dict[str, Any], run: Path) -> bool:
    """Put a new learner where the record was made; False if its environments will have to start new episodes."""
    try:
        return _restore(learner, record, run)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise FileFormatError(f"the checkpoint in {run} does not fit this task and these settings: {error!r}") from None


def _restore(learner: Learner, record: dict[str, Any], run: Path) -> bool:
    _require_same_shapes(learner.params, record["params"], run)
    learner.params = record["params"]
    structure = jax.tree.structure(learner.optimiser_state)
    learner.optimiser_state = jax.tree.unflatten(structure, record["optimiser"])
    learner.averages = Averages(*(np.float32(value) for value in record["averages"]))
    moments = learner.policy.moments
    _restore_moments(moments, record["moments"])
    learner.policy.update(learner.params["actor"])
    learner.scale.restore(record["scale"])
    observations = learner.task.spaces[0]
    learner.opponents.queue = _outcomes(record["queue"], observations)
    learner.opponents.first = _outcomes(record["first"], observations)
    for name, rng in learner.rngs.items():
        rng.bit_generator.state = record["generators"][name]
    learner.iteration, learner.steps = record["iteration"], record["steps"]
    learner.cloned = record["cloned"]
    if (saved := record.get("cloned_moments")) is not None:  # older checkpoints have a clone without them
        learner.cloned_moments = _restore_moments(type(moments)(len(moments.mean)), saved)
    rows = Rows.open(run / iterates.FILE, record["iterates"])
    learner.iterates = Iterates(learner.params["actor"], moments, rows)
    if learner.cloning_buffer is not None:
        learner.cloning_buffer = cloning.CloningBuffer.open(run / cloning.FILE, record["cloning"])
    # New episodes begin when training goes on, not here: their observations would change the statistics of the policy.
    try:
        learner.started = record["started"] and learner.collector.restore(record["collector"])
    except RunError as error:
        learner.misplaced = error
    return learner.started or learner.iteration == 0


def _require_same_shapes(ours: Any, theirs: Any, run: Path) -> None:
    for part in ("actor", "critic"):
        wanted = {name: np.shape(value) for name, value in ours[part].items()}
        found = {name: np.shape(value) for name, value in theirs[part].items()}
        if wanted != found:
            raise FileFormatError(f"{run}: the {part} has the layers {found}, this task and settings need {wanted}")


def _moments_record(moments: Moments) -> dict[str, Any]:
    return {"count": moments.count, "mean": moments.mean, "square": moments.square}


def _restore_moments(moments: Moments, record: dict[str, Any]) -> Moments:
    moments.count, moments.mean, moments.square = record["count"], record["mean"].copy(), record["square"].copy()
    return moments


def _outcomes_record(outcomes: Outcomes | None) -> dict[str, Any] | None:
    if outcomes is None:
        return None
    names = ("obs", "action", "reward", "next_obs", "info")
    return {name: getattr(outcomes, name) for name in names}


def _outcomes(record: dict[str, Any] | None, observations: ObservationReader) -> Outcomes | None:
    if record is None:
        return None
    own_keys = {name: observations.with_own_keys(record[name]) for name in ("obs", "next_obs")}
    return Outcomes(**record | own_keys)
