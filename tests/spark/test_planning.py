"""Tests that planning takes a few requests, whatever the number of partitions. Needs no Spark session."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.spark_topics import Topic

from klamm.client.cluster import Cluster
from klamm.client.connection import Connection
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.source.group.group_commits import GroupCommits
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.planning.log_offsets import SubscribedOffsets, planner_for
from klamm.spark.source.planning.progress import StreamProgress

PARTITIONS = 1_000


@pytest.fixture(scope="module")
def wide() -> dict[str, Topic]:
    """Returns a mapping for the topic with many partitions, which the first test creates."""
    return {}


@pytest.fixture
def wide_topic(wide: dict[str, Topic], new_topic: Callable[..., Topic]) -> Topic:
    if not wide:
        wide["topic"] = new_topic(partitions=PARTITIONS)
        wide["topic"].produce_records([{"value": b"v", "partition": index} for index in range(PARTITIONS)])
    return wide["topic"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the class names of the requests that were sent."""
    requests: list[str] = []
    send = Connection.send

    def counted(self: Connection, request: Any, **more: Any) -> Any:
        requests.append(type(request).__name__)
        return send(self, request, **more)

    monkeypatch.setattr(Connection, "send", counted)
    return requests


@pytest.mark.parametrize("more", [{}, {"startingTimestamp": "1"}, {"subscribePattern": "<topic>$"}])
def test_a_batch_read_of_many_partitions_is_planned_in_a_few_requests(
    wide_topic: Topic, asked: list[str], brokers: int, more: dict[str, str]
) -> None:
    """A batch read of a thousand partitions needs at most six requests: one names all partitions of a broker. Of each
    further broker it needs three more."""
    named = {key: text.replace("<topic>", wide_topic.name) for key, text in more.items()}
    options = SourceOptions.for_batch(wide_topic.options(**named))
    cluster = Cluster(options.client)
    planner = planner_for(SubscribedOffsets(cluster, options.subscription), options)

    ranges = planner.batch_ranges(options.starting_offsets, options.ending_offsets)
    cluster.close()

    assert [one.end - one.start for one in ranges] == [1] * PARTITIONS
    # For the log ends, the starting offsets, and the ending offsets.
    assert asked.count("ListOffsetsRequest") == 3 * brokers
    assert len(asked) <= 3 + 3 * brokers


def test_a_micro_batch_of_many_partitions_takes_two_requests(wide_topic: Topic, asked: list[str], brokers: int) -> None:
    """A micro-batch sends one request for the log ends to each broker, and one to check that the topic was not created
    again.

    Without new records, the source sends only the requests for the log ends.
    """
    options = SourceOptions.for_stream(wide_topic.options(startingOffsets="earliest"))
    cluster = Cluster(options.client)
    planner = planner_for(SubscribedOffsets(cluster, options.subscription), options)
    progress = StreamProgress(options.starting_offsets, planner, GroupCommits(None))
    start = progress.start_fresh()
    asked.clear()

    ranges = progress.ranges(start, progress.next_end(start, None))
    assert len(ranges) == PARTITIONS
    assert sorted(asked) == ["ListOffsetsRequest"] * brokers + ["MetadataRequest"]

    asked.clear()
    progress.next_end(progress.latest, None)
    cluster.close()
    assert asked == ["ListOffsetsRequest"] * brokers


def test_a_repeated_micro_batch_is_bound_to_its_topic_and_leader(topic: Topic, asked: list[str]) -> None:
    """After a restart, Spark has a micro-batch planned again before anything else. Its ranges name the topic's id and
    the leader's epoch like any other, so that tasks read neither another topic nor an older leader. This takes one
    request."""
    topic.produce(range(10), 0)
    options = SourceOptions.for_stream(topic.options())
    cluster = Cluster(options.client)
    log = SubscribedOffsets(cluster, options.subscription)
    progress = StreamProgress("latest", planner_for(log, options), GroupCommits(None))
    start, end = ({TopicPartition(topic.name, PartitionIndex(0)): Offset(offset)} for offset in (4, 9))

    (planned,) = progress.ranges(start, end)
    assert asked == ["MetadataRequest"]
    described = cluster.topic(topic.name)
    assert described is not None
    assert (planned.topic_id, planned.leader_epoch) == (described.topic_id, described.partitions[0].epoch)

    topic.delete()
    topic.make_again(3)
    while not (anew := log.made_anew()):  # Metadata may lag behind the creation.
        pass
    assert anew == [topic.name]
    cluster.close()


def test_a_topic_that_was_made_anew_is_told_of_once(topic: Topic) -> None:
    """A topic that was deleted and created again is reported once, also when it was missing for a while."""
    options = SourceOptions.for_stream(topic.options())
    cluster = Cluster(options.client)
    log = SubscribedOffsets(cluster, options.subscription)
    log.latest()
    first = log.topic_id(topic.name)

    assert first is not None
    assert log.made_anew() == []
    topic.delete()
    assert log.made_anew() == []
    topic.make_again(3)
    while not (anew := log.made_anew()):  # Metadata may lag behind the creation.
        pass
    assert anew == [topic.name]
    assert log.topic_id(topic.name) not in (None, first)
    assert log.made_anew() == []
    cluster.close()


def test_an_assigned_partition_that_comes_later_is_noticed(topic: Topic) -> None:
    """An assigned partition that is created later is found. With `failOnDataLoss=false` a query waits for it."""
    options = SourceOptions.for_stream(topic.options(assign=json.dumps({topic.name: [0, 3]})))
    cluster = Cluster(options.client)
    log = SubscribedOffsets(cluster, options.subscription)
    assert [str(found) for found in log.latest()] == [f"{topic.name}-0"]
    assert [str(missing) for missing in log.missing()] == [f"{topic.name}-3"]

    topic.grow(4)
    deadline = time.monotonic() + 60
    while len(log.latest()) < 2:
        assert time.monotonic() < deadline
    assert not log.missing()
    cluster.close()
