"""klamm: a Kafka-compatible event log in Python.

The public names are imported at their first use, so that `import klamm` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from klamm._version import __version__
from klamm.errors import KlammError

if TYPE_CHECKING:
    from klamm.testing.embedded import Broker

__all__ = ["Broker", "KlammError", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Broker":
        return importlib.import_module("klamm.testing.embedded").Broker
    raise AttributeError(f"module 'klamm' has no attribute {name!r}")
