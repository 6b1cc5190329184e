"""The settings of the brokers of a test's cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from klamm.config.broker_config import BrokerConfig
from klamm.errors import KlammError

__all__ = ["cluster_settings", "member_config"]

_REPLICATION_FACTORS: Final = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)


def cluster_settings(brokers: int, replication_factor: int, config: Mapping[str, str]) -> dict[str, str]:
    """Returns Kafka's keys for every broker; `config` has precedence over the replication factor.

    Raises KlammError for numbers that don't fit each other.
    """
    if brokers < 1:
        raise KlammError(f"a cluster has at least one broker, not {brokers}")
    if not 1 <= replication_factor <= brokers:
        raise KlammError(f"the replication factor of {brokers} brokers is 1 to {brokers}, not {replication_factor}")
    factors = dict.fromkeys(_REPLICATION_FACTORS, str(replication_factor)) if replication_factor > 1 else {}
    return factors | dict(config)


def member_config(
    overrides: Mapping[str, str], profile: Literal["default", "test"], number: int, directory: Path, listener: str
) -> BrokerConfig:
    """Returns the configuration of one broker. Raises ConfigurationError."""
    own = {"node.id": str(number), "log.dirs": str(directory), "listeners": listener}
    return BrokerConfig.load(
        flags={**overrides, **own}, environ={}, file=None, profile=profile, flags_name="Cluster(config=...)"
    )
