"""The report of a scenario with an unexpected outcome."""

from __future__ import annotations

from tests.scenarios.language import Scenario
from tests.scenarios.play import Outcome

__all__ = ["describe_failure"]

BEFORE = 6
"""Number of steps that are shown before the failed step."""


def describe_failure(scenario: Scenario, outcomes: list[Outcome], *, is_kafka: bool) -> str | None:
    """Returns the failed step with the expected and the actual outcome and the steps before it; None without a
    failure."""
    *before, (step, seen) = outcomes
    expected = step.expected_of(is_kafka)
    if seen == expected:
        return None
    who = "Apache Kafka" if is_kafka else "klamm"
    lines = [f"{scenario.path}:{step.line}: {who} does otherwise"]
    for earlier, _ in before[-BEFORE:]:
        lines += [f"    {earlier.text}", *(f"      {line}" for line in earlier.expected_of(is_kafka))]
    lines += [f"--> {step.text}", "    expected:", *(f"      {line}" for line in expected or ["nothing"])]
    lines += ["    seen:", *(f"      {line}" for line in seen or ["nothing"])]
    return "\n".join(lines)
