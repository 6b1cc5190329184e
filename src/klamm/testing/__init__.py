"""Tools for tests: a broker or a cluster of brokers in this process, and pytest fixtures (`klamm_broker`,
`klamm_cluster`, `klamm_topic`, `klamm_spark`, `klamm_pipeline`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klamm.testing.cluster import Cluster
    from klamm.testing.embedded import Broker

__all__ = ["Broker", "Cluster"]


def __getattr__(name: str) -> Any:
    if name == "Broker":
        from klamm.testing.embedded import Broker

        return Broker
    if name == "Cluster":
        from klamm.testing.cluster import Cluster

        return Cluster
    raise AttributeError(f"module 'klamm.testing' has no attribute {name!r}")
