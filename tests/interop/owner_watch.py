"""Watches the owners of a group's partitions during a test, as the coordinator describes them (I15)."""

from __future__ import annotations

import threading
from collections import Counter
from types import TracebackType
from typing import Final, NamedTuple, Self

from tests.support.wire import Wire

from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    TopicPartitions,
)
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse

__all__ = ["Owner", "OwnerWatch", "describe_consumer_group", "describe_members"]

_VERSION: Final = 1
_INTERVAL_S: Final = 0.03


def describe_consumer_group(wire: Wire, group: str) -> DescribedGroup:
    """Returns the group's description by ConsumerGroupDescribe."""
    (described,) = wire.call(
        ConsumerGroupDescribeResponse, _VERSION, ConsumerGroupDescribeRequest(group_ids=[group])
    ).groups
    return described


class Owner(NamedTuple):
    """A member and its partitions, as the coordinator describes them."""

    member_id: str
    client_id: str
    epoch: int
    """The member epoch; 0 for a member of a classic group, because DescribeGroups does not return the generation."""
    owned: list[tuple[str, int]]
    """Pairs of topic name and partition."""


def describe_members(wire: Wire, group: str) -> list[Owner]:
    """Returns the members of a group of either protocol."""
    described = describe_consumer_group(wire, group)
    if not described.error_code:
        return [
            Owner(
                member.member_id,
                member.client_id,
                member.member_epoch,
                [
                    (topic.topic_name, index)
                    for topic in member.assignment.topic_partitions
                    for index in topic.partitions
                ],
            )
            for member in described.members
        ]
    (classic,) = wire.call(DescribeGroupsResponse, 5, DescribeGroupsRequest(groups=[group])).groups
    return [
        Owner(member.member_id, member.client_id, 0, _assigned(bytes(member.member_assignment)))
        for member in classic.members
    ]


def _places(topics: list[TopicPartitions]) -> list[tuple[str, int]]:
    return [(topic.topic_name, index) for topic in topics for index in topic.partitions]


def _assigned(assignment: bytes) -> list[tuple[str, int]]:
    if not assignment:
        return []
    assigned = decode_assignment(assignment).assigned_partitions
    return [(topic.topic, index) for topic in assigned for index in topic.partitions]


class OwnerWatch:
    """Describes a group of either protocol repeatedly; `with OwnerWatch(bootstrap, group) as watch`.

    `overlaps` lists partitions that the coordinator showed with two owners at the same time; a partition that a member
    must still give up counts as owned. The watch continues after restarts of the broker.
    """

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.looks = 0
        self.overlaps: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.is_set():
            try:
                with Wire(self._bootstrap, "watch") as wire:
                    self._look(wire)
                    while not self._stopped.wait(_INTERVAL_S):
                        self._look(wire)
            except OSError:
                self._stopped.wait(_INTERVAL_S)

    def _look(self, wire: Wire) -> None:
        members = describe_members(wire, self._group)
        owners = Counter(place for member in members for place in member.owned)
        self.looks += 1
        if twice := sorted(place for place, count in owners.items() if count > 1):
            self.overlaps.append(f"{twice} of {members}")
