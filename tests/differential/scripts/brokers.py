"""What the cluster does for topics and brokers while a broker is away, and after a broker is unregistered."""

from __future__ import annotations

from tests.differential.script import Run, script

from klamm.protocol.api import ApiKey

_UNKNOWN = 9


def _create(run: Run, label: str, brokers: list[int] | None, factor: int = -1) -> None:
    topic: dict[str, object] = {
        "name": f"{run.name}-{label.replace(' ', '-')}",
        "num_partitions": -1 if brokers else 1,
        "replication_factor": factor,
    }
    if brokers:
        topic["assignments"] = [{"partition_index": 0, "broker_ids": brokers}]
    answer = run.call(ApiKey.CREATE_TOPICS, topics=[topic], timeout_ms=30_000)
    for each in answer.topics:
        each.configs = []
    run.record(label, ApiKey.CREATE_TOPICS, answer)


@script
def topics_without_a_broker(run: Run) -> None:
    """Topics are created while a broker is away, if a live broker can lead them."""
    topic = run.topic(replicas=(1, 3))
    run.kill(3)
    run.wait_for_partition(topic, 0, lambda found: found.isr_nodes == [1])
    _create(run, "on a live and the dead broker", [1, 3])
    _create(run, "on the dead and a live broker", [3, 2])
    _create(run, "only on the dead broker", [3])
    _create(run, "on all brokers", None, 3)
    _create(run, "on two of them", None, 2)
    _create(run, "on four brokers", None, 4)
    for label in ("on a live and the dead broker", "on the dead and a live broker"):
        name = f"{run.name}-{label.replace(' ', '-')}"
        run.wait_for_partition(name, 0, lambda found: True)
        topics = [{"name": name}]
        run.ask(f"created {label}", ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=topics)
    for label, brokers in (("live first", [1, 3]), ("dead first", [3, 2]), ("dead alone", [3, 3])):
        wanted = {"name": topic, "count": 2, "assignments": [{"broker_ids": brokers}]}
        step = f"CreatePartitions, {label}"
        run.ask(step, ApiKey.CREATE_PARTITIONS, topics=[wanted], timeout_ms=30_000, validate_only=True)
    run.start(3)


@script
def unregistered_broker(run: Run) -> None:
    """A broker that is away is removed from the cluster, and joins it again with its next start."""
    topic = run.topic(replicas=(1, 3))
    run.ask("an unknown broker", ApiKey.UNREGISTER_BROKER, broker_id=_UNKNOWN)
    run.ask("a negative broker", ApiKey.UNREGISTER_BROKER, broker_id=-1)
    run.kill(3)
    run.wait_for_partition(topic, 0, lambda found: found.isr_nodes == [1])
    run.ask("the dead broker", ApiKey.UNREGISTER_BROKER, broker_id=3)
    run.ask("the dead broker again", ApiKey.UNREGISTER_BROKER, broker_id=3)
    run.ask("DescribeCluster", ApiKey.DESCRIBE_CLUSTER, include_fenced_brokers=True)
    run.ask("Metadata", ApiKey.METADATA, topics=[{"name": topic}])
    _create(run, "on the removed broker", [1, 3])
    run.start(3)
    run.wait_for_partition(topic, 0, lambda found: sorted(found.isr_nodes) == [1, 3])
    run.ask("Metadata after the return", ApiKey.METADATA, topics=[{"name": topic}])


@script
def unregistered_live_broker(run: Run) -> None:
    """A live broker is removed from the cluster. The others lead its partitions, and it joins again when it is started
    again."""
    topic = run.topic(replicas=(3, 1))
    run.ask("the live broker", ApiKey.UNREGISTER_BROKER, broker_id=3)
    run.ask("the live broker again", ApiKey.UNREGISTER_BROKER, broker_id=3)
    run.leave(3)
    run.wait_for_partition(topic, 0, lambda found: found.leader_id == 1 and found.isr_nodes == [1])
    run.ask("DescribeCluster", ApiKey.DESCRIBE_CLUSTER, include_fenced_brokers=True)
    run.ask("Metadata", ApiKey.METADATA, topics=[{"name": topic}])
    _create(run, "on the removed broker", [1, 3])
    run.start(3)
    run.wait_for_partition(topic, 0, lambda found: sorted(found.isr_nodes) == [1, 3])
    answer = run.call(ApiKey.METADATA, topics=[{"name": topic}])
    answer.topics[0].partitions[0].isr_nodes.sort()
    run.record("Metadata after the return", ApiKey.METADATA, answer)
