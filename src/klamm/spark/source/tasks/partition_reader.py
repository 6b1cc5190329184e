"""Reads one range of one partition in an executor, as Arrow record batches for Spark.

Spark reuses its worker processes, so this module keeps the connections between tasks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.errors import GaveUp, LogEndsEarly, OffsetOutOfRange, PartitionMissing
from klamm.client.fetch import stream_batches
from klamm.client.list_offsets import EARLIEST, LATEST, ListedOffset, list_offsets
from klamm.client.retry import Retries
from klamm.protocol.errors import KafkaError
from klamm.protocol.types import ZERO_TOPIC_ID, Offset, TopicId, TopicPartition
from klamm.spark.source.errors import LossPolicy
from klamm.spark.source.offsets import OffsetRange
from klamm.spark.source.tasks.columns import RecordColumns
from klamm.spark.source.tasks.spark_batches import SparkBatches
from klamm.spark.source.tasks.tables import TableBuilder

__all__ = ["is_planned_topic", "learn_plan", "read_range", "shared_cluster"]

# Right after a topic was created again, not all brokers know its new id; so a single answer is not trusted.
_ANSWERS_BEFORE_RECREATED: Final = 4

_clusters: dict[tuple[int, ClientConfig], Cluster] = {}
_replaced: set[tuple[TopicId, TopicId]] = set()
"""The planned and the new id of each topic that was found to be recreated."""


def shared_cluster(config: ClientConfig) -> Cluster:
    """Returns this process's client for these settings. A forked child gets its own, since sockets can't be shared."""
    key = (os.getpid(), config)
    cluster = _clusters.get(key)
    if cluster is None:
        cluster = _clusters[key] = Cluster(config)
    return cluster


def read_range(
    config: ClientConfig, offsets: OffsetRange, loss: LossPolicy, *, include_headers: bool
) -> Iterator[pa.RecordBatch]:
    """Yields the visible records of a range, in the order of their offsets.

    Raises `DataLoss` for missing offsets if `failOnDataLoss` is true, and the errors of `stream_batches`.
    """
    spark = SparkBatches([offsets.topic_partition], include_headers=include_headers)
    try:
        for columns in _read_tables(config, offsets, loss, include_headers=include_headers):
            yield spark.batch(columns)
    except KafkaError as error:
        raise KafkaError(error.code, f"{offsets.topic_partition}: {error.message}") from error


def learn_plan(cluster: Cluster, ranges: Sequence[OffsetRange]) -> None:
    """Fetches the metadata of topics that are not cached, or whose cached metadata are older than the plan.

    Asks up to four brokers in turn, because one may not know a new topic or leader yet, or be cut off from the others.
    After that, `is_planned_topic` is final, and the client waits for the planned leader or a newer one.
    """
    planned = [offsets for offsets in ranges if offsets.topic_id is not None]
    cluster.ensure({offsets.topic_partition.topic for offsets in planned})
    for answers in range(_ANSWERS_BEFORE_RECREATED):
        older = [offsets for offsets in planned if _is_older_than_plan(cluster, offsets)]
        if answers:
            # One answer is enough for the next ranges of a topic that was found to be recreated.
            older = [offsets for offsets in older if _ids(cluster, offsets) not in _replaced]
        if not older:
            break
        if answers:
            time.sleep(cluster.config.retry_backoff_ms / 1000)
            cluster.turn()
        cluster.refresh({offsets.topic_partition.topic for offsets in older})
    for offsets in planned:
        if is_planned_topic(cluster, offsets):
            _expect_planned_leader(cluster, offsets)
        else:
            _replaced.add(_ids(cluster, offsets))


def _ids(cluster: Cluster, offsets: OffsetRange) -> tuple[TopicId, TopicId]:
    """Returns the planned id and the cached one."""
    topic = cluster.topic(offsets.topic_partition.topic)
    return offsets.topic_id or ZERO_TOPIC_ID, ZERO_TOPIC_ID if topic is None else topic.topic_id


def is_planned_topic(cluster: Cluster, offsets: OffsetRange) -> bool:
    """Returns whether the cached topic has the id that the range was planned for.

    Returns True for a missing topic: the read itself reports it.
    """
    topic = cluster.topic(offsets.topic_partition.topic)
    return offsets.topic_id is None or topic is None or topic.topic_id == offsets.topic_id


def _is_older_than_plan(cluster: Cluster, offsets: OffsetRange) -> bool:
    """Returns whether the cached metadata have another topic than the planned one, or an older leader."""
    return not is_planned_topic(cluster, offsets) or cluster.epoch_of(offsets.topic_partition) < offsets.leader_epoch


def _expect_planned_leader(cluster: Cluster, offsets: OffsetRange) -> None:
    """Lets the client read the range only from the leader that the planner knew, or from a newer one.

    An older leader that still answers may lack offsets of the range, and they would seem to be lost. Brokers refuse a
    newer leader epoch than theirs (UNKNOWN_LEADER_EPOCH), which the client retries.
    """
    if offsets.topic_id is not None and is_planned_topic(cluster, offsets):
        cluster.expect_epoch(offsets.topic_partition, offsets.leader_epoch)


def _read_tables(
    config: ClientConfig, offsets: OffsetRange, loss: LossPolicy, *, include_headers: bool
) -> Iterator[RecordColumns]:
    cluster = shared_cluster(config)
    tables = TableBuilder(offsets.start, offsets.end, include_headers=include_headers, check_crcs=config.check_crcs)
    retries = Retries(config, f"read {offsets.topic_partition}")
    position = offsets.start
    while position < offsets.end:
        learn_plan(cluster, [offsets])
        if not is_planned_topic(cluster, offsets):
            # The records of the new topic are not those of the plan: a stream reads them from their start.
            loss.report(
                f"The topic {offsets.topic_partition.topic} was deleted and created again after the read was planned: "
                f"it has another topic id. The records in range [{position}, {offsets.end}) of partition "
                f"{offsets.topic_partition} are gone"
            )
            break
        try:
            for fetched in stream_batches(cluster, offsets.topic_partition, position, offsets.end):
                if not is_planned_topic(cluster, offsets):
                    # An error has refreshed the metadata, and the answer may come from another topic.
                    break
                yield from tables.add(fetched)
                position = fetched.next_offset
                retries.progressed()
        except OffsetOutOfRange as error:
            if not is_planned_topic(cluster, offsets):
                continue
            position = _next_available(cluster, offsets, error.offset, loss)
            if position == error.offset:
                # The log has the refused offset: a newly elected leader may not know it yet.
                retries.pause(f"OFFSET_OUT_OF_RANGE at offset {position}, though the log has it")
            yield from tables.skip_to(position)
        except (LogEndsEarly, PartitionMissing) as error:
            if isinstance(error, LogEndsEarly):
                _require_end(cluster, offsets.topic_partition, position, error)
            _report(offsets, position, str(error), loss)
            break
    yield from tables.finish()


def _require_end(cluster: Cluster, topic_partition: TopicPartition, position: Offset, error: LogEndsEarly) -> None:
    """Raises `GaveUp` if the log has offsets after the position: that is a failure, but no loss."""
    end = _end_of_log(cluster, topic_partition)
    if end is not None and end.offset > position:
        raise GaveUp(
            f"{topic_partition} brought nothing from offset {position} on, as long as kafkaConsumer.pollTimeoutMs or "
            f"kafka.default.api.timeout.ms says, though the log has offsets up to {end.offset} (a transaction may be "
            "open there)"
        ) from error


def _end_of_log(cluster: Cluster, topic_partition: TopicPartition) -> ListedOffset | None:
    """Returns the end of the log, records of open transactions included, since these are not lost."""
    return list_offsets(cluster, {topic_partition: LATEST}, isolation_level="read_uncommitted").get(topic_partition)


def _next_available(cluster: Cluster, offsets: OffsetRange, position: Offset, loss: LossPolicy) -> Offset:
    """Returns the offset at which to continue after OFFSET_OUT_OF_RANGE.

    It is the same offset if the log does have it, else the log's start, or the end of the range if nothing is left.
    Reports the loss in the last two cases.
    """
    topic_partition = offsets.topic_partition
    start = list_offsets(cluster, {topic_partition: EARLIEST}).get(topic_partition)
    end = _end_of_log(cluster, topic_partition)
    if start is None or end is None:
        available = "the partition does not exist"
    elif start.offset <= position < end.offset:
        return position
    else:
        available = f"the log has [{start.offset}, {end.offset})"
    _report(offsets, position, available, loss)
    if start is None or end is None or position >= end.offset:
        return offsets.end
    return min(start.offset, offsets.end)


def _report(offsets: OffsetRange, position: Offset, reason: str, loss: LossPolicy) -> None:
    loss.report(
        f"Could not read records in range [{position}, {offsets.end}) for partition {offsets.topic_partition}: {reason}"
    )
