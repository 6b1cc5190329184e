"""What all requests about delegation tokens (KIP-48) are answered as long as nobody is authenticated.

Kafka gives no token to a client on a connection without TLS and SASL: else whoever is near could ask for one.
"""

from __future__ import annotations

from typing import Final

from klamm.protocol.errors import ErrorCode

__all__ = ["ANONYMOUS", "NO_TIME", "REFUSAL", "USER"]

REFUSAL: Final = ErrorCode.delegation_token_request_not_allowed
USER: Final = "User"
ANONYMOUS: Final = "ANONYMOUS"
"""The name of a client that has proved none."""
NO_TIME: Final = -1
"""What stands for a time in a refusal."""
