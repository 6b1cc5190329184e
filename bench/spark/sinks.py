"""The compared sinks: klamm's and that of Spark's own connector, with the same settings of the producer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["SINKS", "Sink", "producer_options"]

Sink = tuple[str, Mapping[str, str]]
"""The name for `format(…)`, and the options that only this sink has."""

SINKS: Final[Mapping[str, Sink]] = {
    "klamm": ("klamm", {}),
    "connector": ("kafka", {}),
    "exactly_once": ("klamm", {"klamm.sink.semantics": "exactly-once"}),
}
"""The sink's name in the figures → the sink."""

# The defaults of both are the same, except for batch.size: 16,384 in Java, 131,072 in klamm. Java's producer profits
# from the larger batches, too. klamm's sink ignores the linger, with a warning: it never waits for more rows.
_EQUAL: Final = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.linger.ms": "5",
    "kafka.batch.size": "131072",
}


def producer_options(bootstrap: str, topic: str, codec: str) -> dict[str, str]:
    """Returns the options that each sink gets."""
    return {**_EQUAL, "kafka.bootstrap.servers": bootstrap, "kafka.compression.type": codec, "topic": topic}
