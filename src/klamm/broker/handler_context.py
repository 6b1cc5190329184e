"""What a handler can use: the services of its broker, and facts about the connection and the request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from klamm.broker.network.unsent_answers import UnsentAnswers
from klamm.broker.partitions.batch_opener import BatchOpener
from klamm.broker.partitions.warm_reads import WarmReads
from klamm.broker.partitions.woken_fetches import WokenFetches
from klamm.protocol.types import BrokerId, Millis

if TYPE_CHECKING:
    from klamm.broker.partitions.fetch_sessions import FetchSessionCache
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.broker.partitions.transaction_markers import TransactionMarkers
    from klamm.broker.replication.replication_quotas import ReplicationQuotas
    from klamm.broker.services.coordinators.transaction_verifier import AddsPartitions
    from klamm.broker.services.peers.peer_identity import IdentityCheck
    from klamm.config.broker_config import BrokerConfig
    from klamm.core.group.history.change import UnderWay
    from klamm.metadata.service import MetadataService
    from klamm.protocol.api import ApiKey
    from klamm.runtime.group_coordinator import GroupCoordinator
    from klamm.runtime.transaction_coordinator import TransactionCoordinator
    from klamm.storage.directory.log_directory import LogDirectory

__all__ = ["BrokerContext", "ConnectionInfo", "RequestContext"]


@dataclass(slots=True, eq=False)
class BrokerContext:
    """The services of one broker that its handlers use.

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
    transaction_verifier: AddsPartitions
    ensure_internal_topic: Callable[[str], Awaitable[None]]
    """Creates the internal topic of that name unless it exists, and returns when its partitions can be written to.
    Raises KafkaError: COORDINATOR_NOT_AVAILABLE if the broker is about to stop."""
    change_under_way: Callable[[str], UnderWay | None] = lambda group_id: None
    """Returns the change of a group that is in progress; None if there is none, or if no history is kept."""
    unsent_answers: UnsentAnswers = field(default_factory=UnsentAnswers)
    warm_reads: WarmReads = field(default_factory=WarmReads)
    woken_fetches: WokenFetches = field(default_factory=WokenFetches)
    batch_opener: BatchOpener = field(default_factory=BatchOpener)
    replication_quotas: ReplicationQuotas | None = None
    """The quotas that throttle replication. None for a single broker, which has no followers."""

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, as clients see it."""
        return self.metadata.image.cluster_id


@dataclass(slots=True, eq=False)
class ConnectionInfo:
    """The properties of one client connection that all its requests share."""

    client_host: str
    """The client's address, as text."""

    peer: str
    """`host:port` of the client, for log lines."""

    advertised_host: str
    """The host that this broker returns to the client: from `advertised.listeners`, else the listener's host, or the
    address that the client connected to if the listener's host is a wildcard."""

    advertised_port: int
    listener_name: str = "PLAINTEXT"
    """The name of the listener to which the client is connected."""
    identity_check: IdentityCheck | None = None
    """The check in progress of which broker the sender is."""
    broker_id: BrokerId | None = None
    """The broker that has shown to be the sender (see `peer_identity`); None for clients."""
    client_software_name: str = ""
    client_software_version: str = ""
    name_in_requests: bytes = field(init=False)
    """Prefix of request fingerprints: the client's address. It separates equal requests of different clients."""

    def __post_init__(self) -> None:
        self.name_in_requests = self.client_host.encode() + b"\0"


@dataclass(slots=True, eq=False)
class RequestContext:
    """The context of one request, as its handler gets it."""

    broker: BrokerContext
    connection: ConnectionInfo
    api_key: ApiKey
    api_version: int
    client_id: str | None
    request_fingerprint: bytes = b""
    """The client's address and the bytes of a heartbeat, without the correlation id; empty for other requests."""

    @property
    def client_host(self) -> str:
        """The client's address in Kafka's form (`/127.0.0.1`), as in group descriptions."""
        return "/" + self.connection.client_host

    @property
    def advertised_host(self) -> str:
        """The host at which this client reaches the broker."""
        return self.connection.advertised_host

    @property
    def advertised_port(self) -> int:
        """The port at which this client reaches the broker."""
        return self.connection.advertised_port

    @property
    def is_between_brokers(self) -> bool:
        """Whether the sender is connected to the listener through which brokers talk."""
        return self.connection.listener_name == self.broker.config.inter_broker_listener_name
