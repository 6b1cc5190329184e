"""Checks which group protocols are enabled: `group.coordinator.rebalance.protocols`, as in Kafka's `KafkaApis`.

As in Kafka, ApiVersions does not depend on the key. The key is for a rollback, not for discovery by clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from klamm.config.broker_config import BrokerConfig

__all__ = ["check_consumer_protocol"]

_CONSUMER: Final = "consumer"


def check_consumer_protocol(config: BrokerConfig) -> None:
    """Raises UNSUPPORTED_VERSION unless the consumer protocol (KIP-848) is enabled."""
    if _CONSUMER not in config.group_coordinator_rebalance_protocols:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
