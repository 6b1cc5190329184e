"""Record batches as they lie in the log: a partition's batches, blocking. What is asked is in `partition_stream.py`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator

from klamm.client.cluster import Cluster
from klamm.client.connection import Connection
from klamm.client.errors import ConnectionFailed
from klamm.client.partition_stream import AbortedTransaction, FetchedBatches, FetchUnderWay, PartitionStream, Passing
from klamm.protocol.types import Offset, TopicPartition

__all__ = ["AbortedTransaction", "FetchedBatches", "stream_batches"]


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
