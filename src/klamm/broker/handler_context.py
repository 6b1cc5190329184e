"""What a handler may reach: the services of its broker, and who is asking."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from klamm.broker.network.unsent_answers import UnsentAnswers
from klamm.broker.partitions.batch_opener import BatchOpener
from klamm.broker.partitions.warm_reads import WarmReads
from klamm.protocol.types import BrokerId, Millis

if TYPE_CHECKING:
    from klamm.broker.partitions.fetch_sessions import FetchSessionCache
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.broker.partitions.transaction_markers import TransactionMarkers
    from klamm.config.broker_config import BrokerConfig
    from klamm.core.group.history.change import UnderWay
    from klamm.metadata.service import MetadataService
    from klamm.protocol.api import ApiKey
    from klamm.runtime.group_coordinator import GroupCoordinator
    from klamm.runtime.transaction_coordinator import TransactionCoordinator
    from klamm.storage.log_directory import LogDirectory

__all__ = ["BrokerContext", "ConnectionInfo", "RequestContext"]


@dataclass(slots=True, eq=False)
class BrokerContext:
    """The services of one broker, as its handlers see them.

    Lives as long as the broker.
    """

    config: BrokerConfig
    node_id: BrokerId
    clock: Callable[[], Millis]
    metadata: MetadataService
    log_directory: LogDirectory
    partitions: PartitionRegistry
    fetch_sessions: FetchSessionCache
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    transaction_markers: TransactionMarkers
    ensure_internal_topic: Callable[[str], Awaitable[None]]
    """Creates the internal topic of that name unless it exists; its partitions can be written to when this
    returns. Raises KafkaError, COORDINATOR_NOT_AVAILABLE if the broker is about to stop."""
    change_under_way: Callable[[str], UnderWay | None] = lambda group_id: None
    """The change of a group that is in progress; None while it is at rest, or where no history is kept."""
    unsent_answers: UnsentAnswers = field(default_factory=UnsentAnswers)
    warm_reads: WarmReads = field(default_factory=WarmReads)
    batch_opener: BatchOpener = field(default_factory=BatchOpener)
    config_changes: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from when the change of a configuration is decided until it is made."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id, as clients see it."""
        return self.metadata.image.cluster_id


@dataclass(slots=True, eq=False)
class ConnectionInfo:
    """One client's connection: what stays the same over its requests."""

    client_host: str
    """The address the client came from, as text."""

    peer: str
    """`host:port` of the client, for log lines."""

    advertised_host: str
    """The address this broker gives to that client: `advertised.listeners`, else the listener's own, else (wildcard)
    the one it reached."""

    advertised_port: int
    client_software_name: str = ""
    client_software_version: str = ""
    name_in_requests: bytes = field(init=False)
    """The client's address, to be put before its requests where those of several clients are compared."""

    def __post_init__(self) -> None:
        self.name_in_requests = self.client_host.encode() + b"\0"


@dataclass(slots=True, eq=False)
class RequestContext:
    """One request's surroundings, as a handler gets them."""

    broker: BrokerContext
    connection: ConnectionInfo
    api_key: ApiKey
    api_version: int
    client_id: str | None
    request_fingerprint: bytes = b""
    """Stands for the whole request and its client, where the same may be said again and again: see `Dispatcher`."""

    @property
    def client_host(self) -> str:
        """The address the client came from, in Kafka's form (`/127.0.0.1`), as group descriptions show it."""
        return "/" + self.connection.client_host

    @property
    def advertised_host(self) -> str:
        """The host under which this client finds the broker."""
        return self.connection.advertised_host

    @property
    def advertised_port(self) -> int:
        """The port under which this client finds the broker."""
        return self.connection.advertised_port
