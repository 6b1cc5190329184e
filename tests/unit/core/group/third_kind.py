"""A third kind of group with two record types; an entry in the table is all that a coordinator needs for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final, cast

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.coordinator.shard_contract import (
    BackgroundTask,
    ClientContext,
    CoordinatorRecord,
    Result,
    Ticket,
    TimerKey,
    TimerKind,
)
from klamm.core.group.events import GroupType
from klamm.core.group.group_kind import GroupKind, KindServices
from klamm.core.group.partition_traffic import Traffic
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.message import Message
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.join_group_request import JoinGroupRequest
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequestGroup
from klamm.protocol.schema.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from klamm.protocol.schema.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from klamm.protocol.schema.share_group_metadata_key import ShareGroupMetadataKey
from klamm.protocol.schema.share_group_metadata_value import ShareGroupMetadataValue
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest
from klamm.protocol.types import Millis

__all__ = ["SESSION", "THIRD_KIND", "CountMembers", "ThirdShard", "group_record", "member_record"]

SESSION: Final = TimerKind("session of a share group's member")
SESSION_TIMEOUT_MS: Final = 10_000


class ThirdType(Enum):
    """The type of the third kind. A real kind has its name in `GroupType`, which a test cannot extend."""

    SHARE = "share"


class ThirdState(Enum):
    """The states of a group."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ThirdGroup:
    """A group of the third kind: its epoch, and the ids of its members."""

    group_type = cast(GroupType, ThirdType.SHARE)
    allows_offset_delete = True
    may_expire = True
    expires_from_ms = None

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.members: set[str] = set()

    @property
    def is_empty(self) -> bool:
        """Returns whether the group has no members."""
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        """Returns False, because the kind has no subscriptions."""
        return False

    def tombstones(self) -> Iterator[CoordinatorRecord]:
        """Returns the record that deletes the group."""
        yield group_record(self.group_id, None)


def group_record(group_id: str, epoch: int | None) -> CoordinatorRecord:
    """Returns the record of a group, or its tombstone."""
    value = None if epoch is None else ShareGroupMetadataValue(epoch=epoch)
    return CoordinatorRecord(ShareGroupMetadataKey(group_id=group_id), value, 0)


def member_record(group_id: str, member_id: str, *, is_there: bool = True) -> CoordinatorRecord:
    """Returns the record of a member, or its tombstone."""
    key = ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    return CoordinatorRecord(key, ShareGroupMemberMetadataValue(client_id="client") if is_there else None, 0)


class ThirdStore:
    """All groups of the third kind."""

    group_type: ClassVar = cast(GroupType, ThirdType.SHARE)
    keys: ClassVar[frozenset[type[Message]]] = frozenset({ShareGroupMetadataKey, ShareGroupMemberMetadataKey})
    group_key: ClassVar[type[Message]] = ShareGroupMetadataKey

    def __init__(self) -> None:
        self.groups: Final[dict[str, ThirdGroup]] = {}

    @staticmethod
    def group_id(key: ShareGroupMetadataKey | ShareGroupMemberMetadataKey) -> str:
        """Returns the group id in the key."""
        return key.group_id

    def replay(self, key: ShareGroupMetadataKey | ShareGroupMemberMetadataKey, value: Message | None) -> bool:
        """Applies one record; returns whether it created a group."""
        group = self.groups.get(key.group_id)
        is_new = group is None and value is not None
        if group is None:
            if value is None:
                return False
            group = self.groups[key.group_id] = ThirdGroup(key.group_id)
        if isinstance(key, ShareGroupMemberMetadataKey):
            (group.members.discard if value is None else group.members.add)(key.member_id)
        elif isinstance(value, ShareGroupMetadataValue):
            group.epoch = value.epoch
        else:
            self.drop(key.group_id)
        return is_new

    def drop(self, group_id: str) -> None:
        """Removes a group."""
        del self.groups[group_id]


