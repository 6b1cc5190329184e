"""The assignor `uniform`: balances the number of partitions per member, and moves as few partitions as possible.

The assignments are the same as those of Apache Kafka 4.3's `UniformAssignor`, unless a member returns to partitions
that it owned recently (`previous_owners.py`). Racks have no influence, as in Kafka 4.3.
"""

from __future__ import annotations

from klamm.core.group.assignors.assignor import Assignment, GroupSpec
from klamm.core.group.assignors.previous_owners import hand_back
from klamm.core.group.assignors.subscriptions import NOTHING, assignable_members
from klamm.core.group.assignors.uniform_heterogeneous import assign_heterogeneous
from klamm.core.group.assignors.uniform_homogeneous import assign_homogeneous

__all__ = ["UniformAssignor"]


class UniformAssignor:
    """The assignor `uniform`; see the module's docstring."""

    name = "uniform"

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Returns each member's target. Raises AssignorFailed for a topic that does not exist."""
        result = dict.fromkeys(spec.members, NOTHING)
        members = assignable_members(spec)
        if members:
            build = assign_homogeneous if spec.is_homogeneous else assign_heterogeneous
            result.update(build(spec, members))
        return hand_back(spec, result) if spec.previous_owners else result
