"""The metadata of a Spark query's commits, which name its application."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["application_in", "commit_metadata"]

# The semicolon ends the id: librdkafka returns metadata without a terminator, followed by other bytes of its memory.
_APPLICATION: Final = re.compile(r"spark application ([^;\s]+);")


def commit_metadata(application: str) -> str:
    """Returns the metadata of a commit by a query of the application."""
    return f"spark application {application};"


def application_in(metadata: str) -> str | None:
    """Returns the id of the application that committed, or None. Ignores what follows the id."""
    found = _APPLICATION.match(metadata)
    return None if found is None else found[1]
