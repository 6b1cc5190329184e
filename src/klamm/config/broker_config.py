"""The configuration of one broker: the values that the other packages use.

It has a field for each broker key that klamm honours, named as the key with dots as underscores. Defaults are those of
Kafka 4.3, except where noted: some are from Kafka's own `config/server.properties` for a single node. Values come from
flags, the environment, a file and a profile, in that order of precedence (`configuration_sources.py`). Keys that are
only defaults of topics (`log.retention.ms`, `message.max.bytes`, ...) have no field: their values are in
`topic_defaults`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, Self

from klamm.config.listeners import Listener
from klamm.config.topic_config import LONG_MAX, TopicConfig
from klamm.protocol.types import BrokerId

__all__ = ["BASELINE", "CONSUMER_ASSIGNORS", "BrokerConfig", "Profile"]

Profile = Literal["default", "test"]

_INT_MAX: Final = 2**31 - 1
_FIRST_BROKER: Final = BrokerId(1)

CONSUMER_ASSIGNORS: Final = ("uniform", "range", "load")
"""The names of the assignors for groups of the consumer protocol; the first one is the default."""

BASELINE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "log.dirs": "klamm-data",
        "group.consumer.assignors": "uniform,range,load",
        "queued.max.request.bytes": "134217728",
        "offsets.topic.replication.factor": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
)
"""The settings of a broker without configuration: the keys that Kafka requires, the values of Kafka's own
`server.properties` for a single node, the assignor that klamm has in addition to Kafka's, and a limit where Kafka has
none. They are shown as static configuration, as for a Kafka broker started with that file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The configuration of one broker; `BrokerConfig()` is the configuration of `klamm serve` without settings."""

    # Identity and addresses. Kafka has no default for node.id; with 1 and loopback a broker needs no settings.
    node_id: BrokerId = _FIRST_BROKER
    broker_rack: str | None = None
    listeners: tuple[Listener, ...] = (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    advertised_listeners: tuple[Listener, ...] = ()
    inter_broker_listener_name: str = "PLAINTEXT"
    """The listener through which brokers send requests to each other, resolved as `resolve.py` describes."""
    log_dirs: tuple[Path, ...] = (Path("klamm-data"),)
    klamm_cluster_id: str | None = None
    klamm_metadata: str = ""
    broker_session_timeout_ms: int = 9000

    # Sockets
    connections_max_idle_ms: int = 600_000
    max_connections: int = _INT_MAX
    max_connections_per_ip: int = _INT_MAX
    max_request_partition_size_limit: int = 2000
    queued_max_request_bytes: int = 134_217_728
    request_timeout_ms: int = 30_000
    socket_connection_setup_timeout_ms: int = 10_000
    socket_listen_backlog_size: int = 50
    socket_request_max_bytes: int = 104_857_600

    # Topics
    auto_create_topics_enable: bool = True
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    num_partitions: int = 1
    topic_defaults: TopicConfig = field(default_factory=TopicConfig)

    # Logs
    klamm_fsync: str = "os"
    klamm_fsync_interval_ms: int = 1000
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = 134_217_728
    log_cleaner_enable: bool = True
    log_cleaner_io_buffer_load_factor: float = 0.9
    log_cleaner_io_buffer_size: int = 524_288
    log_cleaner_io_max_bytes_per_second: float = 1.7976931348623157e308
    log_cleaner_threads: int = 1
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_initial_task_delay_ms: int = 30_000
    log_retention_check_interval_ms: int = 300_000
    num_recovery_threads_per_data_dir: int = 2
    producer_id_expiration_ms: int = 86_400_000

    # Replication
    auto_leader_rebalance_enable: bool = True
    controlled_shutdown_enable: bool = True
    follower_replication_throttled_rate: int = LONG_MAX
    leader_imbalance_check_interval_seconds: int = 300
    leader_replication_throttled_rate: int = LONG_MAX
    replica_fetch_backoff_ms: int = 1000
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_min_bytes: int = 1
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_wait_max_ms: int = 500
    replica_lag_time_max_ms: int = 30_000
    replica_selector_class: str | None = None
    replication_quota_window_num: int = 11
    replication_quota_window_size_seconds: int = 1

    # Fetch
    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1000

    # Groups and their offsets. Kafka's default assignors are uniform and range; load is klamm's.
    group_consumer_assignment_interval_ms: int = 1000
    group_consumer_assignors: tuple[str, ...] = CONSUMER_ASSIGNORS
    group_consumer_heartbeat_interval_ms: int = 5000
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_max_size: int = _INT_MAX
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_min_heartbeat_interval_ms: int = 5000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
    group_coordinator_append_linger_ms: int = -1
    group_coordinator_rebalance_protocols: tuple[str, ...] = ("classic", "consumer", "streams")
    group_initial_rebalance_delay_ms: int = 3000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = _INT_MAX
    group_min_session_timeout_ms: int = 6000
    klamm_group_ephemeral_patterns: tuple[str, ...] = ()
    klamm_group_ephemeral_retention_ms: int = 3_600_000
    klamm_group_history_enable: bool = True
    klamm_group_history_retention_ms: int = 604_800_000
    klamm_group_rebalance_batch_ms: int = 0
    klamm_group_traffic_interval_ms: int = 5000
    klamm_metrics_listener: str = ""
    klamm_offsets_commit_linger_ms: int | None = None
    offset_metadata_max_bytes: int = 4096
    offsets_commit_timeout_ms: int = 5000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_retention_minutes: int = 10_080
    offsets_topic_compression_codec: int = 0
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 1
    offsets_topic_segment_bytes: int = 104_857_600

    # Transactions
    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    add_partitions_to_txn_retry_backoff_ms: int = 20
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_max_timeout_ms: int = 900_000
    transaction_partition_verification_enable: bool = True
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_state_log_min_isr: int = 1
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 1
    transaction_state_log_segment_bytes: int = 104_857_600
    transactional_id_expiration_ms: int = 604_800_000

    explicit: Mapping[str, str] = field(default_factory=lambda: BASELINE)
    """The settings at the broker's start, as text, by key: the static configuration in DescribeConfigs."""

    @property
    def cluster_id(self) -> str | None:
        """The required cluster id of the data directory; None if the first start may choose it."""
        return self.klamm_cluster_id

    @property
    def data_directory(self) -> Path:
        """The folder in which all data is stored."""
        return self.log_dirs[0]

    @property
    def listen_host(self) -> str:
        """Host of the first listener; empty means every address."""
        return self.listeners[0].host

    @property
    def listen_port(self) -> int:
        """Port of the first listener; 0 picks a free port."""
        return self.listeners[0].port

    @classmethod
    def load(
        cls,
        flags: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        file: Path | None = None,
        profile: Profile = "default",
        *,
        flags_name: str = "-X",
    ) -> Self:
        """Loads the configuration from flags, environment, file and profile, in that order of precedence.

        `flags_name` is the name of the source of `flags` in messages.

        Raises ConfigurationError, which names key, value, source and allowed values.
        """
        from klamm.config.configuration_sources import load_fields

        return cls(**load_fields(flags or {}, environ or {}, file, profile, flags_name))
