"""Lets a chosen broker coordinate groups or transactions: a script must know which broker to kill."""

from __future__ import annotations

from functools import partial
from typing import Final

from tests.differential.script import Run

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode

__all__ = ["GROUP", "TRANSACTION", "fail_over", "place_coordinator", "wait_for_producer_ids"]

GROUP: Final = 0
TRANSACTION: Final = 1
_TOPICS: Final = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}
_PREFERRED: Final = 0


def _coordinator(run: Run, kind: int, key: str, broker: int = 1) -> int:
    """Returns the broker that coordinates; -1 if there is none now."""
    answer = run.call(ApiKey.FIND_COORDINATOR, broker=broker, key_type=kind, coordinator_keys=[key])
    (found,) = answer.coordinators
    node_id: int = found.node_id
    return -1 if found.error_code else node_id


def place_coordinator(run: Run, kind: int, replicas: list[int]) -> None:
    """Gives the one partition of the internal topic these replicas, of which the first one leads."""
    topic = _TOPICS[kind]
    run.wait_for(lambda: _coordinator(run, kind, run.name) != -1)
    moved = {"name": topic, "partitions": [{"partition_index": 0, "replicas": replicas}]}
    run.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, topics=[moved], timeout_ms=30_000)
    run.wait_for_partition(
        topic, 0, lambda found: found.replica_nodes == replicas and sorted(found.isr_nodes) == sorted(replicas)
    )
    elected = [{"topic": topic, "partitions": [0]}]
    run.call(ApiKey.ELECT_LEADERS, election_type=_PREFERRED, topic_partitions=elected, timeout_ms=30_000)
    run.wait_for(lambda: all(_coordinator(run, kind, run.name, broker) == replicas[0] for broker in run.running))
    run.wait_for(lambda: _answers(run, kind, replicas[0]))


def wait_for_producer_ids(run: Run) -> None:
    """Waits until each broker has producer ids. Apache Kafka's brokers refuse the first request."""
    for broker in run.running:
        run.wait_for(partial(_has_producer_ids, run, broker))


def _has_producer_ids(run: Run, broker: int) -> bool:
    return not run.call(ApiKey.INIT_PRODUCER_ID, broker=broker, transactional_id=None).error_code


def _answers(run: Run, kind: int, broker: int) -> bool:
    """Returns whether the coordinator has loaded its partition."""
    if kind == GROUP:
        groups = [{"group_id": run.name, "topics": None}]
        answer = run.call(ApiKey.OFFSET_FETCH, broker=broker, groups=groups)
        return _is_loaded(answer.groups[0].error_code)
    answer = run.call(ApiKey.DESCRIBE_TRANSACTIONS, broker=broker, transactional_ids=[run.name])
    return _is_loaded(answer.transaction_states[0].error_code)


def fail_over(run: Run, kind: int, old: int, new: int) -> None:
    """Kills the coordinator, and waits until the next one has loaded its partition and all brokers know it."""
    run.kill(old)
    run.wait_for(lambda: all(_coordinator(run, kind, run.name, broker) == new for broker in run.running))
    run.wait_for(lambda: _answers(run, kind, new))


def _is_loaded(code: int) -> bool:
    """Returns whether an error code is not one that a coordinator has while it takes over."""
    return code not in (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
