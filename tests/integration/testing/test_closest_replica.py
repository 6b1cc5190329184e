"""Consumers that read from the replica in their rack (KIP-392), as clients see it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.follower_reads import RACK_AWARE_SELECTOR, waiting_reads
from tests.support.patience import Limit
from tests.support.wire import Wire

from klamm.config.errors import ConfigurationError
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_client import decode_fetch_response, encode_fetch_request
from klamm.protocol.fetch_messages import FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic
from klamm.protocol.types import ZERO_TOPIC_ID
from klamm.testing import Broker, Cluster

TOPIC = "orders"
PATIENCE_S = 30.0
VERSION = 12
READ_COMMITTED = 1


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Brokers 1 (rack a, leads), 2 (rack b) and 3 (rack c, without a replica)."""
    with Cluster(
        3, racks=["a", "b", "c"], config={"replica.selector.class": RACK_AWARE_SELECTOR}, session_timeout_ms=600
    ) as made:
        _create(made)
        yield made


def _create(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1, 2]])])[TOPIC].result()
    _wait(lambda: cluster.leader_of(TOPIC, 0) == 1)


def _delete(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([TOPIC])[TOPIC].result()


def _wait(is_true: Callable[[], bool]) -> None:
    limit = Limit(PATIENCE_S)
    while not is_true():
        assert not limit.is_over
        time.sleep(0.02)


def _produce(cluster: Cluster, *values: str, **config: Any) -> None:
    # The leader of a new partition may refuse the first batches. An idempotent producer keeps the order nevertheless.
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, **config})
    for value in values:
        producer.produce(TOPIC, value)
    assert producer.flush(PATIENCE_S) == 0


def _fetch(
    cluster: Cluster,
    broker: int,
    offset: int = 0,
    *,
    rack: str = "",
    version: int = VERSION,
    wait_ms: int = 0,
    min_bytes: int = 1,
    epoch: int = -1,
    isolation: int = 0,
    meanwhile: Callable[[], object] | None = None,
) -> FetchPartitionResponse:
    """Returns a broker's answer. Does `meanwhile` when the request waits at that broker, which is a follower."""
    partition = FetchPartition(0, epoch, offset, -1, -1, 1_000_000, ZERO_TOPIC_ID)
    topics = [FetchTopic(TOPIC, None, [partition])]
    request = FetchRequest(-1, wait_ms, min_bytes, 1_000_000, isolation, 0, -1, topics, [], rack)
    with Wire(cluster.address_of(broker)) as wire:
        wire.send(ApiKey.FETCH, version, encode_fetch_request(version, request))
        if meanwhile is not None:
            _wait(lambda: waiting_reads(cluster, broker) == 1)
            meanwhile()
        (topic,) = decode_fetch_response(version, wire.receive(ApiKey.FETCH, version)).topics
    (answer,) = topic.partitions
    return answer


def _high_watermark(cluster: Cluster, broker: int) -> int:
    return _fetch(cluster, broker).high_watermark


def _settle(cluster: Cluster, end: int) -> None:
    """Waits until the follower knows that the records up to `end` are committed."""
    _wait(lambda: _high_watermark(cluster, 2) == end)


def _records(answer: FetchPartitionResponse) -> bytes:
    assert isinstance(answer.records, memoryview | bytes)
    return bytes(answer.records)


def _size(answer: FetchPartitionResponse) -> int:
    return len(_records(answer))


def test_the_leader_names_the_follower_in_the_consumers_rack(cluster: Cluster) -> None:
    """The answer has no records, names the follower, and comes at once. A consumer without a rack, of another rack, or
    of a version that knows no racks gets records."""
    _produce(cluster, "one")
    _settle(cluster, 1)
    _wait(lambda: _fetch(cluster, 1, rack="b").preferred_read_replica == 2)
    named = _fetch(cluster, 1, 1, rack="b", wait_ms=600_000)
    assert (named.error_code, named.preferred_read_replica, _size(named)) == (0, 2, 0)
    assert (named.high_watermark, named.last_stable_offset, named.log_start_offset) == (1, 1, 0)
    for answer in (
        _fetch(cluster, 1),
        _fetch(cluster, 1, rack="a"),
        _fetch(cluster, 1, rack="c"),
        _fetch(cluster, 1, version=10),
    ):
        assert answer.preferred_read_replica == -1
        assert _size(answer) > 0


def test_a_fetch_session_names_the_follower_each_time(cluster: Cluster) -> None:
    """A session leaves out partitions without news. A follower to read from is news, also the second time."""
    _produce(cluster, "one")
    _settle(cluster, 1)
    partition = FetchPartition(0, -1, 0, -1, -1, 1_000_000, ZERO_TOPIC_ID)
    request = FetchRequest(-1, 0, 1, 1_000_000, 0, 0, 0, [FetchTopic(TOPIC, None, [partition])], [], "b")
    with Wire(cluster.address_of(1)) as wire:
        first = wire.fetch(VERSION, request)
        second = wire.fetch(VERSION, request._replace(session_id=first.session_id, session_epoch=1, topics=[]))
    for answer in (first, second):
        assert answer.session_id == first.session_id != 0
        assert [each.preferred_read_replica for topic in answer.topics for each in topic.partitions] == [2]


