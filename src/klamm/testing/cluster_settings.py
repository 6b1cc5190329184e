"""The settings of the brokers of a test's cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from klamm.config.broker_config import BrokerConfig
from klamm.errors import KlammError

__all__ = ["ClusterSettings"]

_REPLICATION_FACTORS: Final = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)


class ClusterSettings:
    """What all brokers share, and what each one has of its own."""

    def __init__(
        self,
        brokers: int,
        replication_factor: int,
        config: Mapping[str, str],
        *,
        profile: Literal["default", "test"],
        racks: Sequence[str],
    ) -> None:
        """Checks the settings; keys in `config` have precedence over the replication factor.

        Raises KlammError for numbers that don't fit each other.
        """
        if brokers < 1:
            raise KlammError(f"a cluster has at least one broker, not {brokers}")
        if not 1 <= replication_factor <= brokers:
            raise KlammError(f"the replication factor of {brokers} brokers is 1 to {brokers}, not {replication_factor}")
        factors = dict.fromkeys(_REPLICATION_FACTORS, str(replication_factor)) if replication_factor > 1 else {}
        self._common = factors | dict(config)
        self._profile = profile
        self._racks = tuple(racks)

    def config_of(self, number: int, directory: Path, listener: str) -> BrokerConfig:
        """Returns the configuration of one broker; the brokers get the racks in turn. Raises ConfigurationError."""
        own = {"node.id": str(number), "log.dirs": str(directory), "listeners": listener}
        if self._racks:
            own["broker.rack"] = self._racks[(number - 1) % len(self._racks)]
        return BrokerConfig.load(
            flags={**self._common, **own},
            environ={},
            file=None,
            profile=self._profile,
            flags_name="Cluster(config=...)",
        )
