"""What a record of `__group_history` says."""

from __future__ import annotations

import pytest
from tests.unit.cli.history_records import NOON_MS, cause, change, member, member_id

from klamm.cli.history_record import HistoryCause, HistoryRecord, Move, NotUnderstood, Pause


def test_every_field_is_read() -> None:
    """Partitions by topic become pairs."""
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
    assert record.moved == (Move("orders", 1, member_id("one"), member_id("two"), 101),)
    assert record.pauses == (Pause(member_id("one"), 250),)
    assert record.members[member_id("one")].partitions == {("orders", 0)}
    assert record.members_before[0].partitions == {("orders", 0), ("orders", 1)}


def test_what_is_added_to_the_schema_does_no_harm() -> None:
    """As long as the version stays the same."""
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
    """With what is wrong."""
    with pytest.raises(NotUnderstood, match=complaint):
        HistoryRecord.decode(value)
