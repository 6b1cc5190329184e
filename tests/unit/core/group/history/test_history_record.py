"""Tests of the decoding of records of `__group_history`."""

from __future__ import annotations

import json

import pytest
from tests.unit.core.group.history.history_records import NOON_MS, cause, change, member, member_id
from tests.unit.core.group.history.story import Story, parts

from klamm.core.group.events import Cause
from klamm.core.group.history.history_record import (
    HistoryCause,
    HistoryMember,
    HistoryMove,
    HistoryPause,
    HistoryRecord,
    NotUnderstood,
)


def test_every_field_is_read() -> None:
    """Every field of a record is decoded; partitions by topic become pairs of topic and partition."""
    record = HistoryRecord.decode(
        change(
            epoch=7,
            before=[member("one", orders=[0, 1])],
            after=[member("one", orders=[0]), member("two", orders=[1])],
            causes=[cause("member_joined", "two", "member {} joined")],
            pauses=[{"member": member_id("one"), "ms": 250}],
        )
    )
    assert (record.group_id, record.group_type, record.previous_epoch, record.epoch) == ("orders", "classic", 6, 7)
    assert (record.started_ms, record.finished_ms, record.outcome) == (NOON_MS, NOON_MS + 1_200, "stable")
    assert record.causes == (
        HistoryCause("member_joined", member_id("two"), f"member {member_id('two')} joined", NOON_MS),
    )
    assert record.moved == (HistoryMove("orders", 1, member_id("one"), member_id("two"), 101),)
    assert record.pauses == (HistoryPause(member_id("one"), 250),)
    assert record.members[member_id("one")].partitions == {("orders", 0)}
    assert record.members_before[0].partitions == {("orders", 0), ("orders", 1)}


def test_a_record_that_was_encoded_is_decoded() -> None:
    """A record that was built from events is decoded to the same values."""
    story = Story()
    story.start({"a": parts(0, 1)})
    story.now = 3000
    story.tell(story.joined("b"), story.needed(Cause.MEMBER_JOINED, "b", crash_loop=True))
    story.settle({"a": parts(0), "b": parts(1)})
    record = HistoryRecord.decode(json.dumps(story.last).encode())
    assert (record.group_id, record.group_type, record.coordinator_epoch, record.sequence) == (
        "orders",
        "classic",
        4,
        1,
    )
    assert record.causes == (HistoryCause("member_joined", "b", "b member_joined", 3000, True),)
    assert record.members["b"] == HistoryMember("b", None, "client-b", "/10.0.0.1", frozenset({("events", 1)}))
    assert record.moved == (HistoryMove("events", 1, "a", "b", 10),)


def test_what_is_added_to_the_schema_does_no_harm() -> None:
    """Unknown fields are ignored if the version is the same."""
    assert HistoryRecord.decode(change(colour="green")).epoch == 7


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (b"", "no record of a group's history"),
        (b"[]", "no record of a group's history"),
        (b"\xff", "no record of a group's history"),
        (b"[" * 100_000, "no record of a group's history: RecursionError"),
        (b'{"version": 1}', "no record of a group's history: KeyError 'group'"),
        (change(version=2), "a record of version 2; this klamm understands version 1"),
        (change(causes=[{"code": "x"}]), "KeyError 'text'"),
        (change(members_after=[{"member": "x"}]), "KeyError"),
        (change(epoch=7, started_ms=None), "TypeError"),
    ],
)
def test_anything_else_is_refused(value: bytes, complaint: str) -> None:
    """A malformed record or another version is refused with an error that names the problem."""
    with pytest.raises(NotUnderstood, match=complaint):
        HistoryRecord.decode(value)
