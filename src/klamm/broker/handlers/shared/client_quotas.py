"""What quotas can be given to, and which there are (KIP-546).

klamm has none yet; it knows their names to refuse them as Kafka does.
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
"""The quotas of each type of entity, as in Kafka's `QuotaConfig`."""
