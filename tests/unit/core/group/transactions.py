"""Sends transactional offset commits to a shard."""

from __future__ import annotations

from typing import cast

from tests.unit.core.group.shard_driver import GROUP, ShardDriver

from klamm.core.coordinator.shard_contract import ClientContext, Result, Ticket
from klamm.core.group.shard import GroupShard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.schema.txn_offset_commit_response import TxnOffsetCommitResponse
from klamm.protocol.types import Millis

__all__ = ["commit_in_transaction"]


def commit_in_transaction(
    driver: ShardDriver,
    member_id: str,
    generation: int,
    *,
    partition: int = 0,
    topic: str = "events",
    metadata: str = "",
) -> ErrorCode:
    """Commits one offset in a transaction, and returns the error code; `generation` may be a member epoch."""
    request = TxnOffsetCommitRequest(
        group_id=GROUP,
        producer_id=1,
        member_id=member_id,
        generation_id=generation,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[TxnOffsetCommitRequestPartition(partition_index=partition, committed_metadata=metadata)],
            )
        ],
    )

    def handle(
        shard: GroupShard, request: TxnOffsetCommitRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        return shard.handle_txn_offset_commit(request, context, ticket, now, 1)

    answer = driver.answers[driver.ask(handle, request, 3)]
    if isinstance(answer, ErrorCode):
        return answer
    return ErrorCode(cast(TxnOffsetCommitResponse, answer).topics[0].partitions[0].error_code)
