"""Short ways to build groups and members for the tests of descriptions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.unit.core.group.history.history_records import change
from tests.unit.core.group.history.history_records import member as then

from klamm.core.group.history.history_record import HistoryRecord
from klamm.insight.group.group_picture import GroupPicture, MemberPicture
from klamm.insight.group.group_snapshot import Snapshot
from klamm.insight.words import PartitionKey

__all__ = ["group", "history_of", "keys", "member", "snapshot", "then"]

NOW_MS = 1_767_182_500_000


def keys(indexes: Iterable[int], topic: str = "orders") -> frozenset[PartitionKey]:
    """Returns partitions of one topic."""
    return frozenset((topic, index) for index in indexes)


def member(name: str, has: Iterable[int] = (), target: Iterable[int] | None = None, **fields: Any) -> MemberPicture:
    """Returns a member by its client id, with partitions of orders; its target is its current assignment by default."""
    given: dict[str, Any] = {
        "member_id": f"{name}-0",
        "client_id": name,
        "host": "/10.0.0.1",
        "topics": frozenset({"orders"}),
        "assigned": keys(has),
        "target": keys(has) if target is None else keys(target),
    }
    return MemberPicture(**given | fields)


def group(*members: MemberPicture, **fields: Any) -> GroupPicture:
    """Returns a stable consumer group at epoch 7."""
    given: dict[str, Any] = {
        "group_id": "billing",
        "kind": "consumer",
        "state": "stable",
        "epoch": 7,
        "assignment_epoch": 7,
        "assignor": "uniform",
        "members": members,
    }
    return GroupPicture(**given | fields)


def snapshot(picture: GroupPicture, committed: int | None = 5, end: int = 7, at_ms: int = NOW_MS) -> Snapshot:
    """Returns a snapshot with the same committed offset and the same end in every partition."""
    places = picture.partitions
    return Snapshot(
        at_ms,
        picture,
        dict.fromkeys(places, committed) if committed is not None else {},
        dict.fromkeys(places, (0, end)),
        {},
    )


def history_of(**fields: Any) -> HistoryRecord:
    """Returns a change of a consumer group with the assignor uniform that ended ten seconds ago; see `change`."""
    given: dict[str, Any] = {
        "type": "consumer",
        "assignor": "uniform",
        "finished_ms": NOW_MS - 10_000,
        "group": "billing",
    }
    return HistoryRecord.decode(change(**given | fields))
