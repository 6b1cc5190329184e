"""Entity types and keys of client quotas (KIP-546).

klamm has no quotas yet. It uses the names to refuse requests as Kafka does.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ENTITY_TYPES", "KEYS"]

ENTITY_TYPES: Final = frozenset({"user", "client-id", "ip"})

_OF_CLIENTS: Final = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
KEYS: Final = {
    "user": _OF_CLIENTS,
    "client-id": _OF_CLIENTS,
    "ip": frozenset({"connection_creation_rate"}),
}
"""The quota keys of each entity type, as in Kafka's `QuotaConfig`."""
