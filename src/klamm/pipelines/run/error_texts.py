"""Turns the errors of a query into one line, and into the whole text for a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["one_line", "texts_of"]

_LONGEST: Final = 500
_LONGEST_OWN: Final = 2_000
"""klamm's own errors end with what to do."""
_TRACEBACK: Final = "Traceback (most recent call last):"
_SQLSTATE: Final = re.compile(r"\s*SQLSTATE: \w{5}\s*$")
_LOST_TASK: Final = re.compile(r"^Job aborted due to stage failure: .*?\(TID \d+\) \([^)]*\): ")
# Such as `org.apache.spark.SparkException: ` and `klamm.spark.source.errors.`, of which the last name stays.
_JAVA_CLASS: Final = re.compile(r"^(?:[a-z][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error): ")
# What py4j puts before the Java error of a call.
_CALL: Final = re.compile(r"^.*An error occurred while calling [^\n]*\n:?\s*", re.DOTALL)
# What Spark puts before an error of klamm's source or sink.
_IN_PYTHON: Final = re.compile(r"^\[PYTHON_[A-Z_]+\] [^:]*: (?=klamm\.)")
_PYTHON_PACKAGE: Final = re.compile(r"^(?:[a-z_]\w*\.)+(?=[A-Z]\w*(?::|$))")


def one_line(text: str) -> str:
    """Returns what a person needs of an error: of a Python error its last line, of Spark's errors the message."""
    if _TRACEBACK in text:
        line = _raised(text.rpartition(_TRACEBACK)[2])
    else:
        text = _CALL.sub("", text)
        line = next((line.strip() for line in text.splitlines() if line.strip()), "an error without a text")
        line = _IN_PYTHON.sub("", _JAVA_CLASS.sub("", _LOST_TASK.sub("", line)))
    longest = _LONGEST_OWN if line.startswith("klamm.") else _LONGEST
    line = _PYTHON_PACKAGE.sub("", _SQLSTATE.sub("", line))
    return line if len(line) <= longest else f"{line[: longest - 2]} …"


def texts_of(query: StreamingQuery) -> tuple[str, str]:
    """Returns the line and the whole text of the error that has ended the query."""
    error = query._jsq.exception().get()
    whole = str(error.toString())
    causes: list[Any] = []
    cause = error.getCause()
    while cause is not None and len(causes) < 20:
        causes.append(cause)
        cause = cause.getCause()
    messages = [str(each.getMessage() or each.toString()) for each in causes]
    # The innermost cause, unless an outer one has the traceback of the user's code.
    text = next((message for message in reversed(messages) if _TRACEBACK in message), None)
    return one_line(text or (messages[-1] if messages else whole)), "\n\nCaused by: ".join([whole, *messages])


def _raised(traceback: str) -> str:
    """Returns the line of a traceback that names the exception: the first one that is not indented."""
    for line in traceback.splitlines():
        if line.strip() and not line.startswith((" ", "\t")):
            return line.strip()
    return traceback.strip().splitlines()[-1] if traceback.strip() else "a Python error"
