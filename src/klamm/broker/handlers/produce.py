"""Produce: appends record batches to partitions.

Versions 3 to 13: versions 0 to 2 carry message formats that no log holds any more (KIP-896). v5 log start offset,
v8 errors of single records (KIP-467), v9 flexible, v10 current leaders (KIP-951), v11 and v12 transactions verified
and added by the broker (KIP-890), v13 topic ids.

On one node a partition has only the leader's replica, so a successful append is already replicated. No value of
`acks` waits for followers. If commits wait for the disk (`klamm.fsync=ack`), so do responses to acks=all.

A batch whose records must be read, and that is not small, is opened on a thread (`batch_opener.py`). Its request
then becomes a task, and the connection handles no other request until all batches of the task are in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, cast

from klamm.broker.partitions.batch_opener import OpeningAllowance, OpensLater
from klamm.broker.partitions.delayed_produce import DelayedProduce, Leaderships, find_uncommitted
from klamm.broker.partitions.leader_hints import endpoints_of, name_leaders
from klamm.broker.partitions.transaction_verification import (
    FIRST_VERSION_THAT_ADDS_PARTITIONS,
    TransactionVerification,
    code_for_producer,
    find_absent,
    find_transactional,
)
from klamm.core.log.batch_opening import MAXIMUM_RECORD_ERRORS, BatchOpening, InvalidRecords
from klamm.core.log.batch_validation import read_single_batch
from klamm.core.log.transaction_verification import NO_GUARD
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.produce import (
    ManyPartitions,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
    ProduceTopicResponse,
    decode_produce_request,
    encode_produce_response,
)
from klamm.protocol.record_batch import COMPRESSION_MASK, TRANSACTIONAL_MASK
from klamm.protocol.types import PartitionIndex, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.broker.network.dispatch import Body, PendingBody
    from klamm.broker.partitions.led_topic import LedTopic
    from klamm.broker.partitions.partition import Partition
    from klamm.protocol.types import Millis, TopicId
    from klamm.runtime.answers import Answer

__all__ = ["append", "handle_frame"]

_logger = logging.getLogger(__name__)

_ALL: Final = -1
_KNOWN_ACKS: Final = (_ALL, 0, 1)
_NO_OFFSET: Final = -1
Answers: TypeAlias = "list[ProduceTopicResponse]"

_ATTRIBUTES: Final = 22
"""Position in a batch of the attributes byte with the compression codec and the transactional bit."""

_CODES_WITHOUT_LOG_START_OFFSET: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_REQUIRED_ACKS,
    }
)
_FIRST_VERSION_WITH_ZSTD: Final = 7
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_SEVERAL_PRODUCERS: Final = "Transactional records contained more than one producer ID"
_INTERNAL_TOPIC_CLIENT_ID: Final = "__admin_client"
"""The only client id that Kafka allows to write to internal topics (`AdminUtils`)."""


def handle_frame(context: RequestContext, view: memoryview, position: int) -> Body | PendingBody | None:
    """Appends every batch of the request and answers, except for acks=0, which has no response."""
    try:
        request = decode_produce_request(context.api_version, view, position)
    except ManyPartitions:
        from klamm.broker.partitions.wide_produce import begin_produce  # rarely needed

        return begin_produce(context, view, position, append)
    topics = request.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        topics = _each_partition_once(topics)
    answers = append(context, request, topics)
    if not isinstance(answers, list):
        return asyncio.ensure_future(_answer_later(context, request, answers))
    if request.acks and not context.broker.partitions.commit_later:
        return _encode(context, answers)
    return _answer(context, request, answers)


def append(context: RequestContext, request: ProduceRequest, topics: list[ProduceTopic]) -> Answer[Answers]:
    """Appends the batches for some topics, each partition once.

    Returns at once, unless a large batch must be opened or the transaction coordinator must be asked.
    """
    if _has_transactional_records(topics):
        return _append_in_transaction(context, request, topics)
    now_ms = context.broker.clock()
    appends = _Appends()
    answers = [_append_topic(context, topic, request.acks, now_ms, appends) for topic in topics]
    return _append_later(context, request, answers, appends) if appends.later else answers


async def _answer_later(context: RequestContext, request: ProduceRequest, pending: Awaitable[Answers]) -> Body | None:
    body = _answer(context, request, await pending)
    return await body if isinstance(body, asyncio.Future) else body


class _LaterAppend(NamedTuple):
    """A batch that is appended after it has been opened on a thread."""

    answer: ProducePartitionResponse
    """Placeholder in the response until then."""
    topic: ProduceTopic
    opening: BatchOpening


class _Appends(OpeningAllowance):
    """What the batches of one request share: the opening allowance, and the limit of record errors."""

    later: Sequence[_LaterAppend] = ()
    record_errors_left: int = MAXIMUM_RECORD_ERRORS
    """How many more record errors the response may have. Each refused batch may have at least one. A batch of a hundred
    bytes can have a thousand bad records."""

    def append_later(self, append: _LaterAppend) -> None:
        """Defers a batch that is too large for the allowance."""
        if not isinstance(self.later, list):
            self.later = []
        self.later.append(append)


def _append_later(
    context: RequestContext,
    request: ProduceRequest,
    answers: list[ProduceTopicResponse],
    appends: _Appends,
    verification: TransactionVerification | None = None,
) -> Awaitable[Answers]:
    """Opens and appends the deferred batches, one after the other. Must be called in the step of the other appends."""
    leaderships = Leaderships(context.broker.partitions)
    leaderships.note(answers)
    return _append_all_later(context, request, answers, appends, verification, leaderships)


async def _append_all_later(  # noqa: PLR0917 - as `_append`
    context: RequestContext,
    request: ProduceRequest,
    answers: list[ProduceTopicResponse],
    appends: _Appends,
    verification: TransactionVerification | None,
    leaderships: Leaderships,
) -> Answers:
    final: dict[int, ProducePartitionResponse] = {}
    for append in appends.later:
        appended = await _append_when_opened(context, request.acks, append, appends, verification)
        leaderships.note([appended])
        final[id(append.answer)] = appended.partitions[0]
    if final:
        answers = [
            topic._replace(partitions=[final.get(id(answer), answer) for answer in topic.partitions])
            for topic in answers
        ]
    return leaderships.check(answers) if request.acks == _ALL else answers


async def _append_when_opened(
    context: RequestContext,
    acks: int,
    append: _LaterAppend,
    appends: _Appends,
    verification: TransactionVerification | None,
) -> ProduceTopicResponse:
    while True:
        opened = await _OpenedBatch.open(context, append.opening)
        again = _Appends()
        again.record_errors_left = appends.record_errors_left
        now_ms = append.opening.now_ms
        topic = _append_topic(context, append.topic, acks, now_ms, again, verification, opened.take)
        appends.record_errors_left = again.record_errors_left
        if not again.later:
            return topic
        append = again.later[0]  # the topic's configuration has changed in the meantime


class _OpenedBatch(NamedTuple):
    """The outcome of an opening: the bytes to store, or the error that refuses the batch."""

    opening: BatchOpening
    outcome: memoryview | KafkaError

    @classmethod
    async def open(cls, context: RequestContext, opening: BatchOpening) -> _OpenedBatch:
        """Opens the batch on a thread."""
        try:
            return cls(opening, await context.broker.batch_opener.open_later(opening))
        except KafkaError as error:
            return cls(opening, error)

    def take(self, opening: BatchOpening) -> memoryview:
        """Returns the bytes to store. Raises `KafkaError`, or `OpensLater` if the topic's configuration has changed."""
        if opening.config is not self.opening.config:
            raise OpensLater(opening)
        if isinstance(self.outcome, KafkaError):
            raise self.outcome
        return self.outcome