@dataclass(frozen=True)
class CountMembers:
    """A background task of the third kind: counts members."""

    owner_id: str
    members: frozenset[str]

    def run(self) -> int:
        """Returns the number of members."""
        return len(self.members)


class ThirdShard:
    """The decisions of the third kind: sessions end, and requests of other protocols are refused."""

    def __init__(self, services: KindServices) -> None:
        self.store = services.store.of(ThirdStore)
        self.forgotten: list[str] = []
        self.topics: ClusterTopics | None = None
        self.commits = 0
        self.counts: dict[str, object] = {}

    def find(self, group_id: str) -> ThirdGroup | None:
        """Returns the group, or None."""
        return self.store.groups.get(group_id)

    def peek(self, group_id: str) -> ThirdGroup:
        """Returns the group."""
        return self.store.groups[group_id]

    def summary(self, group_id: str) -> tuple[str, str]:
        """Returns the state and the protocol type."""
        state = ThirdState.EMPTY if self.store.groups[group_id].is_empty else ThirdState.STABLE
        return state.value, "share"

    def member_count(self, group_id: str) -> int:
        """Returns the number of members."""
        return len(self.store.groups[group_id].members)

    def forget(self, group_id: str) -> None:
        """Records that the group has ended."""
        self.forgotten.append(group_id)

    def on_loaded(self, topics: ClusterTopics, now: Millis) -> Iterator[Result]:
        """Starts the session of each member."""
        result = Result()
        for group in self.store.groups.values():
            for member_id in group.members:
                result.arm(TimerKey(SESSION, group.group_id, member_id), SESSION_TIMEOUT_MS)
        yield result

    def on_unloaded(self, result: Result) -> None:
        """Does nothing, because no request is parked."""

    def on_topics(self, topics: ClusterTopics) -> Iterator[Result]:
        """Keeps the topics."""
        self.topics = topics
        return iter(())

    def rebalance(self, group_id: str, now: Millis) -> Result:
        """Starts to count the members, in the background."""
        result = Result()
        result.tasks.append(CountMembers(group_id, frozenset(self.store.groups[group_id].members)))
        return result

    def end_session(self, group_id: str, member_id: str, now: Millis) -> Result:
        """Does nothing."""
        return Result()

    def on_traffic(self, traffic: Traffic, result: Result) -> None:
        """Does nothing, because the kind is not assigned by load."""

    def on_timer(self, key: TimerKey, now: Millis) -> Result:
        """Removes the member whose session has ended."""
        result = Result()
        result.records.append(member_record(key.owner_id, str(key.detail), is_there=False))
        return result

    def on_task(self, task: BackgroundTask, outcome: object, now: Millis) -> Result:
        """Keeps the count."""
        self.counts[task.owner_id] = outcome
        return Result()

    def join_group(self, request: JoinGroupRequest, context: ClientContext, ticket: Ticket, now: Millis) -> Result:
        """Refuses the request."""
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def sync_group(self, request: SyncGroupRequest, ticket: Ticket, now: Millis) -> Result:
        """Refuses the request."""
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now: Millis) -> Result:
        """Refuses the request."""
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def leave_group(self, request: LeaveGroupRequest, ticket: Ticket, now: Millis) -> Result:
        """Refuses the request."""
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_commit(self, request: OffsetCommitRequest, api_version: int, result: Result) -> None:
        """Refuses a commit that is not from a member."""
        if request.member_id not in self.store.groups[request.group_id].members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def note_commit(self, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
        """Counts the commits."""
        self.commits += 1

    def check_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """Refuses the request."""
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)

    def note_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """Does nothing, because every transactional commit is refused."""

    def check_fetch(self, request: OffsetFetchRequestGroup) -> None:
        """Refuses a fetch that is not from a member."""
        if request.member_id not in self.store.groups[request.group_id].members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)


THIRD_KIND: Final = GroupKind(
    store=ThirdStore, shard=ThirdShard, states=ThirdState, timers=(SESSION,), tasks=(CountMembers,)
)
