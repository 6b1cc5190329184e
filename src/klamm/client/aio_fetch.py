"""Streams record batches as stored in the log: the asyncio counterpart of `fetch.py`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from klamm.client.aio import AsyncConnection
from klamm.client.aio_cluster import AsyncCluster
from klamm.client.errors import ConnectionFailed
from klamm.client.fetch_exchange import FetchedBatches
from klamm.client.partition_stream import FetchUnderWay, PartitionStream, Passing
from klamm.protocol.types import Offset, TopicPartition

__all__ = ["stream_batches"]


async def stream_batches(
    cluster: AsyncCluster, topic_partition: TopicPartition, start_offset: Offset, end_offset: Offset
) -> AsyncGenerator[FetchedBatches, None]:
    """Yields the batches that hold the offsets in [start_offset, end_offset), as `klamm.client.fetch.stream_batches`.

    A caller that stops before the end must close the generator (`contextlib.aclosing`).
    """
    stream = PartitionStream(cluster, topic_partition, start_offset, end_offset)
    connection: AsyncConnection | None = None
    under_way: FetchUnderWay | None = None
    try:
        while not stream.is_finished:
            try:
                if connection is None or under_way is None:
                    connection, under_way = await _send(cluster, stream)
                body = await connection.receive_body(under_way.pending)
                answering, answered, under_way = connection, under_way, None
                fetched = stream.received(connection, answered, body)
            except (ConnectionFailed, Passing) as error:
                under_way = None
                await asyncio.sleep(stream.pause_after(error))
                await cluster.refresh([topic_partition.topic])
                stream.check_exists()
                continue
            if fetched is None:
                await asyncio.sleep(stream.pause_at_end())
                continue
            if not stream.is_finished:
                # The caller does not wait for this request yet; a failure shows in the next round.
                with contextlib.suppress(ConnectionFailed):
                    connection, under_way = await _send(cluster, stream)
            yield fetched
            answering.recycle(body)
            under_way = stream.resumed(connection, under_way)
    finally:
        stream.close(connection, under_way)


async def _send(cluster: AsyncCluster, stream: PartitionStream) -> tuple[AsyncConnection, FetchUnderWay]:
    await cluster.ensure([stream.topic_partition.topic])
    connection = await cluster.connection_to(stream.leader())
    return connection, stream.send(connection)
