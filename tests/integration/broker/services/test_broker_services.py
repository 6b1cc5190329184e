"""How the parts of a broker depend on each other when it stops."""

from __future__ import annotations

import asyncio

import pytest

from klamm.broker.handler_context import BrokerContext
from klamm.broker.server import BrokerServer
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.testing import Broker


async def _context_of(server: BrokerServer) -> BrokerContext:
    context = server.services.context
    assert context is not None
    return context


def test_a_request_that_outlives_the_metadata_finds_its_partition() -> None:
    """A request that ends after the metadata store is closed still finds its group's partition. A broker that stops
    lets changing requests finish."""
    with Broker() as broker:
        context = broker.run_in_broker(_context_of)
        count = context.config.offsets_topic_num_partitions
    assert context.groups.partition_for("a group that was not asked for before") < count


def test_a_request_that_outlives_the_metadata_gets_no_internal_topic() -> None:
    """A request that needs an internal topic after the metadata store is closed gets COORDINATOR_NOT_AVAILABLE, so that
    its client looks for another coordinator."""
    with Broker() as broker:
        context = broker.run_in_broker(_context_of)
    with pytest.raises(KafkaError) as refused:
        asyncio.run(_ensure(context))
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def _ensure(context: BrokerContext) -> None:
    await context.ensure_internal_topic("__consumer_offsets")
