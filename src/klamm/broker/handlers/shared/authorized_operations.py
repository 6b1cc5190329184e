"""The operations that a client may perform on a resource, as the bit field in describe responses (KIP-430).

Without an authorizer, every operation that the resource type supports is allowed and reported. Source: `AclEntry` and
`AclOperation` of Apache Kafka 4.3. The code of an operation is its bit number.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

__all__ = [
    "CLUSTER_OPERATIONS",
    "GROUP_OPERATIONS",
    "NOT_ASKED",
    "TOPIC_OPERATIONS",
    "AclOperation",
]

NOT_ASKED: Final = -(2**31)
"""Value of the field if the client did not request it."""


class AclOperation(IntEnum):
    """Operations on a resource that an authorizer can allow, with Kafka's codes."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS: Final = _bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
GROUP_OPERATIONS: Final = _bits(
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS: Final = _bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
