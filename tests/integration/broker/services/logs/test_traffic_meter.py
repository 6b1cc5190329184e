"""The broker measures how fast partitions grow."""

from __future__ import annotations

import asyncio
import time
import uuid

from confluent_kafka.admin import AdminClient, NewTopic

from klamm.broker.server import BrokerServer
from klamm.broker.services.logs.traffic_meter import TrafficMeter
from klamm.core.group.partition_traffic import PartitionTraffic, Traffic
from klamm.protocol.records import encode_batch
from klamm.protocol.types import Millis, Offset
from klamm.testing import Broker


def test_a_partition_that_grows_has_a_rate_and_its_neighbour_has_none() -> None:
    """The traffic snapshot contains every partition led here; only the partition whose high watermark has grown has an
    arrival rate."""
    topic = f"topic-{uuid.uuid4().hex[:8]}"

    async def measure(server: BrokerServer) -> Traffic:
        assert server.context is not None
        partitions = server.context.partitions
        reports: asyncio.Queue[Traffic] = asyncio.Queue()
        meter = TrafficMeter(partitions, 0.01, reports.put_nowait)
        meter.start()
        first = await reports.get()
        assert first[topic] == [PartitionTraffic(Offset(0), Offset(0), 0.0)] * 2
        records = encode_batch([(Millis(int(time.time() * 1000)), None, b"value", ())] * 100)
        partitions.get(topic, 1).append(records, Millis(int(time.time() * 1000)))
        second = await reports.get()
        meter.stop()
        return second

    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(topic, 2)])[topic].result()
        traffic = broker.run_in_broker(measure)
    idle, busy = traffic[topic]
    assert idle == PartitionTraffic(Offset(0), Offset(0), 0.0)
    assert busy is not None
    assert busy.high_watermark == 100
    assert busy.arrival_rate > 0
