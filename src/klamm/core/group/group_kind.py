"""The contract between the group coordinator and a kind of group.

`group_kinds.py` is the table of all kinds. The rest of the coordinator treats all kinds alike: it reads the table,
finds the kind that has the group of a request (`group_registry.py`), and lets this kind decide. To add a kind:

1. Add its name to `GroupType` (`events.py`).
2. Give the kind a wing (a subfolder) next to `classic/` and `consumer/`, with a group that meets `Group` (`group.py`),
   a store that meets `KindStore` (`group_store.py`) and decisions that meet `KindShard`. The examples are
   `consumer/consumer_store.py` and `consumer/consumer_shard.py`.
3. Add an entry to `group_kinds.py`. Then the kind's records are replayed, its timers expire, the outcomes of its
   background tasks reach it, its groups are loaded, listed, measured, deleted and expired, and the kind decides on the
   requests that groups of any kind may get.
4. For each API that only this kind has, such as ConsumerGroupHeartbeat, add a method to the kind's decisions, a method
   to `GroupShard` (`shard.py`) that calls it, a method to `klamm.runtime.group_coordinator`, and a handler to
   `klamm.broker.handlers`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.coordinator.shard_contract import BackgroundTask, ClientContext, Result, Ticket, TimerKey, TimerKind
from klamm.core.group.assignors.assignor import Assignor
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.group import Group
from klamm.core.group.group_config import GroupConfigOf
from klamm.core.group.group_store import GroupStore, KindStore
from klamm.core.group.partition_traffic import Traffic
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.join_group_request import JoinGroupRequest
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequestGroup
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest
from klamm.protocol.types import Millis, TopicId

__all__ = ["GROUPS_PER_LOAD_STEP", "GroupKind", "KindServices", "KindShard", "PartitionCheck", "shard_of"]

GROUPS_PER_LOAD_STEP: Final = 50
"""Groups with members that one step of a load takes over: two milliseconds, if they are small."""

PartitionCheck: TypeAlias = Callable[[str, TopicId, int], None]
"""Refuses the whole commit if a partition may not be in it. Takes topic name, topic id where known, and index."""


class KindShard(Protocol):
    """The groups of one kind on one shard: what is volatile of them, and the decisions on them.

    Requests are given to the kind that has the group. The first kind of the table also gets those with the id of a
    group that does not exist. A request may be refused with a `KafkaError`.
    """

    @property
    def store(self) -> KindStore:
        """The durable part of the groups."""

    # Groups

    def find(self, group_id: str) -> Group | None:
        """Returns the group with that id, or None."""

    def peek(self, group_id: str) -> Group:
        """Returns an existing group, for reading only. Cheap in memory, for iterating over very many groups."""

    def summary(self, group_id: str) -> tuple[str, str]:
        """Returns state and protocol type of an existing group for a list; "" for no protocol type. Cheap."""

    def member_count(self, group_id: str) -> int:
        """Returns the number of members of an existing group. Cheap."""

    def forget(self, group_id: str) -> None:
        """Drops the volatile state of a group that has ended."""

    # Life

    def on_loaded(self, topics: ClusterTopics, now: Millis) -> Iterator[Result]:
        """Yields the steps that take over the loaded groups, as `Shard.on_loaded` does."""

    def on_unloaded(self, result: Result) -> None:
        """Answers every parked request with NOT_COORDINATOR: leadership is lost."""

    def on_topics(self, topics: ClusterTopics) -> Iterator[Result]:
        """Takes the cluster's new topics at once; returns the steps to run afterwards."""

    def on_traffic(self, traffic: Traffic, result: Result) -> None:
        """Takes the latest traffic of the partitions; puts the timers of what follows into the result."""

    def on_timer(self, key: TimerKey, now: Millis) -> Result:
        """Decides what follows from an expired timer of this kind."""

    def on_task(self, task: BackgroundTask, outcome: object, now: Millis) -> Result:
        """Decides on the outcome of a background task of this kind: the result of `run`, or its exception."""

    def rebalance(self, group_id: str, now: Millis) -> Result:
        """Makes the group rebalance because an administrator asks for it. Raises GROUP_ID_NOT_FOUND."""

    def end_session(self, group_id: str, member_id: str, now: Millis) -> Result:
        """Decides as if the member's session had timed out. Raises GROUP_ID_NOT_FOUND or UNKNOWN_MEMBER_ID."""

    # Requests of the classic protocol

    def join_group(self, request: JoinGroupRequest, context: ClientContext, ticket: Ticket, now: Millis) -> Result:
        """Decides on JoinGroup."""

    def sync_group(self, request: SyncGroupRequest, ticket: Ticket, now: Millis) -> Result:
        """Decides on SyncGroup."""

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now: Millis) -> Result:
        """Decides on Heartbeat."""

    def leave_group(self, request: LeaveGroupRequest, ticket: Ticket, now: Millis) -> Result:
        """Decides on LeaveGroup."""

    # Offsets

    def check_commit(self, request: OffsetCommitRequest, api_version: int, result: Result) -> PartitionCheck | None:
        """Checks that the sender may commit, and restarts its session if a commit does that.

        Returns a check that each partition must pass, too, or None. Raises KafkaError.
        """

    def note_commit(self, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
        """Notes a sign of life of the committing member, for the detection of crash loops."""

    def check_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """Checks that the sender may commit in a transaction. Raises KafkaError."""

    def note_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """Notes the same as `note_commit`, once the offsets are appended."""

    def check_fetch(self, request: OffsetFetchRequestGroup) -> None:
        """Checks that the sender may read the group's committed offsets. Raises KafkaError."""


@dataclass(frozen=True)
class KindServices:
    """What a kind may use on its shard.

    `new_member_id` creates a member id from a client id or group instance id, `new_uuid` one from nothing. `assignors`
    are the assignors for groups that the coordinator assigns, by name, the default first.
    """

    store: GroupStore
    config: GroupCoordinatorConfig
    new_member_id: Callable[[str], str]
    new_uuid: Callable[[], str]
    group_config_of: GroupConfigOf
    assignors: Mapping[str, Assignor]
    shards: list[KindShard] = field(default_factory=list)
    """The kinds that come earlier in the table: a kind whose groups migrate needs the other kind."""


class GroupKind(NamedTuple):
    """One kind of group, an entry of the table."""

    store: type[KindStore]
    """The kind's name, its records, and its durable groups."""
    shard: Callable[[KindServices], KindShard]
    """The decisions."""
    states: Iterable[Enum]
    """The states of its groups; the values are the names on the wire."""
    timers: Collection[TimerKind]
    """The timers that `KindShard.on_timer` decides on."""
    tasks: Collection[type]
    """The background tasks whose outcomes `KindShard.on_task` decides on."""


S = TypeVar("S", bound=KindShard)


def shard_of(kind: type[S], shards: Sequence[KindShard]) -> S:
    """Returns the only shard of that kind."""
    (shard,) = (each for each in shards if isinstance(each, kind))
    return shard
