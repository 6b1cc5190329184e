"""Records: Produce, Fetch, offsets and epochs, at the right broker, at a wrong one, and without a broker."""

from __future__ import annotations

from functools import partial
from typing import Final

from tests.differential.records import batch, fetch_fields, produce, produce_fields
from tests.differential.script import Run, script

from klamm.protocol.api import ApiKey

_TIMESTAMPS: Final = {"latest": -1, "earliest": -2, "max timestamp": -3, "earliest local": -4, "last tiered": -5}
_NOT_LEADER_BROKER = 2
_CONSUMER: Final = -1


def _produce(run: Run, label: str, topic: str, broker: int = 1, *, index: int = 0, acks: int = -1) -> None:
    run.ask(label, ApiKey.PRODUCE, broker=broker, **produce_fields(topic, batch(), index=index, acks=acks))


def _list_offsets(run: Run, label: str, topic: str, timestamp: int, *, broker: int = 1, epoch: int = -1) -> None:
    wanted = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": epoch}
    topics = [{"name": topic, "partitions": [wanted]}]
    run.ask(label, ApiKey.LIST_OFFSETS, broker=broker, replica_id=_CONSUMER, topics=topics, timeout_ms=30_000)


def _epoch(
    run: Run, label: str, topic: str, epoch: int, *, current: int = -1, broker: int = 1, replica: int = -1
) -> None:
    wanted = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": current}
    topics = [{"topic": topic, "partitions": [wanted]}]
    run.ask(label, ApiKey.OFFSET_FOR_LEADER_EPOCH, broker=broker, replica_id=replica, topics=topics)


def _fetch(run: Run, label: str, topic: str, offset: int = 0, broker: int = 1, **fields: object) -> None:
    run.ask(label, ApiKey.FETCH, broker=broker, **fetch_fields(topic, offset, **fields))


def _delete(run: Run, label: str, topic: str, offset: int, *, broker: int = 1, index: int = 0) -> None:
    partition = {"partition_index": index, "offset": offset}
    topics = [{"name": topic, "partitions": [partition]}]
    run.ask(label, ApiKey.DELETE_RECORDS, broker=broker, topics=topics, timeout_ms=30_000)


@script
def wrong_brokers(run: Run) -> None:
    """A follower and a broker without a replica send the client to the leader; wrong epochs are refused."""
    topic = run.topic(replicas=(1, 2), partitions=1)
    produce(run, topic, b"one")
    run.wait_for(lambda: _high_watermark(run, topic, 1) == 1)
    for broker, who in ((2, "a follower"), (3, "a stranger")):
        _produce(run, f"Produce to {who}", topic, broker)
        _produce(run, f"Produce with acks=1 to {who}", topic, broker, acks=1)
        fields = produce_fields(topic, batch())
        run.ask(f"Produce of an older version to {who}", ApiKey.PRODUCE, broker=broker, version=9, **fields)
        _list_offsets(run, f"ListOffsets of {who}", topic, -1, broker=broker)
        _epoch(run, f"OffsetForLeaderEpoch of {who}", topic, 0, broker=broker)
        _delete(run, f"DeleteRecords of {who}", topic, 1, broker=broker)
        producers = [{"name": topic, "partition_indexes": [0]}]
        run.ask(f"DescribeProducers of {who}", ApiKey.DESCRIBE_PRODUCERS, broker=broker, topics=producers)
    _fetch(run, "Fetch from a stranger", topic, broker=3)
    _fetch(run, "Fetch from a follower, another epoch", topic, broker=2, current_leader_epoch=5)
    _produce(run, "Produce to an unknown partition", topic, index=7)
    _produce(run, "Produce to a negative partition", topic, index=-1)
    _produce(run, "Produce to an unknown topic", f"{run.name}-none")
    _produce(run, "Produce with acks=2", topic, acks=2)
    _fetch(run, "Fetch of an unknown partition", topic, partition=7)
    _fetch(run, "Fetch with a newer epoch", topic, current_leader_epoch=5)
    _fetch(run, "Fetch with the epoch", topic, current_leader_epoch=0)
    _fetch(run, "Fetch behind the end", topic, offset=9)
    for name, timestamp in _TIMESTAMPS.items():
        _list_offsets(run, f"ListOffsets {name}", topic, timestamp)
    _list_offsets(run, "ListOffsets with a newer epoch", topic, -1, epoch=5)
    _list_offsets(run, "ListOffsets with the epoch", topic, -1, epoch=0)
    for epoch in (-1, 0, 1):
        _epoch(run, f"OffsetForLeaderEpoch {epoch}", topic, epoch)
    _epoch(run, "OffsetForLeaderEpoch with a newer epoch", topic, 0, current=5)


def _high_watermark(run: Run, topic: str, broker: int, offset: int = 0) -> int:
    answer = run.call(ApiKey.FETCH, broker=broker, **fetch_fields(topic, offset))
    watermark: int = answer.responses[0].partitions[0].high_watermark
    return watermark


