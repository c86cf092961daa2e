"""How often does a 95 % interval for a mean over seeds contain the true mean? `python bench/interval_coverage.py`

Draws seeds from distributions whose mean is known and counts, for Student's t and the percentile bootstrap; prints a
Markdown table of percentages with standard errors. Takes about two minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from mdcontest.arrays import Array
from mdcontest.report.statistics import Band, bootstrap_band, student_band

Draw = Callable[[np.random.Generator, tuple[int, int]], Array]
SEEDS = (5, 10, 100)
BATCH = 500
"""Repetitions that share their resamples. These are 10 000 and new for each batch, so that sharing hardly matters."""


def modes(share: float) -> Draw:
    """Runs that fail, around 0, with probability `share`, or succeed, around 1; both with a deviation of 0.05."""
    return lambda rng, shape: (rng.uniform(size=shape) >= share) + 0.05 * rng.standard_normal(shape)


DATA: dict[str, tuple[float, Draw]] = {
    "normal": (0.0, lambda rng, shape: rng.standard_normal(shape)),
    "lognormal": (float(np.exp(0.5)), lambda rng, shape: rng.lognormal(size=shape)),
    "half of the runs fail": (0.5, modes(0.5)),
    "one run in five fails": (0.8, modes(0.2)),
}
"""Distributions with their true means; the logarithm of the lognormal has mean 0 and deviation 1."""


def coverage(mean: float, draw: Draw, seeds: int, repetitions: int, seed: int) -> dict[str, float]:
    """The share of intervals that contain the mean, by method."""
    rng = np.random.default_rng(seed)
    hits = {"Student's t": 0, "bootstrap": 0}
    for first in range(0, repetitions, BATCH):
        # One repetition a column: the bands are pointwise, so that each column is an interval of its own.
        values = draw(rng, (seeds, min(BATCH, repetitions - first)))
        hits["Student's t"] += inside(student_band(values), mean)
        hits["bootstrap"] += inside(bootstrap_band(values, seed=int(rng.integers(2**32))), mean)
    return {method: count / repetitions for method, count in hits.items()}


def inside(band: Band, mean: float) -> int:
    """How many intervals contain the mean."""
    return int(((band.low <= mean) & (mean <= band.high)).sum())


def cell(share: float, repetitions: int) -> str:
    """A percentage with its standard error."""
    return f"{100 * share:.1f} ± {100 * np.sqrt(share * (1 - share) / repetitions):.1f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20_000, help="intervals a cell (default 20000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the simulation (default 0)")
    options = parser.parse_args()
    print("| data | seeds | Student's t, % | percentile bootstrap, % |")
    print("|---|---:|---:|---:|")
    for name, (mean, draw) in DATA.items():
        for seeds in SEEDS:
            found = coverage(mean, draw, seeds, options.repetitions, options.seed)
            print(f"| {name} | {seeds} | " + " | ".join(cell(p, options.repetitions) for p in found.values()) + " |")


if __name__ == "__main__":
    main()
