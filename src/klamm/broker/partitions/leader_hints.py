"""The current leaders that a response names, so that the client need not ask for metadata (KIP-951).

Source: `KafkaApis.getCurrentLeader` and its callers in Apache Kafka 4.3. Produce names the leader only with
NOT_LEADER_OR_FOLLOWER, because its requests have no leader epoch that could be fenced.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.nodes import nodes_for
from klamm.protocol.errors import ErrorCode
from klamm.protocol.node_endpoint import NodeEndpoint
from klamm.protocol.produce import ProducePartitionResponse, ProduceTopicResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["endpoints_of", "name_leaders"]

_PRODUCE_WITH_LEADERS: Final = 10
"""First version of Produce whose response names leaders."""
_NOT_LEADER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def endpoints_of(context: RequestContext, leaders: Collection[int]) -> list[NodeEndpoint]:
    """Returns the addresses for this client of those leaders that are live."""
    return [NodeEndpoint(*node) for node in nodes_for(context) if node.id in leaders] if leaders else []


def name_leaders(
    context: RequestContext, answers: list[ProduceTopicResponse]
) -> tuple[list[ProduceTopicResponse], Collection[int]]:
    """Adds the current leader to the answers for partitions that this broker does not lead.

    Returns the answers, and the ids of these leaders. Versions before 10 name none.
    """
    if context.api_version < _PRODUCE_WITH_LEADERS:
        return answers, ()
    for topic in answers:
        for answer in topic.partitions:  # loops, because every response passes here
            if answer.error_code == _NOT_LEADER:
                leaders: set[int] = set()
                return [_with_leaders(context, each, leaders) for each in answers], leaders
    return answers, ()


def _with_leaders(context: RequestContext, topic: ProduceTopicResponse, leaders: set[int]) -> ProduceTopicResponse:
    partitions = context.broker.partitions
    led = partitions.by_name.get(topic.name or "") if topic.topic_id is None else partitions.by_id.get(topic.topic_id)
    if led is None:
        return topic

    def named(answer: ProducePartitionResponse) -> ProducePartitionResponse:
        leader = led.leader(answer.index) if answer.error_code == _NOT_LEADER else None
        if leader is None:
            return answer
        leaders.add(leader[0])
        return answer._replace(current_leader=leader)

    return topic._replace(partitions=[named(answer) for answer in topic.partitions])
