"""A stream of batches continues through leader changes and broken connections, and raises an error for offsets that it
can't read."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable
from contextlib import aclosing, closing
from typing import Protocol, cast

import pytest
from tests.support.scripted_broker import FETCH, TOPIC_ID, ScriptedBroker

from klamm.client import aio_fetch
from klamm.client.aio_cluster import AsyncCluster
from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.errors import GaveUp, LogEndsEarly, OffsetOutOfRange, PartitionMissing, RequestRefused
from klamm.client.fetch import stream_batches
from klamm.protocol.fetch_messages import FetchPartitionResponse, FetchTopicResponse
from klamm.protocol.fetch_request_decoder import decode_fetch_request
from klamm.protocol.fetch_response_encoder import encode_fetch_response
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse, MetadataResponseTopic
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

ZERO = TopicPartition("t", PartitionIndex(0))
VERSION = 18


def response(records: bytes = b"", error_code: int = 0) -> Callable[[object], bytes]:
    partition = FetchPartitionResponse(0, error_code, 20, 20, 0, None, -1, records)
    topics = [FetchTopicResponse(None, TOPIC_ID, [partition])]
    return lambda _: b"".join(encode_fetch_response(VERSION, 0, 0, topics))


def batch(offset: int, count: int = 5) -> bytes:
    return encode_batch([(0, None, b"v", ())] * count, base_offset=offset)


class ReadOffsets(Protocol):
    """A function that reads a partition to the end of a range."""

    def __call__(
        self, config: ClientConfig, start: int = 0, end: int = 20, *, partition: TopicPartition = ZERO
    ) -> list[int]:
        """Returns the base offsets of the batches."""


def read_blocking(
    config: ClientConfig, start: int = 0, end: int = 20, *, partition: TopicPartition = ZERO
) -> list[int]:
    """Reads with the blocking client."""
    with closing(Cluster(config)) as cluster:
        parts = stream_batches(cluster, partition, Offset(start), Offset(end))
        return [header.base_offset for part in parts for _, header in iterate_batches(part.records)]


def read_in_a_loop(
    config: ClientConfig, start: int = 0, end: int = 20, *, partition: TopicPartition = ZERO
) -> list[int]:
    """Reads with the asyncio client."""

    async def read() -> list[int]:
        with closing(AsyncCluster(config)) as cluster:
            parts = aio_fetch.stream_batches(cluster, partition, Offset(start), Offset(end))
            return [header.base_offset async for part in parts for _, header in iterate_batches(part.records)]

    return asyncio.run(read())


@pytest.fixture(params=[read_blocking, read_in_a_loop], ids=["blocking", "asyncio"])
def offsets(request: pytest.FixtureRequest) -> ReadOffsets:
    """Returns the read function of each client; both behave the same."""
    return cast("ReadOffsets", request.param)


def test_batches_come_in_order_until_the_end(
    broker: ScriptedBroker, config: ClientConfig, offsets: ReadOffsets
) -> None:
    """Batches come in order: a partial batch at the end of an answer is fetched again, and batches before the start are
    left out."""
    broker.on(
        FETCH,
        response(batch(0) + batch(5) + batch(10)[:-1]),
        response(batch(10) + batch(15)),
    )

    assert offsets(config, start=6) == [5, 10, 15]


@pytest.mark.parametrize("code", [-1, 3, 6, 9, 56, 74, 75, 100, 103])
def test_a_change_of_leader_or_topic_is_followed(
    broker: ScriptedBroker, config: ClientConfig, offsets: ReadOffsets, code: int
) -> None:
    """After a leader change the client refreshes the metadata and fetches the same offset again. Kafka's consumer
    treats UNKNOWN_SERVER_ERROR (-1) the same way (FetchCollector.java)."""
    broker.on(FETCH, response(error_code=code), response(batch(0, 20)))

    assert offsets(config) == [0]
    assert [key for key, _ in broker.seen].count(3) == 2


def test_a_broken_connection_is_made_again(broker: ScriptedBroker, config: ClientConfig, offsets: ReadOffsets) -> None:
    """A broken connection is opened again, also if it breaks during a fetch of the next batches."""
    broker.on(FETCH, response(batch(0)), lambda _: None, response(batch(5, 15)))

    assert offsets(config) == [0, 5]


def test_an_offset_that_is_not_there_is_named(
    broker: ScriptedBroker, config: ClientConfig, offsets: ReadOffsets
) -> None:
    """The error for a missing offset names the offset, so that the caller can look for the next one."""
    broker.on(FETCH, response(batch(0)), response(error_code=1))

    with pytest.raises(OffsetOutOfRange, match="t-0 has no offset 5"):
        offsets(config)


def test_other_errors_are_raised(broker: ScriptedBroker, config: ClientConfig, offsets: ReadOffsets) -> None:
    """Other errors are raised at once."""
    broker.on(FETCH, response(error_code=29))

    with pytest.raises(RequestRefused, match="TOPIC_AUTHORIZATION_FAILED"):
        offsets(config)


def test_a_log_that_ends_early(broker: ScriptedBroker, config: ClientConfig, offsets: ReadOffsets) -> None:
    """A log that ends before the requested end, for example after a truncation, raises LogEndsEarly."""
    broker.on(FETCH, response(batch(0)), response())

    with pytest.raises(LogEndsEarly, match="t-0 ends at offset 5, before 20"):
        offsets(dataclasses.replace(config, default_api_timeout_ms=100))


def test_a_partition_that_is_not_there(broker: ScriptedBroker, config: ClientConfig, offsets: ReadOffsets) -> None:
    """A partition that is missing in repeated metadata answers raises PartitionMissing."""
    missing = TopicPartition("missing", PartitionIndex(0))

    with pytest.raises(PartitionMissing, match="missing-0 does not exist"):
        offsets(config, partition=missing)


@pytest.mark.parametrize(
    ("failures", "knows"),
    [(5, "yyyyyn"), (2, "ynnnnnnynnnnn")],
    ids=["once, after other failures", "three times, and again three times"],
)
def test_a_partition_that_is_there_again(
    broker: ScriptedBroker, config: ClientConfig, offsets: ReadOffsets, failures: int, knows: str
) -> None:
    """A partition counts as missing only after four metadata answers in a row without it. (Between two failures,
    metadata is requested twice if the topic is not known: the second request belongs to the next attempt.)"""

    def without(request: MetadataRequest) -> MetadataResponse:
        answer = broker.metadata(request)
        answer.topics = [MetadataResponseTopic(name=topic.name, error_code=3) for topic in request.topics or ()]
        return answer

    broker.on(MetadataRequest, *(broker.metadata if known == "y" else without for known in knows), broker.metadata)
    broker.on(FETCH, *[response(error_code=6)] * failures, response(batch(0, 20)))

    assert offsets(config) == [0]
    assert [key for key, _ in broker.seen].count(3) == len(knows) + 1


def test_a_partition_that_stays_without_a_leader(
    broker: ScriptedBroker, config: ClientConfig, offsets: ReadOffsets
) -> None:
    """A partition that stays without a leader raises GaveUp after `default.api.timeout.ms`."""
    broker.on(FETCH, response(error_code=6))

    with pytest.raises(GaveUp, match=r"fetch t-0 from offset 0.*NOT_LEADER_OR_FOLLOWER"):
        offsets(dataclasses.replace(config, default_api_timeout_ms=100))


def test_a_reader_that_stops_early_leaves_the_connection_usable(broker: ScriptedBroker, config: ClientConfig) -> None:
    """After a reader stops early, the pending answer is dropped, and the connection is used again."""
    broker.on(FETCH, response(batch(0)), response(batch(5)), response(batch(0, 20)))
    with closing(Cluster(config)) as cluster:
        parts = stream_batches(cluster, ZERO, Offset(0), Offset(20))
        next(parts)
        parts.close()

        (whole,) = stream_batches(cluster, ZERO, Offset(0), Offset(20))

    assert whole.next_offset == 20
    assert [key for key, _ in broker.seen].count(18) == 1


def test_so_does_one_in_an_event_loop(broker: ScriptedBroker, config: ClientConfig) -> None:
    """After a reader of the asyncio client stops early, the connection is used again."""
    broker.on(FETCH, response(batch(0)), response(batch(5)), response(batch(0, 20)))

    async def read() -> list[int]:
        with closing(AsyncCluster(config)) as cluster:
            async with aclosing(aio_fetch.stream_batches(cluster, ZERO, Offset(0), Offset(20))) as parts:
                await anext(parts)
            return [part.next_offset async for part in aio_fetch.stream_batches(cluster, ZERO, Offset(0), Offset(20))]

    assert asyncio.run(read()) == [20]
    assert [key for key, _ in broker.seen].count(18) == 1


@pytest.fixture
def hours_later(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Moves the clock far beyond every timeout."""
    real, passed = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: real() + passed[0])

    def move() -> None:
        passed[0] += 3 * 3600

    return move


