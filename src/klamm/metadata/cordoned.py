"""The brokers that get no new replicas: those with all log directories cordoned (KIP-1066).

A broker has one log directory, and the broker has checked the value when it was set. So any value but an empty one
cordons the whole broker. The value is a dynamic config of the broker, so all versions of klamm can read the store.
"""

from __future__ import annotations

from typing import Final

from klamm.metadata.image import MetadataImage, ResourceType
from klamm.protocol.types import BrokerId

__all__ = ["is_cordoned"]

_CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"


def is_cordoned(image: MetadataImage, broker_id: BrokerId) -> bool:
    """Returns whether the broker's log directory is cordoned. Its present replicas go on; it gets no new ones."""
    return bool(image.config_overrides(ResourceType.BROKER, str(broker_id)).get(_CORDONED_LOG_DIRS, "").strip())