@script
def fetch_as_a_stranger(run: Run) -> None:
    """A Fetch with the id of a broker that has no replica, or that does not exist, gets no records."""
    topic = run.topic(replicas=(1, 2))
    produce(run, topic, b"one")
    run.wait_for(lambda: _high_watermark(run, topic, 1) == 1)
    for replica in (3, 9):
        fields = fetch_fields(topic)
        run.ask(f"Fetch as broker {replica}", ApiKey.FETCH, version=12, replica_id=replica, **fields)
        _epoch(run, f"OffsetForLeaderEpoch as broker {replica}", topic, 0, replica=replica)
    run.ask("Metadata afterwards", ApiKey.METADATA, topics=[{"name": topic}])


@script
def fetch_from_a_follower(run: Run) -> None:
    """A follower serves consumers, and the leader names the follower in the consumer's rack (KIP-392)."""
    topic = run.topic(replicas=(1, 2))
    produce(run, topic, b"one")
    for broker in (1, 2):
        run.wait_for(partial(_is_high_watermark, run, topic, broker, 1))
    for rack, whose in (("a", "the leader"), ("b", "the follower"), ("c", "no replica"), ("x", "no broker")):
        run.ask(f"Fetch of the leader, rack of {whose}", ApiKey.FETCH, rack_id=rack, **fetch_fields(topic))
    for rack, offset, what in (
        ("b", 1, "at the end"),
        ("b", 9, "behind the end"),
        ("a", 9, "behind the end, its rack"),
    ):
        run.ask(f"Fetch of the leader {what}", ApiKey.FETCH, rack_id=rack, **fetch_fields(topic, offset))
    waiting = fetch_fields(topic, 1) | {"max_wait_ms": 3_600_000, "min_bytes": 1_000_000}
    run.ask("Fetch of the leader that could wait", ApiKey.FETCH, rack_id="b", **waiting)
    committed = fetch_fields(topic) | {"isolation_level": 1}
    run.ask("Fetch of the leader, read_committed", ApiKey.FETCH, rack_id="b", **committed)
    run.ask(
        "Fetch of the leader, wrong epoch", ApiKey.FETCH, rack_id="b", **fetch_fields(topic, current_leader_epoch=5)
    )
    run.ask("Fetch of the follower", ApiKey.FETCH, broker=2, rack_id="b", **fetch_fields(topic))
    run.ask("Fetch of the follower without a rack", ApiKey.FETCH, broker=2, **fetch_fields(topic))
    run.ask("Fetch of the follower, read_committed", ApiKey.FETCH, broker=2, **committed)
    run.ask("Fetch of the follower, version without racks", ApiKey.FETCH, broker=2, version=10, **fetch_fields(topic))
    _fetch(run, "Fetch of the follower at the end", topic, 1, broker=2)
    _fetch(run, "Fetch of the follower behind the end", topic, 9, broker=2)
    _fetch(run, "Fetch of the follower with the epoch", topic, broker=2, current_leader_epoch=0)
    _fetch(run, "Fetch of the follower behind a divergence", topic, 1, broker=2, last_fetched_epoch=5)
    _fetch(run, "Fetch of the follower, unknown partition", topic, broker=2, partition=7)
    _delete(run, "DeleteRecords", topic, 1)
    run.wait_for(lambda: _log_start_offset(run, topic, 2) == 1)
    run.ask("Fetch of deleted records, rack of the follower", ApiKey.FETCH, rack_id="b", **fetch_fields(topic))
    _fetch(run, "Fetch of deleted records from the follower", topic, broker=2)


def _is_high_watermark(run: Run, topic: str, broker: int, offset: int) -> bool:
    return _high_watermark(run, topic, broker) == offset


def _log_start_offset(run: Run, topic: str, broker: int) -> int:
    answer = run.call(ApiKey.FETCH, broker=broker, **fetch_fields(topic, 1))
    start: int = answer.responses[0].partitions[0].log_start_offset
    return start


