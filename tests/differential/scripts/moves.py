"""Reassignments and elections: what is refused, what is done, and what is listed."""

from __future__ import annotations

from typing import Any

from tests.differential.records import produce
from tests.differential.script import Run, script

from klamm.protocol.api import ApiKey

_PREFERRED, _UNCLEAN = 0, 1
_NOBODY = 9


def _reassign(
    run: Run, label: str, topic: str, *moves: tuple[int, list[int] | None], may_change_factor: bool = True
) -> None:
    partitions = [{"partition_index": index, "replicas": replicas} for index, replicas in moves]
    run.ask(
        label,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        topics=[{"name": topic, "partitions": partitions}],
        timeout_ms=30_000,
        allow_replication_factor_change=may_change_factor,
    )


def _list(run: Run, label: str, topics: list[dict[str, object]] | None) -> None:
    run.ask(label, ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=topics, timeout_ms=30_000)


def _is_moved(run: Run, topic: str, replicas: list[int], index: int = 0) -> None:
    run.wait_for_partition(
        topic, index, lambda found: found.replica_nodes == replicas and sorted(found.isr_nodes) == sorted(replicas)
    )


def _show(run: Run, label: str, topic: str) -> None:
    answer = run.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": topic}])
    for partition in answer.topics[0].partitions:
        partition.isr_nodes.sort()
    run.record(label, ApiKey.DESCRIBE_TOPIC_PARTITIONS, answer)


@script
def reassignments(run: Run) -> None:
    """Partitions move to other brokers, and back; refusals name the same reason."""
    topic = run.topic(replicas=(1, 2), partitions=3)
    produce(run, topic, b"value")
    _reassign(run, "unknown broker", topic, (0, [1, _NOBODY]))
    _reassign(run, "one broker twice", topic, (0, [1, 1]))
    _reassign(run, "negative broker", topic, (0, [-1]))
    _reassign(run, "no replicas", topic, (0, []))
    _reassign(run, "unknown partition", topic, (7, [1, 2]))
    _reassign(run, "negative partition", topic, (-1, [1, 2]))
    _reassign(run, "unknown topic", f"{run.name}-none", (0, [1, 2]))
    _reassign(run, "partition twice", topic, (0, [1, 2]), (0, [2, 1]))
    _reassign(run, "other factor not allowed", topic, (0, [1, 2, 3]), may_change_factor=False)
    _reassign(run, "fewer replicas not allowed", topic, (0, [1]), may_change_factor=False)
    _reassign(run, "nothing to cancel", topic, (0, None))
    _reassign(run, "one of two is refused", topic, (1, [1, 2]), (0, [_NOBODY]))
    run.ask("no topics", ApiKey.ALTER_PARTITION_REASSIGNMENTS, topics=[], timeout_ms=30_000)
    _reassign(run, "the same replicas", topic, (0, [1, 2]))
    _list(run, "nothing is moved", None)
    _reassign(run, "another order", topic, (0, [2, 1]))
    _is_moved(run, topic, [2, 1])
    _show(run, "after another order", topic)
    _reassign(run, "another broker", topic, (0, [3, 1]))
    _is_moved(run, topic, [3, 1])
    _show(run, "after another broker", topic)
    _reassign(run, "all other brokers", topic, (0, [2]))
    _is_moved(run, topic, [2])
    _show(run, "after all other brokers", topic)
    _reassign(run, "more replicas", topic, (0, [1, 2, 3]))
    _is_moved(run, topic, [1, 2, 3])
    _show(run, "after more replicas", topic)