@pytest.mark.parametrize("error_code", [0, 6], ids=["an answer that waits", "an error that passes"])
def test_time_that_the_caller_takes_counts_for_no_timeout(
    broker: ScriptedBroker, config: ClientConfig, hours_later: Callable[[], None], error_code: int
) -> None:
    """Time that the caller spends between two parts does not count for timeouts. A sink may need minutes for a part."""
    broker.on(FETCH, response(batch(0)), response(batch(5), error_code), response(batch(5, 15)))
    came = []
    with closing(Cluster(config)) as cluster:
        for part in stream_batches(cluster, ZERO, Offset(0), Offset(20)):
            came.append(part.next_offset)
            hours_later()

    assert came == ([5, 20] if error_code else [5, 10, 20])
    assert [key for key, _ in broker.seen].count(18) == 1


def test_nor_does_it_in_an_event_loop(
    broker: ScriptedBroker, config: ClientConfig, hours_later: Callable[[], None]
) -> None:
    """In the asyncio client too, time that the caller spends between two parts does not count for timeouts."""
    broker.on(FETCH, response(batch(0)), response(error_code=6), response(batch(5)), response(batch(10, 10)))

    async def read() -> list[int]:
        came: list[int] = []
        with closing(AsyncCluster(config)) as cluster:
            async for part in aio_fetch.stream_batches(cluster, ZERO, Offset(0), Offset(20)):
                came.append(part.next_offset)
                hours_later()
        return came

    assert asyncio.run(read()) == [5, 10, 20]
    assert [key for key, _ in broker.seen].count(18) == 1