def _answer(
    context: RequestContext, request: ProduceRequest, answers: list[ProduceTopicResponse]
) -> Body | PendingBody | None:
    """Returns the response, for acks=all once the batches are committed; None for acks=0."""
    if request.acks == 0:
        # There is no response, so closing the connection is the only way to report an error (as Kafka does). The client
        # then refreshes its metadata.
        for answer in answers:
            for partition in answer.partitions:
                if partition.error_code:
                    raise_for_unacknowledged(answer, partition)
        return None
    if request.acks == _ALL and context.broker.partitions.commit_later:
        answers, uncommitted = find_uncommitted(context.broker.partitions, answers)
        if uncommitted:
            delayed: DelayedProduce[Body | None] = DelayedProduce(answers, uncommitted, partial(_encode, context))
            return delayed.wait(request.timeout_ms)
    return _encode(context, answers)


def _encode(context: RequestContext, answers: Answers) -> Body | None:
    answers, leaders = name_leaders(context, answers)
    return [encode_produce_response(context.api_version, answers, node_endpoints=endpoints_of(context, leaders))]


def _each_partition_once(topics: list[ProduceTopic]) -> list[ProduceTopic]:
    """Returns each topic and each partition once, without topics that have no partitions.

    As in Kafka, the last batch of a partition counts, and each topic has one entry in the response.
    """
    is_sound = len({topic.topic_id or topic.name for topic in topics}) == len(topics) and all(
        topic.partitions and len({index for index, _ in topic.partitions}) == len(topic.partitions) for topic in topics
    )
    if is_sound:
        return topics
    wanted: dict[tuple[str | None, TopicId | None], dict[int, memoryview | None]] = {}
    for topic in topics:
        if topic.partitions:
            wanted.setdefault((topic.name, topic.topic_id), {}).update(topic.partitions)
    return [ProduceTopic(name, topic_id, list(batches.items())) for (name, topic_id), batches in wanted.items()]


