"""Registers a starting broker in the metadata, and writes the registration to its log directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klamm.client.config import Address
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.service import MetadataService
    from klamm.storage.log_directory import LogDirectory

__all__ = ["register_broker"]


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

    def record(cluster_id: str, incarnation: str) -> None:
        log_directory.write_meta_properties(cluster_id=cluster_id, node_id=config.node_id, incarnation=incarnation)

    if endpoints is None:
        addresses = config.advertised_listeners or config.listeners
        endpoints = {address.name: (address.host or "localhost", address.port) for address in addresses}
    broker = await metadata.start_broker(
        endpoints,
        config.broker_rack,
        cluster_id=log_directory.cluster_id or config.cluster_id,
        known_incarnation=log_directory.incarnation,
        record_incarnation=record if metadata.is_shared else None,
        is_clean_stop=log_directory.had_clean_shutdown,
        # A replica whose log is gone or damaged must not lead, whatever the latest run has done in order.
        held={topic_partition for topic_partition, log in log_directory.logs.items() if not log.is_unread},
        minimum_leader_epochs={
            topic_partition: log.latest_epoch + 1 for topic_partition, log in log_directory.logs.items()
        },
    )
    log_directory.write_meta_properties(
        cluster_id=metadata.image.cluster_id, node_id=config.node_id, broker_epoch=broker.epoch
    )
