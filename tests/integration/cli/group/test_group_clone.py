"""`klamm group clone`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.integration.cli.conftest import PATIENCE_S, Command

from klamm.testing import Broker

HOUR_MS = 3_600_000


@pytest.fixture
def prod(klamm: Command, broker: Broker, topic: str, group: str) -> str:
    """Creates a group that has read ten records of partition 0 and four of partition 1; the records are an hour
    apart."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    now_ms = time.time_ns() // 1_000_000
    for partition, count in ((0, 10), (1, 4)):
        for number in range(count):
            producer.produce(topic, "x", partition=partition, timestamp=now_ms - HOUR_MS * (count - number) + 60_000)
    producer.flush()
    klamm.done("consume", topic, "-g", f"prod.{group}", "-e")
    return f"prod.{group}"


def _committed(klamm: Command, group: str) -> dict[int, int]:
    rows = klamm.rows("group", "describe", group)
    return {row["partition"]: row["committed"] for row in rows if row["committed"] is not None}


def test_offsets_are_copied_when_it_is_meant(klamm: Command, topic: str, group: str, prod: str) -> None:
    """`klamm group clone` copies offsets only with --execute; without it the command shows what it would copy."""
    dev = f"dev.{group}"
    shown = klamm.done("group", "clone", prod, dev).splitlines()
    assert [line.split() for line in shown[:-1]] == [
        ["TOPIC", "PARTITION", "SOURCE", "FROM", "TO"],
        [topic, "0", "10", "none", "10"],
        [topic, "1", "4", "none", "4"],
    ]
    assert shown[-1] == "nothing was changed: this is what --execute would do"
    assert klamm("group", "describe", dev).status == 1
    assert klamm.done("group", "clone", prod, dev, "--execute").splitlines()[-1] == f"group {dev}: 2 offsets set"
    assert _committed(klamm, dev) == {0: 10, 1: 4}
    assert klamm.done("consume", topic, "-g", dev, "-e", "-f", "%o") == ""


def test_a_moment_may_be_cloned_instead(klamm: Command, topic: str, group: str, prod: str) -> None:
    """With --at the target gets the offset of the first record since that time in each partition of the source."""
    dev = f"dev.{group}"
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 2 * 3_600))
    rows = klamm.rows("group", "clone", prod, dev, "--at", moment, "--execute")
    assert [(row["partition"], row["source"], row["from"], row["to"]) for row in rows] == [
        (0, 10, None, 8),
        (1, 4, None, 2),
    ]
    assert _committed(klamm, dev) == {0: 8, 1: 2}
    assert [row["to"] for row in klamm.rows("group", "clone", prod, dev, "--at", "2100-01-01")] == [10, 4]


def test_metadata_is_copied_too(klamm: Command, broker: Broker, topic: str, group: str) -> None:
    """The commit's metadata is copied too, because some clients store data there."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    place = TopicPartition(topic, 0, 0, "note")
    request = ConsumerGroupTopicPartitions(f"{group}-a", [place])
    admin.alter_consumer_group_offsets([request])[f"{group}-a"].result(PATIENCE_S)
    klamm.done("group", "clone", f"{group}-a", f"{group}-b", "--execute")
    request = ConsumerGroupTopicPartitions(f"{group}-b")
    found = admin.list_consumer_group_offsets([request])[f"{group}-b"].result(PATIENCE_S).topic_partitions
    assert [(each.topic, each.partition, each.offset, each.metadata) for each in found] == [(topic, 0, 0, "note")]


def test_what_only_the_target_has_stays(klamm: Command, topic: str, group: str, prod: str) -> None:
    """Offsets that only the target has are kept, and the command says so."""
    dev = f"dev.{group}"
    klamm.done("produce", topic, "-p", "2", stdin="x\n")
    klamm.done("consume", topic, "-g", dev, "-e")
    shown = klamm.done("group", "clone", prod, dev, "--at", "2020-01-01", "--execute")
    assert f"1 offset of {dev} stays as it is: {prod} has committed nothing for it\n" in shown
    assert _committed(klamm, dev) == {0: 0, 1: 0, 2: 1}


def test_a_target_with_members_is_left_alone(klamm: Command, topic: str, group: str, prod: str) -> None:
    """A target with live members is refused, also in a dry run, because the members would overwrite the offsets."""
    dev = f"dev.{group}"
    klamm.start("consume", topic, "-g", dev)
    deadline = time.monotonic() + PATIENCE_S
    while klamm("group", "describe", dev, "-m", "-o", "tsv").stdout.count("\n") < 2:
        assert time.monotonic() < deadline
    for words in ((), ("--execute",)):
        refused = klamm("group", "clone", prod, dev, *words)
        assert (refused.status, refused.stdout) == (1, "")
        assert refused.stderr == (
            f"klamm group: group {dev} has 1 live member: stop it first, because it would overwrite the offsets\n"
        )


def test_a_source_that_has_nothing_is_told(klamm: Command, group: str) -> None:
    """A source without commits is an error, and so is a group that is cloned to itself."""
    finished = klamm("group", "clone", f"prod.{group}", f"dev.{group}")
    assert finished.status == 1
    assert f"group prod.{group} has committed nothing" in finished.stderr
    assert "`klamm group list`" in finished.stderr
    finished = klamm("group", "clone", group, group)
    assert (finished.status, finished.stderr) == (2, "klamm group: source and target are the same group\n")


def test_ids_are_complete_in_every_context(klamm: Command, group: str, prod: str, tmp_path: Path) -> None:
    """Group ids are complete in every context. A target environment on another cluster is refused, because offsets
    differ between clusters."""
    klamm.environment["KLAMM_CONFIG"] = str(tmp_path / "contexts.toml")
    address = klamm.environment.pop("KLAMM_BOOTSTRAP_SERVER")
    klamm.done("context", "add", "prod", "-b", address, "--environment", "prod")
    klamm.done("context", "add", "far", "-b", "far:9092", "--environment", "stage")
    klamm.environment["KLAMM_CONTEXT"] = "prod"
    klamm.done("group", "clone", prod, f"other.{group}", "--execute")
    shown = klamm.rows("group", "describe", f"other.{group}", "--full-id")
    assert [row["committed"] for row in shown] == [10, 4, None]
    refused = klamm("group", "clone", prod, f"stage.{group}")
    assert (refused.status, refused.stdout) == (2, "")
    assert f"stage.{group}: environment stage is on far:9092 (context far)" in refused.stderr
    assert klamm("group", "clone", prod, f"stage.{group}", "-b", address).status == 0
