"""New random ids of topics, clusters and runs of brokers."""

from __future__ import annotations

import uuid

from klamm.metadata.entries import uuid_text

__all__ = ["random_uuid"]


def random_uuid() -> bytes:
    """Returns a random UUID as Kafka's `Uuid.randomUuid` does: not a reserved one, and its text does not begin with
    '-'."""
    while True:
        drawn = uuid.uuid4().bytes
        # The reserved ones (0 and 1) are not of version 4, so they can't be drawn.
        if not uuid_text(drawn).startswith("-"):
            return drawn
