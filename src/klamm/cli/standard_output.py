"""The standard output of a command: a write that fails becomes `OutputFailed`.

The functions of a command catch `OSError` for their own files. An error of the standard output must not look like one
of these.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

__all__ = ["OutputFailed", "StandardOutput", "discard_output", "prepare_output"]


class OutputFailed(Exception):
    """The standard output can't be written, for example because its disk is full.

    No `KlammError`: what handles the errors of a command's work must not take this one for one of them.
    """


class StandardOutput(io.FileIO):
    """The descriptor of the standard output. It stays open when this object is closed."""

    def __init__(self) -> None:
        super().__init__(sys.stdout.fileno(), "w", closefd=False)

    def write(self, data: Any, /) -> int:
        """Writes a part. Raises OutputFailed, and BrokenPipeError if the reader has closed its end."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputFailed(f"the output can't be written: {error.strerror}") from error


def prepare_output() -> None:
    """Lets a command print any text: a terminal may not have a character, and ids of the command line may be no UTF-8.

    With a closed standard output, Python has no stream at all, and the output is dropped.
    """
    stream = sys.stdout
    if stream is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # open until the process ends
    elif stream is sys.__stdout__ and isinstance(stream, io.TextIOWrapper):
        raw = StandardOutput()
        sys.stdout = io.TextIOWrapper(
            # With PYTHONUNBUFFERED, Python's own stream has no buffer either.
            raw if isinstance(stream.buffer, io.RawIOBase) else io.BufferedWriter(raw),
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
    elif isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Drops what is not written yet, so that the interpreter's flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
