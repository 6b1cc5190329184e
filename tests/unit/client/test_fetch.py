"""A stream of batches goes on through leader changes and broken connections, and says what it can't bring."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from tests.support.scripted_broker import FETCH, TOPIC_ID, ScriptedBroker

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.errors import GaveUp, LogEndsEarly, OffsetOutOfRange, PartitionMissing, RequestRefused
from klamm.client.fetch import stream_batches
from klamm.protocol.fetch import encode_fetch_response
from klamm.protocol.fetch_messages import FetchPartitionResponse, FetchTopicResponse
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.records import encode_batch
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

ZERO = TopicPartition("t", PartitionIndex(0))
VERSION = 18


def response(records: bytes = b"", error_code: int = 0) -> Callable[[object], bytes]:
    partition = FetchPartitionResponse(0, error_code, 20, 20, 0, None, -1, records)
    topics = [FetchTopicResponse(None, TOPIC_ID, [partition])]
    return lambda _: b"".join(encode_fetch_response(VERSION, 0, 0, topics))


def batch(offset: int, count: int = 5) -> bytes:
    return encode_batch([(0, None, b"v", ())] * count, base_offset=offset)


def offsets(cluster: Cluster, start: int = 0, end: int = 20) -> list[int]:
    """The base offsets of the batches that come."""
    parts = stream_batches(cluster, ZERO, Offset(start), Offset(end))
    return [header.base_offset for part in parts for _, header in iterate_batches(part.records)]


def test_batches_come_in_order_until_the_end(broker: ScriptedBroker, cluster: Cluster) -> None:
    """A partial batch at the end of an answer is asked for again; what lies before the start is left out."""
    broker.on(
        FETCH,
        response(batch(0) + batch(5) + batch(10)[:-1]),
        response(batch(10) + batch(15)),
    )

    assert offsets(cluster, start=6) == [5, 10, 15]


@pytest.mark.parametrize("code", [3, 6, 9, 56, 74, 75, 100, 103])
def test_a_change_of_leader_or_topic_is_followed(broker: ScriptedBroker, cluster: Cluster, code: int) -> None:
    """New metadata, then the same offset again."""
    broker.on(FETCH, response(error_code=code), response(batch(0, 20)))

    assert offsets(cluster) == [0]
    assert [key for key, _ in broker.seen].count(3) == 2


def test_a_broken_connection_is_made_again(broker: ScriptedBroker, cluster: Cluster) -> None:
    """Also one that broke while the next part was under way."""
    broker.on(FETCH, response(batch(0)), lambda _: None, response(batch(5, 15)))

    assert offsets(cluster) == [0, 5]


def test_an_offset_that_is_not_there_is_named(broker: ScriptedBroker, cluster: Cluster) -> None:
    """So that the caller can look for the next one."""
    broker.on(FETCH, response(batch(0)), response(error_code=1))

    with pytest.raises(OffsetOutOfRange, match="t-0 has no offset 5"):
        offsets(cluster)


def test_other_errors_are_raised(broker: ScriptedBroker, cluster: Cluster) -> None:
    """At once."""
    broker.on(FETCH, response(error_code=29))

    with pytest.raises(RequestRefused, match="TOPIC_AUTHORIZATION_FAILED"):
        offsets(cluster)


def test_a_log_that_ends_early(broker: ScriptedBroker, config: ClientConfig) -> None:
    """It was cut after the offsets were listed."""
    broker.on(FETCH, response(batch(0)), response())
    cluster = Cluster(dataclasses.replace(config, default_api_timeout_ms=100))

    with pytest.raises(LogEndsEarly, match="t-0 ends at offset 5, before 20"):
        offsets(cluster)
    cluster.close()


def test_a_partition_that_is_not_there(broker: ScriptedBroker, cluster: Cluster) -> None:
    """The metadata says so, and says so again."""
    missing = TopicPartition("missing", PartitionIndex(0))

    with pytest.raises(PartitionMissing, match="missing-0 does not exist"):
        list(stream_batches(cluster, missing, Offset(0), Offset(5)))


def test_a_partition_that_stays_without_a_leader(broker: ScriptedBroker, config: ClientConfig) -> None:
    """Patience ends."""
    broker.on(FETCH, response(error_code=6))
    cluster = Cluster(dataclasses.replace(config, default_api_timeout_ms=100))

    with pytest.raises(GaveUp, match=r"fetch t-0 from offset 0.*NOT_LEADER_OR_FOLLOWER"):
        offsets(cluster)
    cluster.close()


def test_a_reader_that_stops_early_leaves_the_connection_usable(broker: ScriptedBroker, cluster: Cluster) -> None:
    """The answer that was under way is dropped when it comes."""
    broker.on(FETCH, response(batch(0)), response(batch(5)), response(batch(0, 20)))
    parts = stream_batches(cluster, ZERO, Offset(0), Offset(20))
    next(parts)
    parts.close()

    assert offsets(cluster) == [0]
    assert [key for key, _ in broker.seen].count(18) == 1
