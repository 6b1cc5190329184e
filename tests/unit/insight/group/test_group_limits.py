"""Tests what an explanation says about the limits of a group."""

from __future__ import annotations

from typing import Any

from tests.unit.core.group.history.history_records import cause, member_id
from tests.unit.insight.pictures import NOW_MS, group, history_of, member, then

from klamm.core.group.history.history_record import HistoryRecord
from klamm.core.group.partition_limits import PartitionFlow, find_limits
from klamm.insight.group.group_explanation import Evidence, explain

ONE, TWO = member_id("one"), member_id("two")
PICTURE = group(member("one", [0], member_id=ONE), member("two", [1], member_id=TWO))
LIMITS = find_limits(
    [PartitionFlow("orders", 0, ONE, 900, 300, 50, True), PartitionFlow("orders", 1, TWO, 9, 9, 0, False)], {ONE, TWO}
)


def _limited(outcome: str = "limited", **fields: Any) -> HistoryRecord:
    members = [then("one", orders=[0]), then("two", orders=[1])]
    return history_of(
        outcome=outcome,
        epoch=7,
        previous_epoch=7,
        before=members,
        after=members,
        causes=[cause("limited_by_partition", None, f"limited by orders-0: its owner {ONE} does 300/s")],
        **fields,
    )


def _lines(**evidence: Any) -> list[str]:
    explained = explain(Evidence(picture=PICTURE, now_ms=NOW_MS, partition_counts={"orders": 2}, **evidence))
    return [line for line in explained.lines[1:] if "shares out" not in line]


def test_a_measured_limit_is_told_with_what_helps() -> None:
    """The limit and what helps are one line each, with the members' names."""
    limit, helps = _lines(limits=LIMITS)
    assert limit.startswith("limited by orders-0: 900 records/s arrive, its owner one does 300/s of them")
    assert helps.startswith("more members do not help")
    assert _lines(limits=()) == []


def test_the_history_says_since_when() -> None:
    """The history adds since when the group is limited; without a measurement, it tells the limit, too."""
    assert _lines(limits=LIMITS, history=[_limited()])[-1] == "its history says so since 10.0 s"
    assert _lines(history=[_limited()]) == [
        "since 10.0 s, by its history: limited by orders-0: its owner one does 300/s"
    ]


def test_a_limit_that_ended_is_not_told() -> None:
    """Neither is a limit before the group kept up again, nor one that the measurement does not find."""
    assert _lines(history=[_limited(), _limited("keeps_up", sequence=8)]) == []
    assert _lines(limits=(), history=[_limited()]) == []


def test_a_limit_is_no_change_of_the_group() -> None:
    """Records on limits are neither the last change nor a disturbance."""
    joined = history_of(
        epoch=7, after=[then("one", orders=[0])], causes=[cause("member_joined", "one", "member {} joined")]
    )
    lines = _lines(history=[joined, *[_limited(finished_ms=NOW_MS - age) for age in range(9_000, 1_000, -1_000)]])
    assert lines[0] == "last change: epoch 7, 10.0 s ago, because member one joined"
    assert not any("disturbances" in line for line in lines)
