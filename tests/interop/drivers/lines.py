"""The driver's end of tests/interop/client_process.py, for clients in Python: operations in, answers and events out."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

__all__ = ["Command", "as_bytes", "as_text", "perform", "say", "tell"]

Command: TypeAlias = dict[str, Any]
_saying = threading.Lock()


def say(line: Mapping[str, Any]) -> None:
    """Writes one line; safe from any thread."""
    with _saying:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def tell(member: str, event: str, **more: Any) -> None:
    """Tells what happened to a member of a group."""
    say({"member": member, "event": event, **more})


def perform(operations: Mapping[str, Callable[[Command], Any]], lines: Iterable[str]) -> None:
    """Performs what the lines ask for, one after the other, and ends the process at once when there are no more."""
    for text in lines:
        command: Command = json.loads(text)
        try:
            answer = {"answer": operations[command["do"]](command)}
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        say(answer)
    os._exit(0)


def as_bytes(text: str | None) -> bytes | None:
    """A key, a value or a header as it is sent."""
    return None if text is None else text.encode()


def as_text(data: bytes | str | None) -> str | None:
    """A key, a value or a header as the tests compare it."""
    return data.decode() if isinstance(data, bytes) else data
