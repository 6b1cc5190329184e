"""Planted bugs: they show that the simulator finds such bugs.

Each bug patches a piece of klamm from here while its context is open. klamm itself contains no switch that makes it
wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, cast
from unittest.mock import patch

from tests.simulation.brokers.bugs import BROKER_BUGS
from tests.simulation.clusters.bugs import CLUSTER_BUGS
from tests.simulation.clusters.compaction_bugs import COMPACTION_BUGS
from tests.simulation.clusters.deletion_bugs import DELETION_BUGS
from tests.simulation.clusters.follower_bugs import FOLLOWER_BUGS
from tests.simulation.clusters.replica_bugs import REPLICA_BUGS
from tests.simulation.delivery.bugs import DELIVERY_BUGS
from tests.simulation.logs.bugs import LOG_BUGS

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.coordinator.shard_contract import CoordinatorRecord, Result, Ticket
from klamm.core.group.classic import classic_shard, leaves, offset_checks, rebalance, syncs
from klamm.core.group.classic import heartbeats as heartbeats_of_classic_groups
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.classic_groups import ClassicGroups
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.member import Member
from klamm.core.group.classic.timers import SESSION as CLASSIC_SESSION
from klamm.core.group.consumer import consumer_shard, heartbeats
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.core.group.consumer.member_update import Subject, take_place
from klamm.core.group.consumer.timers import SESSION as CONSUMER_SESSION
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.events import RebalanceNeeded
from klamm.core.group.group_store import GroupStore
from klamm.core.group.offsets import offset_commits, offset_fetches
from klamm.core.group.offsets.lingering_commits import LingeringCommits
from klamm.core.group.removal import removal_rules
from klamm.core.txn import endings
from klamm.core.txn.shard import TransactionShard
from klamm.core.txn.transaction import Transaction
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.records import BatchHeader, iterate_batches
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequestGroup
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponseGroup
from klamm.protocol.types import Millis, PartitionIndex
from klamm.runtime import partition_loading
from klamm.runtime.alarms import Alarm, AlarmQueue
from klamm.runtime.coordinator_runtime import CoordinatorRuntime
from klamm.runtime.led_partition import Waiting

__all__ = ["BUGS_OF", "GROUP_BUGS"]


@contextmanager
def _skip_a_fence() -> Iterator[None]:
    """A fence is skipped: requests of the former process of a static member are accepted.

    A member of a consumer group whose epoch differs from the group's epoch is not fenced either.
    """

    def check_member(group: ClassicGroup, member_id: str, group_instance_id: str | None) -> Member:
        if group_instance_id is not None:
            member_id = group.static_members.get(group_instance_id, member_id)
        member = group.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerGroupMember:
        member = group.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    with (
        patch.object(ClassicGroup, "check_member", check_member),
        patch.object(heartbeats, "check_static_member", check_static_member),
        patch.object(heartbeats, "_check_epoch", lambda *arguments: None),
    ):
        yield


@contextmanager
def _hand_over_before_revocation() -> Iterator[None]:
    """A partition is handed over before it was revoked: a generation begins when half of the members have joined, and
    the other members keep their partitions.

    In a consumer group, a partition goes to its next owner while its current owner still has it.
    """

    def has_all_members_joined(group: ClassicGroup) -> bool:
        return group.awaiting_join * 2 >= len(group.members) > 0 and not group.pending_join

    complete_join = rebalance.complete_join

    def complete_with_all(group: ClassicGroup, *arguments: Any) -> None:
        missing = [member for member in group.members.values() if member.join_ticket is None]
        instances = {member.member_id: member.group_instance_id for member in missing}
        for member in missing:
            member.group_instance_id = member.group_instance_id or member.member_id
        complete_join(group, *arguments)
        for member in missing:
            member.group_instance_id = instances[member.member_id]

    with (
        patch.object(ClassicGroup, "has_all_members_joined", property(has_all_members_joined)),
        patch.object(rebalance, "complete_join", complete_with_all),
        patch.object(ConsumerGroup, "owner", lambda group, topic_id, partition: None),
    ):
        yield


@contextmanager
def _forget_a_tombstone() -> Iterator[None]:
    """The deletion of a group forgets the tombstone of the group's last offset."""
    tombstones = removal_rules.offset_tombstones

    def all_but_one(store: GroupStore, group_id: str) -> list[CoordinatorRecord]:
        return list(tombstones(store, group_id))[:-1]

    with patch.object(removal_rules, "offset_tombstones", all_but_one):
        yield


