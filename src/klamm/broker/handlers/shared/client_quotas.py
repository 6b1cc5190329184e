"""Entity types and keys of client quotas (KIP-546).

klamm has no quotas yet. It uses the names to refuse requests as Kafka does.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

__all__ = ["ENTITY_TYPES", "HIGHEST", "keys_of"]

ENTITY_TYPES: Final = frozenset({"user", "client-id", "ip"})

_OF_CLIENTS: Final = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
_OF_ADDRESSES: Final = frozenset({"connection_creation_rate"})
_LONG: Final = (float(2**63), "a LONG")
HIGHEST: Final = {
    "producer_byte_rate": _LONG,
    "consumer_byte_rate": _LONG,
    "connection_creation_rate": (float(2**31 - 1), "an INT"),
}
"""The highest value of the quotas that are whole numbers, and the name of their type."""


def keys_of(entity_types: Collection[str]) -> Collection[str]:
    """Returns the quota keys of entities of these types, as in Kafka's `QuotaConfig`."""
    return _OF_ADDRESSES if "ip" in entity_types else _OF_CLIENTS
