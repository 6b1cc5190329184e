"""The transaction coordinator of one broker, with what it stands on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from klamm.broker.coordinator_ports import LoopTimers, PartitionLogs
from klamm.broker.internal_topics import TRANSACTIONS_TOPIC
from klamm.core.txn.config import TransactionConfig
from klamm.protocol.types import Millis
from klamm.runtime.transaction_coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from klamm.broker.partitions import Partitions
    from klamm.broker.transaction_markers import TransactionMarkers
    from klamm.config.broker import BrokerConfig
    from klamm.metadata.service import MetadataService

__all__ = ["LoopTasks", "new_transaction_coordinator", "transaction_config"]


class LoopTasks:
    """Coroutines that nobody waits for, as tasks of one event loop that end with the broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Begins it in the loop's next round, before its sockets are looked at."""
        task = self._loop.create_task(coroutine)
        # The loop itself refers to its tasks weakly.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Cancels what has not ended."""
        for task in list(self._tasks):
            task.cancel()


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    """What the broker's configuration means for transactions."""
    return TransactionConfig(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        expiry_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        add_retry_ms=config.add_partitions_to_txn_retry_backoff_ms,
        add_retry_max_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
    )


def new_transaction_coordinator(
    config: BrokerConfig,
    partitions: Partitions,
    metadata: MetadataService,
    markers: TransactionMarkers,
    *,
    tasks: LoopTasks,
    clock: Callable[[], Millis],
) -> TransactionCoordinator:
    """The coordinator, to be started on the running event loop."""
    loop = asyncio.get_running_loop()

    def count_partitions() -> int:
        topic = metadata.image.topics.get(TRANSACTIONS_TOPIC)
        return len(topic.partitions) if topic is not None else config.transaction_state_log_num_partitions

    return TransactionCoordinator(
        config=transaction_config(config),
        log=PartitionLogs(TRANSACTIONS_TOPIC, partitions, clock),
        timers=LoopTimers(loop),
        wall_clock=clock,
        promises=loop,
        spawn=tasks.spawn,
        markers=markers,
        next_producer_id=metadata.next_producer_id,
        partition_count=count_partitions,
    )