def test_the_memory_of_a_part_is_used_again(broker: ScriptedBroker, config: ClientConfig) -> None:
    """All parts use the same memory, because allocating megabytes for each part costs as much as filling them."""
    broker.on(FETCH, *(response(batch(offset)) for offset in (0, 5, 10, 15)))
    with closing(Cluster(config)) as cluster:
        memories = [part.records.obj for part in stream_batches(cluster, ZERO, Offset(0), Offset(20))]

    assert all(memory is memories[0] for memory in memories)


# --- sessions -------------------------------------------------------------------------------------------------------


class Sessions:
    """A script of fetch answers that also records the session fields of the requests."""

    def __init__(self, broker: ScriptedBroker, *answers: tuple[bytes, int, int]) -> None:
        """Takes for each answer the records, the session id, and the error code of the whole answer."""
        self.places: list[tuple[int, int, int]] = []
        """Session id, epoch and number of topics of each request."""
        broker.on(FETCH, *(self._answer(*answer) for answer in answers))

    def _answer(self, records: bytes, session_id: int, code: int) -> Callable[[bytes], bytes]:
        def answer(body: bytes) -> bytes:
            request = decode_fetch_request(VERSION, memoryview(body), 1)
            self.places.append((request.session_id, request.session_epoch, len(request.topics)))
            partition = FetchPartitionResponse(0, 0, 20, 20, 0, None, -1, records)
            topics = [FetchTopicResponse(None, TOPIC_ID, [partition])] if records else []
            return b"".join(encode_fetch_response(VERSION, code, session_id, topics))

        return answer


def test_one_answer_needs_no_session(broker: ScriptedBroker, config: ClientConfig, offsets: ReadOffsets) -> None:
    """A stream that ends with one answer opens no session in the broker's cache."""
    sessions = Sessions(broker, (batch(0, 20), 0, 0))

    assert offsets(config) == [0]
    assert sessions.places == [(0, -1, 1)]


def test_a_longer_stream_has_a_session(broker: ScriptedBroker, config: ClientConfig, offsets: ReadOffsets) -> None:
    """The second request of a stream opens a session, and later requests count its epoch up. A partition that is
    missing in an answer has no new records."""
    sessions = Sessions(
        broker,
        (batch(0), 0, 0),
        (batch(5), 77, 0),
        (b"", 77, 0),
        (batch(10), 77, 0),
        (batch(15), 77, 0),
        (b"", 0, 0),
    )

    assert offsets(config) == [0, 5, 10, 15]
    assert sessions.places[:5] == [(0, -1, 1), (0, 0, 1), (77, 1, 1), (77, 2, 1), (77, 3, 1)]


def test_the_session_is_closed_before_the_connection_is_used_again(
    broker: ScriptedBroker, config: ClientConfig
) -> None:
    """The session is closed before the next stream uses the connection. Answers come in request order, so the next
    answer shows that the close was answered."""
    sessions = Sessions(
        broker, (batch(0), 0, 0), (batch(5), 77, 0), (batch(10, 10), 77, 0), (b"", 0, 0), (batch(0, 20), 0, 0)
    )
    with closing(Cluster(config)) as cluster:
        for _ in range(2):
            assert [part.next_offset for part in stream_batches(cluster, ZERO, Offset(0), Offset(20))][-1] == 20

    assert sessions.places == [(0, -1, 1), (0, 0, 1), (77, 1, 1), (77, -1, 0), (0, -1, 1)]


@pytest.mark.parametrize("code", [70, 71, 106])
def test_a_session_that_is_gone_is_opened_anew(
    broker: ScriptedBroker, config: ClientConfig, offsets: ReadOffsets, code: int
) -> None:
    """A session that the broker has evicted or lost is opened again, and no record is missed."""
    sessions = Sessions(
        broker, (batch(0), 0, 0), (batch(5), 77, 0), (b"", 0, code), (batch(10, 5), 78, 0), (batch(15), 78, 0)
    )

    assert offsets(config) == [0, 5, 10, 15]
    assert sessions.places[:5] == [(0, -1, 1), (0, 0, 1), (77, 1, 1), (0, 0, 1), (78, 1, 1)]


def test_a_broker_may_give_no_session(broker: ScriptedBroker, config: ClientConfig, offsets: ReadOffsets) -> None:
    """If the broker gives no session, for example because its cache is full, each request names all partitions and no
    session is closed."""
    sessions = Sessions(broker, (batch(0), 0, 0), (batch(5), 0, 0), (batch(10), 0, 0), (batch(15), 0, 0))

    assert offsets(config) == [0, 5, 10, 15]
    assert sessions.places == [(0, -1, 1), (0, 0, 1), (0, 0, 1), (0, 0, 1)]
