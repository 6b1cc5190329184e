"""Groups whose coordinator is killed: another broker goes on with the same members, epochs and offsets."""

from __future__ import annotations

import struct
from typing import Any

from tests.differential.coordinators import GROUP, fail_over, place_coordinator
from tests.differential.records import produce
from tests.differential.script import Run, script

from klamm.protocol.api import ApiKey

_OLD, _NEW, _OTHER = 3, 1, 2
"""The coordinator before and after the failure, and a broker that never coordinates."""


def _commit(run: Run, label: str, topic: str, offset: int, *, by: tuple[str, int], broker: int) -> None:
    """Commits as a member in a generation or member epoch."""
    member, epoch = by
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "note"}
    run.ask(
        label,
        ApiKey.OFFSET_COMMIT,
        broker=broker,
        group_id=run.name,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        topics=[{"name": topic, "partitions": [partition]}],
    )


def _offsets(run: Run, label: str, topic: str, broker: int, by: tuple[str | None, int] = (None, -1)) -> None:
    """Reads the offsets, as a member in a member epoch or as no member."""
    member, epoch = by
    group = {
        "group_id": run.name,
        "member_id": member,
        "member_epoch": epoch,
        "topics": [{"name": topic, "partition_indexes": [0, 1]}],
    }
    run.ask(label, ApiKey.OFFSET_FETCH, broker=broker, groups=[group], require_stable=True)


def _find(run: Run, label: str, broker: int) -> None:
    run.ask(label, ApiKey.FIND_COORDINATOR, broker=broker, key_type=GROUP, coordinator_keys=[run.name])


def _take_over(run: Run) -> None:
    """Kills the coordinator; another broker takes over."""
    fail_over(run, GROUP, _OLD, _NEW)
    _find(run, "FindCoordinator after the failure", _OTHER)


def _prepare(run: Run) -> str:
    topic = run.topic(replicas=(1, 2), partitions=2)
    produce(run, topic, b"value")
    place_coordinator(run, GROUP, [_OLD, _NEW, _OTHER])
    for broker in (1, 2, 3):
        _find(run, f"FindCoordinator at broker {broker}", broker)
    return topic


@script
def classic_group(run: Run) -> None:
    """A classic group goes on in its generation, and rebalances into the next one."""
    topic = _prepare(run)
    subscription = bytes([0, 0, 0, 0, 0, 1, *struct.pack(">h", len(topic)), *topic.encode(), 0, 0, 0, 0])

    def join(label: str, member: str, broker: int = _OLD) -> Any:
        return run.ask(
            label,
            ApiKey.JOIN_GROUP,
            broker=broker,
            group_id=run.name,
            session_timeout_ms=300_000,
            rebalance_timeout_ms=300_000,
            member_id=member,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": subscription}],
        )

    def sync(label: str, member: str, generation: int, broker: int = _OLD) -> None:
        run.ask(
            label,
            ApiKey.SYNC_GROUP,
            broker=broker,
            group_id=run.name,
            generation_id=generation,
            member_id=member,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": member, "assignment": b"assigned"}],
        )

    def beat(label: str, member: str, generation: int, broker: int = _OLD) -> None:
        fields: dict[str, Any] = {"group_id": run.name, "generation_id": generation, "member_id": member}
        run.ask(label, ApiKey.HEARTBEAT, broker=broker, **fields)

    member = join("Join without an id", "").member_id
    join("Join at a broker that does not coordinate", member, _OTHER)
    join("Join", member)
    sync("Sync", member, 1)
    beat("Heartbeat", member, 1)
    beat("Heartbeat at a broker that does not coordinate", member, 1, _OTHER)
    _commit(run, "Commit", topic, 1, by=(member, 1), broker=_OLD)
    _commit(run, "Commit at a broker that does not coordinate", topic, 1, by=(member, 1), broker=_OTHER)
    _take_over(run)
    beat("Heartbeat after the failure", member, 1, _NEW)
    beat("Heartbeat of an old generation", member, 0, _NEW)
    beat("Heartbeat of a later generation", member, 2, _NEW)
    beat("Heartbeat of an unknown member", "nobody", 1, _NEW)
    beat("Heartbeat elsewhere after the failure", member, 1, _OTHER)
    _offsets(run, "Offsets after the failure", topic, _NEW)
    _offsets(run, "Offsets elsewhere", topic, _OTHER)
    _commit(run, "Commit after the failure", topic, 2, by=(member, 1), broker=_NEW)
    _commit(run, "Commit of an old generation", topic, 3, by=(member, 0), broker=_NEW)
    _commit(run, "Commit of an unknown member", topic, 3, by=("nobody", 1), broker=_NEW)
    _commit(run, "Commit without a member", topic, 3, by=("", -1), broker=_NEW)
    sync("Sync after the failure", member, 1, _NEW)
    join("Join after the failure", member, _NEW)
    beat("Heartbeat of the generation before", member, 1, _NEW)
    sync("Sync of the next generation", member, 2, _NEW)
    _offsets(run, "Offsets at the end", topic, _NEW)
    run.ask("DescribeGroups", ApiKey.DESCRIBE_GROUPS, broker=_NEW, groups=[run.name])
    run.ask("DescribeGroups elsewhere", ApiKey.DESCRIBE_GROUPS, broker=_OTHER, groups=[run.name])
    members = [{"member_id": member}]
    run.ask("Leave", ApiKey.LEAVE_GROUP, broker=_NEW, group_id=run.name, members=members)
    run.start(_OLD)
    _find(run, "FindCoordinator after the return", _OLD)
    beat("Heartbeat at the coordinator before", member, 2, _OLD)
    run.ask("DeleteGroups elsewhere", ApiKey.DELETE_GROUPS, broker=_OLD, groups_names=[run.name])
    run.ask("DeleteGroups", ApiKey.DELETE_GROUPS, broker=_NEW, groups_names=[run.name])


