"""The group coordinator's interface for the handlers: one method per API, from decoded request to response.

Makes the checks that need no group (an empty group id, a session timeout out of range), finds the responsible
partition, lets the runtime decide there, and puts errors into the shape of each API. After Apache Kafka's
`GroupCoordinatorService`.

A method returns the response if it is known at once, otherwise an awaitable of it. It never raises KafkaError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Final

from klamm.core.coordinator.shard_contract import ClientContext, Result, Ticket
from klamm.core.group.assignors.assignor import Assignor
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.group_config import GroupConfig, GroupConfigOf
from klamm.core.group.offsets.committed_offset import PartitionOffsets
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
from klamm.protocol.types import Millis, PartitionIndex
from klamm.runtime import error_responses as errors
from klamm.runtime.answers import Answer, then
from klamm.runtime.consumer_group_requests import check_heartbeat
from klamm.runtime.coordinator_facade import CoordinatorFacade
from klamm.runtime.coordinator_runtime import CoordinatorRuntime
from klamm.runtime.group_administration import GroupAdministration
from klamm.runtime.group_lists import merge_group_lists
from klamm.runtime.group_measurements import GroupMeasurements
from klamm.runtime.ports import CoordinatorLog, Executor, Ids, Promises, Timers, WallClock
from klamm.runtime.record_serde import GroupRecordSerde

if TYPE_CHECKING:
    from klamm.core.group.shard import GroupShard

__all__ = ["GroupCoordinator", "load_shard_class"]

_NOT_READY: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
_NO_CLIENT: Final = ClientContext("", "", -1)

_DEFAULT_SETTINGS: Final = GroupConfig()


@cache
def load_shard_class() -> type[GroupShard]:
    """Returns the class that decides for groups.

    The first call imports some sixty modules, so a broker that has no groups yet starts sooner.
    """
    import klamm.core.group.assignors.built_in  # noqa: F401 - every shard gets assignors
    from klamm.core.group.shard import GroupShard

    return GroupShard


class GroupCoordinator(CoordinatorFacade["GroupShard"]):
    """All groups whose partition of `__consumer_offsets` this broker leads.

    `assignors` are all assignors, by default the built-in ones; `config` names those that consumer groups may use.
    `group_config_of` returns the configuration of a consumer group. `partition_count` returns how many partitions
    `__consumer_offsets` has, or will have.
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
        has_session: Callable[[], bool] | None = None,
    ) -> None:
        self._config = config
        self._group_config_of = group_config_of
        self._wall_clock = wall_clock
        self._given_assignors = assignors
        super().__init__(
            CoordinatorRuntime(
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
                has_session=has_session,
            ),
            partition_count,
        )
        self.administration = GroupAdministration(self._runtime, self.partition_for)
        self.measurements = GroupMeasurements(self._runtime, self._shard_of, group_config_of, wall_clock)
        self.repeat: Final = self._runtime.reusable_answers.repeat
        """Returns the cached encoded answer to a heartbeat that equals an earlier one, and restarts the session timer.
        None if the heartbeat must be decided."""

    @cached_property
    def _assignors(self) -> Mapping[str, Assignor]:
        """The assignors that consumer groups may use."""
        from klamm.core.group.assignors.built_in import BUILT_IN  # imported with the first group

        assignors = BUILT_IN if self._given_assignors is None else self._given_assignors
        return {name: assignors[name] for name in self._config.consumer_assignors}

    # -- queries of other services -------------------------------------------------------------------------------------

    def committed_offsets(self, group_id: str) -> Mapping[str, PartitionOffsets]:
        """Returns the committed offsets of the group, by topic and partition; empty if the group is not led here."""
        shard = self._shard_of(group_id)
        if shard is None:
            return {}
        return {topic: offsets.copy() for topic, offsets in shard.store.offsets_of(group_id).items()}

    def awaited_members(self, group_id: str) -> list[str] | None:
        """Returns the members that a classic group waits for in its rebalance.

        None if the group is not led here, or not loaded yet.
        """
        shard = self._shard_of(group_id)
        group = None if shard is None else shard.classic_groups.find(group_id)
        return None if group is None else group.awaited()

    # -- members -------------------------------------------------------------------------------------------------------

    def join_group(self, request: JoinGroupRequest, context: ClientContext) -> Answer[JoinGroupResponse]:
        """Answers JoinGroup, once the rebalance has gathered its members."""
        if not self._partition_count:
            return JoinGroupResponse(member_id=request.member_id, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not request.group_id:
            return JoinGroupResponse(member_id=request.member_id, error_code=ErrorCode.INVALID_GROUP_ID)
        config = self._config
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            return JoinGroupResponse(member_id=request.member_id, error_code=ErrorCode.INVALID_SESSION_TIMEOUT)
        return self._ask(request.group_id, load_shard_class().handle_join_group, request, context, errors.join_error)

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: ClientContext, request_fingerprint: bytes = b""
    ) -> Answer[ConsumerGroupHeartbeatResponse]:
        """Answers ConsumerGroupHeartbeat: a member of a consumer group joins, stays, or leaves.

        `request_fingerprint` identifies request and client: `repeat` may answer the next equal request.
        """
        if not self._partition_count:
            return errors.consumer_group_heartbeat_error(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            check_heartbeat(request, context.api_version, self._assignors)
        except KafkaError as error:
            return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
        return self._ask(
            request.group_id,
            load_shard_class().handle_consumer_group_heartbeat,
            request,
            context,
            errors.consumer_group_heartbeat_error,
            request_fingerprint=request_fingerprint,
        )

    def sync_group(self, request: SyncGroupRequest, context: ClientContext) -> Answer[SyncGroupResponse]:
        """Answers SyncGroup; followers get their answers when the leader's assignment is committed."""
        return self._ask(
            request.group_id,
            load_shard_class().handle_sync_group,
            request,
            context,
            errors.sync_error,
            empty_key=ErrorCode.INVALID_GROUP_ID,
        )

    def heartbeat(
        self, request: HeartbeatRequest, context: ClientContext, request_fingerprint: bytes = b""
    ) -> Answer[HeartbeatResponse]:
        """Answers the Heartbeat of a member.

        `request_fingerprint` identifies request and client: `repeat` may answer the next equal request.
        """
        return self._ask(
            request.group_id,
            load_shard_class().handle_heartbeat,
            request,
            context,
            errors.heartbeat_error,
            empty_key=ErrorCode.INVALID_GROUP_ID,
            request_fingerprint=request_fingerprint,
        )

    def leave_group(self, request: LeaveGroupRequest, context: ClientContext) -> Answer[LeaveGroupResponse]:
        """Answers LeaveGroup; request and response have the shape of version 3 and later, with a list of members."""
        return self._ask(
            request.group_id,
            load_shard_class().handle_leave_group,
            request,
            context,
            errors.leave_error,
            empty_key=ErrorCode.INVALID_GROUP_ID,
        )

    def offset_commit(self, request: OffsetCommitRequest, context: ClientContext) -> Answer[OffsetCommitResponse]:
        """Answers OffsetCommit; all topics must exist and have both name and id.

        The empty group id is valid (old consumers use it).
        """
        handle = load_shard_class().handle_offset_commit
        return self._ask(request.group_id, handle, request, context, errors.commit_error, may_linger=True)

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, context: ClientContext, verification_guard: int
    ) -> Answer[TxnOffsetCommitResponse]:
        """Answers TxnOffsetCommit; all topics must exist.

        The guard proves that the transaction coordinator has added this group to the transaction.
        """

        def commit(
            shard: GroupShard, request: TxnOffsetCommitRequest, context: ClientContext, ticket: Ticket, now: Millis
        ) -> Result:
            return shard.handle_txn_offset_commit(request, context, ticket, now, verification_guard)

        return self._ask(request.group_id, commit, request, context, errors.txn_offset_commit_error)

    def end_transaction(
        self, partition: PartitionIndex, marker: WritableTxnMarker
    ) -> Answer[WritableTxnMarkerPartitionResult]:
        """Writes a transaction's marker into a partition of `__consumer_offsets`.

        The marker makes the transaction's offsets there valid, or drops them. The answer comes when the marker is
        committed, and has the log's own codes; NOT_LEADER_OR_FOLLOWER as long as the partition is not loaded.
        """

        def refuse(marker: WritableTxnMarker, code: ErrorCode) -> WritableTxnMarkerPartitionResult:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code
            return WritableTxnMarkerPartitionResult(partition_index=partition, error_code=code)

        def end(
            shard: GroupShard, marker: WritableTxnMarker, context: ClientContext, ticket: Ticket, now: Millis
        ) -> Result:
            from klamm.core.group.offsets.transactional_commits import (
                end_transaction,  # the shard has imported the module already
            )

            return end_transaction(partition, marker, ticket)

        return self._runtime.submit(partition, end, marker, _NO_CLIENT, refuse)

    def offset_fetch(
        self, group: OffsetFetchRequestGroup, require_stable: bool, context: ClientContext
    ) -> Answer[OffsetFetchResponseGroup]:
        """Answers OffsetFetch for one group; request and response have the shape of version 8 and later.

        `topics` None requests all topics.
        """

        def refuse(request: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponseGroup:
            return errors.fetch_group_error(group, code, context.api_version)

        request = OffsetFetchRequest(groups=[group], require_stable=require_stable)
        return self._ask(group.group_id, load_shard_class().handle_offset_fetch, request, context, refuse)

    def offset_delete(self, request: OffsetDeleteRequest, context: ClientContext) -> Answer[OffsetDeleteResponse]:
        """Answers OffsetDelete; all partitions must exist."""
        return self._ask(
            request.group_id,
            load_shard_class().handle_offset_delete,
            request,
            context,
            errors.offset_delete_error,
            empty_key=ErrorCode.INVALID_GROUP_ID,
        )

    def group_ids(self, size: int) -> list[tuple[PartitionIndex, list[str]]]:
        """Returns the groups that are known now, by partition and at most `size` at a time.

        A partition without groups yields one empty slice.
        """
        return self._slices(lambda shard: shard.store.group_ids(), size)

    def list_groups(
        self,
        request: ListGroupsRequest,
        context: ClientContext,
        among: tuple[PartitionIndex, Sequence[str]] | None = None,
    ) -> Answer[ListGroupsResponse]:
        """Answers ListGroups for all partitions led here, or for the groups of one partition in `among`.

        The response has COORDINATOR_LOAD_IN_PROGRESS while a partition is loading.
        """
        if not self._partition_count:
            return errors.list_groups_error(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if among is not None:
            handle = partial(load_shard_class().handle_list_groups, among=among[1])
            return self._runtime.submit(among[0], handle, request, context, errors.list_groups_error)
        parts = self._ask_all(load_shard_class().handle_list_groups, request, context, errors.list_groups_error)
        return then(parts, merge_group_lists)

    def describe_groups(self, request: DescribeGroupsRequest, context: ClientContext) -> Answer[DescribeGroupsResponse]:
        """Answers DescribeGroups; the groups may belong to several partitions."""
        if not self._partition_count:
            return errors.describe_groups_error(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        parts = self._ask_each(
            request.groups,
            load_shard_class().handle_describe_groups,
            lambda group_ids: DescribeGroupsRequest(groups=group_ids),
            context,
            errors.describe_groups_error,
        )
        return then(
            parts, lambda parts: DescribeGroupsResponse(groups=[group for part in parts for group in part.groups])
        )

    def consumer_group_describe(
        self, request: ConsumerGroupDescribeRequest, context: ClientContext
    ) -> Answer[ConsumerGroupDescribeResponse]:
        """Answers ConsumerGroupDescribe; the groups may belong to several partitions."""
        if not self._partition_count:
            return errors.consumer_group_describe_error(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        nameless = errors.consumer_group_describe_error(
            ConsumerGroupDescribeRequest(group_ids=[each for each in request.group_ids if not each]),
            ErrorCode.INVALID_GROUP_ID,
        )
        parts = self._ask_each(
            filter(None, request.group_ids),
            load_shard_class().handle_consumer_group_describe,
            lambda group_ids: ConsumerGroupDescribeRequest(group_ids=group_ids),
            context,
            errors.consumer_group_describe_error,
        )
        return then(
            parts,
            lambda parts: ConsumerGroupDescribeResponse(
                groups=[group for part in (nameless, *parts) for group in part.groups]
            ),
        )

    def delete_groups(self, request: DeleteGroupsRequest, context: ClientContext) -> Answer[DeleteGroupsResponse]:
        """Answers DeleteGroups; the groups may belong to several partitions."""
        if not self._partition_count:
            return errors.delete_groups_error(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        parts = self._ask_each(
            request.groups_names,
            load_shard_class().handle_delete_groups,
            lambda group_ids: DeleteGroupsRequest(groups_names=group_ids),
            context,
            errors.delete_groups_error,
        )
        return then(
            parts, lambda parts: DeleteGroupsResponse(results=[result for part in parts for result in part.results])
        )
