"""The producer as a state machine: no I/O, no clock, no randomness. Both faces call it and move its bytes.

Theory of operation. The application adds records and finished batches (`send`, `send_batch`) and calls the methods of a
transaction; these return a `Delivery` or an `Operation`, which end later. The face calls `poll(now)` whenever something
has happened or the time of `next_time` has come, executes the returned actions (open and close connections, send
requests), and reports the results: `connected`, `disconnected`, `received`. Times are milliseconds of a monotonic
clock; only the timestamps of records are wall-clock time.

The parts are: `Accumulator` has the batches and their memory, `PartitionLane` the order of each partition,
`ProduceSender` the Produce requests, `TransactionManager` producer id and transactions, `MetadataRefresh` leaders and
topics, `Links` the connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from klamm.client.cluster_view import ClusterView
from klamm.client.config import Address
from klamm.client.conversation import Offers
from klamm.client.errors import ConnectionFailed, RequestTimedOut, UnsupportedByBroker
from klamm.client.producer.accumulator import Accumulator
from klamm.client.producer.actions import Action, Send
from klamm.client.producer.backoff import Backoff
from klamm.client.producer.batch import ProducerIdentity
from klamm.client.producer.errors import ProducerClosed, ProducerFailed
from klamm.client.producer.links import Link, Links, MetadataUnderWay, ProduceUnderWay, UnderWay
from klamm.client.producer.metadata_refresh import MetadataRefresh
from klamm.client.producer.outcome import Delivery, Operation
from klamm.client.producer.producer_config import ProducerConfig
from klamm.client.producer.sender import PRODUCE, PRODUCE_FLEXIBLE_FROM, ProduceSender
from klamm.client.producer.transaction_requests import TransactionRequest
from klamm.client.producer.transactions import GroupMember, OffsetToCommit, TransactionManager
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.produce_client import decode_produce_response
from klamm.protocol.records import UnstampedRecord
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.protocol.types import Millis, TopicPartition

__all__ = ["ProducerMachine"]


def _no_jitter() -> float:
    return 1.0


class ProducerMachine:
    """The state of one producer; see the module. Not thread-safe."""

    def __init__(self, config: ProducerConfig, jitter: Callable[[], float] = _no_jitter) -> None:
        """Takes a function `jitter` that returns a factor near 1 for each pause: so that producers do not all retry at
        the same time."""
        self._config = config
        self._actions: list[Action] = []
        backoff = Backoff(config.client, jitter)
        self.view = ClusterView(config.client)
        """The producer's metadata of the cluster."""
        self._accumulator = Accumulator(config)
        self._transactions = TransactionManager(config, backoff)
        self._metadata = MetadataRefresh(config, self.view, backoff)
        self._links = Links(self.view, backoff, self._actions)
        self._sender = ProduceSender(
            config,
            backoff,
            self._accumulator,
            transactions=self._transactions,
            metadata=self._metadata,
            links=self._links,
        )
        self._next_request_id = 0
        self._polled_at = Millis(0)
        self._is_closed = False

    # The application's side: records.

    @property
    def used_bytes(self) -> int:
        """Memory of the batches that have not ended; at most `buffer.memory`, except for records that compression makes
        larger."""
        return self._accumulator.used_bytes

    @property
    def unfinished_batches(self) -> int:
        """Number of batches that have not ended."""
        return self._accumulator.unfinished

    @property
    def identity(self) -> ProducerIdentity:
        """Producer id and epoch; `NO_IDENTITY` before they are known."""
        return self._transactions.identity

    @property
    def failure(self) -> Exception | None:
        """Why the producer can't be used any more; None while it can."""
        return self._transactions.error if self._transactions.has_failed else None

    def partition_count(self, topic: str) -> int | None:
        """Returns the number of the topic's partitions. While it is not known, requests it and returns None."""
        known = self.view.topic(topic)
        if known is None:
            self._metadata.want(topic)
        return None if known is None else len(known.partitions)

    def topic_refusal(self, topic: str) -> ErrorCode | None:
        """Returns why the cluster does not describe the topic; None if it does, or if the topic does not exist."""
        return self._metadata.refused.get(topic)

    def metadata_are_old(self, now: Millis) -> bool:
        """Returns whether the metadata have reached their maximum age. A face that does not act by itself waits for
        newer ones then, or calls `keep_metadata`."""
        return not self._transactions.has_failed and self._metadata.is_old(now)

    def keep_metadata(self, now: Millis) -> None:
        """Lets the present metadata count as new: no broker has answered."""
        self._metadata.keep(now)

    def refresh_topic(self, topic: str, now: Millis) -> Callable[[], bool]:
        """Requests the metadata of a known topic again. Returns a function that tells whether they have arrived,
        or never will because the producer has failed."""
        self._metadata.used(topic, now)
        request = self._metadata.refresh()
        return lambda: self._transactions.has_failed or self._metadata.answered_request >= request

    def forget_topic(self, topic: str) -> None:
        """Stops asking for a topic that does not exist."""
        self._metadata.forget(topic)

    def send(self, topic_partition: TopicPartition, record: UnstampedRecord, now: Millis) -> Delivery | None:
        """Adds a record. Returns None if `buffer.memory` is full: then all batches are sent without linger, and the
        caller tries again when one has ended.

        Raises `RecordTooLarge`, `TypeError`, and the error that stopped the producer or its transaction.
        """
        self._check_send()
        delivery = self._accumulator.append(topic_partition, record, now)
        # The first record of a batch has the index 0.
        if delivery is not None and delivery.is_first:
            self._transactions.add_partition(topic_partition)
        return delivery

    def send_batch(self, topic_partition: TopicPartition, batch: bytes | memoryview, now: Millis) -> Delivery | None:
        """Adds a finished batch; see `BlockingProducer.send_batch`. Returns None as `send`."""
        self._check_send()
        delivery = self._accumulator.append_finished(topic_partition, batch, now)
        if delivery is not None:
            self._transactions.add_partition(topic_partition)
        return delivery

    def _check_send(self) -> None:
        if self._is_closed:
            raise ProducerClosed("the producer is closed")
        self._transactions.check_send()

    def take_ready_sign(self) -> bool:
        """Returns whether a batch became full since the last call, so that `poll` has something to send."""
        is_ready, self._accumulator.has_closed_batch = self._accumulator.has_closed_batch, False
        return is_ready

    def skip(self, pause_ms: Millis, now: Millis) -> None:
        """Takes a time in which the face did nothing: it does not count for `delivery.timeout.ms`."""
        for lane in self._accumulator.active.values():
            for batch in lane.unfinished():
                batch.created_ms = min(Millis(batch.created_ms + pause_ms), now)

    def skip_unwritten(self, pause_ms: Millis, address: Address, unwritten: int) -> None:
        """Takes a time in which the face did not write: it does not count for the `request.timeout.ms` of the newest
        `unwritten` requests of a connection, of which the broker has only a part, or nothing."""
        self._links.skip(pause_ms, address, unwritten)

    def flush(self) -> Operation:
        """Sends all batches without linger. Returns an operation that ends when all batches that exist now have
        ended."""
        return self._accumulator.flush()

    # The application's side: transactions.

    def init_transactions(self) -> Operation:
        """Requests the producer id of the transactional id."""
        return self._transactions.initialize()

    def when_ready(self) -> Operation | None:
        """Returns the operation to wait for before `begin`; None if there is none."""
        return self._transactions.when_ready()

    def begin(self) -> None:
        """Begins a transaction. Raises `InvalidTransactionCall` or what stops the producer."""
        self._transactions.begin()
        for lane in self._accumulator.active.values():
            lane.forget_lost()
        self._accumulator.prune()

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetToCommit], group_id: str, member: GroupMember | None
    ) -> Operation:
        """Commits a group's offsets in the transaction."""
        return self._transactions.send_offsets(offsets, group_id, member)

    def end_transaction(self, *, commits: bool) -> Operation:
        """Commits or aborts. Returns the same operation until `seen` is called with it."""
        self._accumulator.close_open_batches()
        return self._transactions.end_transaction(commits=commits)

    @property
    def waits_because(self) -> str:
        """Why the present request to a coordinator has to be repeated; empty while it does not."""
        return self._transactions.reason

    def seen(self, operation: Operation) -> None:
        """Notes that the caller of a commit or abort knows its end."""
        self._transactions.seen(operation)

    # The face's side.

    def poll(self, now: Millis) -> list[Action]:
        """Returns the actions for the face to execute now, in this order."""
        self._polled_at = now
        for link in self._links.overdue(now):
            host, port = link.address
            self._lost(
                link,
                RequestTimedOut(
                    f"the broker at {host}:{port} did not answer within request.timeout.ms="
                    f"{self._config.client.request_timeout_ms}"
                ),
                now,
            )
        self._sender.prepare(now)
        try:
            self._send_transactional(now)
            self._sender.requests(now, lambda *arguments: self._send_produce(now, *arguments))
            # Last, because the sender finds out which leaders are missing.
            if self.failure is None:
                self._send_metadata(now)
        except UnsupportedByBroker as error:
            self.fail(error)
        actions = self._actions[:]
        self._actions.clear()
        return actions

    def next_time(self) -> float:
        """Returns when `poll` is due next even if nothing happens; infinity for never."""
        # Work that was due at the last poll and is not done waits for something else, for example a connection.
        now = self._polled_at
        times = [*self._links.next_time(now), *self._sender.next_times()]
        if (time := self._transactions.requests.next_time()) is not None:
            times.append(time)
        times.append(self._metadata.next_time())
        return min((time for time in times if time > now), default=float("inf"))

    def connected(self, address: Address, offers: Offers) -> None:
        """Notes that a connection is open."""
        self._links.opened(self._links.to(address), offers)
        self._transactions.offers_of(address, offers)

    def disconnected(self, address: Address, error: ConnectionFailed, now: Millis) -> None:
        """Notes that a connection could not be opened, or broke: its requests are sent again."""
        self._lost(self._links.to(address), error, now)

    def received(self, address: Address, request_id: int, body: memoryview | bytes, now: Millis) -> None:
        """Applies the body of a response. Ignores an unknown request id, because that request was given up. Raises
        `MalformedMessage`: then the face closes the connection, and calls `disconnected`.
        """
        link = self._links.to(address)
        under_way = link.under_way.get(request_id)
        if under_way is None:
            return
        request = under_way.request
        answer: Message | None = None
        if isinstance(request, ProduceUnderWay):
            if self._config.acks == 0:
                self._take(link, request_id)
                self._sender.acknowledged_blindly(request)
                return
            response = decode_produce_response(under_way.version, memoryview(body))
            throttle_ms = response.throttle_time_ms
            self._take(link, request_id)
            self._sender.answered(request, response, now)
        else:
            answer_class = MetadataResponse if isinstance(request, MetadataUnderWay) else request.answer
            answer, _ = decode(answer_class, under_way.version, memoryview(body))
            throttle_ms = getattr(answer, "throttle_time_ms", 0)
            self._take(link, request_id)
            if isinstance(request, MetadataUnderWay):
                assert isinstance(answer, MetadataResponse)
                self._metadata.answered(answer, request.topics, now)
            else:
                self._transactions.answered(request, answer, now)
        link.failures = 0
        link.muted_until = Millis(now + throttle_ms)

    def fail(self, error: Exception) -> None:
        """Ends the producer: a broker does not accept the client, or has no version of an API that it needs."""
        failure = ProducerFailed(f"the producer can't continue: {error}")
        failure.__cause__ = error
        self._transactions.fail(failure)

    def close(self) -> None:
        """Ends all deliveries and operations that have not ended, with `ProducerClosed`. The face closes the
        connections first."""
        self._is_closed = True
        error = ProducerClosed("the producer was closed before that was acknowledged")
        for link in self._links:
            for under_way in link.under_way.values():
                if isinstance(under_way.request, TransactionRequest):
                    under_way.request.end(error)
            link.under_way.clear()
        self._transactions.fail(error)
        for lane in self._accumulator.active.values():
            for batch in lane.unfinished():
                self._accumulator.finish(batch, error)
        self._accumulator.active.clear()

    # Inside.

    def _take(self, link: Link, request_id: int) -> None:
        under_way = link.under_way.pop(request_id)
        if isinstance(under_way.request, ProduceUnderWay):
            link.produce_requests -= 1

    def _lost(self, link: Link, error: ConnectionFailed, now: Millis) -> None:
        lost = self._links.closed(link, now)
        if self._transactions.requests.has(link.address) or not any(each.is_open for each in self._links):
            self._transactions.reason = str(error)
        self._transactions.requests.unreachable(link.address)
        self._metadata.refresh()
        for _, _, request in lost:
            if isinstance(request, ProduceUnderWay):
                self._sender.lost(request, error, now)
            elif isinstance(request, MetadataUnderWay):
                self._metadata.lost(now)
            else:
                self._transactions.disconnected(request, str(error), now)

    def _send_transactional(self, now: Millis) -> None:
        if self._config.enable_idempotence and not self._transactions.is_transactional and self._accumulator.active:
            self._transactions.request_identity()
        request = self._transactions.next_request(now, has_unfinished_batches=self._accumulator.unfinished > 0)
        if request is None:
            return
        link = self._links.ready(self._transactions.requests.address_for(request), now)
        if link is not None:
            self._transactions.offers_of(link.address, link.offers)
            self._send_message(
                link, request.build, request.message, request, now, highest_version=request.highest_version
            )
            self._transactions.sent(request)

    def _send_metadata(self, now: Millis) -> None:
        request = self._metadata.next_request(now)
        if request is None or (link := self._links.ready(None, now)) is None:
            return
        topics = self._metadata.sent(now)
        self._send_message(link, lambda version: request, type(request), MetadataUnderWay(topics), now)

    def _send_message(
        self,
        link: Link,
        build: Callable[[int], Message],
        cls: type[Message],
        under_way: MetadataUnderWay | TransactionRequest,
        now: Millis,
        *,
        highest_version: int | None = None,
    ) -> None:
        assert cls.API_KEY is not None
        lowest, highest = cls.VERSIONS
        version = link.version_of(
            cls.API_KEY, cls.NAME, lowest, highest if highest_version is None else min(highest, highest_version)
        )
        is_flexible = cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM
        body = encode(build(version), version)
        self._send(link, cls.API_KEY, body, UnderWay(self._deadline(now), version, under_way), is_flexible=is_flexible)

    def _send_produce(self, now: Millis, link: Link, version: int, body: bytes, under_way: ProduceUnderWay) -> None:
        link.produce_requests += 1
        self._send(
            link,
            PRODUCE,
            body,
            UnderWay(self._deadline(now), version, under_way),
            is_flexible=version >= PRODUCE_FLEXIBLE_FROM,
        )

    def _deadline(self, now: Millis) -> Millis:
        return Millis(now + self._config.client.request_timeout_ms)

    def _send(
        self, link: Link, api_key: int, body: bytes | bytearray, under_way: UnderWay, *, is_flexible: bool
    ) -> None:
        self._next_request_id += 1
        _, version, request = link.under_way[self._next_request_id] = under_way
        has_response = not (isinstance(request, ProduceUnderWay) and self._config.acks == 0)
        self._actions.append(
            Send(link.address, self._next_request_id, api_key, version, body, is_flexible, has_response)
        )