@script
def reassignments_that_wait(run: Run) -> None:
    """A reassignment to a broker that is away goes on until it is cancelled, replaced, or the broker is back."""
    topic = run.topic(replicas=(1, 2), partitions=2)
    produce(run, topic, b"value")
    run.kill(3)
    _reassign(run, "to the dead broker", topic, (0, [3, 1]), (1, [1, 3]))
    for index in (0, 1):
        run.wait_for_partition(topic, index, lambda found: len(found.replica_nodes) == 3)
    _show(run, "on the way", topic)
    run.ask("Metadata on the way", ApiKey.METADATA, topics=[{"name": topic}])
    _list(run, "all are listed", None)
    _list(run, "one is listed", [{"name": topic, "partition_indexes": [1]}])
    _list(run, "others are not listed", [{"name": topic, "partition_indexes": [7]}])
    _list(run, "an unknown topic is not listed", [{"name": f"{run.name}-none", "partition_indexes": [0]}])
    wanted = {"name": topic, "count": 3, "assignments": [{"broker_ids": [1, 2]}]}
    run.ask("growth on the way", ApiKey.CREATE_PARTITIONS, topics=[wanted], timeout_ms=30_000)
    _reassign(run, "the same again", topic, (0, [3, 1]))
    _reassign(run, "replaced", topic, (0, [2, 3]))
    run.wait_for_partition(topic, 0, lambda found: 3 in found.replica_nodes and found.replica_nodes[0] == 2)
    _show(run, "after the replacement", topic)
    _reassign(run, "cancelled", topic, (0, None))
    run.wait_for_partition(topic, 0, lambda found: sorted(found.replica_nodes) == [1, 2])
    _show(run, "after the cancellation", topic)
    _reassign(run, "cancelled again", topic, (0, None))
    run.start(3)
    _is_moved(run, topic, [1, 3], 1)
    _show(run, "after the return", topic)
    _list(run, "nothing is listed", None)


@script
def reassignments_to_fewer_replicas(run: Run) -> None:
    """A reassignment to fewer replicas waits until all that remain are in sync; one that keeps those ends at once."""
    topic = run.topic(replicas=(1, 2, 3), partitions=3)
    produce(run, topic, b"value")
    run.kill(3)
    for index in (0, 1, 2):
        run.wait_for_partition(topic, index, lambda found: sorted(found.isr_nodes) == [1, 2])
    _reassign(run, "fewer", topic, (0, [1, 3]), (1, [1, 2]), (2, [3]))
    _is_moved(run, topic, [1, 2], 1)
    _show(run, "on the way", topic)
    _list(run, "those that wait are listed", [{"name": topic, "partition_indexes": [2, 0, 1, 0]}])
    run.start(3)
    _is_moved(run, topic, [1, 3])
    _is_moved(run, topic, [3], 2)
    _show(run, "after the return", topic)


def _elect(run: Run, label: str, kind: int, topics: list[dict[str, object]] | None, timeout_ms: int = 30_000) -> Any:
    return run.ask(label, ApiKey.ELECT_LEADERS, election_type=kind, topic_partitions=topics, timeout_ms=timeout_ms)


@script
def elections(run: Run) -> None:
    """Leaders are elected if they are needed and available."""
    topic = run.topic(replicas=(3, 1, 2), partitions=2)
    alone = run.topic("alone", replicas=(3,))
    both: list[dict[str, object]] = [{"topic": topic, "partitions": [0, 1]}]
    single: list[dict[str, object]] = [{"topic": alone, "partitions": [0]}]
    for kind, name in ((_PREFERRED, "preferred"), (_UNCLEAN, "unclean")):
        _elect(run, f"{name}: not needed", kind, both)
        _elect(run, f"{name}: unknown partition", kind, [{"topic": topic, "partitions": [7]}])
        _elect(run, f"{name}: unknown topic", kind, [{"topic": f"{run.name}-none", "partitions": [0]}])
        _elect(run, f"{name}: no topics", kind, [])
    _elect(run, "an unknown kind", 7, both)
    run.kill(3)
    run.wait_for_partition(topic, 1, lambda found: found.leader_id == 1)
    run.ask("Metadata without the leader", ApiKey.METADATA, topics=[{"name": topic}, {"name": alone}])
    for kind, name in ((_PREFERRED, "preferred"), (_UNCLEAN, "unclean")):
        _elect(run, f"{name}: the first replica is away", kind, both)
        _elect(run, f"{name}: the only replica is away", kind, single)
    run.start(3)
    for index in (0, 1):
        run.wait_for_partition(topic, index, lambda found: sorted(found.isr_nodes) == [1, 2, 3])
    _elect(run, "unclean: not needed after the return", _UNCLEAN, both)
    _elect(run, "preferred: needed", _PREFERRED, [{"topic": topic, "partitions": [0]}])
    run.wait_for_partition(topic, 0, lambda found: found.leader_id == 3)
    _elect(run, "preferred: one of two is needed", _PREFERRED, both)
    run.wait_for_partition(topic, 1, lambda found: found.leader_id == 3)
    _show(run, "after the elections", topic)
    _show(run, "the only replica leads again", alone)
