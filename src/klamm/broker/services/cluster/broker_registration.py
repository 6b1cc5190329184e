"""Registers a starting broker in the metadata, writes the registration to its log directory, and sees its end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from klamm.metadata.brokers import latest_run
from klamm.metadata.directory_content import DirectoryContent
from klamm.storage.atomic_file import sync_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from klamm.client.config import Address
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.image import MetadataImage
    from klamm.metadata.service import MetadataService
    from klamm.protocol.types import BrokerId
    from klamm.storage.directory.log_directory import LogDirectory

__all__ = ["register_broker", "watch_registration"]

_logger = logging.getLogger(__name__)

_FAREWELL_S: Final = 0.1
"""The time in which a broker that was unregistered by a request to itself answers this request."""


async def register_broker(
    config: BrokerConfig,
    metadata: MetadataService,
    log_directory: LogDirectory,
    endpoints: Mapping[str, Address] | None,
) -> None:
    """Registers the broker under a new epoch, and raises the leader epochs above the latest epochs of the open logs.

    `endpoints` are the addresses for clients by listener name; None: those of the configuration, whose ports are fixed.
    With a shared store, the folder records the run before the broker is live, so that the next start recognizes a
    session that has not ended yet. Raises BrokerIsLive if another process runs as this broker, KlammError if the log
    directory belongs to another cluster or node, and OSError.
    """
    owner = log_directory.owner
    latest = latest_run(metadata.image, config.node_id)
    closed = owner.incarnation if owner.had_clean_shutdown else None
    kept_runs = owner.run.kept_runs(closed) if metadata.is_shared else ()
    has_kept_all = latest in kept_runs
    recorded_runs = owner.run.recorded_runs(owner.incarnation) if metadata.is_shared else ()
    content = DirectoryContent(
        kept_runs=kept_runs,
        recorded_runs=recorded_runs,
        # A replica whose log is gone or damaged must not lead, whatever the latest run has done in order.
        held={topic_partition for topic_partition, log in log_directory.logs.items() if not log.is_unread},
        unread={topic_partition for topic_partition, log in log_directory.logs.items() if log.is_unread},
    )
    if has_kept_all and not owner.had_clean_shutdown:
        _logger.info("the latest run of this broker ended without a stop, and has lost no record that it had written")

    def record(cluster_id: str, incarnation: str) -> None:
        owner.write_meta_properties(cluster_id=cluster_id, node_id=config.node_id, incarnation=incarnation)
        owner.run.begin(
            incarnation,
            kept=latest if has_kept_all else "",
            recorded=latest if latest in recorded_runs else "",
        )
        # The names too must outlast a power failure: a directory without the record of the latest run counts as new.
        sync_directory(log_directory.path)

    if endpoints is None:
        addresses = config.advertised_listeners or config.listeners
        endpoints = {address.name: (address.host or "localhost", address.port) for address in addresses}
    broker = await metadata.start_broker(
        endpoints,
        config.broker_rack,
        cluster_id=owner.cluster_id or config.cluster_id,
        known_incarnation=owner.incarnation,
        record_incarnation=record if metadata.is_shared else None,
        content=content,
        minimum_leader_epochs={
            topic_partition: log.latest_epoch + 1 for topic_partition, log in log_directory.logs.items()
        },
    )
    owner.write_meta_properties(cluster_id=metadata.image.cluster_id, node_id=config.node_id, broker_epoch=broker.epoch)


def watch_registration(
    metadata: MetadataService,
    broker_id: BrokerId,
    *,
    on_unregistered: Callable[[], None],
    on_replaced: Callable[[], None],
) -> None:
    """Calls `on_unregistered` soon after this broker's registration was removed while it runs, once, on the loop.

    Another process may run as this broker, with a copy of its data directory: then `on_replaced` is called at once, so
    that no record is acknowledged any more, and `on_unregistered` after it.
    """
    loop = asyncio.get_running_loop()
    is_over = False

    def look(_: MetadataImage, image: MetadataImage) -> None:
        nonlocal is_over
        if is_over:
            return
        live = image.live.get(broker_id)
        if live is not None and live.incarnation != metadata.incarnation:
            is_over = True
            _logger.error(
                "another process runs as broker %d, perhaps with a copy of this data directory: this one stops. Give "
                "each broker a data directory of its own",
                broker_id,
            )
            on_replaced()
            on_unregistered()
            return
        if broker_id in image.registrations:
            return
        is_over = True
        _logger.warning("broker %d was unregistered: it stops, and registers again when it is started", broker_id)
        loop.call_later(_FAREWELL_S, on_unregistered)

    metadata.subscribe(look)
    look(metadata.image, metadata.image)
