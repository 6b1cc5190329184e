"""Tests how the errors of queries become one line. The texts are Spark's, of PySpark 4.3."""

from __future__ import annotations

import pytest

from klamm.pipelines.run.error_texts import one_line

PYTHON = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "flights.py", line 22, in f
    def f(x): raise ValueError("no such thing")
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: no such thing
as this
 SQLSTATE: 38000"""
CHAINED = """Traceback (most recent call last):
  File "a.py", line 1
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3
klamm.spark.source.errors.MissingTopic: flights: no such topic or partition"""
TASK = (
    "Job aborted due to stage failure: Task 0 in stage 5.0 failed 4 times, most recent failure: Lost task 0.3 in stage "
    "5.0 (TID 9) (10.0.0.1 executor 2): java.lang.ArithmeticException: / by zero\n\tat a.B.c(B.java:1)\n"
    "Driver stacktrace:"
)
CALL = """Py4JJavaError: An error occurred while calling o1866.start.
: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find x. SQLSTATE: 42K02
\tat org.apache.spark.sql.Q"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PYTHON, "ValueError: no such thing"),
        (CHAINED, "MissingTopic: flights: no such topic or partition"),
        (TASK, "/ by zero"),
        (CALL, "[DATA_SOURCE_NOT_FOUND] Failed to find x."),
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==", "[DIVIDE_BY_ZERO] Division by zero."),
        ("\n\n", "an error without a text"),
    ],
)
def test_one_line(text: str, expected: str) -> None:
    """The line has the error's name and message, without traces, classes of Java and SQL states."""
    assert one_line(text) == expected


def test_a_long_line_is_cut() -> None:
    """A line that is too long for a terminal is cut."""
    assert len(one_line("x" * 10_000)) == 500


def test_an_error_of_klamm_keeps_its_advice() -> None:
    """klamm's own errors say at their end what to do, so they are cut much later than others."""
    text = f"klamm.spark.sink.marker_errors.MarkerMissing: {'x' * 900}: do this"
    spark = "org.apache.spark.SparkException: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python commits: "

    for before in ("Traceback (most recent call last):\n  File\n", spark):
        line = one_line(before + text)
        assert line.startswith("MarkerMissing: x")
        assert line.endswith("x: do this")
    assert len(one_line(text + "x" * 10_000)) == 2_000
