"""`klamm cluster describe`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.integration.cli.conftest import Command, produce, until

from klamm.testing import Cluster


def _described(klamm: Command) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(klamm.done("cluster", "describe", "--json"))
    return document


def test_brokers_and_partitions_are_counted(
    cluster: Cluster, on_cluster: Command, new_topic: Callable[..., str]
) -> None:
    """Each broker with its leaders, replicas, in-sync places and bytes; and partitions that need attention by name."""
    three, two, one = new_topic([1, 2, 3]), new_topic([2, 3]), new_topic([3])
    produce(cluster, three)
    document = _described(on_cluster)
    brokers = {each["broker"]: each for each in document["brokers"]}
    assert document["topics"] == 3
    assert document["partitions"] == 3
    assert {key: brokers[1][key] for key in ("state", "leaders", "replicas", "in_sync")} == {
        "state": "active",
        "leaders": 1,
        "replicas": 1,
        "in_sync": 1,
    }
    assert [brokers[broker]["replicas"] for broker in (2, 3)] == [2, 3]
    assert all(each["size_bytes"] > 1000 for each in brokers.values())
    assert f"{brokers[1]['host']}:{brokers[1]['port']}" == cluster.address_of(1)
    assert document["under_replicated"] == document["unavailable"] == document["under_min_isr"] == []
    cluster.kill(3)
    try:
        until(lambda: bool(_described(on_cluster)["unavailable"]))
        until(lambda: len(_described(on_cluster)["under_replicated"]) == 2)
        document = _described(on_cluster)
        assert {each["topic"] for each in document["under_replicated"]} == {three, two}
        assert document["unavailable"] == [{"topic": one, "partition": 0}]
        assert document["under_min_isr"] == [{"topic": two, "partition": 0}]
        (away,) = [each for each in document["brokers"] if each["broker"] == 3]
        assert (away["state"], away["size_bytes"], away["replicas"]) == ("fenced", None, 3)
        assert f"1 partition without a leader: {one} 0" in on_cluster.done("cluster", "describe")
    finally:
        cluster.restart(3)
    until(lambda: not _described(on_cluster)["under_replicated"])


def test_a_cluster_that_does_not_answer(on_cluster: Command) -> None:
    """The error tells what to do, in one line and without a traceback."""
    refused = on_cluster("cluster", "describe", "-b", "127.0.0.1:1")
    assert refused.status == 1
    assert "no answer from 127.0.0.1:1" in refused.stderr
    assert refused.stderr.count("\n") == 1
