"""Tests the bounds of a topic's sample with a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.topic.skew_rule import judge
from klamm.insight.topic.skew_sample import SampleLimits, sample_topic
from klamm.testing import Broker


@pytest.fixture(scope="module")
def access() -> Iterator[ClusterAccess]:
    """Access to a broker."""
    with Broker() as running:
        yield ClusterAccess(running.bootstrap_servers)


@pytest.fixture
def topic(access: ClusterAccess) -> str:
    """A topic with 4,000 records in partition 0 and 1,000 in partition 1, each of 100 bytes with its key."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": access.bootstrap_servers})
    admin.create_topics([NewTopic(name, 2)])[name].result()
    producer = Producer({"bootstrap.servers": access.bootstrap_servers})
    for number in range(5_000):
        producer.produce(name, b"v" * 98, b"%02d" % (number % 50), partition=int(number % 5 == 0))
    producer.flush()
    return name


def test_a_sample_ends_after_its_bytes(access: ClusterAccess, topic: str) -> None:
    """A sample that has read its bytes ends, says so, and scales its figures up to the whole range."""
    sample = sample_topic(access, topic, [0, 1], SampleLimits(size_bytes=150_000))
    assert sample.cut_by == "bytes"
    assert 1_500 <= sample.records < 1_600
    assert sample.record_bytes == 100 * sample.records
    if all(each.records for each in sample.partitions):
        shares = judge(sample).shares
        assert (round(shares[0], 2), round(shares[1], 2)) == (0.8, 0.2)


def test_a_whole_sample_has_all_records(access: ClusterAccess, topic: str) -> None:
    """Within its bounds, a sample has every record, its keys, and the range of its timestamps."""
    sample = sample_topic(access, topic, [0, 1], SampleLimits())
    assert ([each.records for each in sample.partitions], sample.cut_by, sample.is_whole) == (
        [4_000, 1_000],
        None,
        True,
    )
    assert (sample.keys, sample.are_keys_exact) == (50, True)
    assert sample.first_ms is not None
    assert sample.last_ms is not None
    assert sample.first_ms <= sample.last_ms
    assert all(each.size_bytes is not None and each.size_bytes > 100 * each.records for each in sample.partitions)


def test_partitions_that_are_not_there_are_unavailable(access: ClusterAccess, topic: str) -> None:
    """A partition whose offsets can't be read is named, and the others are sampled."""
    sample = sample_topic(access, topic, [0, 1, 7], SampleLimits())
    assert (list(sample.unavailable), sample.records) == ([7], 5_000)