@script
def failover(run: Run) -> None:
    """The leader is killed: another one leads in the next epoch, and records and epochs stay. It comes back as a
    follower."""
    topic = run.topic(replicas=(3, 1, 2))
    produce(run, topic, b"one")
    run.kill(3)
    run.wait_for_partition(topic, 0, lambda found: found.leader_id == 1)
    run.ask("Metadata without the leader", ApiKey.METADATA, topics=[{"name": topic}])
    run.ask("DescribeTopicPartitions without the leader", ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": topic}])
    run.ask("DescribeCluster", ApiKey.DESCRIBE_CLUSTER)
    run.ask("DescribeCluster with fenced brokers", ApiKey.DESCRIBE_CLUSTER, include_fenced_brokers=True)
    _produce(run, "Produce with acks=all", topic)
    _produce(run, "Produce with acks=1", topic, acks=1)
    run.send(ApiKey.PRODUCE, **produce_fields(topic, batch(), acks=0))
    run.wait_for(lambda: _high_watermark(run, topic, 1) == 4)
    _fetch(run, "Fetch with the epoch before", topic, current_leader_epoch=0)
    _fetch(run, "Fetch with the next epoch", topic, current_leader_epoch=2)
    _fetch(run, "Fetch", topic, current_leader_epoch=1)
    _fetch(run, "Fetch behind a divergence", topic, 4, last_fetched_epoch=0, current_leader_epoch=1)
    for name, timestamp in _TIMESTAMPS.items():
        _list_offsets(run, f"ListOffsets {name}", topic, timestamp)
    _list_offsets(run, "ListOffsets with the epoch before", topic, -1, epoch=0)
    _list_offsets(run, "ListOffsets with the next epoch", topic, -1, epoch=2)
    for epoch in (0, 1, 2):
        _epoch(run, f"OffsetForLeaderEpoch {epoch}", topic, epoch)
    _epoch(run, "OffsetForLeaderEpoch with the epoch before", topic, 0, current=0)
    _epoch(run, "OffsetForLeaderEpoch with the next epoch", topic, 0, current=2)
    run.start(3)
    run.wait_for_partition(topic, 0, lambda found: sorted(found.isr_nodes) == [1, 2, 3])
    answer = run.call(ApiKey.METADATA, topics=[{"name": topic}])
    answer.topics[0].partitions[0].isr_nodes.sort()
    run.record("Metadata after the return", ApiKey.METADATA, answer)
    _produce(run, "Produce to the leader before", topic, 3)
    _produce(run, "Produce after the return", topic)
    for broker in (2, 3):
        logs = [{"topic": topic, "partitions": [0]}]
        run.ask_until(
            f"DescribeLogDirs of broker {broker}",
            partial(_is_copied, run, topic),
            ApiKey.DESCRIBE_LOG_DIRS,
            broker=broker,
            topics=logs,
        )


def _is_copied(run: Run, topic: str, answer: object) -> bool:
    """Returns whether the leader's log has the size in this answer."""
    leader = run.call(ApiKey.DESCRIBE_LOG_DIRS, topics=[{"topic": topic, "partitions": [0]}])
    return _size(answer) == _size(leader)


def _size(answer: object) -> int:
    size: int = answer.results[0].topics[0].partitions[0].partition_size  # type: ignore[attr-defined]
    return size


@script
def too_few_in_sync_replicas(run: Run) -> None:
    """Without enough in-sync replicas, acks=all is refused and other writes go on, but nothing is committed."""
    topic = run.topic(replicas=(1, 2, 3), min_insync_replicas="3")
    more = run.topic("more", replicas=(1, 2), min_insync_replicas="3")
    _produce(run, "Produce with all replicas", topic)
    _produce(run, "Produce with fewer replicas than the minimum", more)
    run.kill(3)
    run.wait_for_partition(topic, 0, lambda found: sorted(found.isr_nodes) == [1, 2])
    _produce(run, "Produce with acks=all", topic)
    _produce(run, "Produce with acks=1", topic, acks=1)
    run.send(ApiKey.PRODUCE, **produce_fields(topic, batch(), acks=0))
    run.ask("DescribeTopicPartitions", ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": topic}])
    _fetch(run, "Fetch", topic)
    _list_offsets(run, "ListOffsets latest", topic, -1)
    _delete(run, "DeleteRecords to the high watermark", topic, -1)
    _delete(run, "DeleteRecords behind the high watermark", topic, 3)
    run.start(3)
    run.wait_for_partition(topic, 0, lambda found: sorted(found.isr_nodes) == [1, 2, 3])
    run.wait_for(lambda: _high_watermark(run, topic, 1, 1) == 3)
    _produce(run, "Produce after the return", topic)
    _fetch(run, "Fetch after the return", topic, 1)


@script
def deleted_records(run: Run) -> None:
    """DeleteRecords waits for live followers, and not for a broker that is away, which follows when it is back."""
    topic = run.topic(replicas=(1, 2, 3))
    for value in (b"one", b"two", b"three"):
        produce(run, topic, value)
    run.wait_for(lambda: _high_watermark(run, topic, 1) == 3)
    _delete(run, "with all brokers", topic, 1)
    _delete(run, "behind the end", topic, 9)
    _delete(run, "before the start", topic, 0)
    _delete(run, "a negative offset", topic, -2)
    _delete(run, "an unknown partition", topic, 1, index=7)
    run.kill(3)
    run.wait_for_partition(topic, 0, lambda found: sorted(found.isr_nodes) == [1, 2])
    _delete(run, "with a follower away", topic, 2)
    _list_offsets(run, "ListOffsets earliest", topic, -2)
    _fetch(run, "Fetch before the start", topic)
    _fetch(run, "Fetch from the start", topic, 2)
    run.start(3)
    run.wait_for_partition(topic, 0, lambda found: sorted(found.isr_nodes) == [1, 2, 3])
    _delete(run, "after the return", topic, -1)
