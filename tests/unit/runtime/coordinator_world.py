"""Provides a group coordinator on an in-memory log, with methods that send client requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from tests.unit.runtime.fake_ports import CountingIds, LaterExecutor, ManualTimers, MemoryLog, Pledge, Pledges

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.shard import GroupShard
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from klamm.protocol.schema.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.protocol.schema.sync_group_response import SyncGroupResponse
from klamm.protocol.types import LeaderEpoch, PartitionIndex
from klamm.runtime.answers import Answer
from klamm.runtime.group_coordinator import GroupCoordinator

__all__ = ["GROUP", "P0", "CoordinatorWorld"]

GROUP = "orders"
P0 = PartitionIndex(0)
TOPIC_ID = bytes(range(16))

M = TypeVar("M", bound=Message)


class CoordinatorWorld:
    """A group coordinator on an in-memory log with a manual clock; `restart` gives a new one on the same log."""

    def __init__(
        self,
        *,
        config: GroupCoordinatorConfig | None = None,
        log: MemoryLog | None = None,
        partitions: int = 1,
        is_loaded: bool = True,
        step_ms: float = 0,
        linger_ms: int = 0,
        compression: Compression = Compression.NONE,
    ) -> None:
        self.log = log or MemoryLog()
        self.timers = ManualTimers()
        self.timers.step_ms = step_ms
        self.partition_count = partitions
        self.has_session = True
        self.events: list[object] = []
        self.coordinator = GroupCoordinator(
            config=replace(
                config or GroupCoordinatorConfig(initial_rebalance_delay_ms=0), offset_commit_linger_ms=linger_ms
            ),
            log=self.log,
            timers=self.timers,
            wall_clock=self.timers.wall_clock,
            ids=CountingIds(),
            promises=Pledges(),
            executor=LaterExecutor(self.timers),
            publish=lambda partition, events: self.events.extend(events),
            partition_count=lambda: self.partition_count,
            compression=compression,
            has_session=lambda: self.has_session,
        )
        self.partitions = [PartitionIndex(index) for index in range(partitions)]
        self.coordinator.start()
        for partition in self.partitions:
            self.coordinator.on_leadership(partition, LeaderEpoch(0))
        if is_loaded:
            self.timers.advance(0)

    def shard(self, partition: PartitionIndex = P0) -> GroupShard:
        return self.coordinator._runtime._led[partition].shard

    def now(self, answer: Answer[M]) -> M:
        """Returns an answer that must be available already, at once or from a completed promise."""
        if isinstance(answer, Pledge):
            assert answer.result is not None, "no answer yet"
            return cast(M, answer.result)
        assert isinstance(answer, Message)
        return answer

    def is_waiting(self, answer: Answer[Any]) -> bool:
        return isinstance(answer, Pledge) and not answer.done()

    def client(self, version: int) -> ClientContext:
        return ClientContext("client", "/10.0.0.1", version)

    def join(self, member_id: str = "", *, group_id: str = GROUP, **fields: Any) -> Answer[JoinGroupResponse]:
        request = JoinGroupRequest(
            group_id=group_id,
            member_id=member_id,
            session_timeout_ms=fields.pop("session_timeout_ms", 10_000),
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff")],
            **fields,
        )
        return self.coordinator.join_group(request, self.client(9))

    def sync(
        self, member_id: str, generation: int, members: Sequence[str] = (), *, group_id: str = GROUP
    ) -> Answer[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            assignments=[SyncGroupRequestAssignment(member_id=each, assignment=each.encode()) for each in members],
        )
        return self.coordinator.sync_group(request, self.client(5))

    def heartbeat(self, member_id: str, generation: int, *, group_id: str = GROUP) -> ErrorCode:
        request = HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id)
        return ErrorCode(self.now(self.coordinator.heartbeat(request, self.client(4))).error_code)

    def commit(self, offset: int, *, group_id: str = GROUP, topic: str = "events") -> Answer[Any]:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=group_id,
            topics=[OffsetCommitRequestTopic(name=topic, topic_id=TOPIC_ID, partitions=[partition])],
        )
        return self.coordinator.offset_commit(request, self.client(9))

    def commit_code(self, offset: int, **where: str) -> ErrorCode:
        return ErrorCode(self.now(self.commit(offset, **where)).topics[0].partitions[0].error_code)

    def fetch(self, *, group_id: str = GROUP, topic: str = "events") -> Answer[Any]:
        group = OffsetFetchRequestGroup(
            group_id=group_id, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
        )
        return self.coordinator.offset_fetch(group, False, self.client(8))

    def fetched(self, **where: str) -> int:
        offset: int = self.now(self.fetch(**where)).topics[0].partitions[0].committed_offset
        return offset

    def stable_group(self, size: int = 2, **join: Any) -> list[str]:
        """Creates a stable group at generation 1; returns the member ids, the leader first."""
        ids = [self.now(self.join(**join)).member_id for _ in range(size)]
        joins = [self.join(member_id, **join) for member_id in ids]
        self.timers.advance(1)
        assert all(self.now(answer).generation_id == 1 for answer in joins)
        syncs = [self.sync(member_id, 1, ids if member_id == ids[0] else ()) for member_id in ids]
        assert all(self.now(answer).error_code == ErrorCode.NONE for answer in syncs)
        return ids

    def restart(self) -> CoordinatorWorld:
        """Returns a world with a new coordinator, which knows only the log."""
        self.coordinator.stop()
        config = self.coordinator._config
        return CoordinatorWorld(
            config=config,
            log=self.log,
            partitions=len(self.partitions),
            linger_ms=config.offset_commit_linger_ms,
        )
