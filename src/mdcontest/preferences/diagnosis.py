"""What a fitted margin is worth: measured on comparisons and outcomes that it was not fitted to.

The share of the preference that no reward explains is ‖M − (gᵢ − gⱼ)‖² / ‖M‖² with gᵢ = mean_j Mᵢⱼ: gᵢ − gⱼ is the
reward difference nearest to M (least squares), so 0 is a reward and 1 is nothing but cycles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mdcontest.arrays import Array
from mdcontest.preferences.comparisons import Comparisons
from mdcontest.preferences.fitting import choice_probability, log_likelihood

if TYPE_CHECKING:
    from mdcontest.preferences.learned import Learned

BINS = 10
MATRIX_OUTCOMES = 300
"""Held-out outcomes among which cycles are looked for; their matrix has the square of that many entries."""
CYCLE_OUTCOMES = 120
EXAMPLES = 3
ROUNDING = 1e-9
"""Margins that are smaller, as a share of the largest, prefer nothing."""


def cyclic_share(M: Array) -> float:
    """‖M − (gᵢ − gⱼ)‖² / ‖M‖² of a skew matrix; 0 where M is."""
    g = M.mean(axis=1)
    total = float((M**2).sum())
    return float(((M - (g[:, None] - g[None, :])) ** 2).sum() / total) if total else 0.0


def best_cycles(M: Array, count: int) -> tuple[list[tuple[int, int, int]], float]:
    """Triples i ≻ j ≻ k ≻ i, the clearest first, none sharing an outcome; and the share of all triples that cycle."""
    n, M = len(M), (M - M.T) / 2  # exactly skew: nothing beats itself
    least = ROUNDING * float(np.abs(M).max(initial=0.0))  # equal outcomes differ by rounding
    weakest = np.minimum(np.minimum(M[:, :, None], M[None, :, :]), M.T[:, None, :])  # Mᵢⱼ, Mⱼₖ, Mₖᵢ
    cyclic = int((weakest > least).sum()) / 3  # each of a cycle's three rotations is counted
    triples = n * (n - 1) * (n - 2) / 6
    found: list[tuple[int, int, int]] = []
    while len(found) < count:
        i, j, k = (int(index) for index in np.unravel_index(np.argmax(weakest), weakest.shape))
        if weakest[i, j, k] <= least:
            break
        found.append((i, j, k))
        for used in (i, j, k):
            weakest[used], weakest[:, used], weakest[:, :, used] = -np.inf, -np.inf, -np.inf
    return found, cyclic / triples if triples else 0.0


def most_cyclic(outcomes: int) -> float:
    """The largest share of the triples among so many outcomes that can cycle (Kendall and Babington Smith 1940).

    A triple does not cycle where one of it beats the other two, so Σ w(w − 1)/2 do not if outcomes win w times each;
    that is least where all win equally often.
    """
    n = min(outcomes, CYCLE_OUTCOMES)
    if n < 3:
        return 0.0
    return (n + 1) / (4 * (n - 2)) if n % 2 else (n + 2) / (4 * (n - 1))


def calibration(probability: Array, target: Array) -> dict[str, Any]:
    """How often the first was preferred where the model says how often: ten bins, and their mean distance."""
    which = np.minimum((probability * BINS).astype(int), BINS - 1)
    count = np.bincount(which, minlength=BINS)
    seen = np.flatnonzero(count)
    said = np.bincount(which, probability, BINS)[seen] / count[seen]
    was = np.bincount(which, target, BINS)[seen] / count[seen]
    error = float((count[seen] * np.abs(said - was)).sum() / count.sum())
    return {"predicted": said.tolist(), "observed": was.tolist(), "count": count[seen].tolist(), "error": error}


def accuracy(margin: Array, target: Array) -> float | None:
    """Share of the pairs with a preference that the margin's sign gets right; a margin of 0 is half right."""
    clear = target != 0.5
    if not clear.any():
        return None
    right = np.sign(margin[clear]) * np.sign(target[clear] - 0.5)
    return float(((1 + right) / 2).mean())


def diagnose(
    margin: Learned, fitted_to: Comparisons, held_out: Comparisons, rng: np.random.Generator
) -> dict[str, Any]:
    """Likelihood, accuracy, calibration, cycles and extrapolation on held-out comparisons, as plain values."""
    ensemble = margin.ensemble
    members = ensemble.table_margins(ensemble.table(held_out))
    values, target = members.mean(axis=0), held_out.target
    probability = choice_probability(values, ensemble.noise, np)
    sample = _some(fitted_to, min(len(fitted_to), len(held_out)), rng)
    before = ensemble.table_margins(ensemble.table(sample)).mean(axis=0)
    return {
        "fitted_to": len(fitted_to),
        "held_out": len(held_out),
        "log_likelihood": float(log_likelihood(values, target, ensemble.noise, np).mean()),
        "log_likelihood_fitted": float(log_likelihood(before, sample.target, ensemble.noise, np).mean()),
        "log_likelihood_chance": float(np.log(0.5)),
        "accuracy": accuracy(values, target),
        "accuracy_members": [accuracy(one, target) for one in members],
        "calibration": calibration(probability, target),
        "disagreement": float(choice_probability(members, 0.0, np).std(axis=0).mean()),
        "cycles": _cycles(margin, held_out, rng),
        "extrapolation": _extrapolation(margin, held_out),
    }


def _some(data: Comparisons, count: int, rng: np.random.Generator) -> Comparisons:
    return data[np.sort(rng.choice(len(data), count, replace=False))]


def _cycles(margin: Learned, held_out: Comparisons, rng: np.random.Generator) -> dict[str, Any]:
    rows = held_out.used()
    if not len(rows):  # nothing but ⊥ was held out
        return {"outcomes": 0, "cyclic_share": 0.0, "cyclic_triples": 0.0, "examples": []}
    chosen = rng.choice(rows, min(len(rows), MATRIX_OUTCOMES), replace=False)
    z = held_out.outcomes[chosen]
    M = margin.matrix(z, z)
    few = M[:CYCLE_OUTCOMES, :CYCLE_OUTCOMES]
    examples, share = best_cycles(few, EXAMPLES)
    return {
        "outcomes": len(chosen),
        "cyclic_share": cyclic_share(M),
        "cyclic_triples": share,
        "examples": [
            {
                "rows": [int(chosen[i]) for i in triple],
                "margins": [float(few[triple[s], triple[(s + 1) % 3]]) for s in range(3)],
            }
            for triple in examples
        ],
    }


def _extrapolation(margin: Learned, held_out: Comparisons) -> dict[str, Any]:
    rows = held_out.used()
    if not len(rows):
        return {"outcomes": 0, "share_outside": 0.0, "inputs": []}
    beyond = margin.ensemble.reader.beyond(held_out.outcomes[rows])
    outside = beyond > 0
    names = margin.ensemble.reader.names()
    worst = np.argsort(outside.mean(axis=0))[::-1][:EXAMPLES]
    return {
        "outcomes": len(rows),
        "share_outside": float(outside.any(axis=1).mean()),
        "inputs": [
            {"name": names[i], "share_outside": float(outside[:, i].mean())} for i in worst if outside[:, i].any()
        ],
    }
