"""A query's commit to a group whose broker hangs."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.errors import GaveUp
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.source.group.query_group import QueryGroup
from klamm.spark.source.options.options import SourceOptions


def test_a_commit_waits_no_longer_than_it_may_for_a_broker_that_hangs() -> None:
    """A commit to a hanging broker gives up after its own short limit. Waiting for `kafka.request.timeout.ms`, usually
    half a minute, would delay the query."""
    is_over = threading.Event()

    def hang(request: FindCoordinatorRequest) -> None:
        is_over.wait(100)

    with ScriptedBroker() as broker:
        broker.on(FindCoordinatorRequest, hang)
        servers = ":".join(map(str, broker.address))
        options = {"kafka.bootstrap.servers": servers, "subscribe": "t", "kafka.group.id": "g"}
        group = QueryGroup(SourceOptions.for_stream(options | {"kafka.request.timeout.ms": "90000"}))
        deadline = time.monotonic() + 60
        with closing(group._connect(0.2)) as offsets, pytest.raises(GaveUp, match="did not answer"):
            offsets.commit({TopicPartition("t", PartitionIndex(0)): Offset(5)})
        assert time.monotonic() < deadline
        is_over.set()
