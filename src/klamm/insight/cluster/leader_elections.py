"""Elections of leaders, and what they changed: the API ElectLeaders (KIP-183, KIP-460)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.insight.cluster_access import TIMEOUT_S
from klamm.insight.cluster_requests import ClusterRequests, code_name
from klamm.insight.errors import ClusterError
from klamm.insight.topic.partition_states import PartitionState, partition_states
from klamm.insight.words import PartitionKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from klamm.protocol.schema.elect_leaders_response import ElectLeadersResponse

__all__ = ["ElectionOutcome", "elect_leaders"]

_PREFERRED, _UNCLEAN = 0, 1
_TIMEOUT_MS: Final = int((TIMEOUT_S - 1) * 1000)
"""The time limit of the cluster: its answer must arrive before this client gives up, and asks again."""
_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ElectionOutcome:
    """The result of the election of one partition."""

    key: PartitionKey
    old_leader: int | None
    new_leader: int | None
    """None if no broker leads, or if the brokers did not tell the new leader within five seconds."""
    is_needless: bool = False
    """Whether there was nothing to elect: the partition is led already."""
    problem: str | None = None
    """Why the election failed."""


def elect_leaders(
    requests: ClusterRequests, partitions: Collection[PartitionKey] | None, *, is_unclean: bool = False
) -> list[ElectionOutcome]:
    """Elects the preferred leader of the partitions, or of all that need it (None); or any replica that is left.

    An unclean election may lose records. Raises ClusterError if the whole request is refused, or for a missing topic.
    """
    topics = None if partitions is None else sorted({topic for topic, _ in partitions})
    before = _leaders(requests, topics)
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(partitions or ()):
        wanted[topic].append(index)
    request = ElectLeadersRequest(
        election_type=_UNCLEAN if is_unclean else _PREFERRED,
        topic_partitions=None
        if partitions is None
        else [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in wanted.items()],
        timeout_ms=_TIMEOUT_MS,
    )
    answer = requests.ask(request, ElectLeadersResponse)
    if answer.error_code:
        raise ClusterError(code_name(answer.error_code))
    codes = {
        (topic.topic, each.partition_id): (each.error_code, each.error_message)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }
    elected = {key for key, (code, _) in codes.items() if not code}
    after = _leaders_after(requests, elected, before)
    return [
        _outcome(key, code, message, (before.get(key), after.get(key)))
        for key, (code, message) in sorted(codes.items())
        if partitions is not None or code != ErrorCode.ELECTION_NOT_NEEDED
    ]


def _outcome(
    key: PartitionKey,
    code: int,
    message: str | None,
    states: tuple[PartitionState | None, PartitionState | None],
) -> ElectionOutcome:
    old, new = (None if state is None else state.leader for state in states)
    is_needless = code == ErrorCode.ELECTION_NOT_NEEDED
    if not code:
        return ElectionOutcome(key, old, new)
    problem = None if is_needless else f"{code_name(code)}: {message}" if message else code_name(code)
    return ElectionOutcome(key, old, old, is_needless, problem)


def _leaders_after(
    requests: ClusterRequests, elected: Collection[PartitionKey], before: Mapping[PartitionKey, PartitionState]
) -> dict[PartitionKey, PartitionState]:
    """Returns the states in which the elected partitions have another leader than before.

    The controller answers when it has decided. The broker that is asked here may learn of the decision a moment later.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while elected:
        states = _leaders(requests, sorted({topic for topic, _ in elected}))
        known = {key: state for key in elected if (state := states.get(key)) is not None}
        changed = {
            key: state for key, state in known.items() if key not in before or state.leader != before[key].leader
        }
        if len(changed) == len(elected) or time.monotonic() > deadline:
            return changed
        time.sleep(_PAUSE_S)
    return {}


def _leaders(requests: ClusterRequests, topics: Collection[str] | None) -> dict[PartitionKey, PartitionState]:
    return {state.key: state for topic in partition_states(requests, topics).values() for state in topic.partitions}
