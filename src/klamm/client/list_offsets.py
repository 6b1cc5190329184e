"""The start and end offsets of partitions, and offsets by timestamp: the API ListOffsets.

Version notes: 1 returns one offset, 2 adds the isolation level, 4 the leader epoch, 7 the offset of the newest
timestamp.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.client.cluster_view import ClusterView, error_code
from klamm.client.errors import ConnectionFailed, RequestRefused
from klamm.client.operations import Ask, Pause, Refresh, Steps
from klamm.client.retry import Retries
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.types import BrokerId, LeaderEpoch, Millis, Offset, PartitionIndex, TopicPartition

if TYPE_CHECKING:
    from klamm.client.cluster import Cluster

__all__ = [
    "EARLIEST",
    "LATEST",
    "ListedOffset",
    "latest_offsets",
    "list_offsets",
    "listing_latest_offsets",
    "listing_offsets",
]

LATEST: Final = Millis(-1)
"""Requests the high watermark, or with `read_committed` the last stable offset."""
EARLIEST: Final = Millis(-2)
"""Requests the log start offset."""

_CONSUMER: Final = -1
_ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}


class ListedOffset(NamedTuple):
    """An offset, -1 if no record is at or after the requested timestamp."""

    offset: Offset
    timestamp_ms: Millis
    leader_epoch: LeaderEpoch


_Round = tuple[dict[TopicPartition, ListedOffset], dict[TopicPartition, ErrorCode]]


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, Millis], *, isolation_level: str | None = None
) -> dict[TopicPartition, ListedOffset]:
    """Returns the offset of each partition at its timestamp (`EARLIEST`, `LATEST`, or milliseconds since the epoch).

    `LATEST` is the last stable offset if the isolation level (by default the client's) is `read_committed`, else the
    high watermark. Leaves out partitions that do not exist.
    Takes one round trip, to all leaders at once, if the metadata are current. Otherwise refreshes them and retries the
    partitions that failed.
    Raises `GaveUp` when retriable errors persist, `RequestRefused` for other errors.
    """
    return cluster.run(listing_offsets(cluster, wanted, isolation_level=isolation_level))


def latest_offsets(cluster: Cluster, topics: Iterable[str]) -> dict[TopicPartition, Offset]:
    """Returns the end offset of every partition of the topics, new partitions included; leaves out missing topics.

    Takes one round trip if the metadata are current. It also requests the partition after each topic's last one: any
    result other than UNKNOWN_TOPIC_OR_PARTITION means that the topic has grown.
    """
    return cluster.run(listing_latest_offsets(cluster, topics))


def listing_offsets(
    cluster: ClusterView, wanted: Mapping[TopicPartition, Millis], *, isolation_level: str | None = None
) -> Steps[dict[TopicPartition, ListedOffset]]:
    """Yields the steps of `list_offsets`, for blocking and asyncio clients."""
    if missing := cluster.missing({topic_partition.topic for topic_partition in wanted}):
        yield Refresh(missing)
    retries = Retries(cluster.config, f"list the offsets of {_names(wanted)}")
    found: dict[TopicPartition, ListedOffset] = {}
    open_requests = {
        topic_partition: timestamp for topic_partition, timestamp in wanted.items() if cluster.has(topic_partition)
    }
    while open_requests:
        answers, failures = yield from _round(cluster, open_requests, isolation_level)
        found.update(answers)
        if not failures:
            break
        _raise_if_refused(failures)
        yield Refresh({topic_partition.topic for topic_partition in failures})
        open_requests = {
            topic_partition: wanted[topic_partition] for topic_partition in failures if cluster.has(topic_partition)
        }
        if open_requests:
            yield Pause(retries.next_pause_s(_reason(failures)))
    return found


def listing_latest_offsets(cluster: ClusterView, topics: Iterable[str]) -> Steps[dict[TopicPartition, Offset]]:
    """Yields the steps of `latest_offsets`, for blocking and asyncio clients."""
    names = list(topics)
    # A topic that was missing before may exist now; only a refresh shows it.
    if missing := cluster.missing(names):
        yield Refresh(missing)
    retries = Retries(cluster.config, f"list the latest offsets of {', '.join(names)}")
    while True:
        wanted, probes = _latest_of(cluster, names)
        found, failures = yield from _round(cluster, {**wanted, **probes})
        grown = {
            probe.topic
            for probe in probes
            if failures.pop(probe, ErrorCode.NONE) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        if not failures and not grown:
            return {topic_partition: listed.offset for topic_partition, listed in found.items()}
        _raise_if_refused(failures)
        yield Refresh(grown | {topic_partition.topic for topic_partition in failures})
        if failures:
            yield Pause(retries.next_pause_s(_reason(failures)))
        elif any(_next_partition(cluster, probe.topic) == probe for probe in probes if probe.topic in grown):
            reason = f"{', '.join(sorted(grown))} gained partitions that no broker describes yet"
            yield Pause(retries.next_pause_s(reason))


def _latest_of(
    cluster: ClusterView, topics: Iterable[str]
) -> tuple[dict[TopicPartition, Millis], dict[TopicPartition, Millis]]:
    """Returns all partitions of the topics, and for each topic the next partition after its last."""
    wanted: dict[TopicPartition, Millis] = {}
    probes: dict[TopicPartition, Millis] = {}
    for name in topics:
        probe = _next_partition(cluster, name)
        if probe is not None:
            wanted.update((TopicPartition(name, PartitionIndex(index)), LATEST) for index in range(probe.partition))
            probes[probe] = LATEST
    return wanted, probes


def _next_partition(cluster: ClusterView, topic: str) -> TopicPartition | None:
    metadata = cluster.topic(topic)
    return None if metadata is None else TopicPartition(topic, PartitionIndex(len(metadata.partitions)))


def _round(
    cluster: ClusterView, wanted: Mapping[TopicPartition, Millis], isolation_level: str | None = None
) -> Steps[_Round]:
    """Sends one request to each leader, all of them before it awaits the first response."""
    found: dict[TopicPartition, ListedOffset] = {}
    failures: dict[TopicPartition, ErrorCode] = {}
    by_leader: dict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for topic_partition in wanted:
        # A partition beyond the last has no leader; any broker responds that it does not exist.
        leader = cluster.leader_of(topic_partition) or cluster.leader_of(
            TopicPartition(topic_partition.topic, PartitionIndex(0))
        )
        if leader is None:
            failures[topic_partition] = ErrorCode.LEADER_NOT_AVAILABLE
        else:
            by_leader[leader.broker].append(topic_partition)
    questions = [
        (broker, _request(cluster, wanted, topic_partitions, isolation_level or cluster.config.isolation_level))
        for broker, topic_partitions in by_leader.items()
    ]
    answers = yield Ask(questions, ListOffsetsResponse)
    for answer, topic_partitions in zip(answers, by_leader.values(), strict=True):
        if isinstance(answer, ConnectionFailed):
            failures.update(dict.fromkeys(topic_partitions, ErrorCode.NETWORK_EXCEPTION))
        else:
            _sort(answer, found, failures)
    return found, failures


def _request(
    cluster: ClusterView,
    wanted: Mapping[TopicPartition, Millis],
    topic_partitions: list[TopicPartition],
    isolation_level: str,
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for topic_partition in topic_partitions:
        topic = topics.setdefault(topic_partition.topic, ListOffsetsTopic(name=topic_partition.topic))
        leader = cluster.leader_of(topic_partition)
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=topic_partition.partition,
                current_leader_epoch=-1 if leader is None else leader.epoch,
                timestamp=wanted[topic_partition],
            )
        )
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=_ISOLATION[isolation_level],
        topics=list(topics.values()),
        timeout_ms=cluster.config.request_timeout_ms,
    )


def _sort(
    answer: ListOffsetsResponse,
    found: dict[TopicPartition, ListedOffset],
    failures: dict[TopicPartition, ErrorCode],
) -> None:
    for topic in answer.topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, PartitionIndex(partition.partition_index))
            if partition.error_code == ErrorCode.NONE:
                found[topic_partition] = ListedOffset(
                    Offset(partition.offset), Millis(partition.timestamp), LeaderEpoch(partition.leader_epoch)
                )
            else:
                failures[topic_partition] = error_code(partition.error_code)


def _raise_if_refused(failures: Mapping[TopicPartition, ErrorCode]) -> None:
    for topic_partition, code in failures.items():
        if not code.retriable:
            raise RequestRefused(code, f"the broker does not list the offsets of {topic_partition}")


def _reason(failures: Mapping[TopicPartition, ErrorCode]) -> str:
    return ", ".join(f"{topic_partition}: {code.name.upper()}" for topic_partition, code in failures.items())


def _names(topic_partitions: Iterable[TopicPartition]) -> str:
    names = [str(topic_partition) for topic_partition in topic_partitions]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
