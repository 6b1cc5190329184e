"""What is said of a scenario that had another outcome than its file says."""

from __future__ import annotations

from tests.scenarios.language import Scenario
from tests.scenarios.play import Outcome

__all__ = ["describe_failure"]

BEFORE = 6
"""Steps that are shown before the one that went wrong."""


def describe_failure(scenario: Scenario, outcomes: list[Outcome], *, is_kafka: bool) -> str | None:
    """The step that had another outcome, with both and with what went before; None when all went as expected."""
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
