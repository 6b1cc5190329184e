"""The checks of offset commits in a classic group (I16). After Apache Kafka's `ClassicGroup.validateOffsetCommit`."""

from __future__ import annotations

from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.member import Member
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest

__all__ = ["check_commit", "check_transactional_commit"]

_GROUP_ID_NOT_FOUND_FROM = 9


def check_commit(group: ClassicGroup | None, request: OffsetCommitRequest, api_version: int) -> Member | None:
    """Returns the committing member, or None for a commit without a member to an empty group or to a new one.

    Raises GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or REBALANCE_IN_PROGRESS.
    """
    generation = request.generation_id_or_member_epoch
    if group is None:
        # A commit without a member creates a simple group, which begins with its first offset.
        if generation >= 0:
            is_recent = api_version >= _GROUP_ID_NOT_FOUND_FROM
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if is_recent else ErrorCode.ILLEGAL_GENERATION)
        return None
    if generation < 0 and group.state is GroupState.EMPTY:
        return None
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The member knows the generation, so it has joined; it has nothing to commit before it gets its assignment.
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member


def check_transactional_commit(group: ClassicGroup | None, request: TxnOffsetCommitRequest) -> None:
    """Checks the committing member, if the request names one.

    Older versions don't contain the member, so it is not checked; neither is the state of the group. Raises
    ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    generation = request.generation_id
    if group is None:
        # A commit without a member creates a simple group, which begins with its first offset.
        if generation >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return
    if generation < 0 and group.state is GroupState.EMPTY:
        return
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return
    group.check_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
