"""All checkers. The world calls these methods when an event occurs, and they pass it to the right checkers.

Some methods are called from inside the tested code, which must not see the exception of a checker. So a violation is
kept, and `after_step` raises it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.checkers.group import AnyGroup, GroupChecker, Moment
from tests.simulation.checkers.offsets import Allowed, OffsetKey, Offsets, Write
from tests.simulation.checkers.reading import Reading
from tests.simulation.checkers.records import Records
from tests.simulation.checkers.shadow import Shadow, WrittenRecord
from tests.simulation.checkers.transactions import TransactionChecker
from tests.simulation.checkers.view import active_shard, active_shards, find_group, transaction_shard
from tests.simulation.disk import STATE_PARTITION, Batch, Disk
from tests.simulation.network import Call
from tests.simulation.notes import in_words
from tests.simulation.plan import LEDGER_GROUPS
from tests.simulation.violation import Violation

from klamm.core.coordinator.java_hash import partition_for
from klamm.core.group.consumer.consumer_store import ConsumerStore
from klamm.core.group.group_store import GroupStore
from klamm.metadata.image import MetadataImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_metadata_key import ConsumerGroupMetadataKey
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_delete_request import OffsetDeleteRequest
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequest
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup
from klamm.protocol.types import Offset, PartitionIndex, TopicId

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.loop import Process
    from tests.simulation.topics import DataPartition, Topics
    from tests.simulation.world import World

__all__ = ["Checkers"]

_WAITS_EVERY_MS = 500


class _Asked(NamedTuple):
    """The data that are kept for a request until its answer."""

    at_ms: float
    was_parked: bool = False


class _Read(NamedTuple):
    """The expected result of a fetch for one partition, at the time of the decision."""

    offset: int
    record_offset: int
    is_pending: bool
    """Whether an open transaction may change the offset."""


class _Fetch(NamedTuple):
    """The data that are kept for a fetch until its answer."""

    allowed: Allowed
    reads: dict[tuple[str, int], _Read] | None = None
    """The expected results by topic and partition, if the fetch is decided and not answered yet."""


class _Commit(NamedTuple):
    """The data that are kept for a commit until its answer."""

    at_ms: float
    stale: frozenset[DataPartition]
    """The partitions for which the commit must not be accepted."""
    log_end_offset: Offset
    writes: dict[OffsetKey, Write]
    wall_ms: int
    """The wall clock of the broker."""


class Checkers:
    """All checkers of one world."""

    def __init__(
        self, world: World, topics: Topics, *, partitions: int, retention_ms: int, initial_delay_ms: int
    ) -> None:
        self._world = world
        self._loop = world.loop
        self._topics = topics
        self._partitions = partitions
        self._initial_delay_ms = initial_delay_ms
        self._violation: Violation | None = None
        self._is_touched = False
        self._next_waits_ms = 0.0
        self._groups: dict[str, GroupChecker] = {}
        self._places: dict[str, PartitionIndex] = {}
        self.offsets = Offsets()
        self.reading = Reading()
        self.records = Records(topics, self.offsets, retention_ms, self._group_of_leader)
        self.shadow = Shadow(partitions, self._on_record, self._on_marker)
        self.transactions = TransactionChecker()
        self._deletions: list[tuple[Broker, Process | None, Call, Sequence[str]]] = []
        """DeleteGroups requests without an answer yet, each with the broker's process at the time of the request."""

    def fail(self, violation: Violation) -> None:
        """Keeps the first violation."""
        if self._violation is None:
            self._violation = violation

    def _judge(self, judge: Callable[[], object]) -> None:
        try:
            judge()
        except Violation as violation:
            self.fail(violation)

    # Groups

    def _group(self, group_id: str) -> GroupChecker:
        checker = self._groups.get(group_id)
        if checker is None:
            checker = self._groups[group_id] = GroupChecker(group_id, self._world.settings.session_timeout_ms)
        return checker

    def _groups_on(self, partition: PartitionIndex) -> Iterable[tuple[str, GroupChecker]]:
        return [(name, group) for name, group in self._groups.items() if self._partition_of(name) == partition]

    def _partition_of(self, group_id: str) -> PartitionIndex:
        partition = self._places.get(group_id)
        if partition is None:
            partition = self._places[group_id] = PartitionIndex(partition_for(group_id, self._partitions))
        return partition

    def _group_at(self, broker: Broker, group_id: str) -> AnyGroup:
        shard = active_shard(broker, self._partition_of(group_id))
        return None if shard is None else find_group(shard, group_id)

    def _group_of_leader(self, partition: PartitionIndex, group_id: str) -> AnyGroup:
        return self._group_at(self._world.cluster.broker(self._world.disk.replicas[partition].leader), group_id)

    # The log

    def on_appended(self, partition: PartitionIndex, batch: Batch) -> None:
        """Passes an appended batch to the checkers."""
        self._is_touched = True
        clock = self._world.cluster.broker(self._world.disk.replicas[partition].leader).clock
        assert clock is not None
        self.records.wall_clock = clock.wall
        if partition == STATE_PARTITION:
            self._judge(lambda: self.transactions.on_state(batch))
        else:
            self._judge(lambda: self.shadow.on_appended(partition, batch))

    def on_refused(self, partition: PartitionIndex) -> None:
        """Restarts the time limits of the partition's groups: after a failed append the coordinator decides again."""
        self._forgive(partition)

    def _forgive(self, partition: PartitionIndex) -> None:
        for _, group in self._groups_on(partition):
            group.forgive(self._loop.now_ms)

    def on_truncated(self, partition: PartitionIndex, end_offset: Offset) -> None:
        """Handles a truncation: a new leader lacks uncommitted records."""
        if partition == STATE_PARTITION:
            self.transactions.on_state_truncated(self._world.disk)
            return
        self.shadow.on_truncated(self._world.disk, partition)
        self.offsets.on_truncated(partition, end_offset)
        self.transactions.on_truncated(partition, end_offset)

    def on_high_watermark(self, partition: PartitionIndex, high_watermark: Offset) -> None:
        """Passes a new high watermark to the checkers."""
        self._is_touched = True
        self.offsets.on_high_watermark(partition, high_watermark)

    def _on_marker(self, partition: PartitionIndex, batch: Batch, store: GroupStore) -> None:
        self._judge(lambda: self.transactions.on_marker(partition, batch, store))

    def _on_record(self, written: WrittenRecord) -> None:
        store = self.shadow.stores[written.partition]
        self._judge(lambda: self.records.on_record(written, store))
        key = written.record.key
        if written.record.value is not None:
            return
        # A group that changes its protocol writes tombstones for the records of the old protocol.
        if isinstance(key, GroupMetadataKey) and key.group not in store.of(ConsumerStore).groups:
            self.records.on_group_gone(written.partition, key.group)
        elif isinstance(key, ConsumerGroupMetadataKey):
            self.records.on_group_gone(written.partition, key.group_id)

    # Brokers

    def on_leadership(self, broker: Broker, partition: PartitionIndex) -> None:
        """Starts a new round of the partition's groups: a new leader knows only what the log contains."""
        self._world.note("broker %d leads partition %d", broker.broker_id, partition)
        self._is_touched = True
        if partition == STATE_PARTITION:
            self.transactions.is_unchecked = True
            return
        self.shadow.on_loaded(partition)
        for _, group in self._groups_on(partition):
            group.begin_round(self._loop.now_ms)

    def on_resignation(self, broker: Broker, partition: PartitionIndex) -> None:
        """Notes that a broker has resigned."""
        self._is_touched = True

    def on_broker_goes_on(self, broker: Broker) -> None:
        """Restarts the time limits of all groups, because a stopped broker runs again."""
        for group in self._groups.values():
            group.forgive(self._loop.now_ms)

    def on_image(self, broker: Broker, old: MetadataImage, new: MetadataImage) -> None:
        """Notes the deleted topics of a new metadata image."""
        self._is_touched = True
        self.records.deleted_topics |= old.topics_by_id.keys() - new.topics_by_id.keys()

    def on_events(self, broker: Broker, partition: PartitionIndex, events: Sequence[object]) -> None:
        """Adds a coordinator's group events to the world's notes."""
        for event in events:
            self._world.note("%s", event)

    # Transactions

    def on_transactional_request(self, broker: Broker, call: Call) -> None:
        """Passes a producer's request to the checkers, before a coordinator decides it."""
        self._is_touched = True
        self._world.note("%s asks broker %d: %s", call.client_id, broker.broker_id, call.request)
        self.transactions.on_request(call)

    def on_transactional_answer(self, broker: Broker, call: Call, answer: Message) -> None:
        """Checks the answer to a producer's request."""
        self._is_touched = True
        self._world.note("broker %d answers %s: %s", broker.broker_id, call.client_id, answer)
        self._judge(lambda: self.transactions.on_answer(call, answer))

    # Requests

    def on_request(self, broker: Broker, call: Call) -> None:
        """Passes a request to the checkers, before the coordinator decides it."""
        self._is_touched = True
        request, now_ms = call.request, self._loop.now_ms
        self._world.note("%s asks broker %d: %s", call.client_id, broker.broker_id, request)
        call.tag = _Asked(now_ms)
        if isinstance(request, OffsetFetchRequest):
            call.tag = self._begin_fetch(request)
        elif isinstance(request, DeleteGroupsRequest):
            self.records.asked_groups.update(request.groups_names)
            self._deletions.append((broker, broker.process, call, request.groups_names))
        elif isinstance(request, OffsetDeleteRequest):
            self.records.asked_topics.update((request.group_id, topic.name) for topic in request.topics)
        elif hasattr(request, "group_id"):
            self._group(request.group_id).on_request(request, now_ms)
            if isinstance(request, OffsetCommitRequest):
                call.tag = self._begin_commit(broker, request)

    def on_parked(self, broker: Broker, call: Call) -> None:
        """Notes that the coordinator has decided a request, but not answered it yet."""
        if isinstance(call.tag, _Fetch):
            call.tag = call.tag._replace(reads=self._reads(call.request))
        if isinstance(call.tag, _Asked):
            call.tag = call.tag._replace(was_parked=True)
            if hasattr(call.request, "group_id"):
                self._group(call.request.group_id).on_parked(call.request, broker.image)

    def on_answer(self, broker: Broker, call: Call, response: Message) -> None:
        """Checks an answer; it has the coordinator's form or the form of the API."""
        self._is_touched = True
        self._world.note("broker %d answers %s: %s", broker.broker_id, call.client_id, response)
        self._deletions = [deletion for deletion in self._deletions if deletion[2] is not call]
        self._judge(lambda: self._judge_answer(broker, call, response))

    def _judge_answer(self, broker: Broker, call: Call, response: Message) -> None:
        request, tag = call.request, call.tag
        if isinstance(response, OffsetCommitResponse):
            assert isinstance(request, OffsetCommitRequest)
            assert isinstance(tag, _Commit)
            self._end_commit(broker, request, tag, response)
        elif isinstance(response, OffsetFetchResponse):
            self._end_fetch(request, tag, response.groups[0])
        elif isinstance(response, OffsetFetchResponseGroup):
            self._end_fetch(request, tag, response)
        elif hasattr(request, "group_id") and not isinstance(request, OffsetDeleteRequest):
            assert isinstance(tag, _Asked)
            if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self._forgive(self._partition_of(request.group_id))
            group = self._group_at(broker, request.group_id)
            moment = Moment(tag.at_ms, self._loop.now_ms, tag.was_parked, group, broker.image)
            self._group(request.group_id).on_answer(request, response, moment)

    # Offsets

    def _begin_commit(self, broker: Broker, request: OffsetCommitRequest) -> _Commit:
        offsets = dict(self._committed(broker, request))
        named = frozenset((topic_id, index) for _, topic_id, index in offsets)
        group = self._group_at(broker, request.group_id)
        return _Commit(
            self._loop.now_ms,
            self._group(request.group_id).stale_commit(request, named, group),
            self._world.disk.replicas[self._partition_of(request.group_id)].log_end_offset,
            self.offsets.begin_commit(offsets.items()),
            0 if broker.clock is None else broker.clock.wall(),
        )

    def _committed(self, broker: Broker, request: OffsetCommitRequest) -> Iterable[tuple[OffsetKey, int]]:
        for topic in request.topics:
            topic_id = TopicId(topic.topic_id)
            if topic.name in broker.image.topics:
                topic_id = broker.image.topics[topic.name].topic_id
            for each in topic.partitions:
                yield (request.group_id, topic_id, each.partition_index), each.committed_offset

    def _end_commit(
        self, broker: Broker, request: OffsetCommitRequest, commit: _Commit, response: OffsetCommitResponse
    ) -> None:
        log_end_offset = self._world.disk.replicas[self._partition_of(request.group_id)].log_end_offset
        is_certain = commit.at_ms == self._loop.now_ms and log_end_offset == commit.log_end_offset
        self.offsets.end_commit(commit.writes, request.group_id, response, is_certain=is_certain)
        accepted = {
            (TopicId(topic.topic_id), each.partition_index)
            for topic in response.topics
            for each in topic.partitions
            if each.error_code == ErrorCode.NONE
        }
        if accepted & commit.stale:
            wrong = in_words(sorted(accepted & commit.stale))
            raise Violation(16, f"a stale commit was accepted for {wrong}: {in_words(request)}")
        if accepted:
            at_ms = commit.wall_ms if request.retention_time_ms == -1 else None
            for topic_id, index in accepted:
                self.records.on_commit_accepted((request.group_id, topic_id, index), at_ms)
            group = self._group_at(broker, request.group_id)
            self._group(request.group_id).on_commit_accepted(request, commit.at_ms, group)

    def _begin_fetch(self, request: OffsetFetchRequest) -> _Fetch:
        (group,) = request.groups
        return _Fetch(
            self.offsets.allowed(
                (group.group_id, TopicId(topic.topic_id), index)
                for topic in group.topics or ()
                for index in topic.partition_indexes
            )
        )

    def _reads(self, request: Message) -> dict[tuple[str, int], _Read]:
        assert isinstance(request, OffsetFetchRequest)
        (group,) = request.groups
        model = self.shadow.models[self._partition_of(group.group_id)]
        reads = {}
        for topic in group.topics or ():
            for index in topic.partition_indexes:
                place = (group.group_id, topic.name, index)
                reads[topic.name, index] = _Read(*model.committed(place), model.is_pending(place))
        return reads

    def _end_fetch(self, request: Message, tag: object, response: OffsetFetchResponseGroup) -> None:
        assert isinstance(tag, _Fetch)
        assert isinstance(request, OffsetFetchRequest)
        if response.error_code:
            return
        reads = self._reads(request) if tag.reads is None else tag.reads
        committed = self._world.disk.replicas[self._partition_of(response.group_id)].committed
        if response.group_id not in LEDGER_GROUPS:
            self.offsets.end_fetch(tag.allowed, response)
        for topic in response.topics:
            for each in topic.partitions:
                read = reads.get((topic.name, each.partition_index))
                if read is None:
                    continue
                what = f"{response.group_id}, {topic.name}-{each.partition_index}: fetched was {each.committed_offset}"
                if response.group_id in LEDGER_GROUPS:
                    is_unstable = request.require_stable and read.is_pending
                    code = ErrorCode.UNSTABLE_OFFSET_COMMIT if is_unstable else ErrorCode.NONE
                    if (each.error_code, each.committed_offset) != (code, -1 if is_unstable else read.offset):
                        raise Violation(12, f"{what} with {each.error_code}, and the log says {read}")
                if not each.error_code and each.committed_offset == read.offset and read.record_offset >= committed:
                    raise Violation(17, f"{what}, which is written at {read.record_offset}, and not committed yet")

    # Members

    def on_read(self, group_id: str, member: str, partition: DataPartition, start: int, end: int) -> None:
        """Records that a member has read records."""
        self._judge(lambda: self.reading.on_read(group_id, member, partition, start, end))

    def on_owned(
        self,
        group_id: str,
        member: str,
        before: frozenset[DataPartition],
        after: frozenset[DataPartition],
        *,
        is_told: bool,
    ) -> None:
        """Records that the partitions which a member owns have changed."""
        self.reading.on_owned(group_id, member, after)
        if before - after:
            self.reading.on_stopped(group_id, member, before - after, self._loop.now_ms, is_told=is_told)

    # After each step

    def after_step(self) -> None:
        """Checks the state after a step, and raises the first violation."""
        process = self._loop.process
        if self._is_touched or (process is not None and process.is_broker):
            self._is_touched = False
            self._judge(self._look)
        now_ms = self._loop.now_ms
        if now_ms >= self._next_waits_ms:
            self._next_waits_ms = now_ms + _WAITS_EVERY_MS
            self._judge(self._check_waits)
        if self._violation is not None:
            raise self._violation

    def _look(self) -> None:
        for broker in self._world.cluster.brokers:
            # A slow read advances the broker's clock, and the broker's timers follow that clock.
            now_ms = self._loop.now_ms if broker.clock is None else broker.clock.now_ms()
            for partition, shard in active_shards(broker):
                if partition in self.shadow.unchecked:
                    self.shadow.unchecked.discard(partition)
                    self.shadow.compare(partition, shard.store)
                for group_id, checker in self._groups.items():
                    if self._partition_of(group_id) == partition:
                        checker.look(find_group(shard, group_id), now_ms)
            if self.transactions.is_unchecked:
                transactions = transaction_shard(broker)
                if transactions is not None:
                    self.transactions.compare(transactions)
        for group_id in self.records.check_gone_groups(self.shadow.stores):
            self._group(group_id).forget()
        # A deletion may take several steps. It ends with its answer, or with the process of its broker.
        self._deletions = [each for each in self._deletions if each[0].process is each[1]]
        self.records.asked_groups = {name for *_, names in self._deletions for name in names}
        self.records.asked_topics.clear()

    def _check_waits(self) -> None:
        for broker in self._world.cluster.brokers:
            if broker.process is None or broker.process.is_stopped:
                continue
            for partition, shard in active_shards(broker):
                for group_id, checker in self._groups_on(partition):
                    checker.check_waits(find_group(shard, group_id), self._loop.now_ms, self._initial_delay_ms)

    def check_logs(self, disk: Disk) -> None:
        """Reads and checks the whole log: after each compaction, and at the end."""
        for partition in disk.replicas:
            if partition == STATE_PARTITION:
                self.transactions.check_log(disk)
                continue
            self.shadow.check_log(disk, partition)
