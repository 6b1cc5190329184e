"""What happens to records that do not decode, or fail the flow's check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from klamm.pipelines.declare.option_texts import OptionValue, option_texts
from klamm.pipelines.errors import DeclarationError

__all__ = ["BadRecords", "DeadLetters", "dead_letters", "parse_bad_records"]


_RESERVED: Final = {
    "checkpointlocation": "the pipeline's folder of checkpoints has it",
    "kafka.bootstrap.servers": "the command and its context name the cluster",
    "klamm.sink.semantics": "dead letters are written exactly once",
    "topic": "use dead_letters(name)",
}


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Bad records go to a topic, with their original bytes."""

    topic: str | None = None
    """None: `<pipeline>.<flow>.dead-letters`."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the sink that writes them."""


BadRecords = DeadLetters | Literal["drop", "fail"]


def dead_letters(topic: str | None = None, *, options: Mapping[str, OptionValue] | None = None) -> DeadLetters:
    """Returns the treatment `dead-letters`, by default to the topic `<pipeline>.<flow>.dead-letters`.

    `options` are further options of `format("klamm")`, also for a replay with `--to-source`. Raises `DeclarationError`.
    """
    if topic is not None and (not isinstance(topic, str) or not topic.strip()):
        raise DeclarationError("dead_letters() takes the name of a topic")
    return DeadLetters(topic, option_texts("dead_letters()", options, _RESERVED))


def parse_bad_records(given: object) -> BadRecords:
    """Parses the argument `bad_records` of a flow. Raises `DeclarationError`."""
    if isinstance(given, DeadLetters):
        return given
    if given == "dead-letters":
        return DeadLetters()
    if given == "drop":
        return "drop"
    if given == "fail":
        return "fail"
    raise DeclarationError(
        f"bad_records={given!r}: it is 'dead-letters', dead_letters('a-topic'), 'drop' (counted) or 'fail'"
    )
