"""The language of scenarios: the steps, and Apache Kafka's answers to each step.

    # Comments begin with a sharp.
    topic events 6
    group orders

    A: join range events
      < MEMBER_ID_REQUIRED, member A
      = classic Empty, consumer/
    A: join range events
      < ok, generation 1, consumer/range, leader A, member A, members A

Each line without indentation is a step. The lines below it are its outcome: `<` for answers (answers to other members
begin with their names), `=` for the complete state of the group, if it changed. `python -m tests.scenarios.record`
records the outcome from Apache Kafka, never by hand. If klamm may answer differently, the step contains
klamm's complete outcome and the reason:

    B: heartbeat
      < ok
      ! < REBALANCE_IN_PROGRESS
      because klamm lets members know earlier, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from klamm.errors import KlammError

__all__ = ["NOTHING", "RESTART", "Scenario", "ScenarioError", "Step", "parse", "rewrite"]

NOTHING: Final = "nothing"
"""klamm's empty outcome, written `! nothing`, where Apache Kafka has one."""
RESTART: Final = "restart"
"""The step that restarts the broker."""
DEFAULT_BROKER: Final = "default"


class ScenarioError(KlammError):
    """A scenario file is invalid; the message names the line."""


@dataclass
class Step:
    """One step of a scenario and its outcome."""

    line: int
    """Line number in the file, from 1."""
    text: str
    kafka: list[str] = field(default_factory=list)
    """Apache Kafka's outcome."""
    klamm: list[str] | None = None
    """klamm's outcome if it differs, else None."""
    because: list[str] = field(default_factory=list)

    def expected_of(self, is_kafka: bool) -> list[str]:
        """Returns the expected outcome on Apache Kafka or on klamm."""
        if is_kafka or self.klamm is None:
            return self.kafka
        return [] if self.klamm == [NOTHING] else self.klamm


@dataclass
class Scenario:
    """A scenario file."""

    path: Path
    steps: list[Step]
    broker: str = DEFAULT_BROKER
    """Name of the broker's configuration: a file in broker_configs/."""

    @property
    def restarts(self) -> bool:
        """Returns whether the scenario restarts its broker, and therefore needs a broker of its own."""
        return any(step.text == RESTART for step in self.steps)

    @property
    def name(self) -> str:
        """Returns the name of the file, which is unique."""
        return self.path.stem


def parse(path: Path) -> Scenario:
    """Reads a scenario. Raises `ScenarioError` if the file is invalid."""
    scenario = Scenario(path, [])
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("broker "):
            scenario.broker = line.removeprefix("broker ").strip()
        elif not line.startswith(" "):
            scenario.steps.append(Step(number, line.strip()))
        elif not scenario.steps:
            raise ScenarioError(f"{path}:{number}: an answer before the first step")
        else:
            _add(scenario.steps[-1], line.strip(), f"{path}:{number}")
    for step in scenario.steps:
        if (step.klamm is None) != (not step.because):
            raise ScenarioError(f"{path}:{step.line}: what differs (!) needs a reason (because)")
    return scenario


def _add(step: Step, line: str, where: str) -> None:
    if line.startswith(("< ", "= ")):
        step.kafka.append(line)
    elif line.startswith("! "):
        step.klamm = [*(step.klamm or []), line.removeprefix("! ")]
    elif line.startswith("because ") or step.because:
        step.because.append(line)
    else:
        raise ScenarioError(f"{where}: neither an answer (<), a state (=), a difference (!) nor a reason: {line!r}")


def rewrite(text: str, recorded: Mapping[int, Iterable[str]]) -> str:
    """Returns the text of a scenario with new answers, by the lines of their steps; keeps differences and reasons."""
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(" ") and line.lstrip().startswith(("< ", "= ")):
            continue
        lines.append(line)
        lines += [f"  {each}" for each in recorded.get(number, ())]
    return "\n".join(lines) + "\n"
