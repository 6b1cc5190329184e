"""Readers with klamm's own client: a reader that chooses its positions, and members of a group."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from tests.checker.history import Assign, Commit, Committed, Isolation, Origins, Poll, Problem, Revoke
from tests.checker.workload.sending import value_of
from tests.checker.workload.worker import Setting, Worker

from klamm.client.cluster import Cluster
from klamm.client.committed_offsets import GroupOffsets
from klamm.client.config import ClientConfig, parse_bootstrap_servers
from klamm.client.errors import ConnectionFailed, GaveUp, OffsetOutOfRange, RequestRefused
from klamm.client.fetch import FetchedBatches, FetchRange, fetch_together, stream_batches
from klamm.client.group_membership import ClassicMember, GroupProtocol, MemberEpoch
from klamm.client.list_offsets import LATEST, list_offsets
from klamm.client.visible import Visibility
from klamm.protocol.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from klamm.protocol.errors import ErrorCode
from klamm.protocol.record_batch import batch_crc_is_valid, iterate_batches
from klamm.protocol.records import decode_batch
from klamm.protocol.schema.consumer_protocol_assignment import ConsumerProtocolAssignment
from klamm.protocol.schema.consumer_protocol_assignment import TopicPartition as AssignedTopic
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

__all__ = ["KlammConsumer", "KlammGroupMember", "KlammReader"]

_MOST: Final = 2_000
"""Number of offsets that one turn reads of a partition at most."""
_IDLE_S: Final = 0.05
_ELSEWHERE: Final = 0.02
"""Probability, per turn, that a reader goes back. A member leaves with half this probability."""
_PASSING: Final = (GaveUp, ConnectionFailed)
"""The errors that a client raises while its broker is away for long."""


def _named(partition: str) -> TopicPartition:
    topic, _, index = partition.rpartition("-")
    return TopicPartition(topic, PartitionIndex(int(index)))


def _config(setting: Setting, isolation: Isolation) -> ClientConfig:
    return ClientConfig(
        parse_bootstrap_servers(setting.bootstrap_servers),
        isolation_level=isolation,
        request_timeout_ms=int(setting.stretched(10) * 1000),
        default_api_timeout_ms=int(setting.stretched(30) * 1000),
        retry_backoff_ms=50,
        retry_backoff_max_ms=500,
        fetch_max_wait_ms=50,
        # A small limit makes each Fetch return few batches, so that there are many Fetch requests.
        max_partition_fetch_bytes=20_000,
        session_timeout_ms=int(setting.stretched(4) * 1000),
        heartbeat_interval_ms=500,
    )


class KlammConsumer:
    """A consumer that reads partitions up to their ends, and records what an application would receive.

    Its methods raise the client's errors.
    """

    def __init__(
        self, setting: Setting, process: str, isolation: Isolation, *, group: str | None = None, random: Random
    ) -> None:
        self.process = process
        self.positions: dict[str, int] = {}
        self._recorder = setting.recorder
        self._isolation = isolation
        self._group = group
        self._random = random
        self._cluster = Cluster(_config(setting, isolation))

    def assign(self, positions: Mapping[str, int]) -> None:
        """Reads these partitions from these offsets."""
        self.positions = dict(positions)
        self._recorder.record(Assign(self.process, tuple(positions.items())))

    def ends(self) -> dict[str, int]:
        """Returns the end offset of each assigned partition at the consumer's isolation level."""
        names = {_named(partition): partition for partition in self.positions}
        listed = list_offsets(self._cluster, dict.fromkeys(names, LATEST))
        return {names[each]: found.offset for each, found in listed.items()}

    def turn(self, most: int = _MOST) -> int:
        """Reads each partition for a while, up to its present end, and returns the number of offsets read."""
        before = sum(self.positions.values())
        ranges = [
            FetchRange(
                _named(partition), Offset(self.positions[partition]), Offset(min(end, self.positions[partition] + most))
            )
            for partition, end in self.ends().items()
            if end > self.positions[partition]
        ]
        # As in a Spark task, small ranges of many partitions are fetched together first.
        if ranges and self._random.random() < 0.3:
            for number, fetched in fetch_together(self._cluster, ranges):
                self._take(ranges[number].topic_partition, fetched)
        for each in ranges:
            position = Offset(self.positions[str(each.topic_partition)])
            for fetched in stream_batches(self._cluster, each.topic_partition, position, each.end):
                self._take(each.topic_partition, fetched)
        return sum(self.positions.values()) - before

    def _take(self, topic_partition: TopicPartition, fetched: FetchedBatches) -> None:
        partition = str(topic_partition)
        position = self.positions[partition]
        visibility = Visibility(fetched.aborted_transactions)
        offsets: list[int] = []
        values: list[int] = []
        origins = []
        for start, header in iterate_batches(fetched.records):
            batch = fetched.records[start : start + header.size_bytes]
            assert batch_crc_is_valid(batch, 0, header), (
                f"{partition} has a batch at {header.base_offset} with a bad CRC"
            )
            origins.append(
                (
                    header.base_offset,
                    header.last_offset,
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                )
            )
            if visibility.allows(header, batch):
                for record in decode_batch(batch):
                    if record.offset >= position:
                        assert record.value is not None
                        offsets.append(record.offset)
                        values.append(value_of(record.value))
        if offsets:
            batches = ((partition, tuple(offsets), tuple(values)),)
            self._recorder.record(Poll(self.process, self._isolation, batches, self._group))
        if self._isolation == "read_uncommitted":
            self._recorder.record(Origins(self.process, partition, tuple(origins)))
        self.positions[partition] = fetched.next_offset

    def close(self) -> None:
        """Closes the connections."""
        self._cluster.close()


