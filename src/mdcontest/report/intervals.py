"""How well the mean over seeds is known: intervals for numbers, bands for curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from mdcontest.arrays import Array, read_numbers
from mdcontest.errors import InputError

CONFIDENCE = 0.95
RESAMPLES = 10_000
STUDENT = "Student's t"
BOOTSTRAP = "percentile bootstrap"
FAILED = "leave the run out, and say so, or give it the number that a failed run is worth"
"""What to do about a run without a value."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and the interval that is to contain the true one."""

    mean: float
    """The estimate."""
    low: float
    """Lower end; −∞ for a single seed."""
    high: float
    """Upper end; ∞ for a single seed."""
    n: int
    """Seeds it rests on."""
    method: str
    """How the ends were found."""
    confidence: float
    """How often such intervals are to contain the true mean."""

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if not self.low <= self.high:
            raise InputError(
                f"an interval from {self.low} to {self.high} has no inside; its low must not exceed its high"
            )
        if self.n < 1:
            raise InputError(f"an interval from {self.n} seeds; it takes at least one")


class Band(NamedTuple):
    """Pointwise intervals along a curve: at each point the mean over seeds and the two ends, all [T]."""

    mean: Array
    low: Array
    high: Array


def student_interval(values: Any, confidence: float = CONFIDENCE) -> Interval:
    """m ± t · s/√n, where t is the (1 + confidence)/2 quantile of Student's distribution with n − 1 degrees of freedom.

    Right for normal data at any n, and close to it otherwise once n is large. One seed tells nothing about the spread:
    its interval is the whole line, (−∞, ∞).
    """
    values = read_finite(values, "values", 1)
    return _interval(student_band(values[:, None], confidence), len(values), STUDENT, confidence)


def bootstrap_interval(
    values: Any, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Quantiles of the mean over `resamples` draws of n seeds with replacement; the same for the same `seed`.

    Too narrow for few seeds: a resample deviates by s√((n − 1)/n)/√n where the mean deviates by σ/√n, and it knows
    nothing of the uncertainty of s. One seed resampled is always itself, which would look like certainty: here too the
    interval is (−∞, ∞).
    """
    values = read_finite(values, "values", 1)
    return _interval(bootstrap_band(values[:, None], confidence, resamples, seed), len(values), BOOTSTRAP, confidence)


def student_band(curves: Any, confidence: float = CONFIDENCE) -> Band:
    """`student_interval` at every point of `curves`, [n, T], one row a seed.

    Each point has the confidence by itself; that the whole true curve lies inside is less likely.
    """
    curves, level = _read_curves(curves, confidence)
    if len(curves) == 1:
        return _boundless(curves)
    n = len(curves)
    mean = level + (curves - level).mean(axis=0)
    half = stats.t.ppf((1 + confidence) / 2, n - 1) * (curves - level).std(axis=0, ddof=1) / np.sqrt(n)
    return Band(mean, mean - half, mean + half)


def bootstrap_band(curves: Any, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0) -> Band:
    """`bootstrap_interval` at every point of `curves`, [n, T], one row a seed; whole rows are resampled."""
    curves, level = _read_curves(curves, confidence)
    check_resamples(resamples)
    if len(curves) == 1:
        return _boundless(curves)
    n = len(curves)
    # How often each seed is drawn is all that matters for means, and makes them one product of matrices.
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=resamples)
    means = (curves - level).T @ (counts.T / n)
    low, high = np.quantile(means, tails(confidence), axis=1)
    return Band(level + (curves - level).mean(axis=0), level + low, level + high)


def _interval(band: Band, n: int, method: str, confidence: float) -> Interval:
    """The only point of a band."""
    return Interval(float(band.mean[0]), float(band.low[0]), float(band.high[0]), n, method, confidence)


def _boundless(curves: Array) -> Band:
    """The band of a single seed."""
    unknown = np.full(curves.shape[1], np.inf)
    return Band(curves[0], -unknown, unknown)


def _read_curves(curves: Any, confidence: float) -> tuple[Array, Array]:
    """Checked curves, and the first of them.

    Means are taken relative to it: then equal values have exactly that value for mean and no spread, and rounding
    cannot order two methods that always score the same.
    """
    check_confidence(confidence)
    curves = read_finite(curves, "curves", 2)
    return curves, curves[0]


def tails(confidence: float) -> tuple[float, float]:
    """The two probabilities whose quantiles are the ends of a central interval."""
    return (1 - confidence) / 2, (1 + confidence) / 2


def read_finite(values: Any, what: str, ndim: int, way_out: str = FAILED) -> Array:
    """A nonempty array of finite numbers with `ndim` dimensions."""
    found = read_numbers(values, what)
    if found.ndim != ndim:
        kind = "one row of numbers" if ndim == 1 else "a matrix, one row a seed"
        raise InputError(f"{what} has shape {found.shape}; it must be {kind}")
    if not found.size:
        raise InputError(f"{what} is empty (shape {found.shape}); it takes at least one number")
    bad = np.argwhere(~np.isfinite(found))
    if len(bad):
        place, number = ", ".join(str(i) for i in bad[0]), found[tuple(bad[0])]
        raise InputError(f"{what}[{place}] is {number} ({len(bad)} of {found.size} are not finite); {way_out}")
    return found


def check_confidence(confidence: float) -> None:
    """A share strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise InputError(f"confidence = {confidence} must lie strictly between 0 and 1; 95 % is 0.95")


def check_resamples(resamples: int) -> None:
    """Enough of them to speak of quantiles."""
    if resamples < 100:
        raise InputError(f"resamples = {resamples} is too few for the quantiles of a bootstrap; take 100 or more")
