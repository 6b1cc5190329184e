"""Record batches as they lie in the log, blocking: a partition's batches, or those of small ranges of many partitions.

What is asked is in `partition_stream.py` and `joint_stream.py`.
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
    """The batches that hold the offsets in [start_offset, end_offset), all of them, as they come.

    The request for what follows is under way before a part is handed out, so that the broker works, and the operating
    system receives, while the caller does something else; no more than one answer waits. A part's memory is used again:
    what is to be kept is copied before the next part is asked for. Leader changes and broken connections are followed;
    control batches and those of aborted transactions are in what is handed out.
    Raises `OffsetOutOfRange` when the next offset is not in the log, `PartitionMissing` when the partition is not
    there, `LogEndsEarly` when it ends before `end_offset` and does not grow for `default.api.timeout.ms`, `GaveUp` when
    it stays unreachable for that long, `RequestRefused` for other errors, and `KafkaError` for what is no batch.
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
                # Nobody waits for it yet: a failure shows when somebody does.
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
    """The batches of small ranges of many partitions, many ranges in an answer: each range's number, and its batches.

    A range comes at most once, and only as far as its batches came at once. Of all that goes wrong nothing is said, and
    nothing is tried again or waited for: what a range lacks at the end, `stream_batches` brings, or says why not.
    The request for what follows is under way before an answer is handed out, and no more than one answer waits. A
    part's memory is used again: what is to be kept is copied before the next part is asked for.
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
    """Sends the next request to a broker that can be reached; None if there is nothing more to ask for."""
    while (request := joint.next_request()) is not None:
        try:
            connection = cluster.connection_to(request.broker)
            return connection, joint.send(connection, request)
        except ConnectionFailed:
            joint.failed(request)
    return None