def test_the_follower_sends_the_leaders_records(cluster: Cluster) -> None:
    """The bytes are equal, the follower names no other replica, and a broker without a replica refuses."""
    _produce(cluster, "one", "two")
    _settle(cluster, 2)
    at_leader, at_follower = _fetch(cluster, 1), _fetch(cluster, 2, rack="b")
    assert at_follower.error_code == 0
    assert at_follower.preferred_read_replica == -1
    assert _records(at_follower) == _records(at_leader)
    assert _fetch(cluster, 3).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert _fetch(cluster, 2, version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("offset", "epoch", "code"),
    [
        (9, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, 0, ErrorCode.NONE),
        (0, 99, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_the_follower_checks_offset_and_leader_epoch(
    cluster: Cluster, offset: int, epoch: int, code: ErrorCode
) -> None:
    """A consumer that is refused asks the leader again, as with Kafka's followers."""
    _produce(cluster, "one")
    _settle(cluster, 1)
    assert _fetch(cluster, 2, offset, epoch=epoch).error_code == code


def test_a_consumer_with_the_epoch_of_the_leader_before_is_fenced_by_the_follower(cluster: Cluster) -> None:
    """The consumer's view of the log may be that of an earlier leader (KIP-320)."""
    _produce(cluster, "one")
    _settle(cluster, 1)
    cluster.move_leader(TOPIC, 0, 2)
    cluster.move_leader(TOPIC, 0, 1)
    _wait(lambda: _fetch(cluster, 2, epoch=2).error_code == 0)
    assert _fetch(cluster, 2, epoch=1).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_waiting_fetch_ends_when_the_follower_may_send_new_records(cluster: Cluster) -> None:
    """The follower answers long before the wait is over, as soon as the new record is below its high watermark."""
    _produce(cluster, "one")
    _settle(cluster, 1)
    answer = _fetch(cluster, 2, 1, wait_ms=600_000, meanwhile=lambda: _produce(cluster, "two"))
    assert answer.error_code == 0
    assert _size(answer) > 0


def test_a_waiting_fetch_waits_for_its_minimum(cluster: Cluster) -> None:
    """Small records do not end the wait before their sizes add up to the minimum."""
    _produce(cluster, "one")
    _settle(cluster, 1)
    size = _size(_fetch(cluster, 2))

    def produce_three() -> None:
        for value in ("two", "six", "ten"):
            _produce(cluster, value)

    answer = _fetch(cluster, 2, 1, wait_ms=600_000, min_bytes=3 * size, meanwhile=produce_three)
    assert _size(answer) == 3 * size


def test_a_waiting_fetch_ends_when_the_follower_begins_to_lead(cluster: Cluster) -> None:
    """The fetch is answered by the new leader, although nothing was written."""
    _produce(cluster, "one")
    _settle(cluster, 1)
    answer = _fetch(cluster, 2, 1, wait_ms=600_000, meanwhile=lambda: cluster.move_leader(TOPIC, 0, 2))
    assert (answer.error_code, _size(answer)) == (0, 0)


def test_a_waiting_fetch_ends_when_the_topic_is_deleted(cluster: Cluster) -> None:
    """The consumer hears at once that there is no such topic."""
    _produce(cluster, "one")
    _settle(cluster, 1)
    answer = _fetch(cluster, 2, 1, wait_ms=600_000, meanwhile=lambda: _delete(cluster))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_read_committed_consumer_sees_no_aborted_record_at_a_follower(cluster: Cluster) -> None:
    """The follower has the index of aborted transactions, and its last stable offset is that of its own log."""
    config = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "orders"}
    producer = Producer(config)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(TOPIC, "aborted")
    producer.flush(PATIENCE_S)
    _wait(lambda: _high_watermark(cluster, 2) == 1)
    open_one = _fetch(cluster, 2, isolation=READ_COMMITTED)
    assert (open_one.last_stable_offset, _size(open_one)) == (0, 0)
    producer.abort_transaction(PATIENCE_S)
    _settle(cluster, 2)
    answer = _fetch(cluster, 2, isolation=READ_COMMITTED)
    assert answer.last_stable_offset == 2
    assert [first for _, first in answer.aborted_transactions or ()] == [0]


def test_librdkafka_reads_from_the_follower(cluster: Cluster) -> None:
    """A consumer with `client.rack` gets all records. After the first answers they come from the follower alone, and
    when it is killed, from the leader."""
    _produce(cluster, *map(str, range(100)))
    _settle(cluster, 100)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "client.rack": "b",
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    assert _read(consumer, 100) == list(map(str, range(100)))
    _wait(lambda: waiting_reads(cluster, 2) == 1)
    _produce(cluster, *map(str, range(100, 200)))
    assert _read(consumer, 100) == list(map(str, range(100, 200)))
    cluster.kill(2)
    _produce(cluster, *map(str, range(200, 300)))
    assert _read(consumer, 100) == list(map(str, range(200, 300)))
    consumer.close()


def _read(consumer: Consumer, count: int) -> list[str]:
    values: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            values.append(value.decode())
    return values


def test_without_the_selector_the_leader_answers_consumers_of_all_racks() -> None:
    """`replica.selector.class` is not set by default: racks then only spread the replicas."""
    with Cluster(2, racks=["a", "b"]) as cluster:
        _create(cluster)
        _produce(cluster, "one")
        _settle(cluster, 1)
        answer = _fetch(cluster, 1, rack="b")
        assert answer.preferred_read_replica == -1
        assert _size(answer) > 0


def test_another_selector_is_refused() -> None:
    """A class of another name can't be loaded, and ignoring it would send consumers to replicas far away."""
    with pytest.raises(ConfigurationError, match=r"replica\.selector\.class must be"):
        Broker(config={"replica.selector.class": "com.example.Nearest"}).start()
