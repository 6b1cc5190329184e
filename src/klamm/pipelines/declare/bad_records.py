"""What happens to records that do not decode, or fail the flow's check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from klamm.pipelines.errors import DeclarationError

__all__ = ["BadRecords", "DeadLetters", "dead_letters", "parse_bad_records"]


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Bad records go to a topic, with their original bytes."""

    topic: str | None = None
    """None: `<pipeline>.<flow>.dead-letters`."""


BadRecords = DeadLetters | Literal["drop", "fail"]


def dead_letters(topic: str | None = None) -> DeadLetters:
    """Returns the treatment `dead-letters`, with another topic than `<pipeline>.<flow>.dead-letters`.

    Raises `DeclarationError` for an empty name.
    """
    if topic is not None and (not isinstance(topic, str) or not topic.strip()):
        raise DeclarationError("dead_letters() takes the name of a topic")
    return DeadLetters(topic)


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
