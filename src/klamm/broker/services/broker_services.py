"""The services of one broker: everything that it serves with, except for its listeners.

Start: lock the data folder, read the metadata, recover the logs, register under a new epoch (which raises the leader
epochs), lead the partitions, load the groups. A request that is dispatched after that gets an answer. They are stopped
in the opposite order.

There are no sockets here, and the metadata store is the caller's: the simulator runs these services as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from klamm.broker.handler_context import BrokerContext
from klamm.broker.partitions.fetch_sessions import FetchSessionCache
from klamm.broker.partitions.fsync_batcher import FsyncBatcher
from klamm.broker.partitions.partition import Partition
from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.broker.services.coordinator_ports import LoopTimers, PartitionLogs, RandomIds, ThreadExecutor
from klamm.broker.services.housekeeping import Housekeeping
from klamm.broker.services.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, internal_topic
from klamm.broker.services.lazy_history import LazyHistory
from klamm.broker.services.log_cleaning import LogCleaning
from klamm.broker.services.traffic_meter import TrafficMeter
from klamm.broker.services.transaction_services import TransactionServices
from klamm.broker.services.warm_handover import WarmHandover
from klamm.broker.time_slices import STEP_S
from klamm.config.topic_config import TopicConfig
from klamm.exchange.data_directory_owner import refuse_kafka_directory
from klamm.metadata.image import EMPTY_IMAGE, ResourceType
from klamm.metadata.service import MetadataService
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis, PartitionIndex, TopicPartition
from klamm.runtime.event_log import log_events
from klamm.runtime.group_configs import CurrentGroupConfigs, group_coordinator_config
from klamm.runtime.group_coordinator import GroupCoordinator, load_shard_class
from klamm.storage.log_directory import LogDirectory
from klamm.storage.lost_metadata import refuse_lost_metadata

if TYPE_CHECKING:
    from klamm.config.broker_config import BrokerConfig
    from klamm.core.group.partition_traffic import Traffic
    from klamm.metadata.image import MetadataImage, TopicImage
    from klamm.metadata.metadata_store import MetadataStore
    from klamm.runtime.history_writer import GroupHistory

__all__ = ["BrokerServices"]

T = TypeVar("T")

_GROUP_CODE_S: Final = 0.1
"""So long after the start the code of groups is loaded, on a thread. A group that comes sooner loads it itself."""


def _ignore(outcome: object) -> None:
    """Drops the outcome of the loading: the first group meets an error again."""


def _load_history() -> None:
    import klamm.broker.services.history_topic
    import klamm.runtime.history_writer  # noqa: F401 - many modules, for who begins a history next


def _call_on(loop: asyncio.AbstractEventLoop, call: Callable[[T], None], argument: T) -> None:
    """Calls on the loop, from whichever thread; not at all once the loop has ended."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, argument)


