"""High watermarks that fall: what a client was told about the end of a log does not become untrue.

A client asks for the end of a log, again and again, one request after the other. Records below an end that it was told
are committed, so no later answer is lower, whichever broker gives it (KIP-207). A consumer that has read up to some
offset is never told that its next offset is out of range, in a log from which no record was removed.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts
from tests.checker.history import EndOffset, Problem

__all__ = ["OUT_OF_RANGE", "find"]

OUT_OF_RANGE = "Offset out of range"
"""Part of librdkafka's text for a position that the broker refuses."""


def find(facts: Facts) -> Iterator[Anomaly]:
    """Yields `falling-end` and `out-of-range`."""
    last: dict[tuple[str, str], tuple[int, int]] = {}  # the end that was told last, and the event
    for entry in facts.entries:
        event = entry.event
        if isinstance(event, EndOffset):
            key = event.process, event.partition
            offset, index = last.get(key, (0, entry.index))
            if event.offset < offset:
                text = f"{event.process} was told {event.offset} as the end of {event.partition} after {offset}"
                yield Anomaly("falling-end", text, (index, entry.index))
            last[key] = event.offset, entry.index
        elif isinstance(event, Problem) and OUT_OF_RANGE in event.error:
            yield Anomaly("out-of-range", f"{event.process}: {event.error}", (entry.index,))