class KlammReader(Worker):
    """A reader that follows the end of all partitions, and sometimes goes back some records."""

    passing = _PASSING

    def __init__(self, setting: Setting, name: str, partitions: Sequence[str], isolation: Isolation) -> None:
        super().__init__(setting, name)
        self._partitions = partitions
        self._isolation = isolation
        self._consumer: KlammConsumer | None = None

    def renew(self) -> None:
        """Starts a new consumer at the positions of the previous one."""
        positions = dict.fromkeys(self._partitions, 0)
        if self._consumer is not None:
            positions = self._consumer.positions
            self._consumer.close()
        self.begin_life()
        self._consumer = KlammConsumer(self.setting, self.process, self._isolation, random=self.random)
        self._consumer.assign(positions)

    def step(self) -> None:
        """Reads the next records."""
        consumer = self._consumer
        assert consumer is not None
        try:
            if not consumer.turn():
                self.pause(_IDLE_S)
        except OffsetOutOfRange as error:
            # A power loss took the end of the log. If no data may be lost, the checks report the missing records.
            self.recorder.record(Problem(self.process, str(error)))
            consumer.assign(dict.fromkeys(self._partitions, 0))
        if self.random.random() < _ELSEWHERE:
            back = self.random.randrange(300)
            consumer.assign({name: max(0, at - back) for name, at in consumer.positions.items()})

    def finish(self) -> None:
        """Closes the consumer."""
        if self._consumer is not None:
            self._consumer.close()


class _OutOfDate(Exception):
    """A commit was refused because the member is not in the group's current generation."""


