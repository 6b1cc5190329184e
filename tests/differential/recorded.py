"""The recorded answers of Apache Kafka, one file for each script, in the language of the scenarios.

A line without indentation is the label of a step; lines with `<` below it are Apache Kafka's answer. If klamm answers
differently, the step has all lines of klamm's answer with `!`, and the reason after `because`.
"""

from __future__ import annotations

from pathlib import Path

from tests.scenarios.language import Scenario, Step, parse

__all__ = ["describe_differences", "path_of", "write"]

_FOLDER = Path(__file__).parent / "recorded"

Steps = list[tuple[str, list[str]]]


def path_of(name: str) -> Path:
    """Returns the path of a script's record."""
    return _FOLDER / f"{name}.txt"


def describe_differences(name: str, steps: Steps, *, is_kafka: bool) -> str:
    """Compares a run with the record. Returns the steps that differ, an empty text if there are none."""
    recorded = parse(path_of(name))
    expected = {step.text: _answer(step, is_kafka=is_kafka) for step in recorded.steps}
    seen = dict(steps)
    lines: list[str] = []
    for label in expected | seen:
        if expected.get(label) != seen.get(label):
            lines += [label, "    recorded:", *(f"      {line}" for line in expected.get(label, ["no such step"]))]
            lines += ["    seen:", *(f"      {line}" for line in seen.get(label, ["no such step"]))]
    if not lines and list(expected) != list(seen):
        lines = ["the steps have another order"]
    return "\n".join(lines)


def _answer(step: Step, *, is_kafka: bool) -> list[str]:
    return [line.removeprefix("< ") for line in step.expected_of(is_kafka)]


def write(name: str, description: str, steps: Steps) -> None:
    """Writes a record, and keeps the differences that the file lists."""
    path = path_of(name)
    before = {step.text: step for step in (parse(path) if path.exists() else Scenario(path, [])).steps}
    lines = [f"# {line.strip()}".rstrip() for line in description.strip().splitlines()]
    for label, answer in steps:
        lines += [label, *(f"  < {line}" for line in answer)]
        known = before.get(label)
        if known is not None and known.klamm is not None:
            lines += [*(f"  ! {line}" for line in known.klamm), *(f"  {line}" for line in known.because)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
