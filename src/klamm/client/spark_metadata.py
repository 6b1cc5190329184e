"""How a Spark query names its application in the metadata of the offsets that it commits."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["application_in", "commit_metadata"]

# The semicolon ends the id: librdkafka returns metadata without their end, followed by what lies behind them in memory.
_APPLICATION: Final = re.compile(r"spark application ([^;\s]+);")


def commit_metadata(application: str) -> str:
    """Returns the metadata of a commit by a query of the application."""
    return f"spark application {application};"


def application_in(metadata: str) -> str | None:
    """Returns the id of the application that committed; None if none did. What follows the id is ignored."""
    found = _APPLICATION.match(metadata)
    return None if found is None else found[1]