@contextmanager
def _lose_a_timer() -> Iterator[None]:
    """Every twentieth session timer is lost, so that session never times out."""
    set_deadline = AlarmQueue.set_deadline
    armed = 0

    def set_mostly(queue: AlarmQueue, alarm: Alarm, delay_ms: float) -> None:
        nonlocal armed
        if alarm.key.kind in (CLASSIC_SESSION, CONSUMER_SESSION):
            armed += 1
            if armed % 20 == 0:
                alarm.owner.cancel(alarm.key)
                return
        set_deadline(queue, alarm, delay_ms)

    with patch.object(AlarmQueue, "set_deadline", set_mostly):
        yield


@contextmanager
def _replay_out_of_order() -> Iterator[None]:
    """A coordinator that loads replays the batches of each read in reverse order, except the last batch."""

    def backwards(view: memoryview) -> list[tuple[int, BatchHeader]]:
        batches = list(iterate_batches(view))
        return [*reversed(batches[:-1]), *batches[-1:]]

    with patch.object(partition_loading, "iterate_batches", backwards):
        yield


@contextmanager
def _accept_a_stale_commit() -> Iterator[None]:
    """A stale commit is accepted: any generation or member epoch passes if the sender is a member now."""

    def check_classic(group: ClassicGroup | None, request: OffsetCommitRequest, *rest: Any) -> Member | None:
        if group is None:
            return offset_checks.check_commit(group, request, *rest)
        if request.generation_id_or_member_epoch < 0 and group.state is GroupState.EMPTY:
            return None
        return group.check_member(request.member_id, request.group_instance_id)

    def check_consumer(group: ConsumerGroup, request: OffsetCommitRequest, *rest: Any) -> None:
        if request.member_id not in group.members and group.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    with (
        patch.object(classic_shard, "check_commit", check_classic),
        patch.object(consumer_shard, "check_commit", check_consumer),
    ):
        yield


@contextmanager
def _believe_a_former_producer() -> Iterator[None]:
    """EndTxn does not check the epoch: a former producer can end the open transaction of its transactional id."""
    check_original, check_bumping = endings._check_original, endings._check_bumping

    def without_fence(check: Callable[[Transaction, EndTxnRequest], bool]) -> Callable[..., bool]:
        def checked(transaction: Transaction, request: EndTxnRequest) -> bool:
            request.producer_epoch = transaction.producer_epoch
            return check(transaction, request)

        return checked

    with (
        patch.object(endings, "_check_original", without_fence(check_original)),
        patch.object(endings, "_check_bumping", without_fence(check_bumping)),
    ):
        yield


@contextmanager
def _forget_markers() -> Iterator[None]:
    """A transaction coordinator that loads forgets the markers of transactions that were ending."""

    def on_loaded(shard: TransactionShard, topics: ClusterTopics, now: Millis) -> Iterator[Result]:
        result = Result()
        shard._lapses.start(result)
        yield result

    with patch.object(TransactionShard, "on_loaded", on_loaded):
        yield


@contextmanager
def _miss_heartbeats_of_a_leader() -> Iterator[None]:
    """A heartbeat does not restart the session timer while the group waits for its leader's assignment."""

    def heartbeat(groups: ClassicGroups, request: HeartbeatRequest, ticket: Ticket) -> Result:
        result = heartbeats_of_classic_groups.heartbeat(groups, request, ticket)
        group = groups.find(request.group_id)
        if group is not None and group.state is GroupState.COMPLETING_REBALANCE:
            result.timers.clear()
            result.reusable_answer = None
        return result

    with patch.object(classic_shard, "heartbeat", heartbeat):
        yield


@contextmanager
def _replace_a_live_static_member() -> Iterator[None]:
    """A live static member of a consumer group is replaced by any process that joins with its instance id."""
    find = heartbeats._Heartbeat._find_static_member

    def find_static_member(heartbeat: heartbeats._Heartbeat, member_id: str, instance_id: str) -> Subject:
        present = heartbeat.group.static_member(instance_id)
        if heartbeat.request.member_epoch == 0 and present is not None:
            return take_place(heartbeat.decision, heartbeat.group, present, member_id)
        return find(heartbeat, member_id, instance_id)

    with patch.object(heartbeats._Heartbeat, "_find_static_member", find_static_member):
        yield


@contextmanager
def _apply_an_old_assignment() -> Iterator[None]:
    """An assignment that is committed while the group waits for one is applied, even if it belongs to an older
    generation.
    """
    persist = syncs._persist

    def persist_for_any(groups: ClassicGroups, group: ClassicGroup, *arguments: Any) -> None:
        persist(groups, group, *arguments)
        (*_, result) = arguments
        on_commit, of_generation = result.on_commit, group.generation

        def commit(now: Millis) -> Result:
            generation, group.generation = group.generation, of_generation
            try:
                return cast("Result", on_commit(now))
            finally:
                group.generation = generation

        result.on_commit = commit

    with patch.object(syncs, "_persist", persist_for_any):
        yield