class KlammGroupMember(Worker):
    """A member of a classic group that reads its partitions, commits, and sometimes leaves and joins again.

    The process has one thread, so the member sends heartbeats only between turns.
    """

    passing = _PASSING

    def __init__(self, setting: Setting, name: str, group: str, partitions: Sequence[str]) -> None:
        super().__init__(setting, name)
        self._group = group
        self._partitions = partitions
        self._member: ClassicMember | None = None
        self._offsets: GroupOffsets | None = None
        self._consumer: KlammConsumer
        self._must_join = True
        self._heartbeat_at = 0.0

    def renew(self) -> None:
        """Starts a new member."""
        self._close()
        self.begin_life()
        config = _config(self.setting, "read_committed")
        timeout_ms = config.session_timeout_ms
        self._member = ClassicMember(
            config, self._group, GroupProtocol("consumer", "checker", timeout_ms, 2 * timeout_ms)
        )
        self._offsets = GroupOffsets(Cluster(config), self._group, self)
        self._consumer = KlammConsumer(
            self.setting, self.process, "read_committed", group=self._group, random=self.random
        )
        self._must_join = True

    # Called by commits

    def epoch(self) -> MemberEpoch:
        """Returns the generation and member id for a commit."""
        assert self._member is not None
        return MemberEpoch(self._member.generation_id, self._member.member_id)

    def refused(self, code: ErrorCode) -> None:
        """Handles a refused commit: the group has another generation, or is rebalancing."""
        self._answered(code)
        raise _OutOfDate

    # Turns

    def step(self) -> None:
        """Joins the group if necessary; otherwise reads the next records and commits.

        The member keeps its identity while the broker is away.
        """
        try:
            self._turn()
        except ConnectionFailed as error:
            self.recorder.record(Problem(self.process, str(error)))
            self.pause(0.2)

    def _turn(self) -> None:
        if self._must_join:
            self._join()
            return
        self._heartbeat()
        if not self._consumer.positions or not self._consumer.turn(most=500):
            self.pause(_IDLE_S)
        if self._consumer.positions and self.random.random() < 0.5:
            self._commit()
        if self.random.random() < _ELSEWHERE / 2:
            self.renew()

    def _heartbeat(self) -> None:
        assert self._member is not None
        if time.monotonic() >= self._heartbeat_at:
            self._heartbeat_at = time.monotonic() + 0.5
            self._answered(self._member.heartbeat())

    def _answered(self, code: ErrorCode) -> None:
        assert self._member is not None
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._member.forget_itself()
            self._must_join = True
        elif code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._must_join = True
        elif code is not ErrorCode.NONE:
            self.recorder.record(Problem(self.process, code.name))

    def _join(self) -> None:
        member, offsets = self._member, self._offsets
        assert member is not None
        assert offsets is not None
        if self._consumer.positions:
            self.recorder.record(Revoke(self.process, tuple(self._consumer.positions)))
            self._consumer.positions = {}
        topics = sorted({_named(partition).topic for partition in self._partitions})
        joined = member.join(encode_subscription(ConsumerProtocolSubscription(topics=topics)))
        if isinstance(joined, ErrorCode):
            self._answered(joined)
            self.pause(_IDLE_S)
            return
        assignment = member.sync(self._assignments(sorted(joined.members)) if joined.is_leader else {})
        if isinstance(assignment, ErrorCode):
            self._answered(assignment)
            self.pause(_IDLE_S)
            return
        assigned = [
            f"{topic.topic}-{index}"
            for topic in decode_assignment(assignment).assigned_partitions
            for index in topic.partitions
        ]
        self.recorder.record(Assign(self.process, tuple((name, None) for name in assigned), self._group))
        committed = offsets.committed(map(_named, assigned))
        self._consumer.positions = {name: committed.get(_named(name), Offset(0)) for name in assigned}
        self._must_join = False
        self._heartbeat_at = 0.0

    def _assignments(self, member_ids: Sequence[str]) -> dict[str, bytes]:
        """Returns the assignments: the partitions are dealt to the members in turn."""
        assignments = {}
        for number, member_id in enumerate(member_ids):
            mine = [_named(partition) for partition in self._partitions[number :: len(member_ids)]]
            topics = [AssignedTopic(topic=each.topic, partitions=[each.partition]) for each in mine]
            assignments[member_id] = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics))
        return assignments

    def _commit(self) -> None:
        offsets, positions = self._offsets, dict(self._consumer.positions)
        assert offsets is not None
        operation = self.setting.next_operation()
        self.recorder.record(Commit(self.process, operation, self._group, tuple(positions.items())))
        try:
            offsets.commit({_named(name): Offset(offset) for name, offset in positions.items()})
        except (_OutOfDate, GaveUp, RequestRefused) as error:
            self.recorder.record(Committed(self.process, operation, "unknown", repr(error)))
        else:
            self.recorder.record(Committed(self.process, operation, "ok"))

    def finish(self) -> None:
        """Leaves the group."""
        self._close()

    def _close(self) -> None:
        if self._member is not None:
            try:
                self._member.leave("the checker says so", 2_000)
            except _PASSING as error:
                self.recorder.record(Problem(self.process, str(error)))
            self._member.close()
            self._consumer.close()
        if self._offsets is not None:
            self._offsets.close()
