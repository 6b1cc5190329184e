"""What the parts of a broker have to do with one another when it stops."""

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
    """A broker that stops lets requests end that change something; the metadata store may be closed by then."""
    with Broker() as broker:
        context = broker.run_in_broker(_context_of)
        count = context.config.offsets_topic_num_partitions
    assert context.groups.partition_for("a group that was not asked for before") < count


def test_a_request_that_outlives_the_metadata_gets_no_internal_topic() -> None:
    """Its client is to look for another coordinator, and nobody is told of a fault in the broker."""
    with Broker() as broker:
        context = broker.run_in_broker(_context_of)
    with pytest.raises(KafkaError) as refused:
        asyncio.run(_ensure(context))
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def _ensure(context: BrokerContext) -> None:
    await context.ensure_internal_topic("__consumer_offsets")
