"""The transaction coordinator of one broker, with its log, timers, tasks and marker writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from klamm.broker.partitions.transaction_markers import TransactionMarkers
from klamm.broker.services.coordinators.coordinator_ports import LoopTimers, PartitionLogs, certainty_to_coordinate
from klamm.broker.services.coordinators.marker_delivery import MarkerDelivery
from klamm.broker.services.coordinators.transaction_verifier import TransactionVerifier
from klamm.broker.services.peers.peers import OpenPeerConnection, Peers
from klamm.core.txn.coordinator_config import TransactionCoordinatorConfig
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage
from klamm.protocol.internal_topic_names import TRANSACTIONS_TOPIC
from klamm.protocol.types import Millis
from klamm.runtime.transaction_coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import Partition
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.service import MetadataService
    from klamm.runtime.group_coordinator import GroupCoordinator

__all__ = ["LoopTasks", "TransactionServices", "transaction_config"]

_MARKER_TIMEOUT_MS: Final = 30_000
"""A marker that is not committed within this time is requested again. Kafka's default of `request.timeout.ms`."""


class LoopTasks:
    """Background tasks of one event loop that no caller awaits. They end with the broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Starts the coroutine in the next iteration of the loop, before the loop polls its sockets."""
        task = self._loop.create_task(coroutine)
        # The loop has only weak references to its tasks.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Cancels the tasks that have not ended."""
        for task in list(self._tasks):
            task.cancel()


def transaction_config(config: BrokerConfig) -> TransactionCoordinatorConfig:
    """Returns the part of the broker's configuration that concerns transactions."""
    return TransactionCoordinatorConfig(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        expiry_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        add_retry_ms=config.add_partitions_to_txn_retry_backoff_ms,
        add_retry_max_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
    )


class TransactionServices:
    """The coordinator, the marker writer of this broker's partitions, and what transactions need of other brokers.

    Must be created on the running event loop.
    """

    def __init__(
        self,
        config: BrokerConfig,
        partitions: PartitionRegistry,
        metadata: MetadataService,
        groups: GroupCoordinator,
        *,
        clock: Callable[[], Millis],
        open_peer_connection: OpenPeerConnection,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._metadata = metadata
        self._node_id = config.node_id
        self._tasks = LoopTasks(loop)
        self._default_partition_count = config.transaction_state_log_num_partitions
        self.markers = TransactionMarkers(partitions, groups, clock=clock, timeout_ms=_MARKER_TIMEOUT_MS)
        # Markers wait for their commit on the other broker. The verification of a batch must not wait behind them.
        self._marker_peers = self._make_peers(config, open_peer_connection, "txn-marker-sender")
        self._verification_peers = self._make_peers(config, open_peer_connection, "add-partitions-sender")
        self._delivery = MarkerDelivery(
            config.node_id,
            self.markers,
            self._marker_peers,
            image=self._image,
            is_coordinator=self._is_coordinator,
            spawn=self._tasks.spawn,
        )
        coordinator_config = transaction_config(config)
        self.coordinator = TransactionCoordinator(
            config=coordinator_config,
            log=PartitionLogs(TRANSACTIONS_TOPIC, partitions, clock),
            timers=LoopTimers(loop),
            wall_clock=clock,
            promises=loop,
            spawn=self._tasks.spawn,
            markers=self._delivery,
            next_producer_id=metadata.next_producer_id,
            partition_count=self._count_partitions,
            has_session=certainty_to_coordinate(metadata),
        )
        self.verifier = TransactionVerifier(
            config.node_id,
            self.coordinator,
            self._verification_peers,
            image=self._image,
            config=coordinator_config,
            spawn=self._tasks.spawn,
        )

    def start(self) -> None:
        """Starts the coordinator. Calls of `on_leadership` follow."""
        self.coordinator.start()
        self.coordinator.on_metadata_update(EMPTY_IMAGE, self._metadata.image)
        self._metadata.subscribe(self.coordinator.on_metadata_update)
        for each in (self._marker_peers, self._verification_peers, self._delivery):
            self._metadata.subscribe(each.on_metadata_update)

    def stop(self) -> None:
        """Stops the coordinator. Pending markers are written after the next start."""
        self.coordinator.stop()
        self._tasks.stop()
        self._marker_peers.stop()
        self._verification_peers.stop()

    def on_leadership(self, partition: Partition, is_leader: bool) -> None:
        """Tells the coordinator that this broker leads a partition of `__transaction_state`, or no longer leads it."""
        if is_leader:
            self.coordinator.on_leadership(partition.index, partition.leader_epoch)
        else:
            self.coordinator.on_resignation(partition.index)

    def _make_peers(self, config: BrokerConfig, open_connection: OpenPeerConnection, name: str) -> Peers:
        listener_name = config.inter_broker_listener_name
        client_id = f"broker-{config.node_id}-{name}"
        return Peers(config.node_id, listener_name, self._image, open_connection, client_id=client_id)

    def _image(self) -> MetadataImage:
        return self._metadata.image

    def _is_coordinator(self, transactional_id: str) -> bool:
        topic = self._metadata.image.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return False
        return topic.partitions[self.coordinator.partition_for(transactional_id)].leader == self._node_id

    def _count_partitions(self) -> int:
        topic = self._metadata.image.topics.get(TRANSACTIONS_TOPIC)
        return len(topic.partitions) if topic is not None else self._default_partition_count
