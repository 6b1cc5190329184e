"""Has the markers of ending transactions written by the leaders of their partitions: this broker and others.

The markers for other brokers travel as WriteTxnMarkers, grouped by broker. The transaction shard repeats what failed
(`core/txn/completion.py`): a request that was lost, or a partition that has another leader now. A marker whose
partitions all have no reachable leader waits here until the metadata change, so that the transaction completes as soon
as a leader is back. Other transactions go on meanwhile.

Source: Apache Kafka's `TransactionMarkerChannelManager` and `TransactionMarkerRequestCompletionHandler` (4.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.broker.services.coordinators.waiting_markers import WaitingMarkers
from klamm.broker.services.peers.peer_batches import PeerBatches
from klamm.broker.services.peers.peers import Peers, PeerUnavailable
from klamm.broker.time_slices import Work, finish_in_steps
from klamm.core.txn.markers import MarkerWriter, TransactionMarker
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from klamm.protocol.schema.write_txn_markers_response import WriteTxnMarkersResponse
from klamm.protocol.types import BrokerId, PartitionIndex, ProducerId, TopicPartition

if TYPE_CHECKING:
    from klamm.metadata.image import MetadataImage
    from klamm.runtime.ports import Spawn

__all__ = ["MarkerDelivery"]

Outcomes = Mapping[TopicPartition, ErrorCode]

_PARTITIONS_AT_ONCE: Final = 250
"""Maximum number of partitions of a marker in one request."""
_MARKERS_AT_ONCE: Final = 100
"""Maximum number of markers in one request."""


class _Destinations(NamedTuple):
    """The partitions of a marker, by what can be done for them now."""

    local: list[TopicPartition]
    remote: dict[BrokerId, list[TopicPartition]]
    away: list[TopicPartition]
    """Their leader is not live, or they have none."""
    unknown: list[TopicPartition]
    """They do not exist."""

    @property
    def is_waiting(self) -> bool:
        """Whether nothing can be done until the metadata change."""
        return bool(self.away) and not (self.local or self.remote or self.unknown)


class MarkerDelivery:
    """The `MarkerWriter` of this broker's transaction coordinator.

    `local` writes to the partitions that this broker leads. `image` returns the current metadata; `on_metadata_update`
    must be called with each change. `is_coordinator` returns whether this broker still coordinates a transactional id.
    """

    def __init__(
        self,
        node_id: BrokerId,
        local: MarkerWriter,
        peers: Peers,
        *,
        image: Callable[[], MetadataImage],
        is_coordinator: Callable[[str], bool],
        spawn: Spawn,
    ) -> None:
        self._node_id = node_id
        self._local = local
        self._peers = peers
        self._image = image
        self._is_coordinator = is_coordinator
        self._waiting = WaitingMarkers()
        self._batches: PeerBatches[ProducerId, TransactionMarker, Outcomes] = PeerBatches(
            self._send, spawn, maximum_entries=_MARKERS_AT_ONCE
        )

    def on_metadata_update(self, old: MetadataImage, new: MetadataImage) -> None:
        """Lets waiting markers look for their leaders again."""
        self._waiting.on_metadata_update(old, new)

    async def write_markers(self, marker: TransactionMarker) -> Outcomes:
        """Implements `MarkerWriter.write_markers`.

        Returns LEADER_NOT_AVAILABLE for partitions without a live leader, NETWORK_EXCEPTION for those whose leader did
        not answer, NOT_COORDINATOR if another broker coordinates the transaction by now, and the codes of the leaders.
        """
        if len(self._image().registrations) <= 1:
            return await self._local.write_markers(marker)
        image = self._image()
        while (destinations := await finish_in_steps(self._find(image, marker.partitions))).is_waiting:
            if not self._is_coordinator(marker.transactional_id):
                return dict.fromkeys(marker.partitions, ErrorCode.NOT_COORDINATOR)
            if image is self._image():  # else the metadata changed during the search
                await self._waiting.wait(marker.partitions)
            image = self._image()
        deliveries = [
            self._deliver(broker_id, replace(marker, partitions=tuple(partitions[start : start + _PARTITIONS_AT_ONCE])))
            for broker_id, partitions in destinations.remote.items()
            for start in range(0, len(partitions), _PARTITIONS_AT_ONCE)
        ]
        if destinations.local:
            deliveries.append(self._local.write_markers(replace(marker, partitions=tuple(destinations.local))))
        outcomes = dict.fromkeys(destinations.away, ErrorCode.LEADER_NOT_AVAILABLE)
        outcomes |= dict.fromkeys(destinations.unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for each in await asyncio.gather(*deliveries):
            outcomes |= each
        return outcomes

    def _find(self, image: MetadataImage, partitions: Sequence[TopicPartition]) -> Work[_Destinations]:
        found = _Destinations([], {}, [], [])
        topics = image.topics
        for count, topic_partition in enumerate(partitions, 1):
            name, index = topic_partition
            topic = topics.get(name)
            if topic is None or not 0 <= index < len(topic.partitions):
                found.unknown.append(topic_partition)
                continue
            leader = topic.partitions[index].leader
            if leader == self._node_id:
                found.local.append(topic_partition)
            elif self._peers.is_reachable(leader):
                found.remote.setdefault(leader, []).append(topic_partition)
            else:
                found.away.append(topic_partition)
            if not count % _PARTITIONS_AT_ONCE:
                yield None
        return found

    async def _deliver(self, broker_id: BrokerId, marker: TransactionMarker) -> Outcomes:
        try:
            return await self._batches.ask(broker_id, marker.producer_id, marker)
        except PeerUnavailable:
            return dict.fromkeys(marker.partitions, ErrorCode.NETWORK_EXCEPTION)

    async def _send(
        self, broker_id: BrokerId, markers: Mapping[ProducerId, TransactionMarker]
    ) -> Mapping[ProducerId, Outcomes]:
        outcomes: dict[ProducerId, Outcomes] = {}
        request = WriteTxnMarkersRequest()
        for producer_id, marker in markers.items():
            if self._is_coordinator(marker.transactional_id):
                request.markers.append(_writable(marker))
            else:
                outcomes[producer_id] = dict.fromkeys(marker.partitions, ErrorCode.NOT_COORDINATOR)
        if request.markers:
            response = await self._peers.request(broker_id, request, WriteTxnMarkersResponse)
            answered = _outcomes_in(response)
            for producer_id, marker in markers.items():
                if producer_id not in outcomes:
                    codes = answered.get(producer_id, {})
                    outcomes[producer_id] = {
                        each: codes.get(each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in marker.partitions
                    }
        return outcomes


def _writable(marker: TransactionMarker) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in marker.partitions:
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _outcomes_in(response: WriteTxnMarkersResponse) -> dict[ProducerId, dict[TopicPartition, ErrorCode]]:
    return {
        ProducerId(marker.producer_id): {
            TopicPartition(topic.name, PartitionIndex(each.partition_index)): _code(each.error_code)
            for topic in marker.topics
            for each in topic.partitions
        }
        for marker in response.markers
    }


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:  # a later version has codes that this one does not know
        return ErrorCode.UNKNOWN_SERVER_ERROR
