"""Passes heartbeats to the coordinator as the broker does, and verifies each cached answer.

When the coordinator answers from its cache, the shard decides the same request as well. The decision must be equal to
the cached answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.simulation.difference import difference
from tests.simulation.notes import in_words
from tests.simulation.violation import Violation

from klamm.core.coordinator.shard_contract import ClientContext, Ticket
from klamm.core.group.shard import GroupShard
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import KafkaError
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.runtime.answers import Answer
from klamm.runtime.group_coordinator import GroupCoordinator

__all__ = ["ask_heartbeat"]

_NOBODY = Ticket(-1)


def ask_heartbeat(
    groups: GroupCoordinator, request: HeartbeatRequest | ConsumerGroupHeartbeatRequest, client: ClientContext
) -> Answer[Any]:
    """Returns the cached answer to an equal heartbeat if the coordinator has one, else the coordinator's decision."""
    name = f"{client.client_host}\0{client.client_id}\0{type(request).__name__}\0{client.api_version}\0".encode()
    said = name + encode(request, client.api_version)
    repeated = groups.repeat(said)
    is_classic = isinstance(request, HeartbeatRequest)
    if repeated is None:
        if isinstance(request, HeartbeatRequest):
            return groups.heartbeat(request, client, said)
        return groups.consumer_group_heartbeat(request, client, said)
    answer: Message
    answer, _ = decode(
        HeartbeatResponse if is_classic else ConsumerGroupHeartbeatResponse, client.api_version, repeated
    )
    _check(groups, request, client, answer)
    return answer


def _check(
    groups: GroupCoordinator,
    request: HeartbeatRequest | ConsumerGroupHeartbeatRequest,
    client: ClientContext,
    answer: Message,
) -> None:
    shard = groups._runtime.shard(groups.partition_for(request.group_id))
    if shard is None:
        raise Violation(0, f"{in_words(request)} is answered with {in_words(answer)} where its group is not led")
    now = groups._wall_clock()
    try:
        if isinstance(request, HeartbeatRequest):
            result = GroupShard.handle_heartbeat(shard, request, client, _NOBODY, now)
        else:
            result = GroupShard.handle_consumer_group_heartbeat(shard, request, client, _NOBODY, now)
    except KafkaError as error:
        repeated = f"{in_words(request)} is answered with {in_words(answer)}"
        raise Violation(0, f"{repeated} and would be refused: {error.code.name}") from None
    decided = _Decision(
        result.replies,
        len(result.timers),
        len(result.records),
        len(result.events),
        len(result.tasks) + len(result.requests),
        result.on_append is not None,
        result.on_commit is not None,
    )
    expected = _Decision([(_NOBODY, answer)], 1)
    if decided != expected:
        what = difference(expected, decided, names=("repeated", "decided"))
        raise Violation(0, f"{in_words(request)} is answered again without a decision:\n{what}")


class _Decision(NamedTuple):
    """The result of a request: its answers, and the numbers of its timers, records, events and tasks."""

    replies: Sequence[object]
    timers: int
    records: int = 0
    events: int = 0
    tasks: int = 0
    acts_on_append: bool = False
    acts_on_commit: bool = False