@contextmanager
def _go_on_without_who_left() -> Iterator[None]:
    """A member that leaves while the group waits for its leader's assignment starts no new rebalance."""

    def rebalance_soon(
        group: ClassicGroup,
        causes: Sequence[RebalanceNeeded],
        config: GroupCoordinatorConfig,
        result: Result,
        now: Millis,
    ) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE:
            rebalance.rebalance_soon(group, causes, config, result, now)

    with patch.object(leaves, "rebalance_soon", rebalance_soon):
        yield


@contextmanager
def _write_an_older_commit_last() -> Iterator[None]:
    """Offset commits that linger are written in the wrong order: the commits of the latest epochs come first."""
    take = LingeringCommits.take

    def take_latest_first(lingering: LingeringCommits) -> list[CoordinatorRecord]:
        settled = list(lingering._settled)
        return [*take(lingering)[len(settled) :], *settled]

    with patch.object(LingeringCommits, "take", take_latest_first):
        yield


@contextmanager
def _let_a_repeated_commit_expire() -> Iterator[None]:
    """A commit of an unchanged offset is never written, so the offset expires."""
    init = offset_commits._Commit.__init__

    def init_without_refresh(commit: Any, *arguments: Any, **options: Any) -> None:
        init(commit, *arguments, **options)
        commit._since_ms = 0

    with patch.object(offset_commits._Commit, "__init__", init_without_refresh):
        yield


@contextmanager
def _show_pending_offsets() -> Iterator[None]:
    """OffsetFetch returns the offsets of transactions that are still open."""
    named_topics = offset_fetches._named_topics

    def with_pending(store: GroupStore, group: OffsetFetchRequestGroup, require_stable: bool) -> Any:
        topics = named_topics(store, group, require_stable)
        for pending in store.pending_offsets.values():
            for topic in topics:
                for each in topic.partitions:
                    offset = pending.get((group.group_id, topic.name, PartitionIndex(each.partition_index)))
                    if offset is not None and not each.error_code:
                        each.committed_offset = offset.offset
        return topics

    with patch.object(offset_fetches, "_named_topics", with_pending):
        yield


@contextmanager
def _answer_reads_at_once() -> Iterator[None]:
    """OffsetFetch does not wait until the offsets that it has read are committed."""
    release_or_wait = CoordinatorRuntime._release_or_wait

    def release(runtime: Any, led: Any, waiting: Sequence[Waiting]) -> None:
        replies = [response for each in waiting for _, response in each.result.replies]
        if replies and all(isinstance(response, OffsetFetchResponseGroup) for response in replies):
            for each in waiting:
                runtime._commit(led, each.result)
            return
        release_or_wait(runtime, led, waiting)

    with patch.object(CoordinatorRuntime, "_release_or_wait", release):
        yield


GROUP_BUGS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "skip a fence": _skip_a_fence,
    "hand over before revocation": _hand_over_before_revocation,
    "forget a tombstone": _forget_a_tombstone,
    "lose a timer": _lose_a_timer,
    "replay out of order": _replay_out_of_order,
    "accept a stale commit": _accept_a_stale_commit,
    "believe a former producer": _believe_a_former_producer,
    "forget markers": _forget_markers,
    "miss heartbeats of a leader": _miss_heartbeats_of_a_leader,
    "replace a live static member": _replace_a_live_static_member,
    "apply an old assignment": _apply_an_old_assignment,
    "go on without who left": _go_on_without_who_left,
    "write an older commit last": _write_an_older_commit_last,
    "let a repeated commit expire": _let_a_repeated_commit_expire,
    "show pending offsets": _show_pending_offsets,
    "answer reads at once": _answer_reads_at_once,
}
"""Bugs that worlds of groups must find."""

BUGS_OF: Final[Mapping[str, Mapping[str, Callable[[], AbstractContextManager[None]]]]] = {
    "groups": GROUP_BUGS,
    "log": LOG_BUGS,
    "broker": BROKER_BUGS,
    "delivery": DELIVERY_BUGS,
    "cluster": CLUSTER_BUGS,
    "replicas": {**REPLICA_BUGS, **FOLLOWER_BUGS, **DELETION_BUGS, **COMPACTION_BUGS},
}
"""All bugs, by the kind of world that must find them."""
