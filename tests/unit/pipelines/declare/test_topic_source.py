"""Tests what a source takes and refuses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from klamm.pipelines import DeclarationError, group, json, raw, topic
from klamm.pipelines.declare.declared_start import AtTime


def test_a_topic_by_default() -> None:
    """A topic is read from its start as bytes, and a record without a value is bad."""
    source = topic("flights")

    assert (source.topics, source.pattern, source.start, source.tombstones) == (("flights",), None, "earliest", "bad")
    assert source.decode == raw()


def test_several_topics_and_a_pattern() -> None:
    """A source reads a list of topics, or the topics of a pattern."""
    assert topic(["a", "b"]).topics == ("a", "b")
    assert topic(pattern="flights-.*").pattern == "flights-.*"


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("latest", "latest"),
        ("committed", "committed"),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), AtTime(1769860800000)),  # type: ignore[arg-type]
        ("2026-01-31T12:00:00+00:00", AtTime(1769860800000)),  # type: ignore[arg-type]
        (group("dev.billing"), group("dev.billing")),
    ],
)
def test_where_a_flow_starts(start: Any, expected: object) -> None:
    """A flow starts at a word, at a time, or at the commits of a group."""
    assert topic("flights", start=start).start == expected


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "takes a name"),
        ({"name": "a", "pattern": "b"}, "only one of them"),
        ({"name": ""}, "takes a name or a list of names"),
        ({"name": "a", "start": "yesterday"}, "start='yesterday'"),
        ({"name": "a", "tombstones": "ignore"}, "'bad', 'drop' or 'keep'"),
        ({"name": "a", "decode": "json"}, "decode is a decoder such as json"),
        ({"name": "a", "max_records_per_batch": 0}, "a number from 1 on"),
        ({"name": "a", "options": {"startingOffsets": "latest"}}, r"use topic\(…, start=…\)"),
        ({"name": "a", "options": {"kafka.group.id": "g"}}, "name the group"),
        ({"name": "a", "options": {"failOnDataLoss": None}}, "a text, a number or a truth value"),
        ({"name": "a", "options": {"klamm.group.reset": "fail"}}, "starts at its start"),
        ({"name": "a", "options": {"klamm.group.checkpointLocation": "/c"}}, "checkpoints of their own"),
        (
            {"name": "a", "options": ["failOnDataLoss"]},
            r"options is a dict from names to values, not \['failOnDataLoss'\]",
        ),
        ({"name": 5}, "takes a name or a list of names, not 5"),
        ({"pattern": 5}, "pattern is a regular expression such as"),
        ({"name": "a", "headers": "no"}, "headers='no': it is True or False"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], text: str) -> None:
    """A wrong argument is refused when the flow is declared, with a sentence that says what is possible."""
    with pytest.raises(DeclarationError, match=text):
        topic(**arguments)


def test_further_options_are_texts() -> None:
    """Options of the source are passed on as Spark's texts."""
    source = topic("a", decode=json("id long"), options={"failOnDataLoss": False, "minPartitions": 4})

    assert source.options == {"failOnDataLoss": "false", "minPartitions": "4"}