def raise_for_unacknowledged(topic: ProduceTopicResponse, partition: ProducePartitionResponse) -> None:
    """Raises MalformedMessage, which closes the connection of a producer whose request with acks=0 failed."""
    name = ErrorCode(partition.error_code).name
    raise MalformedMessage(
        f"a produce request with acks=0 failed for {topic.name or 'a topic id'}-{partition.index}: {name}"
    )


def _has_transactional_records(topics: list[ProduceTopic]) -> bool:
    for topic in topics:
        for _, records in topic.partitions:  # loops, because every request passes here
            if records is not None and len(records) > _ATTRIBUTES and records[_ATTRIBUTES] & TRANSACTIONAL_MASK:
                return True
    return False


def _is_zstd(records: memoryview) -> bool:
    return len(records) > _ATTRIBUTES and records[_ATTRIBUTES] & COMPRESSION_MASK == Compression.ZSTD


def _refuse_all(topics: list[ProduceTopic], code: ErrorCode, message: str | None = None) -> list[ProduceTopicResponse]:
    return [
        ProduceTopicResponse(
            topic.name,
            topic.topic_id,
            [ProducePartitionResponse(index, code, error_message=message) for index, _ in topic.partitions],
        )
        for topic in topics
    ]


def _append_in_transaction(
    context: RequestContext, request: ProduceRequest, topics: list[ProduceTopic]
) -> Answer[Answers]:
    """Appends once the transaction coordinator knows every partition; at once if it need not be asked."""
    if request.transactional_id is None:
        return _refuse_all(topics, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    batches = list(find_transactional(context.broker.partitions, topics))
    producers = {(header.producer_id, header.producer_epoch) for _, header in batches}
    if len(producers) > 1:
        return _refuse_all(topics, ErrorCode.INVALID_PRODUCER_ID_MAPPING, _SEVERAL_PRODUCERS)
    broker = context.broker
    now_ms = broker.clock()
    verification = None
    for producer_id, producer_epoch in producers:
        verification = TransactionVerification(
            request.transactional_id,
            producer_id,
            producer_epoch,
            adds_partitions=context.api_version >= FIRST_VERSION_THAT_ADDS_PARTITIONS,
            is_enabled=broker.config.transaction_partition_verification_enable,
            now_ms=now_ms,
        )
        for partition, header in batches:
            verification.begin(partition, header.base_sequence)
    if verification is None or not verification.guards:
        appends = _Appends()
        answers = [_append_topic(context, topic, request.acks, now_ms, appends, verification) for topic in topics]
        return _append_later(context, request, answers, appends, verification) if appends.later else answers
    verification.absent = find_absent(broker.partitions, topics)
    # Later frames reuse the buffer of this one in the meantime.
    topics = [
        topic._replace(partitions=[(index, _copy(records)) for index, records in topic.partitions]) for topic in topics
    ]
    request = request._replace(topics=topics)
    return _append_when_verified(context, request, verification)


async def _append_when_verified(
    context: RequestContext, request: ProduceRequest, verification: TransactionVerification
) -> Answers:
    await verification.ask(context.broker.transaction_verifier)
    now_ms = context.broker.clock()
    appends = _Appends()
    answers = [_append_topic(context, topic, request.acks, now_ms, appends, verification) for topic in request.topics]
    return await _append_later(context, request, answers, appends, verification)


def _copy(records: memoryview | None) -> memoryview | None:
    return None if records is None else memoryview(bytes(records))


def _append_topic(  # noqa: PLR0917 - as `_append`
    context: RequestContext,
    topic: ProduceTopic,
    acks: int,
    now_ms: Millis,
    appends: _Appends,
    verification: TransactionVerification | None = None,
    open_batch: Callable[[BatchOpening], memoryview] | None = None,
) -> ProduceTopicResponse:
    partitions = context.broker.partitions
    if topic.topic_id is None:
        led = partitions.by_name.get(topic.name or "")
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        led = partitions.by_id.get(topic.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    if led is None:
        return _refuse_all([topic], unknown)[0]
    if led.is_internal and context.client_id != _INTERNAL_TOPIC_CLIENT_ID:
        return _refuse_all([topic], ErrorCode.INVALID_TOPIC_EXCEPTION)[0]
    if open_batch is None:
        open_batch = appends.open
    if led.is_internal:
        open_batch = partial(_open_for_coordinator, open_batch)
    if verification is None:
        answers = [
            _append(context, led, index, records, acks, now_ms, appends, open_batch)
            for index, records in topic.partitions
        ]
    else:
        absent = verification.absent.get(topic.name if topic.topic_id is None else topic.topic_id, {})
        answers = [
            _append_verified(context, led, index, records, acks, now_ms, appends, open_batch, verification)
            if index not in absent
            else ProducePartitionResponse(index, absent[index])
            for index, records in topic.partitions
        ]
    return ProduceTopicResponse(topic.name, topic.topic_id, answers)


def _open_for_coordinator(open_batch: Callable[[BatchOpening], memoryview], opening: BatchOpening) -> memoryview:
    return open_batch(opening._replace(is_for_coordinator=True))


def _append_verified(  # noqa: PLR0917 - as `_append`
    context: RequestContext,
    led: LedTopic,
    index: int,
    records: memoryview | None,
    acks: int,
    now_ms: Millis,
    appends: _Appends,
    open_batch: Callable[[BatchOpening], memoryview],
    verification: TransactionVerification,
) -> ProducePartitionResponse:
    topic_partition = TopicPartition(led.name, PartitionIndex(index))
    code = verification.errors.get(topic_partition)
    if code is not None:
        code, message = code_for_producer(code, context.api_version)
        return ProducePartitionResponse(index, code, error_message=message)
    guard = verification.guard(topic_partition)
    return _append(context, led, index, records, acks, now_ms, appends, open_batch, guard)


def _append(  # noqa: PLR0917 - called once for each batch of each request: keywords would cost
    context: RequestContext,
    led: LedTopic,
    index: int,
    records: memoryview | None,
    acks: int,
    now_ms: Millis,
    appends: _Appends,
    open_batch: Callable[[BatchOpening], memoryview],
    verification_guard: int = NO_GUARD,
) -> ProducePartitionResponse:
    partition = None
    try:
        partition = led.get(index)
        if not records:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the request holds no record batch for {partition}")
        if context.api_version < _FIRST_VERSION_WITH_ZSTD and _is_zstd(records):
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "Produce 7 is the first version that takes zstd")
        if acks == _ALL:
            partition.check_in_sync_replicas(records)
        elif acks not in _KNOWN_ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}")
        info = partition.append(records, now_ms, verification_guard=verification_guard, open_batch=open_batch)
    except OpensLater as left:
        opening = cast(BatchOpening, left.opening).with_own_bytes()
        answer = ProducePartitionResponse(index, ErrorCode.UNKNOWN_SERVER_ERROR)
        name, topic_id = (
            (None, led.topic_id) if context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS else (led.name, None)
        )
        topic = ProduceTopic(name, topic_id, [(index, memoryview(opening.records))])
        appends.append_later(_LaterAppend(answer, topic, opening))
        return answer
    except KafkaError as error:
        _logger.debug("refused a batch of %s for %s-%d: %s", context.connection.peer, led.name, index, error)
        return _refuse(partition, index, records, error, appends)
    except Exception:
        _logger.exception("an append of %s to %s-%d failed", context.connection.peer, led.name, index)
        return ProducePartitionResponse(index, ErrorCode.UNKNOWN_SERVER_ERROR)
    return ProducePartitionResponse(
        index,
        0,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )


def _refuse(
    partition: Partition | None, index: int, records: memoryview | None, error: KafkaError, appends: _Appends
) -> ProducePartitionResponse:
    """Returns the error response of Kafka's `ReplicaManager.appendToLocalLog`.

    It has the log start offset only if the log refused the batch, and a message only for errors of single records.
    """
    knows_start = partition is not None and error.code not in _CODES_WITHOUT_LOG_START_OFFSET
    if error.code == ErrorCode.INVALID_RECORD and not isinstance(error, InvalidRecords):
        knows_start = knows_start and _holds_one_batch(records)
    start = partition.log.log_start_offset if partition is not None and knows_start else _NO_OFFSET
    if isinstance(error, InvalidRecords):
        record_errors = error.record_errors[: max(1, appends.record_errors_left)]
        appends.record_errors_left -= len(record_errors)
        return ProducePartitionResponse(
            index,
            error.code,
            log_start_offset=start,
            record_errors=record_errors,
            error_message=error.message,
        )
    return ProducePartitionResponse(index, error.code, log_start_offset=start)


def _holds_one_batch(records: memoryview | None) -> bool:
    """Returns whether there is one valid batch, so that the log refused it (`ProduceRequest.validateRecords`)."""
    try:
        read_single_batch(records or b"")
    except KafkaError:
        return False
    return True