def _is_described(answer: Any) -> bool:
    (group,) = answer.groups
    return not group.error_code and len(group.members[0].subscribed_topic_names) == 2


@script
def consumer_group(run: Run) -> None:
    """A group of the consumer protocol goes on in its epoch."""
    topic = _prepare(run)
    member = "member-1"

    def beat(label: str, epoch: int, broker: int = _OLD, member: str = member, **fields: Any) -> int:
        answer = run.ask(
            label,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            broker=broker,
            group_id=run.name,
            member_id=member,
            member_epoch=epoch,
            **fields,
        )
        found: int = answer.member_epoch
        return found

    joining: dict[str, Any] = {
        "rebalance_timeout_ms": 300_000,
        "subscribed_topic_names": [topic],
        "server_assignor": "uniform",
        "topic_partitions": [],
    }
    beat("Join at a broker that does not coordinate", 0, _OTHER, **joining)
    epoch = beat("Join", 0, **joining)
    beat("Heartbeat", epoch)
    _commit(run, "Commit", topic, 1, by=(member, epoch), broker=_OLD)
    _take_over(run)
    beat("Heartbeat after the failure", epoch, _NEW)
    beat("Heartbeat elsewhere after the failure", epoch, _OTHER)
    beat("Heartbeat of the epoch before", epoch - 1, _NEW)
    beat("Heartbeat of a later epoch", 9, _NEW)
    beat("Heartbeat of an unknown member", epoch, _NEW, "nobody")
    _offsets(run, "Offsets after the failure", topic, _NEW, (member, epoch))
    _offsets(run, "Offsets of another epoch", topic, _NEW, (member, 9))
    _offsets(run, "Offsets of an unknown member", topic, _NEW, ("nobody", epoch))
    _commit(run, "Commit after the failure", topic, 2, by=(member, epoch), broker=_NEW)
    _commit(run, "Commit of the epoch before", topic, 3, by=(member, epoch - 1), broker=_NEW)
    _commit(run, "Commit of a later epoch", topic, 3, by=(member, 9), broker=_NEW)
    _commit(run, "Commit of an unknown member", topic, 3, by=("nobody", epoch), broker=_NEW)
    beat("Another subscription", epoch, _NEW, subscribed_topic_names=[topic, f"{run.name}-none"])
    describe, groups = ApiKey.CONSUMER_GROUP_DESCRIBE, [run.name]
    # Kafka describes what is committed, which it knows later than the answers before.
    run.ask_until("ConsumerGroupDescribe", _is_described, describe, broker=_NEW, group_ids=groups)
    run.ask("ConsumerGroupDescribe elsewhere", describe, broker=_OTHER, group_ids=groups)
    beat("Leave", -1, _NEW)
    _offsets(run, "Offsets at the end", topic, _NEW)
    run.start(_OLD)
    _find(run, "FindCoordinator after the return", _OLD)
    beat("Heartbeat at the coordinator before", epoch, _OLD)
