"""Reads the partitions of one Fetch request: each partition once, within the limits of the response.

The content of a response and its order follow Kafka's `KafkaApis.handleFetchRequest` and
`ReplicaManager.readFromLog`: unknown partitions come last, and a failed read ends the wait.
Kafka cuts the last batch of a partition at the limit. klamm leaves out the partial batch, which a client cannot use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self, TypeAlias

from klamm.broker.partitions.closest_replica import FIRST_VERSION_WITH_RACK, ClosestReplica
from klamm.broker.partitions.divergence import diverging_epoch
from klamm.broker.partitions.followed_partition import FollowedPartition
from klamm.broker.partitions.read_result import Reading, ReadResult, end_of, size_of
from klamm.broker.partitions.unchanged_read import UnchangedRead, has_no_news
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.fetch_messages import FetchPartition, FetchPartitionResponse, FetchRequest
from klamm.protocol.types import BrokerId, Offset, TopicId
from klamm.storage.log.stored_batches import StoredBatches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from klamm.broker.handler_context import RequestContext
    from klamm.broker.partitions.fetch_sessions import CachedPartition
    from klamm.broker.partitions.led_topic import LedTopic
    from klamm.broker.partitions.partition import AppendObserver, Partition
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.broker.partitions.read_result import PartitionAnswer
    from klamm.broker.partitions.warm_reads import WarmReads
    from klamm.broker.replication.replication_quotas import ReplicationQuotas
    from klamm.storage.log.log import Log

__all__ = ["FetchRead", "Readable"]

READ_COMMITTED: Final = 1
_NO_OFFSET: Final = -1
_MANY: Final = 32
"""With fewer partitions in a read, it costs more to remember what was read than to read it again."""
_BEYOND_ALL_MINIMA: Final = 2**63
_MOST_BYTES: Final = 8 * 1024 * 1024
"""Limit for the records of a response, of which the first batch is always whole. To read or send that much takes some
milliseconds of the event loop; the client asks for the rest at once."""
_FIRST_VERSION_WITH_LEADERS: Final = 16
"""First version whose response names the leader if the client has a wrong leader or leader epoch (KIP-951)."""
_CODES_WITH_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

Readable: TypeAlias = "Partition | FollowedPartition"
"""A partition that a consumer may read here."""


class FetchRead:
    """The reads of one request. The same partitions may be read again after more records arrive."""

    __slots__ = (
        "_closest_replica",
        "_maximum_bytes",
        "_partitions",
        "_quotas",
        "_request",
        "_sender",
        "_told",
        "_version",
        "_warm_reads",
        "is_of_follower",
        "is_read_committed",
        "minimum_bytes",
    )

    def __init__(
        self,
        partitions: PartitionRegistry,
        warm_reads: WarmReads,
        request: FetchRequest,
        version: int,
        maximum_bytes: int,
        *,
        sender: BrokerId | None = None,
        quotas: ReplicationQuotas | None = None,
        closest_replica: ClosestReplica | None = None,
    ) -> None:
        """Begins a read. `sender`: the broker that sends the request; None: a client. `quotas` throttle followers.

        `closest_replica` is given for a consumer that may be told to read from a follower.
        """
        self._sender = sender
        self._quotas = quotas
        self._closest_replica = closest_replica
        self._told: set[Partition] = set()
        """The partitions whose follower's progress this request has told. It tells it once: after it has waited for
        records, it still says where the follower was before (`updateFetchState` in `ReplicaManager.readFromLog`)."""
        self.is_of_follower = request.replica_id >= 0
        self._partitions = partitions
        self._warm_reads = warm_reads
        self._request = request
        self._version = version
        self._maximum_bytes = maximum_bytes
        self.minimum_bytes = min(request.min_bytes, maximum_bytes)
        """The bytes that end the wait for more."""
        self.is_read_committed = request.isolation_level == READ_COMMITTED

    @classmethod
    def of_request(cls, context: RequestContext, request: FetchRequest) -> Self:
        """Begins the read for a client's or a follower's request."""
        broker = context.broker
        limits = request.max_bytes, broker.config.fetch_max_bytes, broker.unsent_answers.room_bytes, _MOST_BYTES
        return cls(
            broker.partitions,
            broker.warm_reads,
            request,
            context.api_version,
            min(limits),
            sender=context.connection.broker_id,
            quotas=broker.replication_quotas,
            closest_replica=ClosestReplica.of_request(context, request),
        )

    def find(self, cached: CachedPartition) -> Readable | None:
        """Returns the partition, or None if this request can't read it here."""
        led = self._led_topic(cached)
        index = cached.request.index
        if led is None or not 0 <= index < len(led.partitions):
            return None
        return led.partitions[index] or self._find_followed(led, index)

    def _find_followed(self, led: LedTopic, index: int) -> FollowedPartition | None:
        """Returns a partition that this broker follows, if the request may be answered by a follower."""
        if self.is_of_follower or self._version < FIRST_VERSION_WITH_RACK:
            return None
        return self._partitions.unled.find_followed(led, index)

    def read(self, wanted: Sequence[CachedPartition], *, to_send: bool = False) -> ReadResult:
        """Reads every partition once, in order.

        `to_send`: the response is sent at once after the read, so records may stay in their files.
        """
        reading = Reading()
        self.read_more(reading, wanted, to_send=to_send)
        return reading.result()

    def read_more(self, reading: Reading, wanted: Sequence[CachedPartition], *, to_send: bool = False) -> None:
        """Reads more of the partitions, within the remaining limits of the response."""
        answers = reading.answers
        read_bytes = reading.size_bytes
        left_bytes = max(0, self._maximum_bytes - read_bytes)
        is_final = reading.is_final
        remembers = len(wanted) >= _MANY and self._closest_replica is None
        for cached in wanted:
            led = self._led_topic(cached)
            if led is None or not 0 <= cached.request.index < len(led.partitions):
                code = self._why_unknown(cached, led)
                if code == ErrorCode.INCONSISTENT_TOPIC_ID:
                    answers.append((cached, self._failed(cached.request, KafkaError(code), None)))
                    is_final = True
                else:
                    last = reading.nameless if code == ErrorCode.UNKNOWN_TOPIC_ID else reading.unknown
                    last.append((cached, _unknown(cached.request, code)))
                continue
            try:
                index = cached.request.index
                partition: Readable | None = led.partitions[index] or self._find_followed(led, index)
                if partition is None:
                    partition = led.get(index, cached.request.current_leader_epoch)
                unchanged = cached.unchanged
                if remembers and unchanged is not None and self._needs_no_read(unchanged, partition, cached):
                    reading.unchanged += 1
                    continue
                response = self._read_partition(partition, cached.request, left_bytes, not read_bytes, to_send)
                is_final = is_final or response.diverging_epoch is not None or response.preferred_read_replica >= 0
                if self.is_of_follower and cached.lacks_high_watermark(response) and not self._is_held_back(partition):
                    is_final = True  # the follower learns the new high watermark at once (KIP-1166)
                elif remembers:
                    cached.unchanged = self._remember(partition, cached, response)
            except KafkaError as error:
                response = self._failed(cached.request, error, led)
                cached.unchanged = None
                is_final = True
            size_bytes = size_of(response)
            read_bytes += size_bytes
            left_bytes = max(0, left_bytes - size_bytes)
            answers.append((cached, response))
        reading.size_bytes = read_bytes
        reading.is_final = is_final

    def _needs_no_read(self, unchanged: UnchangedRead, partition: Readable, cached: CachedPartition) -> bool:
        """Returns whether the partition needs no read; notes the progress of a follower that asks for it again.

        A request with another leader epoch or another offset is read first: a follower whose log diverges, or that
        asks with an old leader epoch, must not count as in sync.
        """
        if isinstance(partition, FollowedPartition) or not unchanged.still_holds(partition, cached.request):
            return False
        if self.is_of_follower:
            self._check_follower(partition, cached.request)
            self._note_progress(partition, cached.request)
            return partition.log.high_watermark == unchanged.high_watermark  # the progress may have raised it
        return True

    def _remember(
        self, partition: Readable, cached: CachedPartition, response: FetchPartitionResponse
    ) -> UnchangedRead | None:
        """Returns the state of a partition about which the session's client knows everything; None for another one."""
        if isinstance(partition, FollowedPartition):
            return None
        wanted, log = cached.request, partition.log
        # The next request of a consumer may have another isolation level, so open transactions count as records, too.
        end = log.log_end_offset if self.is_of_follower else log.high_watermark
        if wanted.fetch_offset < end or not has_no_news(cached, response):
            return None
        return UnchangedRead.of(partition, wanted)

    def observe(self, partition: Readable, observer: AppendObserver) -> None:
        """Notifies `observer` of records that this request may read, until `partition.release`."""
        if self.is_of_follower:
            assert not isinstance(partition, FollowedPartition)
            if not self._is_held_back(partition):
                partition.observe_end(observer)
        else:
            partition.observe(observer)

    def reaches(self, minimum_bytes: int, answers: Sequence[PartitionAnswer]) -> bool:
        """Returns whether a request should be answered although it read less than its minimum
        (`DelayedFetch.tryComplete`).

        More records exist if a limit cut the read short, or if a segment ended.
        """
        return self.reach(answers) >= minimum_bytes

    def reach(self, answers: Sequence[PartitionAnswer]) -> int:
        """Estimates how many bytes of these partitions one response could hold, without reading all of them."""
        within_reach = 0
        for cached, response in answers:
            partition = self.find(cached)
            if response.error_code or partition is None or self._is_held_back(partition):
                continue
            log, wanted = partition.log, cached.request
            upper_bound = self._upper_bound(log)
            if wanted.fetch_offset >= upper_bound:
                continue
            size_bytes = size_of(response)
            end = end_of(response, wanted.fetch_offset)
            if end < upper_bound:
                try:
                    following_bytes = log.reader.batch_bytes(Offset(end))
                except KafkaError:
                    return _BEYOND_ALL_MINIMA  # the next request gets the error
                if size_bytes + following_bytes <= min(wanted.partition_max_bytes, self._maximum_bytes):
                    return _BEYOND_ALL_MINIMA  # the segment ended, and the next read begins in another one
                size_bytes = min(size_bytes + following_bytes, wanted.partition_max_bytes)
            within_reach += size_bytes
        return within_reach

    def count_sent(self, answers: Sequence[PartitionAnswer]) -> None:
        """Counts the records of an answer that is sent to a follower, for its throttled partitions."""
        if self._quotas is None or not self.is_of_follower:
            return
        for cached, response in answers:
            partition = self.find(cached) if response.records else None
            if partition is not None and not isinstance(partition, FollowedPartition):
                self._quotas.sent(partition, size_of(response))

    def _is_held_back(self, partition: Readable) -> bool:
        """Returns whether the request is of a follower that is throttled in this partition now."""
        return (
            self.is_of_follower
            and self._quotas is not None
            and not isinstance(partition, FollowedPartition)
            and self._quotas.holds_back(partition, BrokerId(self._request.replica_id))
        )

    def _led_topic(self, cached: CachedPartition) -> LedTopic | None:
        name = cached.key[0]
        if isinstance(name, str):
            return self._partitions.by_name.get(name)
        led = self._partitions.by_id.get(TopicId(name))
        if led is not None:
            cached.topic_name = led.name
        return led

    def _why_unknown(self, cached: CachedPartition, led: LedTopic | None) -> ErrorCode:
        """Returns the error code for a partition that was not found.

        A session remembers the name of a topic id. The topic may be deleted, or another topic may have its name.
        """
        if led is not None or isinstance(cached.key[0], str):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if cached.topic_name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        namesake = self._partitions.by_name.get(cached.topic_name)
        if namesake is None or not 0 <= cached.request.index < len(namesake.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.INCONSISTENT_TOPIC_ID

    def _read_partition(
        self, partition: Readable, wanted: FetchPartition, left_bytes: int, is_first: bool, to_send: bool
    ) -> FetchPartitionResponse:
        if wanted.current_leader_epoch >= 0:
            partition.check_leader_epoch(wanted.current_leader_epoch)
        log = partition.log
        led = None if isinstance(partition, FollowedPartition) else partition
        if led is not None:
            if self.is_of_follower:
                self._check_follower(led, wanted)
            elif self._closest_replica is not None:
                closest = self._closest_replica.follower(led, Offset(wanted.fetch_offset))
                if closest is not None:
                    return FetchPartitionResponse(
                        wanted.index,
                        0,
                        log.high_watermark,
                        log.last_stable_offset,
                        log.log_start_offset,
                        preferred_read_replica=closest,
                    )
        diverging = None if wanted.last_fetched_epoch < 0 else diverging_epoch(log, wanted)
        records: bytes | memoryview | StoredBatches = b""
        aborted: list[tuple[int, int]] | None = [] if self.is_read_committed else None
        if diverging is None:
            maximum_bytes = min(wanted.partition_max_bytes, left_bytes)
            upper_bound = self._upper_bound(log)
            if self._is_held_back(partition):
                upper_bound = Offset(min(upper_bound, wanted.fetch_offset))
            warm = None if led is None or self.is_of_follower else led.warm_read
            if (
                led is not None
                and warm is not None
                and warm.serves(led, wanted.fetch_offset, maximum_bytes, upper_bound)
            ):
                records = self._warm_reads.take(led, warm)
            else:
                read = log.read_to_send if to_send else log.read
                records = read(
                    Offset(wanted.fetch_offset), maximum_bytes, upper_bound=upper_bound, minimum_one_batch=is_first
                )
            if records and aborted is not None:
                aborted = [
                    (transaction.producer_id, transaction.first_offset)
                    for transaction in log.aborted_transactions(Offset(wanted.fetch_offset), len(records))
                ]
            if led is not None and self.is_of_follower:
                self._note_progress(led, wanted)
        return FetchPartitionResponse(
            wanted.index,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            aborted,
            records=records,
            diverging_epoch=diverging,
        )

    def _note_progress(self, partition: Partition, wanted: FetchPartition) -> None:
        if partition not in self._told:
            self._told.add(partition)
            partition.follower_fetched(
                BrokerId(self._request.replica_id),
                self._request.replica_epoch,
                Offset(wanted.fetch_offset),
                Offset(wanted.log_start_offset),
            )

    def _check_follower(self, partition: Partition, wanted: FetchPartition) -> None:
        """Raises the error for a request with a replica id that is not of a follower of the partition."""
        broker_id = BrokerId(self._request.replica_id)
        if partition.followers is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {broker_id} is no replica of {partition}")
        knows_leader_epoch = wanted.current_leader_epoch >= 0
        partition.followers.check_replica(broker_id, self._request.replica_epoch, knows_leader_epoch)
        if self._sender != broker_id:
            # Kafka's code for a sender without the right to act for the cluster (`KafkaApis.handleFetchRequest`).
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"the sender has not shown to be broker {broker_id}")

    def _upper_bound(self, log: Log) -> Offset:
        if self.is_of_follower:
            return log.log_end_offset
        return log.last_stable_offset if self.is_read_committed else log.high_watermark

    def _failed(self, wanted: FetchPartition, error: KafkaError, led: LedTopic | None) -> FetchPartitionResponse:
        code = error.code
        if code == ErrorCode.KAFKA_STORAGE_ERROR and self._version <= 5:
            # Clients of these versions don't know the code. The other code makes them look for the leader again.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and led is not None and led.may_be_outdated(wanted.index):
            # The next leader may have this offset. A consumer would go to the beginning or the end of the log.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader = None
        if self._version >= _FIRST_VERSION_WITH_LEADERS and error.code in _CODES_WITH_LEADER and led is not None:
            leader = led.leader(wanted.index)
        return FetchPartitionResponse(
            wanted.index, code, _NO_OFFSET, _NO_OFFSET, _NO_OFFSET, None, current_leader=leader
        )


def _unknown(wanted: FetchPartition, code: ErrorCode) -> FetchPartitionResponse:
    # An empty list of aborted transactions instead of null, as in Kafka's empty response.
    return FetchPartitionResponse(wanted.index, code, _NO_OFFSET, _NO_OFFSET, _NO_OFFSET, [])
