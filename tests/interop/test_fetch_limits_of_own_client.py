"""Tests that klamm's own client reads batches larger than its fetch limits, like other clients
(fetch_limit_scenarios.py)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import closing

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.fetch_limit_scenarios import LIMIT_BYTES, write_batches

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig, parse_bootstrap_servers
from klamm.client.fetch import stream_batches
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.records import decode_batch
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition


@pytest.fixture
def new_client(new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
    """Returns a function that starts a process with confluent-kafka, which writes the records."""
    return lambda: new_python_client("confluent_kafka")


@pytest.mark.parametrize("limit", ["max_partition_fetch_bytes", "fetch_max_bytes"])
def test_a_small_batch_before_one_beyond_the_limit_is_read(
    client: ClientProcess, bootstrap: str, topic: str, limit: str
) -> None:
    """klamm's client reads every record when small batches precede batches that are larger than the fetch limit."""
    values = write_batches(client, topic)
    config = ClientConfig(bootstrap_servers=parse_bootstrap_servers(bootstrap), default_api_timeout_ms=30_000)
    config = dataclasses.replace(config, **{limit: LIMIT_BYTES})  # type: ignore[arg-type]
    arrived: list[str] = []
    with closing(Cluster(config)) as cluster:
        place = TopicPartition(topic, PartitionIndex(0))
        for fetched in stream_batches(cluster, place, Offset(0), Offset(len(values))):
            for at, header in iterate_batches(fetched.records):
                if header.base_offset >= len(arrived):
                    arrived += [bytes(record.value or b"").decode() for record in decode_batch(fetched.records, at)]
    assert arrived == values
