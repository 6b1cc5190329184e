"""Markers of transactions in very many partitions."""

from __future__ import annotations

import asyncio

import pytest

from klamm.broker import transaction_markers
from klamm.broker.server import BrokerServer
from klamm.core.txn.markers import TransactionMarker
from klamm.metadata.service import NewTopic
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import PartitionIndex, ProducerEpoch, ProducerId, TopicPartition
from klamm.testing import Broker

MANY = 20


def test_others_have_their_turn_while_many_markers_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that touched very many partitions keeps nobody else waiting while it ends: when a step's time is
    up, whoever else has something to do comes first."""
    monkeypatch.setattr(transaction_markers, "_STEP_S", 0)

    async def end(server: BrokerServer) -> tuple[set[ErrorCode], int]:
        context = server.context
        assert context is not None
        await context.metadata.create_topics([NewTopic("many", partitions=MANY)])
        await context.partitions.settled()
        marker = TransactionMarker(
            ProducerId(7),
            ProducerEpoch(0),
            0,
            True,
            tuple(TopicPartition("many", PartitionIndex(index)) for index in range(MANY)),
            2,
        )
        writing = asyncio.ensure_future(context.transaction_markers.write_markers(marker))
        turns = 0
        while not writing.done():
            turns += 1
            await asyncio.sleep(0)
        return set(writing.result().values()), turns

    with Broker() as broker:
        codes, turns = broker.run_in_broker(end)
        assert codes == {ErrorCode.none}
        assert turns >= MANY
