"""Tests what changes the fingerprint of a function or a value."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from typing import Any

import pytest
from pyspark.sql.functions import udf
from pyspark.sql.types import BooleanType, StringType

from klamm.pipelines import json, raw
from klamm.pipelines.run.value_fingerprint import value_fingerprint as fingerprint

CHECK = """
LIMIT = 3000
def helper(value): return value < LIMIT
def check(frame, factor=2):
    values = [each * factor for each in frame if each is not None]
    try:
        return all(helper(value) and value != 7 for value in values)
    except ValueError:
        return False
"""
REFORMATTED = '''
import os

LIMIT = 3_000


def helper(value):
    """Says something."""
    return (
        value
        < LIMIT
    )


def check(
    frame,
    factor=2,
):
    """Says something else."""
    # a comment
    values = [
        each * factor
        for each in frame
        if each is not None
    ]
    try:
        return all(
            helper(value)
            and value != 7
            for value in values
        )
    except ValueError:
        return False
'''


def defined(text: str, name: str = "check") -> Any:
    names: dict[str, Any] = {"__name__": "flights_file"}
    exec(text, names)
    return names[name]


def test_formatting_does_not_count() -> None:
    """Line numbers, line breaks, comments and docstrings do not change a function's fingerprint."""
    assert fingerprint(defined(CHECK)) == fingerprint(defined(REFORMATTED))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("!= 7", "!= 8"),
        ("factor=2", "factor=3"),
        ("each * factor", "each + factor"),
        ("LIMIT = 3000", "LIMIT = 3001"),
        ("LIMIT = 3000", "LIMIT = '3000'"),
        ("value < LIMIT", "value <= LIMIT"),
        ("ValueError", "TypeError"),
        ("all(", "any("),
        ("return False", "return None"),
    ],
)
def test_meaning_counts(before: str, after: str) -> None:
    """A constant, a default, an operator, a global and a function that is called change the fingerprint."""
    assert before in CHECK

    assert fingerprint(defined(CHECK)) != fingerprint(defined(CHECK.replace(before, after)))


def test_closures_count() -> None:
    """The values of a closure count, also those of functions, partial functions and methods in it."""

    def check(limit: Any) -> Any:
        return lambda frame: frame < limit

    class Limits:
        def __init__(self, limit: int) -> None:
            self.limit = limit

        def is_kept(self, delay: int) -> bool:
            return delay < self.limit

    equal: list[Callable[[], Any]] = [
        lambda: check(3000),
        lambda: check({"JFK": [1, 2], "LAX": (3.0, None)}),
        lambda: check(frozenset({"JFK", "LAX", "BOS"})),
        lambda: check(check(1)),
        lambda: check(partial(check, limit=1)),
        lambda: check(Limits(1)),
        lambda: check(Limits(1).is_kept),
        lambda: check(Limits(2).is_kept),
        lambda: check(re.compile("a")),
        lambda: check(re.compile("b")),
        lambda: check(threading.Lock()),
    ]

    found = [fingerprint(make()) for make in equal]
    assert found == [fingerprint(make()) for make in equal]
    assert len(set(found)) == len(found)


def test_wrapped_functions_count() -> None:
    """A function that a decorator has wrapped counts with what it wraps: a function of Spark's, a cache, a decorator of
    the user's own. A function of Spark's also counts with its type."""

    def is_late(limit: int) -> Any:
        return lambda delay: delay < limit

    def inverted(function: Any) -> Any:
        @wraps(function)
        def inner(*arguments: Any) -> Any:
            return not function(*arguments)

        return inner

    made: list[Callable[[], Any]] = [
        *(lambda wrap=wrap, limit=limit: wrap(is_late(limit)) for wrap in (lru_cache, inverted) for limit in (1, 2)),
        *(lambda limit=limit: udf(is_late(limit), BooleanType()) for limit in (1, 2)),
        lambda: udf(is_late(1), StringType()),
        lambda: is_late(1),
    ]

    found = [fingerprint(make()) for make in made]
    assert found == [fingerprint(make()) for make in made]
    assert len(set(found)) == len(found)


def test_a_function_that_calls_itself() -> None:
    """Recursive functions and lists that contain themselves have a fingerprint."""
    endless: list[Any] = []
    endless.append(endless)

    assert fingerprint(endless) == fingerprint(endless)
    recursive = "def check(n): return n and check(n - {})"
    assert fingerprint(defined(recursive.format(1))) == fingerprint(defined(recursive.format(1)))
    assert fingerprint(defined(recursive.format(1))) != fingerprint(defined(recursive.format(2)))


def test_decoders_count_by_value() -> None:
    """A decoder counts with its declaration."""
    assert fingerprint(json("delay int")) == fingerprint(json("delay int"))
    assert len({fingerprint(each) for each in (json("delay int"), json("delay long"), json("a int"), raw())}) == 4


@dataclass
class Rates:
    """A value of the user's own."""

    euro: float


def test_objects_count_by_value() -> None:
    """An object of the user's counts with its class and its values, and not with its address."""
    assert fingerprint(Rates(1.1)) == fingerprint(Rates(1.1))
    assert fingerprint(Rates(1.1)) != fingerprint(Rates(1.2))