class BrokerServices:
    """The services of one broker, from `start` to `stop`, on the loop that started them.

    `config` is what the broker was started with, and what was set on the running broker laid over it. `context` is None
    until `start` returns.
    """

    def __init__(self, config: BrokerConfig, clock: Callable[[], Millis], *, open_files: int | None = None) -> None:
        """`open_files` bounds the descriptors of log files; if None, half of what the process may have does."""
        self.config = config
        self.context: BrokerContext | None = None
        self.log_directory: LogDirectory | None = None
        self._open_files = open_files
        self._static_config = config
        self._clock = clock
        self._housekeeping: Housekeeping | None = None
        self._metadata: MetadataService | None = None
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionServices | None = None
        self._group_configs = CurrentGroupConfigs(config)
        self._history: LazyHistory | None = None
        self._handover: WarmHandover | None = None
        self._traffic_meter: TrafficMeter | None = None
        self._executor: ThreadExecutor | None = None
        self._group_code: asyncio.TimerHandle | None = None
        self._log_cleaning: LogCleaning | None = None
        self._fsync_batcher: FsyncBatcher | None = None

    async def start(self, open_store: Callable[[], Awaitable[MetadataStore]]) -> BrokerContext:
        """Starts everything and returns what handlers see of it. The store is opened once the data folder is locked.

        Raises DataDirectoryInUse when another broker has the folder, MetadataLost when it has partitions and the store
        is empty, OSError when the folder can't be written.
        """
        config = self.config
        directory = Path(config.data_directory)
        self.log_directory = log_directory = LogDirectory(
            directory, clock=self._clock, config=config, open_files=self._open_files
        )
        log_directory.lock()
        refuse_kafka_directory(directory)
        store = await open_store()
        self._metadata = metadata = await MetadataService.open(store, config)
        if not metadata.image.cluster_id:
            refuse_lost_metadata(directory)
        config = self._use_dynamic_config(metadata.image)
        self._group_configs.use(config, metadata.image)
        await asyncio.to_thread(log_directory.open, lambda topic: self._log_config_of(metadata.image.topics.get(topic)))
        log_directory.find_lost(
            {
                TopicPartition(topic.name, partition.index): topic.topic_id
                for topic in metadata.image.topics.values()
                for partition in topic.partitions
                if config.node_id in partition.replicas
            },
            lambda topic: self._log_config_of(metadata.image.topics.get(topic)),
        )
        log_directory.set_strays_aside({name: topic.topic_id for name, topic in metadata.image.topics.items()})
        listen = config.listeners[0]
        advertised = config.advertised_listeners[0] if config.advertised_listeners else listen
        broker = await metadata.start_broker(
            advertised.host or "localhost",
            advertised.port,
            config.broker_rack,
            cluster_id=log_directory.cluster_id or config.cluster_id,
            minimum_leader_epochs={
                topic_partition: log.latest_epoch + 1 for topic_partition, log in log_directory.logs.items()
            },
        )
        log_directory.write_meta_properties(
            cluster_id=metadata.image.cluster_id, node_id=config.node_id, broker_epoch=broker.epoch
        )
        loop = asyncio.get_running_loop()
        self._housekeeping = housekeeping = Housekeeping(log_directory, self._clock)
        if config.klamm_fsync != "os":
            # Broken off again and again, a broker would otherwise read and sync the same at each start.
            self._fsync_batcher = FsyncBatcher(loop, self._clock, on_tails_synced=housekeeping.checkpoint_soon)
        partitions = PartitionRegistry(
            config.node_id,
            log_directory,
            self._log_config_of,
            self._fsync_batcher if config.klamm_fsync == "ack" else None,
        )
        log_directory.on_offline(lambda partition: _call_on(loop, self._resign, partition))
        self._executor = ThreadExecutor(loop)
        self._groups = groups = GroupCoordinator(
            config=group_coordinator_config(config),
            log=PartitionLogs(OFFSETS_TOPIC, partitions, self._clock),
            timers=LoopTimers(loop),
            wall_clock=self._clock,
            ids=RandomIds(),
            promises=loop,
            executor=self._executor,
            publish=self._publish,
            partition_count=self._offsets_partition_count,
            group_config_of=self._group_configs,
            write_timeout_ms=config.offsets_commit_timeout_ms,
            compression=Compression(config.offsets_topic_compression_codec),
        )
        self._transactions = transactions = TransactionServices(config, partitions, metadata, groups, clock=self._clock)
        if config.klamm_group_history_enable:
            self._history = LazyHistory(
                LoopTimers(loop),
                self._executor,
                load=_load_history,
                begin=lambda: self._begin_history(partitions, groups),
            )
        self.context = context = BrokerContext(
            config=config,
            node_id=config.node_id,
            clock=self._clock,
            metadata=metadata,
            log_directory=log_directory,
            partitions=partitions,
            fetch_sessions=FetchSessionCache(config.max_incremental_fetch_session_cache_slots),
            groups=groups,
            transactions=transactions.coordinator,
            transaction_markers=transactions.markers,
            ensure_internal_topic=self._ensure_internal_topic,
        )
        if self._history is not None:
            context.change_under_way = self._history.under_way
        self._handover = WarmHandover(partitions, context.warm_reads)
        # The first group finds its code loaded, and the first answer does not wait for it.
        self._group_code = loop.call_later(_GROUP_CODE_S, self._executor.submit, load_shard_class, _ignore)
        groups.start()
        groups.on_metadata_update(EMPTY_IMAGE, metadata.image)
        transactions.start()
        partitions.on_leadership(self._tell_coordinators)
        partitions.apply(None, metadata.image)
        metadata.before_creation(partitions.free_names)
        metadata.subscribe(partitions.apply)
        metadata.subscribe(self._apply_dynamic_config)
        metadata.subscribe(groups.on_metadata_update)
        self._traffic_meter = TrafficMeter(partitions, config.klamm_group_traffic_interval_ms / 1000, self._on_traffic)
        self._traffic_meter.start()
        self._log_cleaning = LogCleaning(log_directory.cleaner, config, self._clock)
        self._log_cleaning.start()
        housekeeping.start(config, partitions, context.fetch_sessions, metadata, self._fsync_batcher)
        return context

    async def stop(self) -> None:
        """Lets the groups go, closes logs and metadata.

        Safe after a start that failed half-way.
        """
        if self._housekeeping is not None:
            self._housekeeping.stop()
            self._housekeeping = None
        if self._log_cleaning is not None:
            await self._log_cleaning.stop()
            self._log_cleaning = None
        if self._traffic_meter is not None:
            self._traffic_meter.stop()
            self._traffic_meter = None
        self._stop_coordinators()
        if self._metadata is not None:
            await self._metadata.close()
            self._metadata = None
        if self.context is not None:
            self.context.warm_reads.stop()
            self.context.batch_opener.stop()
            self.context.partitions.finish()
        if self._fsync_batcher is not None:
            await asyncio.to_thread(self._fsync_batcher.stop)
            self._fsync_batcher = None
        if self.log_directory is not None:
            await asyncio.to_thread(self.log_directory.close)
            self.log_directory = None

    def _stop_coordinators(self) -> None:
        if self._history is not None:
            self._history.stop()
            self._history = None
        if self._transactions is not None:
            self._transactions.stop()
            self._transactions = None
        if self._groups is not None:
            self._groups.stop()
            self._groups = None
        if self._group_code is not None:
            self._group_code.cancel()
            self._group_code = None
        if self._executor is not None:
            self._executor.stop()
            self._executor = None

    def _log_config_of(self, topic: TopicImage | None) -> TopicConfig:
        if topic is None or not topic.configs:
            return self.config.topic_defaults
        return TopicConfig.from_mapping(topic.configs, self.config.topic_defaults)

    def _use_dynamic_config(self, image: MetadataImage) -> BrokerConfig:
        """Lays what was set on the running broker over what it was started with."""
        for_all = image.config_overrides(ResourceType.broker, "")
        for_this = image.config_overrides(ResourceType.broker, str(self._static_config.node_id))
        if not for_all and not for_this:
            self.config = self._static_config
        else:
            from klamm.config.layers import apply_dynamic  # brings the table of all keys, which few brokers need

            self.config = apply_dynamic(self._static_config, for_all, for_this)
        return self.config

    def _apply_dynamic_config(self, old: MetadataImage, new: MetadataImage) -> None:
        before = self.config
        if old.configs is new.configs or self.context is None:
            return
        is_changed = self._use_dynamic_config(new) != before
        self._group_configs.use(self.config, new)
        if not is_changed:
            return
        self.context.config = self.config
        self.context.metadata.use_config(self.config)
        if self.config.topic_defaults != before.topic_defaults:
            self.context.partitions.reconfigure()
        if self._log_cleaning is not None:
            self._log_cleaning.configure(self.config)

    async def _ensure_internal_topic(self, name: str) -> None:
        assert self.context is not None
        metadata = self._metadata
        if metadata is None:
            raise KafkaError(ErrorCode.coordinator_not_available, "the broker is about to stop")
        if name not in metadata.image.topics:
            await metadata.ensure_topic(internal_topic(name, self.config, self._offsets_partition_count()))
        await self.context.partitions.settled()

    def _offsets_partition_count(self) -> int:
        assert self.context is not None
        # Not from the store, which may be closed: requests that change something end after a stop has begun.
        topic = self.context.metadata.image.topics.get(OFFSETS_TOPIC)
        return len(topic.partitions) if topic is not None else self.config.offsets_topic_num_partitions

    def _tell_coordinators(self, partition: Partition, is_leader: bool) -> None:
        if self._groups is None or self._transactions is None:
            return  # The broker is about to stop: topics still get all their logs, and nobody coordinates any more.
        if partition.topic == TRANSACTIONS_TOPIC:
            self._transactions.on_leadership(partition, is_leader)
        if partition.topic != OFFSETS_TOPIC:
            return
        if is_leader:
            self._groups.on_leadership(partition.index, partition.leader_epoch)
        else:
            self._groups.on_resignation(partition.index)
            if self._history is not None:
                self._history.on_resignation(partition.index)

    def _resign(self, topic_partition: TopicPartition) -> None:
        if self._groups is not None and self.context is not None:
            self.context.partitions.resign(topic_partition)

    def _begin_history(self, partitions: PartitionRegistry, groups: GroupCoordinator) -> GroupHistory:
        from klamm.broker.services.history_topic import HistoryTopic
        from klamm.runtime.history_writer import GroupHistory

        assert self._executor is not None
        return GroupHistory(
            log=HistoryTopic(partitions, self._clock, self._ensure_internal_topic),
            timers=LoopTimers(asyncio.get_running_loop()),
            executor=self._executor,
            coordinator_epoch=lambda index: partitions.get(OFFSETS_TOPIC, index).leader_epoch,
            committed_offsets=groups.committed_offsets,
        )

    def _on_traffic(self, traffic: Traffic) -> None:
        assert self._groups is not None
        self._groups.measurements.on_traffic(traffic)
        asyncio.get_running_loop().call_soon(self._measure_groups, self._groups.measurements.figures())

    def _measure_groups(self, figures: Iterator[object]) -> None:
        """Looks at all groups, some of them in a step: what members get through shows over time only."""
        step_ends = time.monotonic() + STEP_S
        for _ in figures:
            if time.monotonic() >= step_ends:
                asyncio.get_running_loop().call_soon(self._measure_groups, figures)
                return

    def _publish(self, partition: PartitionIndex, events: Sequence[object]) -> None:
        log_events(partition, events)
        if self._history is not None:
            self._history.publish(partition, events)
        if self._handover is not None:
            self._handover.on_events(partition, events)
