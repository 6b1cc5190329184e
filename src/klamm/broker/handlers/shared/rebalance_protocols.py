"""Which group protocols are switched on: `group.coordinator.rebalance.protocols`, as Kafka's `KafkaApis` asks it.

ApiVersions says the same either way, as Kafka's does: the key is for going back, not for what a client may find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from klamm.config.broker_config import BrokerConfig

__all__ = ["check_consumer_protocol"]

_CONSUMER: Final = "consumer"


def check_consumer_protocol(config: BrokerConfig) -> None:
    """Raises UNSUPPORTED_VERSION unless groups of the consumer protocol (KIP-848) are served."""
    if _CONSUMER not in config.group_coordinator_rebalance_protocols:
        raise KafkaError(ErrorCode.unsupported_version)
