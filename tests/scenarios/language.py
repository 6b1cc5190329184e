"""The language in which scenarios are written: what is done, and what Apache Kafka answered to it.

    # Comments begin with a sharp.
    topic events 6
    group orders

    A: join range events
      < MEMBER_ID_REQUIRED, member A
      = classic Empty, consumer/
    A: join range events
      < ok, generation 1, consumer/range, leader A, member A, members A

Each line at the margin is a step. Lines under it are what came of it: `<` for answers (those to other members with
their names), `=` for the state of the group, given whole where it changed. They are recorded from Apache Kafka by
`python -m tests.scenarios.record`, never written by hand. Where klamm may answer otherwise, a step says so, with the
whole of what klamm answers, and the reason:

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
"""What klamm answers to a step, or shows of it, where Apache Kafka does more: `! nothing`."""
RESTART: Final = "restart"
"""The step that restarts the broker."""
DEFAULT_BROKER: Final = "default"


class ScenarioError(KlammError):
    """A scenario is not written as it should be; the text says where."""


@dataclass
class Step:
    """One line that says what is done, and what came of it."""

    line: int
    """Counted from 1."""
    text: str
    kafka: list[str] = field(default_factory=list)
    """What Apache Kafka did."""
    klamm: list[str] | None = None
    """What klamm does instead; None where it is the same."""
    because: list[str] = field(default_factory=list)

    def expected_of(self, is_kafka: bool) -> list[str]:
        """What comes of it."""
        if is_kafka or self.klamm is None:
            return self.kafka
        return [] if self.klamm == [NOTHING] else self.klamm


@dataclass
class Scenario:
    """One file."""

    path: Path
    steps: list[Step]
    broker: str = DEFAULT_BROKER
    """How the broker is set: a file of brokers/, by its name."""

    @property
    def restarts(self) -> bool:
        """Whether it restarts its broker, which it has to have for itself."""
        return any(step.text == RESTART for step in self.steps)

    @property
    def name(self) -> str:
        """The file's name; no other scenario has it."""
        return self.path.stem


def parse(path: Path) -> Scenario:
    """Reads a scenario. Raises `ScenarioError` where it isn't one."""
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
    """The text of a scenario with new answers, by the lines of their steps; what differs and why stays as it is."""
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(" ") and line.lstrip().startswith(("< ", "= ")):
            continue
        lines.append(line)
        lines += [f"  {each}" for each in recorded.get(number, ())]
    return "\n".join(lines) + "\n"
