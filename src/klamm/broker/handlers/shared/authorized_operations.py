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

    read = 3
    write = 4
    create = 5
    delete = 6
    alter = 7
    describe = 8
    cluster_action = 9
    describe_configs = 10
    alter_configs = 11
    idempotent_write = 12


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS: Final = _bits(
    AclOperation.read,
    AclOperation.write,
    AclOperation.create,
    AclOperation.delete,
    AclOperation.alter,
    AclOperation.describe,
    AclOperation.describe_configs,
    AclOperation.alter_configs,
)
GROUP_OPERATIONS: Final = _bits(
    AclOperation.read,
    AclOperation.delete,
    AclOperation.describe,
    AclOperation.describe_configs,
    AclOperation.alter_configs,
)
CLUSTER_OPERATIONS: Final = _bits(
    AclOperation.create,
    AclOperation.alter,
    AclOperation.describe,
    AclOperation.cluster_action,
    AclOperation.describe_configs,
    AclOperation.alter_configs,
    AclOperation.idempotent_write,
)
