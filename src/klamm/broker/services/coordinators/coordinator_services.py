"""The coordinators of one broker: groups with their history, and transactions.

They load and unload state when the broker begins and stops to lead partitions of their internal topics.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from klamm.broker.services.coordinators.coordinator_ports import (
    CodeImport,
    LoopTimers,
    PartitionLogs,
    RandomIds,
    ThreadExecutor,
    certainty_to_coordinate,
)
from klamm.broker.services.coordinators.history_loading import history_of_groups
from klamm.broker.services.coordinators.transaction_services import TransactionServices
from klamm.broker.services.coordinators.warm_handover import WarmHandover
from klamm.broker.time_slices import STEP_S
from klamm.metadata.image import EMPTY_IMAGE
from klamm.protocol.compression import Compression
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klamm.runtime.event_log import log_events
from klamm.runtime.group_configs import group_coordinator_config
from klamm.runtime.group_coordinator import GroupCoordinator, load_shard_class

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import Partition
    from klamm.broker.services.coordinators.internal_topics import InternalTopics
    from klamm.broker.services.dynamic_broker_config import DynamicBrokerConfig
    from klamm.broker.services.logs.partition_services import PartitionServices
    from klamm.broker.services.peers.peers import OpenPeerConnection
    from klamm.core.group.history.change import UnderWay
    from klamm.core.group.partition_traffic import Traffic
    from klamm.metadata.service import MetadataService
    from klamm.protocol.types import Millis, PartitionIndex

__all__ = ["CoordinatorServices"]

_GROUP_CODE_S: Final = 0.1
"""Delay after the start until a thread imports the code of groups. A group before that: `InternalTopics.ensure`."""


def _ignore(outcome: object) -> None:
    """Drops the outcome of the load: the first group gets the same error."""


class CoordinatorServices:
    """Both coordinators and their shared thread, from `start` to `stop`. Must be created on the running event loop."""

    def __init__(
        self,
        dynamic_config: DynamicBrokerConfig,
        partitions: PartitionServices,
        metadata: MetadataService,
        internal_topics: InternalTopics,
        *,
        clock: Callable[[], Millis],
        open_peer_connection: OpenPeerConnection,
    ) -> None:
        config = dynamic_config.current
        self._loop = loop = asyncio.get_running_loop()
        self._partitions = registry = partitions.registry
        self._metadata = metadata
        self._is_stopped = False
        self._executor = executor = ThreadExecutor(loop)
        self.groups = GroupCoordinator(
            config=group_coordinator_config(config),
            log=PartitionLogs(OFFSETS_TOPIC, registry, clock),
            timers=LoopTimers(loop),
            wall_clock=clock,
            ids=RandomIds(),
            promises=loop,
            executor=executor,
            publish=self._publish,
            partition_count=internal_topics.offsets_partition_count,
            group_config_of=dynamic_config.group_configs,
            write_timeout_ms=config.offsets_commit_timeout_ms,
            compression=Compression(config.offsets_topic_compression_codec),
            has_session=certainty_to_coordinate(metadata),
        )
        self.transactions = TransactionServices(
            config, registry, metadata, self.groups, clock=clock, open_peer_connection=open_peer_connection
        )
        self._history = (
            history_of_groups(registry, self.groups, internal_topics, executor, clock)
            if config.klamm_group_history_enable
            else None
        )
        self._handover = WarmHandover(registry, partitions.warm_reads)
        # Load the code before the first group needs it, but after the first responses.
        self._group_code = loop.call_later(_GROUP_CODE_S, executor.submit, CodeImport(load_shard_class), _ignore)

    def start(self) -> None:
        """Starts the coordinators, and observes which partitions this broker leads."""
        self.groups.start()
        self.groups.on_metadata_update(EMPTY_IMAGE, self._metadata.image)
        self.transactions.start()
        self._partitions.on_leadership(self._on_leadership)

    async def stop(self) -> None:
        """Stops both coordinators and the history, and waits for the running task. Ignores later leadership changes."""
        if self._history is not None:
            self._history.stop()
        self.transactions.stop()
        self.groups.stop()
        self._group_code.cancel()
        self._is_stopped = True
        await asyncio.to_thread(self._executor.stop)

    def change_under_way(self, group_id: str) -> UnderWay | None:
        """Returns the change of a group that is in progress; None if there is none, or if the history is disabled."""
        return None if self._history is None else self._history.under_way(group_id)

    def on_traffic(self, traffic: Traffic) -> None:
        """Passes the traffic of partitions to the groups, and measures the groups against it."""
        self.groups.measurements.on_traffic(traffic)
        self._loop.call_soon(self._measure_groups, self.groups.measurements.figures())
        if self._history is not None:
            self._history.on_traffic(traffic)

    def _measure_groups(self, figures: Iterator[object]) -> None:
        """Measures all groups, some at a time. The pace of members can only be measured by regular samples."""
        step_ends = time.monotonic() + STEP_S
        for _ in figures:
            if time.monotonic() >= step_ends:
                self._loop.call_soon(self._measure_groups, figures)
                return

    def _publish(self, partition: PartitionIndex, events: Sequence[object]) -> None:
        log_events(partition, events)
        if self._history is not None:
            self._history.publish(partition, events)
        self._handover.on_events(partition, events)

    def _on_leadership(self, partition: Partition, is_leader: bool) -> None:
        if self._is_stopped:
            return  # During a stop, topics still get all their logs, but no coordinator runs any more.
        if partition.topic == TRANSACTIONS_TOPIC:
            self.transactions.on_leadership(partition, is_leader)
        if partition.topic != OFFSETS_TOPIC:
            return
        if not is_leader:
            self.groups.on_resignation(partition.index)
        if self._history is not None:
            # Also under a new leader epoch: the groups are loaded again, and their history starts again with the load.
            self._history.on_resignation(partition.index)
        if is_leader:
            self.groups.on_leadership(partition.index, partition.leader_epoch)
