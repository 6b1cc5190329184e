"""Merges the lists of groups that the partitions of one coordinator return."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.schema.list_groups_response import ListGroupsResponse

__all__ = ["merge_group_lists"]


def merge_group_lists(parts: Sequence[ListGroupsResponse]) -> ListGroupsResponse:
    """Returns the groups of all parts, or the first error among the parts."""
    for part in parts:
        if part.error_code:
            return ListGroupsResponse(error_code=part.error_code)
    return ListGroupsResponse(groups=[group for part in parts for group in part.groups])
