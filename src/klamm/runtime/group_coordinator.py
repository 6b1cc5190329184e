"""The group coordinator as the handlers see it: one method per API, from decoded request to response.

Checks what needs no group (an empty group id, a session timeout out of range), finds the partition that is
responsible, lets the runtime decide there, and puts errors into the shape of each API. After Apache Kafka's
`GroupCoordinatorService`.

A method returns the response at once where it is known, and else an awaitable of it; it never raises KafkaError.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Final

from klamm.core.coordinator.java_hash import partition_for
from klamm.core.coordinator.shard_contract import ClientContext, DeletedTopic, Result, Ticket
from klamm.core.group.assignors.assignor import Assignor
from klamm.core.group.assignors.load_settings import LoadSettings
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.group_config import GroupConfig, GroupConfigOf
from klamm.core.group.group_meter import GroupFigures, GroupMeter
from klamm.core.group.offsets.committed_offset import PartitionOffsets
from klamm.core.group.partition_traffic import Traffic
from klamm.metadata.image import MetadataImage
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_describe_response import ConsumerGroupDescribeResponse
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.delete_groups_response import DeleteGroupsResponse
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.schema.join_group_request import JoinGroupRequest
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest
from klamm.protocol.schema.leave_group_response import LeaveGroupResponse
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListGroupsResponse
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_delete_request import OffsetDeleteRequest
from klamm.protocol.schema.offset_delete_response import OffsetDeleteResponse
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponseGroup
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.schema.sync_group_response import SyncGroupResponse
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest
from klamm.protocol.schema.txn_offset_commit_response import TxnOffsetCommitResponse
from klamm.protocol.schema.write_txn_markers_request import WritableTxnMarker
from klamm.protocol.schema.write_txn_markers_response import WritableTxnMarkerPartitionResult
from klamm.protocol.types import LeaderEpoch, Millis, PartitionIndex
from klamm.runtime import error_responses as errors
from klamm.runtime.answers import Answer, gather, then
from klamm.runtime.consumer_group_requests import check_heartbeat
from klamm.runtime.coordinator_runtime import CoordinatorRuntime
from klamm.runtime.image_topics import ImageTopics
from klamm.runtime.ports import CoordinatorLog, Executor, Ids, Promises, Timers, WallClock
from klamm.runtime.record_serde import GroupRecordSerde

if TYPE_CHECKING:
    from klamm.core.group.shard import GroupShard

__all__ = ["GroupCoordinator", "load_shard_class", "merge_lists"]

_NOT_READY: Final = (
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_coordinator,
)
_NOBODY: Final = ClientContext("", "", -1)

_DEFAULT_SETTINGS: Final = GroupConfig()


@cache
def load_shard_class() -> type[GroupShard]:
    """Returns the class that decides for groups.

    The first call imports some sixty modules, so a broker that has no groups yet starts sooner.
    """
    import klamm.core.group.assignors.built_in  # noqa: F401 - every shard gets assignors
    from klamm.core.group.shard import GroupShard

    return GroupShard


class GroupCoordinator:
    """All groups whose partition of `__consumer_offsets` this broker leads.

    `assignors` are those that there are, by default the built-in ones; `config` names the ones that consumer groups
    may use. `group_config_of` says what a consumer group is set to. `partition_count` says how many partitions
    `__consumer_offsets` has, or will have; `start` asks it once.
    """

    def __init__(
        self,
        *,
        config: GroupCoordinatorConfig,
        log: CoordinatorLog,
        timers: Timers,
        wall_clock: WallClock,
        ids: Ids,
        promises: Promises,
        executor: Executor,
        publish: Callable[[PartitionIndex, Sequence[object]], None],
        partition_count: Callable[[], int],
        group_config_of: GroupConfigOf = lambda group_id: _DEFAULT_SETTINGS,
        assignors: Mapping[str, Assignor] | None = None,
        write_timeout_ms: int = 5000,
        compression: Compression = Compression.NONE,
    ) -> None:
        self._config = config
        self._group_config_of = group_config_of
        self._wall_clock = wall_clock
        self._traffic: Traffic = {}
        self._meter = GroupMeter()
        self._given_assignors = assignors
        self._topics: ImageTopics | None = None
        self._count_partitions = partition_count
        self._partition_count = 0
        self._runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            lambda leader_epoch: load_shard_class()(
                config, ids.member_id, new_uuid=ids.uuid, group_config_of=group_config_of, assignors=self._assignors
            ),
            serde=GroupRecordSerde(),
            log=log,
            timers=timers,
            wall_clock=wall_clock,
            promises=promises,
            executor=executor,
            publish=publish,
            write_timeout_ms=write_timeout_ms,
            compression=compression,
            linger_ms=config.offset_commit_linger_ms,
        )
        self.repeat: Final = self._runtime.reusable_answers.repeat
        """The encoded answer to a heartbeat that was `said` before in the very same words, with all that goes with it,
        if it would be the same now. None if it has to be asked for."""
        # The hash walks over every character, and the same groups ask again and again.
        self._partition_of = lru_cache(maxsize=10_000)(self._compute_partition)

    @cached_property
    def _assignors(self) -> Mapping[str, Assignor]:
        """The assignors that consumer groups may use."""
        from klamm.core.group.assignors.built_in import BUILT_IN  # with the first group, as its other code

        assignors = BUILT_IN if self._given_assignors is None else self._given_assignors
        return {name: assignors[name] for name in self._config.consumer_assignors}

    def start(self) -> None:
        """Begin to answer; before it, and after `stop`, every request gets COORDINATOR_NOT_AVAILABLE."""
        self._partition_count = self._count_partitions()
        self._partition_of.cache_clear()

    def stop(self) -> None:
        """Give up all partitions; parked requests get NOT_COORDINATOR."""
        self._partition_count = 0
        self._runtime.stop()

    def partition_for(self, group_id: str) -> PartitionIndex:
        """The partition of `__consumer_offsets` that is responsible for the group."""
        return self._partition_of(group_id)

    @property
    def skipped_records(self) -> int:
        """How many records of the partitions led here could not be read when they were loaded."""
        return self._runtime.skipped_records

    def committed_offsets(self, group_id: str) -> Mapping[str, PartitionOffsets]:
        """What the group has committed at this moment, by topic and partition: nothing if it is not led here."""
        shard = self._runtime.shard(self._partition_of(group_id)) if self._partition_count else None
        if shard is None:
            return {}
        return {topic: offsets.copy() for topic, offsets in shard.store.offsets_of(group_id).items()}

    def on_leadership(self, partition: PartitionIndex, leader_epoch: LeaderEpoch) -> None:
        """This broker leads the partition now: load it.

        Its groups get COORDINATOR_LOAD_IN_PROGRESS until it is read.
        """
        self._runtime.load(partition, leader_epoch)

    def on_resignation(self, partition: PartitionIndex) -> None:
        """This broker leads the partition no more: parked requests get NOT_COORDINATOR."""
        self._runtime.unload(partition)

    def on_metadata_update(self, old: MetadataImage, new: MetadataImage) -> None:
        """Let the groups know what the cluster looks like now; offsets of topics that are gone go too."""
        if old.topics is new.topics and old.brokers is new.brokers:
            return
        gone = old.topics_by_id.keys() - new.topics_by_id.keys()
        deleted = [DeletedTopic(old.topics_by_id[topic_id].name, topic_id) for topic_id in sorted(gone)]
        self._topics = ImageTopics(new, self._topics)
        self._runtime.on_metadata_update(self._topics, deleted)

    def on_traffic(self, traffic: Traffic) -> None:
        """What flows through the partitions now: groups that are assigned by load are weighed anew."""
        self._traffic = traffic
        self._runtime.tell(lambda shard, now: shard.on_traffic(traffic, now))

    def figures(self) -> Iterator[GroupFigures | None]:
        """Measure every group led here against the latest traffic; None stands for a step of a large group that is not
        the last one.
        """
        seen: set[str] = set()
        for shard in self._runtime.shards():
            for group_id in [*shard.store.groups, *shard.store.consumer_groups]:
                if shard.groups.is_known(group_id):  # It may have gone between two steps.
                    seen.add(group_id)
                    yield (yield from self._measure(shard, group_id))
        yield from self._meter.forget_others(seen)

    def figures_of(self, group_id: str) -> Generator[None, None, GroupFigures | None]:
        """Measure one group, in steps; None comes of it if it is not led here, or not loaded yet."""
        shard = self._runtime.shard(self._partition_of(group_id)) if self._partition_count else None
        if shard is None or not shard.groups.is_known(group_id):
            return None
        return (yield from self._measure(shard, group_id))

    def awaited_members(self, group_id: str) -> list[str] | None:
        """For whom a classic group waits in its rebalance; None if it is not led here, or not loaded yet."""
        shard = self._runtime.shard(self._partition_of(group_id)) if self._partition_count else None
        group = None if shard is None else shard.groups.find(group_id)
        return None if group is None else group.awaited()

    def _measure(self, shard: GroupShard, group_id: str) -> Generator[None, None, GroupFigures]:
        return self._meter.measure(
            group_id,
            shard.groups.member_count(group_id),
            shard.store.offsets_of(group_id),
            self._traffic,
            settings=LoadSettings.from_mapping(self._group_config_of(group_id).load),
            now=self._wall_clock(),
        )

    def join_group(self, request: JoinGroupRequest, context: ClientContext) -> Answer[JoinGroupResponse]:
        """JoinGroup; the answer comes when the rebalance has gathered its members."""
        if not self._partition_count:
            return JoinGroupResponse(member_id=request.member_id, error_code=ErrorCode.coordinator_not_available)
        if not request.group_id:
            return JoinGroupResponse(member_id=request.member_id, error_code=ErrorCode.invalid_group_id)
        config = self._config
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            return JoinGroupResponse(member_id=request.member_id, error_code=ErrorCode.invalid_session_timeout)
        partition = self._partition_of(request.group_id)
        return self._runtime.submit(
            partition, load_shard_class().handle_join_group, request, context, errors.join_error
        )

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: ClientContext, request_fingerprint: bytes = b""
    ) -> Answer[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat: a member of a consumer group joins, lives, or leaves.

        What is `said` stands for request and client: `repeat` may answer it the next time.
        """
        if not self._partition_count:
            return errors.consumer_group_heartbeat_error(request, ErrorCode.coordinator_not_available)
        try:
            check_heartbeat(request, context.api_version, self._assignors)
        except KafkaError as error:
            return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
        return self._runtime.submit(
            self._partition_of(request.group_id),
            load_shard_class().handle_consumer_group_heartbeat,
            request,
            context,
            errors.consumer_group_heartbeat_error,
            request_fingerprint=request_fingerprint,
        )

    def sync_group(self, request: SyncGroupRequest, context: ClientContext) -> Answer[SyncGroupResponse]:
        """SyncGroup; followers are answered when the leader's assignment is committed."""
        if not self._partition_count:
            return errors.sync_error(request, ErrorCode.coordinator_not_available)
        if not request.group_id:
            return errors.sync_error(request, ErrorCode.invalid_group_id)
        partition = self._partition_of(request.group_id)
        return self._runtime.submit(
            partition, load_shard_class().handle_sync_group, request, context, errors.sync_error
        )

    def heartbeat(
        self, request: HeartbeatRequest, context: ClientContext, request_fingerprint: bytes = b""
    ) -> Answer[HeartbeatResponse]:
        """Heartbeat of a member.

        What is `said` stands for request and client: `repeat` may answer it the next time.
        """
        if not self._partition_count:
            return errors.heartbeat_error(request, ErrorCode.coordinator_not_available)
        if not request.group_id:
            return errors.heartbeat_error(request, ErrorCode.invalid_group_id)
        partition = self._partition_of(request.group_id)
        return self._runtime.submit(
            partition,
            load_shard_class().handle_heartbeat,
            request,
            context,
            errors.heartbeat_error,
            request_fingerprint=request_fingerprint,
        )

    def leave_group(self, request: LeaveGroupRequest, context: ClientContext) -> Answer[LeaveGroupResponse]:
        """LeaveGroup, asked and answered in the shape of version 3 and later: the members that leave are in
        `members`.
        """
        if not self._partition_count:
            return errors.leave_error(request, ErrorCode.coordinator_not_available)
        if not request.group_id:
            return errors.leave_error(request, ErrorCode.invalid_group_id)
        partition = self._partition_of(request.group_id)
        return self._runtime.submit(
            partition, load_shard_class().handle_leave_group, request, context, errors.leave_error
        )

    def offset_commit(self, request: OffsetCommitRequest, context: ClientContext) -> Answer[OffsetCommitResponse]:
        """OffsetCommit of topics that exist, each with its name and id.

        The empty group id is a group (old consumers use it).
        """
        if not self._partition_count:
            return errors.commit_error(request, ErrorCode.coordinator_not_available)
        partition = self._partition_of(request.group_id)
        return self._runtime.submit(
            partition, load_shard_class().handle_offset_commit, request, context, errors.commit_error, may_linger=True
        )

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, context: ClientContext, verification_guard: int
    ) -> Answer[TxnOffsetCommitResponse]:
        """TxnOffsetCommit of topics that exist.

        The guard says that the transaction coordinator knows that this group is part of the transaction.
        """
        if not self._partition_count:
            return errors.txn_offset_commit_error(request, ErrorCode.coordinator_not_available)

        def commit(
            shard: GroupShard, request: TxnOffsetCommitRequest, context: ClientContext, ticket: Ticket, now: Millis
        ) -> Result:
            return shard.handle_txn_offset_commit(request, context, ticket, now, verification_guard)

        partition = self._partition_of(request.group_id)
        return self._runtime.submit(partition, commit, request, context, errors.txn_offset_commit_error)

    def end_transaction(
        self, partition: PartitionIndex, marker: WritableTxnMarker
    ) -> Answer[WritableTxnMarkerPartitionResult]:
        """Writes a transaction's marker into a partition of `__consumer_offsets`: what the transaction committed there
        counts from now on, or is forgotten.

        Answered when the marker is committed, with the log's own codes; NOT_LEADER_OR_FOLLOWER as long as the
        partition is not loaded.
        """

        def refuse(marker: WritableTxnMarker, code: ErrorCode) -> WritableTxnMarkerPartitionResult:
            code = ErrorCode.not_leader_or_follower if code in _NOT_READY else code
            return WritableTxnMarkerPartitionResult(partition_index=partition, error_code=code)

        def end(
            shard: GroupShard, marker: WritableTxnMarker, context: ClientContext, ticket: Ticket, now: Millis
        ) -> Result:
            from klamm.core.group.offsets.transactional_commits import (
                end_transaction,  # the shard has loaded it already
            )

            return end_transaction(partition, marker, ticket)

        return self._runtime.submit(partition, end, marker, _NOBODY, refuse)

    def offset_fetch(
        self, group: OffsetFetchRequestGroup, require_stable: bool, context: ClientContext
    ) -> Answer[OffsetFetchResponseGroup]:
        """OffsetFetch of one group, asked and answered in the shape of version 8 and later;

        `topics` None asks for all.
        """

        def refuse(request: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponseGroup:
            return errors.fetch_group_error(group, code, context.api_version)

        request = OffsetFetchRequest(groups=[group], require_stable=require_stable)
        if not self._partition_count:
            return refuse(request, ErrorCode.coordinator_not_available)
        partition = self._partition_of(group.group_id)
        return self._runtime.submit(partition, load_shard_class().handle_offset_fetch, request, context, refuse)

    def offset_delete(self, request: OffsetDeleteRequest, context: ClientContext) -> Answer[OffsetDeleteResponse]:
        """OffsetDelete of partitions that exist."""
        if not self._partition_count:
            return errors.offset_delete_error(request, ErrorCode.coordinator_not_available)
        if not request.group_id:
            return errors.offset_delete_error(request, ErrorCode.invalid_group_id)
        partition = self._partition_of(request.group_id)
        return self._runtime.submit(
            partition, load_shard_class().handle_offset_delete, request, context, errors.offset_delete_error
        )

    def group_ids(self, size: int) -> list[tuple[PartitionIndex, list[str]]]:
        """The groups that are known at this moment, by partition and no more than `size` at a time; a partition without
        any comes once, too.
        """
        slices = []
        for partition in self._runtime.partitions():
            shard = self._runtime.shard(partition)
            ids = [] if shard is None else [*shard.store.groups, *shard.store.consumer_groups]
            slices += [(partition, ids[start : start + size]) for start in range(0, max(len(ids), 1), size)]
        return slices

    def list_groups(
        self,
        request: ListGroupsRequest,
        context: ClientContext,
        among: tuple[PartitionIndex, Sequence[str]] | None = None,
    ) -> Answer[ListGroupsResponse]:
        """ListGroups over all partitions led here, or over some groups of one of them; as long as one is loading,
        COORDINATOR_LOAD_IN_PROGRESS.
        """

        def refuse(request: ListGroupsRequest, code: ErrorCode) -> ListGroupsResponse:
            # A partition that went away meanwhile is somebody else's to list.
            return ListGroupsResponse(error_code=0 if code is ErrorCode.not_coordinator else code)

        if not self._partition_count:
            return refuse(request, ErrorCode.coordinator_not_available)
        if among is not None:
            handle = partial(load_shard_class().handle_list_groups, among=among[1])
            return self._runtime.submit(among[0], handle, request, context, refuse)
        parts = [
            self._runtime.submit(partition, load_shard_class().handle_list_groups, request, context, refuse)
            for partition in self._runtime.partitions()
        ]
        return then(gather(parts), merge_lists)

    def describe_groups(self, request: DescribeGroupsRequest, context: ClientContext) -> Answer[DescribeGroupsResponse]:
        """DescribeGroups; the groups may lie on several partitions."""

        def refuse(request: DescribeGroupsRequest, code: ErrorCode) -> DescribeGroupsResponse:
            return DescribeGroupsResponse(groups=errors.describe_groups_error(request.groups, code))

        if not self._partition_count:
            return refuse(request, ErrorCode.coordinator_not_available)
        parts = [
            self._runtime.submit(
                partition,
                load_shard_class().handle_describe_groups,
                DescribeGroupsRequest(groups=group_ids),
                context,
                refuse,
            )
            for partition, group_ids in self._by_partition(request.groups).items()
        ]
        return then(
            gather(parts),
            lambda parts: DescribeGroupsResponse(groups=[group for part in parts for group in part.groups]),
        )

    def consumer_group_describe(
        self, request: ConsumerGroupDescribeRequest, context: ClientContext
    ) -> Answer[ConsumerGroupDescribeResponse]:
        """ConsumerGroupDescribe; the groups may lie on several partitions."""

        def refuse(request: ConsumerGroupDescribeRequest, code: ErrorCode) -> ConsumerGroupDescribeResponse:
            groups = errors.consumer_group_describe_error(request.group_ids, code)
            return ConsumerGroupDescribeResponse(groups=groups)

        if not self._partition_count:
            return refuse(request, ErrorCode.coordinator_not_available)
        nameless: list[str] = [group_id for group_id in request.group_ids if not group_id]
        parts: list[Answer[ConsumerGroupDescribeResponse]] = [
            refuse(ConsumerGroupDescribeRequest(group_ids=nameless), ErrorCode.invalid_group_id)
        ]
        for partition, group_ids in self._by_partition([each for each in request.group_ids if each]).items():
            part = ConsumerGroupDescribeRequest(group_ids=group_ids)
            parts.append(
                self._runtime.submit(
                    partition, load_shard_class().handle_consumer_group_describe, part, context, refuse
                )
            )
        return then(
            gather(parts),
            lambda parts: ConsumerGroupDescribeResponse(groups=[group for part in parts for group in part.groups]),
        )

    def delete_groups(self, request: DeleteGroupsRequest, context: ClientContext) -> Answer[DeleteGroupsResponse]:
        """DeleteGroups; the groups may lie on several partitions."""

        def refuse(request: DeleteGroupsRequest, code: ErrorCode) -> DeleteGroupsResponse:
            return DeleteGroupsResponse(results=errors.delete_groups_error(request.groups_names, code))

        if not self._partition_count:
            return refuse(request, ErrorCode.coordinator_not_available)
        parts = [
            self._runtime.submit(
                partition,
                load_shard_class().handle_delete_groups,
                DeleteGroupsRequest(groups_names=group_ids),
                context,
                refuse,
            )
            for partition, group_ids in self._by_partition(request.groups_names).items()
        ]
        return then(
            gather(parts), lambda parts: DeleteGroupsResponse(results=[one for part in parts for one in part.results])
        )

    def _compute_partition(self, group_id: str) -> PartitionIndex:
        return PartitionIndex(partition_for(group_id, self._partition_count or self._count_partitions()))

    def _by_partition(self, group_ids: Sequence[str]) -> dict[PartitionIndex, list[str]]:
        grouped: dict[PartitionIndex, list[str]] = {}
        for group_id in group_ids:
            grouped.setdefault(self._partition_of(group_id), []).append(group_id)
        return grouped


def merge_lists(parts: Sequence[ListGroupsResponse]) -> ListGroupsResponse:
    """All that the parts list, or the error of the first that has one."""
    for part in parts:
        if part.error_code:
            return ListGroupsResponse(error_code=part.error_code)
    return ListGroupsResponse(groups=[group for part in parts for group in part.groups])
