"""Produce for very many partitions, or of many megabytes: decoded, appended and answered in steps.

The generated codec decodes the request and encodes the response. The batches are appended part by part, each part like
a separate request. The batches are views of the frame, which stays in memory until all are appended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from klamm.broker.network.codec_route import COPIED_FRAME_BYTES
from klamm.broker.partitions.delayed_produce import DelayedProduce, find_uncommitted
from klamm.broker.partitions.leader_hints import endpoints_of, name_leaders
from klamm.broker.time_slices import Progress, Work, answer_of, as_work, begin_large, free_later, wait_for
from klamm.protocol import produce
from klamm.protocol.codec_in_steps import decode_in_steps, encode_in_steps
from klamm.protocol.errors import ErrorCode, MalformedMessage
from klamm.protocol.produce import ProducePartitionResponse, ProduceTopic, ProduceTopicResponse
from klamm.protocol.schema.produce_request import ProduceRequest
from klamm.protocol.schema.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from klamm.protocol.types import ZERO_TOPIC_ID, TopicId

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.broker.network.dispatch import Body, PendingBody
    from klamm.runtime.answers import Answer

__all__ = ["begin_produce"]

PARTITIONS_AT_ONCE: Final = 50
"""Number of batches that are appended in a step."""
BYTES_AT_ONCE: Final = 1024 * 1024
"""Size of the batches that are appended in a step. The last batch may exceed it."""
_ALL: Final = -1
_TOPIC_IDS_FROM: Final = 13

Answers: TypeAlias = list[ProduceTopicResponse]
Append: TypeAlias = "Callable[[RequestContext, produce.ProduceRequest, list[ProduceTopic]], Answer[Answers]]"
Wanted: TypeAlias = dict[tuple[str | None, TopicId | None], dict[int, memoryview | None]]


def begin_produce(
    context: RequestContext, view: memoryview, position: int, append: Append
) -> Body | PendingBody | None:
    """Answers one Produce request. `append` appends the batches of a part and returns its answers."""
    if len(view) <= COPIED_FRAME_BYTES:
        view = memoryview(bytes(view))
    progress = Progress()
    progress.may_stop = False
    return begin_large(_serve(context, view, position, append), progress)


def _serve(context: RequestContext, view: memoryview, position: int, append: Append) -> Work[Body | None]:
    read = yield from as_work(decode_in_steps(ProduceRequest, context.api_version, view, position))
    request = produce.ProduceRequest(read.transactional_id, read.acks, read.timeout_ms, [])
    wanted: Wanted = {}
    begun: list[Answer[Answers]] = []
    response = ProduceResponse()
    try:
        yield from _take_each_partition_once(read, context.api_version, wanted)
        for part in _parts(wanted):
            appended = append(context, request, part)
            if isinstance(appended, list):
                begun.append(_when_committed(context, request, appended))
            else:
                begun.append((yield from wait_for(_when_appended(context, request, appended))))
            yield None
        leaders: set[int] = set()
        for each in begun:
            answers, found = name_leaders(context, (yield from answer_of(each)))
            leaders.update(found)
            yield from _add(response, answers)
        if request.acks:
            response.node_endpoints = [
                NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
                for node in endpoints_of(context, leaders)
            ]
            return (yield from encode_in_steps(response, context.api_version))
        for topic in response.responses:
            for partition in topic.partition_responses:
                if partition.error_code:
                    # With acks=0 there is no response: only a closed connection shows the error (as in Kafka).
                    raise_for_unacknowledged(topic, partition)
                yield None
            yield None
        return None
    finally:
        free_later(read, wanted, begun, response)


def raise_for_unacknowledged(topic: TopicProduceResponse, partition: PartitionProduceResponse) -> None:
    """Raises the error that closes the connection of a producer with acks=0, because it reads no error response."""
    name = ErrorCode(partition.error_code).name
    raise MalformedMessage(
        f"a produce request with acks=0 failed for {topic.name or 'a topic id'}-{partition.index}: {name}"
    )


def _take_each_partition_once(read: ProduceRequest, version: int, wanted: Wanted) -> Work[None]:
    """Adds the batches to `wanted`, by topic and partition. As in Kafka, the last entry of a partition counts."""
    for topic in read.topic_data:
        key = (None, TopicId(topic.topic_id)) if version >= _TOPIC_IDS_FROM else (topic.name, None)
        for partition in topic.partition_data:
            records: memoryview | None = partition.records  # type: ignore[assignment]  # views, read in steps
            wanted.setdefault(key, {})[partition.index] = records
            yield None
        yield None


def _parts(wanted: Wanted) -> Iterator[list[ProduceTopic]]:
    """Yields the topics with their batches, at most `PARTITIONS_AT_ONCE` and about `BYTES_AT_ONCE` at a time."""
    part: list[ProduceTopic] = []
    room, size_bytes = PARTITIONS_AT_ONCE, 0
    for (name, topic_id), batches in wanted.items():
        own: list[tuple[int, memoryview | None]] = []
        for batch in batches.items():
            own.append(batch)
            room -= 1
            size_bytes += len(batch[1] or b"")
            if not room or size_bytes >= BYTES_AT_ONCE:
                yield [*part, ProduceTopic(name, topic_id, own)]
                part, own = [], []
                room, size_bytes = PARTITIONS_AT_ONCE, 0
        if own:
            part.append(ProduceTopic(name, topic_id, own))
    if part:
        yield part


async def _when_appended(
    context: RequestContext, request: produce.ProduceRequest, appended: Awaitable[Answers]
) -> Answer[Answers]:
    """Begins to wait for the commit in the step of the last append: the broker may lead other partitions later."""
    return _when_committed(context, request, await appended)


def _when_committed(context: RequestContext, request: produce.ProduceRequest, answers: Answers) -> Answer[Answers]:
    """Returns the answers of a part, with acks=all after its batches are committed. No part waits for another."""
    partitions = context.broker.partitions
    if request.acks == _ALL and partitions.commit_later:
        answers, uncommitted = find_uncommitted(partitions, answers)
        if uncommitted:
            return DelayedProduce(answers, uncommitted, lambda final: final).wait(request.timeout_ms)
    return answers


def _add(response: ProduceResponse, answers: Answers) -> Work[None]:
    for name, topic_id, partitions in answers:
        own = TopicProduceResponse(name=name or "", topic_id=topic_id or ZERO_TOPIC_ID)
        last = response.responses[-1] if response.responses else None
        if last is not None and (last.name, last.topic_id) == (own.name, own.topic_id):
            own = last  # The topic was split between two parts.
        else:
            response.responses.append(own)
        for each in partitions:
            own.partition_responses.append(
                PartitionProduceResponse(
                    index=each.index,
                    error_code=each.error_code,
                    base_offset=each.base_offset,
                    log_append_time_ms=each.log_append_time_ms,
                    log_start_offset=each.log_start_offset,
                    record_errors=[
                        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                        for index, message in each.record_errors
                    ],
                    error_message=each.error_message,
                    current_leader=_leader(each),
                )
            )
            yield None
        yield None


def _leader(answer: ProducePartitionResponse) -> LeaderIdAndEpoch:
    if answer.current_leader is None:
        return LeaderIdAndEpoch()
    leader_id, leader_epoch = answer.current_leader
    return LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
