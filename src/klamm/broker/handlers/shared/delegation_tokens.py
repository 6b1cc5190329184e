"""The refusal of all requests about delegation tokens (KIP-48), as long as no client is authenticated.

Kafka issues no token on a connection without TLS and SASL; otherwise any client could request one.
"""

from __future__ import annotations

from typing import Final

from klamm.protocol.errors import ErrorCode

__all__ = ["ANONYMOUS", "NO_TIME", "REFUSAL", "USER"]

REFUSAL: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
USER: Final = "User"
ANONYMOUS: Final = "ANONYMOUS"
"""The name of a client that is not authenticated."""
NO_TIME: Final = -1
"""Value of the time fields in a refusal."""
