"""Streams record batches as stored in the log, blocking: of one partition, or of small ranges of many partitions.

The requests are built in `partition_stream.py` and `joint_stream.py`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Sequence

from klamm.client.cluster import Cluster
from klamm.client.connection import Connection
from klamm.client.errors import ConnectionFailed
from klamm.client.fetch_exchange import AbortedTransaction, FetchedBatches
from klamm.client.joint_stream import FetchRange, JointStream, JointUnderWay
from klamm.client.partition_stream import FetchUnderWay, PartitionStream, Passing
from klamm.protocol.types import Offset, TopicPartition

__all__ = ["AbortedTransaction", "FetchRange", "FetchedBatches", "fetch_together", "stream_batches"]


def stream_batches(
    cluster: Cluster, topic_partition: TopicPartition, start_offset: Offset, end_offset: Offset
) -> Generator[FetchedBatches, None, None]:
    """Yields all batches that hold the offsets in [start_offset, end_offset), response by response.

    The next request is in flight before a part is yielded, so that the broker works and the operating system receives
    while the caller processes the part; at most one response is pending. The memory of a part is reused: copy what you
    keep before you ask for the next part. Follows leader changes and reconnects after failures. Yields control batches
    and the batches of aborted transactions, too.
    Raises `OffsetOutOfRange` when the next offset is not in the log, `PartitionMissing` when the partition does not
    exist, `LogEndsEarly` when it ends before `end_offset` and does not grow for `default.api.timeout.ms`, `GaveUp` when
    it stays unreachable for that long, `RequestRefused` for other errors, and `KafkaError` for a malformed batch.
    """
    stream = PartitionStream(cluster, topic_partition, start_offset, end_offset)
    connection: Connection | None = None
    under_way: FetchUnderWay | None = None
    try:
        while not stream.is_finished:
            try:
                if connection is None or under_way is None:
                    connection, under_way = _send(cluster, stream)
                body = connection.receive_body(under_way.pending)
                answering, answered, under_way = connection, under_way, None
                fetched = stream.received(connection, answered, body)
            except (ConnectionFailed, Passing) as error:
                under_way = None
                time.sleep(stream.pause_after(error))
                cluster.refresh([topic_partition.topic])
                stream.check_exists()
                continue
            if fetched is None:
                time.sleep(stream.pause_at_end())
                continue
            if not stream.is_finished:
                # The caller does not wait for this request yet; a failure shows in the next round.
                with contextlib.suppress(ConnectionFailed):
                    connection, under_way = _send(cluster, stream)
            yield fetched
            answering.recycle(body)
            under_way = stream.resumed(connection, under_way)
    finally:
        stream.close(connection, under_way)


def _send(cluster: Cluster, stream: PartitionStream) -> tuple[Connection, FetchUnderWay]:
    cluster.ensure([stream.topic_partition.topic])
    connection = cluster.connection_to(stream.leader())
    return connection, stream.send(connection)


def fetch_together(cluster: Cluster, ranges: Sequence[FetchRange]) -> Generator[tuple[int, FetchedBatches], None, None]:
    """Yields the number and the batches of small ranges of many partitions, with many ranges in one response.

    Yields a range at most once, and only the batches of one response. Failures are not reported, retried or waited for:
    call `stream_batches` for the missing part of a range, which yields it or raises the error.
    The next request is in flight before the ranges of a response are yielded; at most one response is pending. The
    memory of a part is reused: copy what you keep before you ask for the next part.
    Raises `GaveUp` when no broker describes the topics, `RequestRefused` when they may not be described.
    """
    cluster.ensure({one.topic_partition.topic for one in ranges})
    joint = JointStream(cluster, ranges)
    asked = _ask_for_more(cluster, joint)
    try:
        while asked is not None:
            answering, under_way = asked
            try:
                body = answering.receive_body(under_way.pending)
                came = joint.received(answering, under_way, body)
            except ConnectionFailed:
                joint.failed(under_way.request)
                asked = _ask_for_more(cluster, joint)
                continue
            asked = _ask_for_more(cluster, joint)
            yield from came
            answering.recycle(body)
            if asked is not None:
                connection, following = asked
                asked = connection, following._replace(pending=connection.renewed(following.pending))
    finally:
        if asked is not None:
            connection, following = asked
            connection.abandon(following.pending)


def _ask_for_more(cluster: Cluster, joint: JointStream) -> tuple[Connection, JointUnderWay] | None:
    """Sends the next request to a reachable broker; returns None if there is no request left."""
    while (request := joint.next_request()) is not None:
        try:
            connection = cluster.connection_to(request.broker)
            return connection, joint.send(connection, request)
        except ConnectionFailed:
            joint.failed(request)
    return None
