"""Describes a group's current owner, for the error of a query that has lost the group."""

from __future__ import annotations

import time
from typing import Final

from klamm.client.cluster import Cluster
from klamm.client.group_description import ClassicDescription, GroupDescriptions
from klamm.errors import KlammError
from klamm.spark.source.group.exclusive_assignor import owner_in

__all__ = ["describe_successor"]

# A rebalance with a new owner takes milliseconds, once it has begun.
_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.1


def describe_successor(cluster: Cluster, group_id: str) -> str:
    """Returns a clause that names the owner, or says that there is none; closes the cluster's connections. Never
    raises."""
    descriptions = GroupDescriptions(cluster, group_id)
    deadline = time.monotonic() + _PATIENCE_S
    try:
        while True:
            described = descriptions.describe()
            if described is None or not described.members:
                return "its session ran out, and no other query has taken over yet"
            if not isinstance(described, ClassicDescription):
                return "consumers have taken the group over"
            for member in described.members:
                if owner_in(bytes(member.member_assignment)) == member.member_id:
                    return f"{member.client_id} at {member.client_host} has taken over (member {member.member_id})"
            if time.monotonic() > deadline:
                return "its session ran out, and others are about to take over"
            time.sleep(_PAUSE_S)
    except KlammError as error:
        return f"its session ran out, and who has taken over could not be learned ({error})"
    finally:
        descriptions.close()
