"""The answer of `estimate_gap`: two numbers with intervals, and never one number called the gap."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measured:
    """A quantity measured on samples, with its confidence interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Measured:
        """From a file; what is no number is a ValueError or TypeError."""
        return cls(float(record["value"]), float(record["low"]), float(record["high"]))

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True)
class GapBracket:
    """What is known of the optimality gap max_π' M̄(π', π) of a policy π, as average margin a step.

    The average runs over the steps of the environment that starts anew when an episode ends.
    """

    best_response: Measured
    """Average margin of the best policy found against π, on episodes that neither was trained or chosen on. Any policy
    gives a lower bound; this one was trained for it."""
    ceiling: Measured | None
    """sup c over all feature values, c(z) the margin of z against π. No policy averages more than the best step would;
    None where nobody knows how good a step can be."""
    confidence: float
    """Of each interval."""
    exact: float | None = None
    """The optimality gap itself, where the task has a finite model, the policy a decision rule, and no episode was cut
    off."""
    why_no_ceiling: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    """How it was measured: episodes, steps, restarts and how each did."""

    @property
    def lower(self) -> float:
        """The outer end below: the lower end of the best response's interval, or 0, which every gap is at least."""
        return max(0.0, self.best_response.low)

    @property
    def upper(self) -> float | None:
        """The outer end above: the upper end of the ceiling's interval; None where there is no ceiling."""
        return None if self.ceiling is None else max(0.0, self.ceiling.high)

    @property
    def lower_interval(self) -> tuple[float, float]:
        """Of the best response's average margin."""
        return self.best_response.low, self.best_response.high

    @property
    def upper_interval(self) -> tuple[float, float] | None:
        """Of the ceiling."""
        return None if self.ceiling is None else (self.ceiling.low, self.ceiling.high)

    def record(self) -> dict[str, Any]:
        """As plain values for files."""
        return {"lower": self.lower, "upper": self.upper} | asdict(self)

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> GapBracket:
        """The bracket that `record` gave."""
        ceiling, exact = record["ceiling"], record["exact"]
        for candidate in record["details"].get("candidates", []):
            int(candidate["steps"])
        return cls(
            Measured.of_record(record["best_response"]),
            None if ceiling is None else Measured.of_record(ceiling),
            float(record["confidence"]),
            None if exact is None else float(exact),
            str(record["why_no_ceiling"]),
            dict(record["details"]),
        )

    def __str__(self) -> str:
        above = f"{self.upper:.4f}" if self.upper is not None else "?"
        percent = f"{100 * self.confidence:g} %"
        above_told = f"no step can win more than {self.ceiling} ({percent})" if self.ceiling else self.why_no_ceiling
        lines = [
            f"optimality gap between {self.lower:.4f} and {above}",
            f"  from below: a trained best response wins {self.best_response} ({percent})",
            f"  from above: {above_told}",
        ]
        if self.exact is not None:
            lines.append(f"  exact, from the finite model: {self.exact:.4f}")
        return "\n".join(lines)
