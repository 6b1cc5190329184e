"""The services of one broker: all components except its listeners.

Start: lock the data folder, read the metadata, recover the logs, register under a new epoch (which raises the leader
epochs), lead the partitions, load the groups. A request that is dispatched after that gets a response.

Stop: leaderships handed over, housekeeping, log cleaning, traffic meter, coordinators, metadata, partitions with their
syncs, log directory. Each step of the start pushes the stop of its component onto a stack, and `stop` unwinds the
stack.

Between: if the session with the metadata store ends, the broker acknowledges nothing more (`_lose_session`).

The services use no sockets, and the caller provides the metadata store. So the simulator runs them unchanged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from klamm.broker.handler_context import BrokerContext
from klamm.broker.partitions.fetch_sessions import FetchSessionCache
from klamm.broker.replication.replication_quotas import ReplicationQuotas
from klamm.broker.replication.replication_services import ReplicationServices
from klamm.broker.services.cluster.broker_registration import register_broker, watch_registration
from klamm.broker.services.cluster.other_brokers import refuse_other_brokers
from klamm.broker.services.coordinators.coordinator_services import CoordinatorServices
from klamm.broker.services.coordinators.internal_topics import InternalTopics
from klamm.broker.services.coordinators.transaction_services import LoopTasks
from klamm.broker.services.dynamic_broker_config import DynamicBrokerConfig
from klamm.broker.services.logs.housekeeping import Housekeeping
from klamm.broker.services.logs.log_cleaning import LogCleaning
from klamm.broker.services.logs.log_directory_opening import open_log_directory
from klamm.broker.services.logs.log_failure_handler import LogFailureHandler
from klamm.broker.services.logs.partition_services import PartitionServices
from klamm.broker.services.logs.traffic_meter import TrafficMeter
from klamm.broker.services.peers.peers import OpenPeerConnection, no_connection
from klamm.errors import KlammError
from klamm.exchange.data_directory_owner import refuse_kafka_directory, refuse_unfinished_import
from klamm.metadata.image import EMPTY_IMAGE
from klamm.metadata.service import MetadataService
from klamm.protocol.errors import KafkaError
from klamm.storage.directory.log_directory import LogDirectory
from klamm.storage.directory.lost_metadata import refuse_lost_metadata

if TYPE_CHECKING:
    from klamm.client.config import Address
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.metadata_store import MetadataStore
    from klamm.protocol.types import Millis

__all__ = ["BrokerServices"]

_logger = logging.getLogger(__name__)

_HAND_OVER_S: Final = 10.0
"""Longest time to elect other leaders before a stop."""


class BrokerServices:
    """The services of one broker, from `start` to `stop`, on the loop that started them. They can be started once.

    `context` is None until `start` returns.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Callable[[], Millis],
        *,
        open_files: int | None = None,
        open_peer_connection: OpenPeerConnection = no_connection,
        on_unregistered: Callable[[], None] | None = None,
    ) -> None:
        """Creates the services. `open_files` bounds the descriptors of log files; None: half of the process's limit.

        `open_peer_connection` opens connections to other brokers. `on_unregistered` is called when the running broker
        was removed from the cluster: the caller must stop it. A single broker never is.
        """
        self.context: BrokerContext | None = None
        self.replication: ReplicationServices | None = None
        """The components that replicate partitions; None before the start, and for a single broker."""
        self.has_session = True
        """Whether the other brokers see this one. False after the session with the metadata store was lost."""
        self.dynamic_config = DynamicBrokerConfig(config)
        self.log_directory = LogDirectory(
            Path(config.data_directory), clock=clock, config=config, open_files=open_files
        )
        self._clock = clock
        self._open_peer_connection = open_peer_connection
        self._on_unregistered = on_unregistered
        self._replication_quotas = ReplicationQuotas(config)
        self._closes_files_only = False
        self._has_handed_over = False
        self._stops = AsyncExitStack()

    @property
    def config(self) -> BrokerConfig:
        """The current configuration: the static one, overridden by dynamic settings."""
        return self.dynamic_config.current

    async def start(
        self, open_store: Callable[[], Awaitable[MetadataStore]], endpoints: Mapping[str, Address] | None = None
    ) -> BrokerContext:
        """Starts all services and returns the context for handlers. Opens the store after locking the data folder.

        `endpoints` are the addresses to register, by listener name; None: those of the configuration.

        Raises DataDirectoryInUse if another broker uses the folder, MetadataLost if the folder has partitions and the
        store is empty, OSError if the folder can't be written. Call `stop` also after an error.
        """
        self._lock_data_directory()
        housekeeping = Housekeeping(self.log_directory, self._clock)
        # Create the partitions before the metadata is opened, so that they stop after the metadata is closed.
        partitions = self._make_partitions(housekeeping)
        metadata = await self._open_metadata(open_store, partitions)
        await open_log_directory(self.log_directory, metadata, self.config.node_id, self.dynamic_config.topic_config_of)
        await register_broker(self.config, metadata, self.log_directory, endpoints)
        failures = self._handle_log_failures(partitions)
        internal_topics = InternalTopics(self.dynamic_config, metadata, partitions.registry)
        coordinators = self._make_coordinators(partitions, metadata, internal_topics)
        self.context = context = self._make_context(partitions, metadata, internal_topics, coordinators)
        replication = self.replication = self._make_replication(partitions, metadata)
        if replication is not None:
            failures.give_up = replication.failed_logs.add
            failures.distrust_run = replication.failed_logs.distrust_run
        coordinators.start()
        self._follow_metadata(context)
        if replication is not None:
            replication.start()
        self._start_traffic_meter(partitions, coordinators)
        self._start_log_cleaning()
        self._start_housekeeping(housekeeping, partitions, context)
        if self._on_unregistered is not None:
            watch_registration(
                metadata,
                self.config.node_id,
                on_unregistered=self._on_unregistered,
                on_replaced=lambda: self._lose_session(partitions),
            )
        return context

    async def stop(self, *, is_kill: bool = False) -> None:
        """Stops the started services in reverse order: stops the coordinators, closes the metadata and the logs.

        With `is_kill` the log directory is left as by a process that was killed: no sync, no checkpoint, no mark of a
        clean stop. Safe after a start that failed halfway, and safe to call twice.
        """
        self._closes_files_only = is_kill
        if not is_kill:
            await self.hand_over()
        await self._stops.aclose()

    async def hand_over(self) -> None:
        """Lets other brokers lead the partitions that have other replicas, before this one stops. Requests are served
        meanwhile. Later calls do nothing."""
        context = self.context
        if context is None or not self.has_session or not context.metadata.is_shared or self._has_handed_over:
            return
        self._has_handed_over = True
        if context.metadata.is_closed or not self.config.controlled_shutdown_enable:
            return
        try:
            async with asyncio.timeout(_HAND_OVER_S):
                await context.metadata.replicas.begin_stop()
                await context.metadata.replicas.keep_leaders()
        except (KafkaError, TimeoutError) as error:
            _logger.warning("the partitions of this broker could not be handed over: %s", error)

    def _lock_data_directory(self) -> None:
        self._stops.push_async_callback(self._close_log_directory)
        self.log_directory.owner.lock()
        refuse_kafka_directory(self.log_directory.path)
        self.log_directory.owner.check_node(self.config.node_id)

    async def _close_log_directory(self) -> None:
        await asyncio.to_thread(self.log_directory.close, not self._closes_files_only)

    def _make_partitions(self, housekeeping: Housekeeping) -> PartitionServices:
        partitions = PartitionServices(
            self.config,
            self.log_directory,
            self.dynamic_config.topic_config_of,
            clock=self._clock,
            # Without this checkpoint, a broker that is killed repeatedly would read and sync the same at each start.
            on_tails_synced=housekeeping.checkpoint_soon,
        )
        self._stops.push_async_callback(partitions.stop)
        return partitions

    async def _open_metadata(
        self, open_store: Callable[[], Awaitable[MetadataStore]], partitions: PartitionServices
    ) -> MetadataService:
        store = await open_store()
        store.on_session_lost(lambda: self._lose_session(partitions))
        metadata = await MetadataService.open(store, self.config)
        self._stops.push_async_callback(metadata.close)
        refuse_unfinished_import(self.log_directory.path, metadata.image)
        if not metadata.image.cluster_id:
            refuse_lost_metadata(self.log_directory.path, is_shared=metadata.is_shared)
        # Before a folder of the directory is touched: every topic of another cluster would look like a deleted one.
        metadata.check_cluster(self.log_directory.owner.cluster_id or self.config.cluster_id)
        if not metadata.is_shared:
            refuse_other_brokers(metadata.image, (self.config.node_id,))
            if self.config.default_replication_factor != 1:
                raise KlammError("default.replication.factor must be 1: a single broker holds one replica")
        self.dynamic_config.use(metadata.image)
        return metadata

    def _lose_session(self, partitions: PartitionServices) -> None:
        """Acknowledges nothing more: the other brokers see this one as gone. Its owner stops it, or starts it again."""
        self.has_session = False
        _logger.error(
            "broker %d has lost its session with the metadata store: it refuses writes and coordinates no groups until "
            "it is started again",
            self.config.node_id,
        )
        partitions.registry.refuse_writes()

    def _handle_log_failures(self, partitions: PartitionServices) -> LogFailureHandler:
        handler = LogFailureHandler(self.log_directory, partitions.registry)
        self._stops.callback(handler.stop)
        handler.start()
        return handler

    def _make_coordinators(
        self, partitions: PartitionServices, metadata: MetadataService, internal_topics: InternalTopics
    ) -> CoordinatorServices:
        coordinators = CoordinatorServices(
            self.dynamic_config,
            partitions,
            metadata,
            internal_topics,
            clock=self._clock,
            open_peer_connection=self._open_peer_connection,
        )
        self._stops.push_async_callback(coordinators.stop)
        return coordinators

    def _make_replication(self, partitions: PartitionServices, metadata: MetadataService) -> ReplicationServices | None:
        """Returns the components that replicate partitions; None for a single broker."""
        if not metadata.is_shared:
            return None
        tasks = LoopTasks(asyncio.get_running_loop())
        self._stops.callback(tasks.stop)
        replication = ReplicationServices(
            lambda: self.config,
            partitions.registry,
            metadata,
            self._open_peer_connection,
            tasks.spawn,
            quotas=self._replication_quotas,
            log_directory=self.log_directory,
            clock=self._clock,
            fsync_batcher=partitions.fsync_batcher if self.config.klamm_fsync == "ack" else None,
        )
        self._stops.callback(replication.stop)
        return replication

    def _make_context(
        self,
        partitions: PartitionServices,
        metadata: MetadataService,
        internal_topics: InternalTopics,
        coordinators: CoordinatorServices,
    ) -> BrokerContext:
        config = self.config
        return BrokerContext(
            config=config,
            node_id=config.node_id,
            clock=self._clock,
            metadata=metadata,
            log_directory=self.log_directory,
            partitions=partitions.registry,
            fetch_sessions=FetchSessionCache(config.max_incremental_fetch_session_cache_slots),
            groups=coordinators.groups,
            transactions=coordinators.transactions.coordinator,
            transaction_markers=coordinators.transactions.markers,
            transaction_verifier=coordinators.transactions.verifier,
            ensure_internal_topic=internal_topics.ensure,
            change_under_way=coordinators.change_under_way,
            warm_reads=partitions.warm_reads,
            batch_opener=partitions.batch_opener,
            replication_quotas=self._replication_quotas if metadata.is_shared else None,
        )

    def _follow_metadata(self, context: BrokerContext) -> None:
        """Leads the partitions of the current image, and subscribes the components to later images in this order."""
        metadata, partitions = context.metadata, context.partitions

        def use_config(before: BrokerConfig, current: BrokerConfig) -> None:
            context.config = current
            metadata.use_config(current)
            if current.topic_defaults != before.topic_defaults:
                partitions.reconfigure()

        self._replication_quotas.use(self.config, self.config)
        self.dynamic_config.on_change(use_config)
        self.dynamic_config.on_change(self._replication_quotas.use)
        # Settings may have changed since the store was opened.
        self.dynamic_config.on_metadata_update(EMPTY_IMAGE, metadata.image)
        partitions.apply(None, metadata.image)
        metadata.before_creation(partitions.free_names)
        # A leader that learns at once that it is alone in sync, and that more are required, must commit nothing.
        metadata.subscribe(self.dynamic_config.on_metadata_update)
        metadata.subscribe(partitions.apply)
        metadata.subscribe(context.groups.on_metadata_update)

    def _start_traffic_meter(self, partitions: PartitionServices, coordinators: CoordinatorServices) -> None:
        interval_s = self.config.klamm_group_traffic_interval_ms / 1000
        meter = TrafficMeter(partitions.registry, interval_s, coordinators.on_traffic)
        self._stops.callback(meter.stop)
        meter.start()

    def _start_log_cleaning(self) -> None:
        cleaning = LogCleaning(self.log_directory.cleaner, self.config, self._clock)
        self._stops.push_async_callback(cleaning.stop)
        self.dynamic_config.on_change(lambda before, current: cleaning.configure(current))
        cleaning.start()

    def _start_housekeeping(
        self, housekeeping: Housekeeping, partitions: PartitionServices, context: BrokerContext
    ) -> None:
        self._stops.callback(housekeeping.stop)
        housekeeping.start(
            self.config, partitions.registry, context.fetch_sessions, context.metadata, partitions.fsync_batcher
        )
