"""Periodic work of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.support.wire import Wire

from klamm.broker.server import BrokerServer
from klamm.protocol.errors import ErrorCode
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.records import encode_batch
from klamm.protocol.types import Millis, TopicId
from klamm.testing import Broker


def test_records_are_written_back_when_flush_ms_is_over(
    served: Broker, wire: Wire, new_topic: Callable[..., tuple[str, TopicId]]
) -> None:
    """Records are flushed when the topic's flush.ms is over, without a segment roll, a stop or another record."""
    name, _ = new_topic(1, flush_ms="1")
    batch = memoryview(encode_batch([(Millis(1_700_000_000_000), None, b"value", ())]))

    answer = wire.produce(9, ProduceRequest(None, -1, 60_000, [ProduceTopic(name, None, [(0, batch)])]))

    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    async def wait(server: BrokerServer) -> None:
        assert server.context is not None
        log = server.context.partitions.get(name, 0).log
        async with asyncio.timeout(60):
            while log.recovery_point < 1:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.01)

    served.run_in_broker(wait)
