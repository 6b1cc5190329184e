"""The Python drivers' end of tests/interop/client_process.py: reads operations, and writes answers and events."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

__all__ = ["DROPPED_JOIN", "Command", "as_bytes", "as_text", "perform", "say", "tell"]

Command: TypeAlias = dict[str, Any]

DROPPED_JOIN: Final = "kafka-python has dropped the answer to a finished join"
"""The line that the driver of kafka-python logs when this happens; a test that fails afterwards shows it."""

_saying = threading.Lock()


def say(line: Mapping[str, Any]) -> None:
    """Writes one line; safe from any thread."""
    with _saying:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def tell(member: str, event: str, **more: Any) -> None:
    """Writes an event of a group member."""
    say({"member": member, "event": event, **more})


def perform(operations: Mapping[str, Callable[[Command], Any]], lines: Iterable[str]) -> None:
    """Performs the operations of the lines one after the other, and ends the process at once after the last line."""
    for text in lines:
        command: Command = json.loads(text)
        try:
            answer = {"answer": operations[command["do"]](command)}
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        say(answer)
    os._exit(0)


def as_bytes(text: str | None) -> bytes | None:
    """Returns a key, a value or a header in the form in which it is sent."""
    return None if text is None else text.encode()


def as_text(data: bytes | str | None) -> str | None:
    """Returns a key, a value or a header in the form that the tests compare."""
    return data.decode() if isinstance(data, bytes) else data
