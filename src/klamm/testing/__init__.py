"""Tools for tests: a broker in this process, and pytest fixtures (`klamm_broker`, `klamm_topic`, `klamm_spark`,
`klamm_pipeline`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klamm.testing.embedded import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:
    if name == "Broker":
        from klamm.testing.embedded import Broker

        return Broker
    raise AttributeError(f"module 'klamm.testing' has no attribute {name!r}")
