"""Repeated markers: the network delivers markers of a coordinator again later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.brokers.clients.base import Participant
from tests.simulation.brokers.clients.producer import ProducerIdentity
from tests.simulation.brokers.transactions import Transaction

from klamm.client.errors import ConnectionFailed
from klamm.protocol.errors import KafkaError
from klamm.protocol.internal_topic_names import TRANSACTIONS_TOPIC
from klamm.protocol.schema.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from klamm.protocol.schema.write_txn_markers_response import WriteTxnMarkersResponse

if TYPE_CHECKING:
    from tests.simulation.brokers.world import BrokerWorld

__all__ = ["Markers"]


class Markers(Participant):
    """A client that repeats the markers of version 2 transactions. A repeated marker must have no effect."""

    is_reader = True

    def __init__(self, world: BrokerWorld, name: str) -> None:
        super().__init__(world, name)
        self._world = world
        self._known: list[WritableTxnMarker] = []

    def remember(self, transaction: Transaction, identity: ProducerIdentity, *, is_commit: bool) -> None:
        """Stores the markers of an ended transaction. They have the epoch that its producer has now."""
        topics: dict[str, WritableTxnMarkerTopic] = {}
        for where in {batch.where: None for batch in transaction.batches}:
            topic = topics.setdefault(where.topic, WritableTxnMarkerTopic(name=where.topic))
            topic.partition_indexes.append(where.partition)
        marker = WritableTxnMarker(
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            transaction_result=is_commit,
            topics=list(topics.values()),
            transaction_version=2,
        )
        self._known.append(marker)

    async def live(self) -> None:
        while not self.world.is_quiet:
            await self.world.think()
            context = self._world.machine.context
            if not self._known or context is None or self.random.random() < 0.5:
                continue
            marker = self.random.choice(self._known[-3:])
            try:
                marker.coordinator_epoch = context.partitions.get(TRANSACTIONS_TOPIC, 0).leader_epoch
                answer = await self.client.ask(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
            except (ConnectionFailed, KafkaError):
                continue
            codes = [
                partition.error_code for one in answer.markers for topic in one.topics for partition in topic.partitions
            ]
            self.note("repeats a marker of producer %d, epoch %d: %s", marker.producer_id, marker.producer_epoch, codes)
        self.is_finished = True
