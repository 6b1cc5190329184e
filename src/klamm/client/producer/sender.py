"""Sends batches in Produce requests and judges their answers, without I/O.

Source of the rules: `Sender` and `TransactionManager.canRetry` of Apache Kafka 4.3 (KIP-360, KIP-890, KIP-951).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from klamm.client.cluster_view import ClusterView, PartitionLeader, error_code
from klamm.client.config import Address
from klamm.client.errors import RequestRefused
from klamm.client.producer.accumulator import Accumulator
from klamm.client.producer.backoff import Backoff
from klamm.client.producer.batch import NO_IDENTITY, BatchState, PendingBatch
from klamm.client.producer.errors import DeliveryRefused, DeliveryTimedOut
from klamm.client.producer.lane import PartitionLane
from klamm.client.producer.links import Link, Links, ProduceUnderWay, SentBatch
from klamm.client.producer.metadata_refresh import MetadataRefresh
from klamm.client.producer.producer_config import ProducerConfig
from klamm.client.producer.transactions import TransactionManager
from klamm.protocol.errors import ErrorCode
from klamm.protocol.node_endpoint import NodeEndpoint
from klamm.protocol.produce import ProducePartitionResponse, ProduceRequest, ProduceTopic
from klamm.protocol.produce_client import ProduceResponse, encode_produce_request
from klamm.protocol.types import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, Millis, TopicId, TopicPartition

__all__ = ["PRODUCE", "PRODUCE_FLEXIBLE_FROM", "ProduceSender"]

PRODUCE: Final = 0
PRODUCE_FLEXIBLE_FROM: Final = 9
_LOWEST: Final = 3
_HIGHEST: Final = 13
_TOPIC_IDS_FROM: Final = 13
# Version 12 belongs to the second transaction protocol: it adds the partition to the transaction (KIP-890).
_HIGHEST_V1_TRANSACTIONAL: Final = 11
_CONCURRENT_TRANSACTIONS_PAUSE_MS: Final = 20
# Errors whose Java exception is an InvalidMetadataException.
_STALE_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
# With the other retriable errors a broker may have written the batch, for example if it lost the leadership during the
# request.
_BEFORE_WRITING: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_NO_ANSWER: Final = ProducePartitionResponse(-1, ErrorCode.UNKNOWN_SERVER_ERROR)


class ProduceSender:
    """Chooses which batches are sent to which broker, and updates each batch by its answer."""

    def __init__(
        self,
        config: ProducerConfig,
        backoff: Backoff,
        accumulator: Accumulator,
        *,
        transactions: TransactionManager,
        metadata: MetadataRefresh,
        links: Links,
    ) -> None:
        self._config = config
        self._accumulator = accumulator
        self._transactions = transactions
        self._metadata = metadata
        self._view: ClusterView = metadata.view
        self._links = links
        self._backoff = backoff

    # Before sending.

    def prepare(self, now: Millis) -> None:
        """Ends the batches that must not be sent any more, and gives a new epoch to partitions that need one."""
        # A callback of the application may add batches.
        for lane in list(self._accumulator.active.values()):
            if self._transactions.has_failed or self._transactions.is_ending_badly:
                self._drop(lane)
            else:
                self._expire(lane, now)
                if self._config.enable_idempotence and not self._transactions.is_transactional and lane.must_restart():
                    self._restart(lane)
        self._accumulator.prune()

    def _drop(self, lane: PartitionLane) -> None:
        for batch in lane.unfinished():
            if batch.state is not BatchState.ON_WIRE:
                self._fail(lane, batch, self._transactions.unavailable(), None)

    def _expire(self, lane: PartitionLane, now: Millis) -> None:
        limit = now - self._config.delivery_timeout_ms
        for queue in (lane.in_flight, lane.queue):
            if queue and queue[0].created_ms <= limit:
                for batch in [each for each in queue if each.created_ms <= limit and not each.is_done]:
                    if batch.state is not BatchState.ON_WIRE:
                        self._fail(lane, batch, self._timed_out(batch), None)

    def _restart(self, lane: PartitionLane) -> None:
        if lane.identity == self._transactions.identity:
            self._transactions.raise_epoch()
        if self._transactions.identity != NO_IDENTITY:
            lane.restart(self._transactions.identity)

    # Sending.

    def requests(self, now: Millis, send: Callable[[Link, int, bytes, ProduceUnderWay], None]) -> None:
        """Calls `send` with each request that can be sent now: connection, version, body and batches."""
        for address, lanes in self._sendable(now).items():
            link = self._links.ready(address, now)
            waiting = lanes
            while link is not None and waiting and link.produce_requests < self._config.max_in_flight:
                waiting = self._send_one(link, waiting, now, send)

    def _sendable(self, now: Millis) -> dict[Address, list[PartitionLane]]:
        """Returns the partitions that have a batch to send, by the addresses of their leaders."""
        found: dict[Address, list[PartitionLane]] = {}
        identity = self._transactions.identity
        for topic_partition, lane in self._accumulator.active.items():
            batch = lane.next_batch(identity)
            if batch is None or self._time_of(batch) > now or not self._transactions.may_send_to(topic_partition):
                continue
            leader = self._view.leader_of(topic_partition)
            if leader is None:
                self._metadata.want(topic_partition.topic)
                self._metadata.refresh()
                continue
            address = self._view.address_of(leader.broker)
            # A batch must not be sent before the previous leader has answered all earlier batches.
            if not lane.on_wire or lane.address == address:
                found.setdefault(address, []).append(lane)
        return found

    def _time_of(self, batch: PendingBatch) -> float:
        """Returns when the batch may be sent."""
        if batch.state is BatchState.OPEN:
            return batch.created_ms + self._config.linger_ms
        return batch.next_attempt_ms

    def _send_one(
        self,
        link: Link,
        lanes: list[PartitionLane],
        now: Millis,
        send: Callable[[Link, int, bytes, ProduceUnderWay], None],
    ) -> list[PartitionLane]:
        """Sends one request with at most one batch of each partition. Returns the partitions that have further
        batches."""
        # If there is no common version, this call raises, before a batch counts as sent.
        link.version_of(PRODUCE, "Produce", _LOWEST, _HIGHEST)
        chosen: list[SentBatch] = []
        more: list[PartitionLane] = []
        size_bytes = 0
        identity = self._transactions.identity
        for lane in lanes:
            batch = lane.next_batch(identity)
            if batch is None or self._time_of(batch) > now:
                continue
            self._accumulator.encode(batch)
            if chosen and size_bytes + batch.size_bytes > self._config.max_request_size_bytes:
                more.append(lane)
                continue
            lane.send(batch, identity, link.address)
            self._metadata.used(lane.topic_partition.topic, now)
            topic = self._view.topic(lane.topic_partition.topic)
            chosen.append(SentBatch(lane, batch, None if topic is None else topic.topic_id))
            size_bytes += batch.size_bytes
            more.append(lane)
        if chosen:
            for sent in chosen:
                # The next request begins with the partitions that were not in this one.
                self._accumulator.active[sent.lane.topic_partition] = self._accumulator.active.pop(
                    sent.lane.topic_partition
                )
            version = self._version(link, chosen)
            send(link, version, self._body(version, chosen), ProduceUnderWay(chosen))
        return more if chosen else []

    def _version(self, link: Link, chosen: Sequence[SentBatch]) -> int:
        highest = _HIGHEST
        if self._transactions.is_transactional and not self._transactions.uses_v2:
            highest = _HIGHEST_V1_TRANSACTIONAL
        elif any(sent.topic_id in (None, ZERO_TOPIC_ID) for sent in chosen):
            highest = _TOPIC_IDS_FROM - 1
        return link.version_of(PRODUCE, "Produce", _LOWEST, highest)

    def _body(self, version: int, chosen: Sequence[SentBatch]) -> bytes:
        topics: dict[str, ProduceTopic] = {}
        is_transactional = self._transactions.is_transactional
        for lane, batch, topic_id in chosen:
            name, partition = lane.topic_partition
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = ProduceTopic(name, topic_id, [])
            header, records = batch.stamped(is_transactional=is_transactional)
            topic.partitions.append((partition, memoryview(header + records)))
        return encode_produce_request(
            version,
            ProduceRequest(
                self._config.transactional_id,
                self._config.acks,
                self._config.client.request_timeout_ms,
                list(topics.values()),
            ),
        )

    # Answers.

    def answered(self, sent: ProduceUnderWay, response: ProduceResponse, now: Millis) -> None:
        """Updates the batches of a request by its response."""
        answers: dict[tuple[str | TopicId | None, int], ProducePartitionResponse] = {}
        for topic in response.topics:
            for partition in topic.partitions:
                answers[topic.topic_id if topic.name is None else topic.name, partition.index] = partition
        for lane, batch, topic_id in sent.batches:
            name, index = lane.topic_partition
            answer = answers.get((name, index)) or answers.get((topic_id, index)) or _NO_ANSWER
            lane.answered(batch)
            self._judge(lane, batch, answer, response.node_endpoints, now)
        self._accumulator.prune()

    def acknowledged_blindly(self, sent: ProduceUnderWay) -> None:
        """Ends the batches of a request with `acks=0`, which has no response."""
        for lane, batch, _ in sent.batches:
            lane.answered(batch)
            lane.acknowledged(batch)
            self._accumulator.finish(batch)
        self._accumulator.prune()

    def lost(self, sent: ProduceUnderWay, reason: Exception, now: Millis) -> None:
        """Keeps the batches for another attempt, because the request gets no answer."""
        self._metadata.refresh()
        for lane, batch, _ in sent.batches:
            lane.answered(batch)
            batch.may_be_written, batch.reason = True, str(reason)
            self._retry(lane, batch, Millis(now + self._backoff.pause_ms(batch.attempts)), now)
        self._accumulator.prune()

    def _judge(
        self,
        lane: PartitionLane,
        batch: PendingBatch,
        answer: ProducePartitionResponse,
        endpoints: Sequence[NodeEndpoint],
        now: Millis,
    ) -> None:
        code = error_code(answer.error_code)
        if code is ErrorCode.NONE or (code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and self._config.enable_idempotence):
            lane.acknowledged(batch)
            self._accumulator.finish(batch, None, answer.base_offset if code is ErrorCode.NONE else -1)
            return
        at = Millis(now + self._backoff.pause_ms(batch.attempts))
        if code in _STALE_METADATA:
            self._metadata.refresh()
            if self._note_leader(lane.topic_partition, answer, endpoints):
                at = now
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            at = min(at, Millis(now + _CONCURRENT_TRANSACTIONS_PAUSE_MS))
        batch.reason = code.name + (f": {answer.error_message}" if answer.error_message else "")
        if code is ErrorCode.UNKNOWN_SERVER_ERROR or (code.retriable and code not in _BEFORE_WRITING):
            batch.may_be_written = True
        is_first = lane.is_first(batch)
        if self._may_split(batch, code):
            self._accumulator.split(lane, batch)
        elif self._may_retry(lane, batch, code, answer, is_first=is_first):
            # If a batch is out of order because an earlier batch is missing, the earlier batch is sent first.
            is_behind = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_first
            self._retry(lane, batch, now if is_behind else at, now)
        else:
            self._fail(lane, batch, self._refusal(lane, batch, code, answer), code)

    def _note_leader(
        self, topic_partition: TopicPartition, answer: ProducePartitionResponse, endpoints: Sequence[NodeEndpoint]
    ) -> bool:
        if answer.current_leader is None:
            return False
        broker, epoch = answer.current_leader
        return self._view.note_leader(topic_partition, PartitionLeader(BrokerId(broker), LeaderEpoch(epoch)), endpoints)

    def _may_split(self, batch: PendingBatch, code: ErrorCode) -> bool:
        # A batch that is too large was not written, because every attempt has the same size, unless the limit has
        # changed. In that case the broker refuses the parts of an idempotent producer as out of order.
        return (
            code is ErrorCode.MESSAGE_TOO_LARGE
            and batch.records_count > 1
            and not batch.is_finished
            and not (self._transactions.has_failed or self._transactions.is_ending_badly)
        )

    def _may_retry(
        self,
        lane: PartitionLane,
        batch: PendingBatch,
        code: ErrorCode,
        answer: ProducePartitionResponse,
        *,
        is_first: bool,
    ) -> bool:
        if not self._config.enable_idempotence:
            return code.retriable
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if is_first and batch.whole_may_be_written:
                # Under a new epoch the broker would write the records a second time.
                return False
            if is_first and not self._transactions.is_transactional:
                # All earlier batches have an outcome, so the broker has lost either these batches or the state of the
                # producer.
                lane.needs_new_epoch = True
            return not (is_first and self._transactions.is_transactional)
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            if answer.log_start_offset == -1:
                return True
            if is_first and not self._transactions.is_transactional:
                lane.needs_new_epoch = True
            return not self._transactions.is_transactional
        return code.retriable

    def _retry(self, lane: PartitionLane, batch: PendingBatch, at: Millis, now: Millis) -> None:
        if self._transactions.has_failed or self._transactions.is_ending_badly:
            self._fail(lane, batch, self._transactions.unavailable(), None)
        elif now - batch.created_ms >= self._config.delivery_timeout_ms:
            self._fail(lane, batch, self._timed_out(batch), None)
        else:
            lane.retry(batch, at)

    def _fail(self, lane: PartitionLane, batch: PendingBatch, error: Exception, code: ErrorCode | None) -> None:
        was_sent = batch.state not in (BatchState.OPEN, BatchState.CLOSED)
        if was_sent:
            lane.lose(batch)
        else:
            lane.queue.remove(batch)
            batch.state = BatchState.DONE
        self._accumulator.finish(batch, error)
        self._transactions.batch_failed(error, code, leaves_gap=was_sent)

    def _refusal(
        self, lane: PartitionLane, batch: PendingBatch, code: ErrorCode, answer: ProducePartitionResponse
    ) -> RequestRefused:
        details = [answer.error_message] if answer.error_message else []
        details += [f"record {index}: {message or code.name}" for index, message in answer.record_errors]
        if code is ErrorCode.MESSAGE_TOO_LARGE:
            is_one_record = batch.records_count == 1
            what = "batch of one record" if is_one_record else "finished batch"
            smaller = "" if is_one_record else "lower batch.size, or "
            details.append(f"the {what} has {batch.size_bytes} bytes: {smaller}raise max.message.bytes of the topic")
        elif batch.may_be_written:
            details.append("an earlier attempt may have been written")
        text = f"the broker refused a batch for {lane.topic_partition}"
        return DeliveryRefused(code, ": ".join([text, "; ".join(details)]) if details else text)

    def _timed_out(self, batch: PendingBatch) -> DeliveryTimedOut:
        written = "an attempt may have been written" if batch.may_be_written else "nothing was written"
        return DeliveryTimedOut(
            f"a batch for {batch.topic_partition} was not acknowledged within delivery.timeout.ms="
            f"{self._config.delivery_timeout_ms} after {batch.attempts} attempts ({written}): "
            f"{batch.reason or 'no leader was known or reachable'}"
        )

    # Time.

    def next_times(self) -> list[float]:
        """Returns when batches may be sent, or expire."""
        times: list[float] = []
        identity = self._transactions.identity
        for topic_partition, lane in self._accumulator.active.items():
            batch = lane.next_batch(identity)
            if batch is not None and self._transactions.may_send_to(topic_partition):
                times.append(self._time_of(batch))
            times += [
                queue[0].created_ms + self._config.delivery_timeout_ms
                for queue in (lane.in_flight, lane.queue)
                if queue and queue[0].state not in (BatchState.ON_WIRE, BatchState.LOST)
            ]
        return times
