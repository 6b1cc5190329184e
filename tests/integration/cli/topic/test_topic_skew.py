"""`klamm topic skew` on a real topic."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.integration.cli.conftest import Command
from tests.support.skewed_topic import HOT_KEY, HOT_PARTITION, RECORDS, write_skewed_records

from klamm.testing import Broker


def _skew(klamm: Command, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(klamm.done("topic", "skew", *words, "--json"))
    return found


def _address(klamm: Command) -> str:
    return klamm.environment["KLAMM_BOOTSTRAP_SERVER"]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_hot_key_is_found(klamm: Command, topic: str, compression: str) -> None:
    """The hottest key, its share and its partition are shown, and what would help; also of compressed records."""
    write_skewed_records(_address(klamm), topic, **{"compression.type": compression})
    found = _skew(klamm, topic)
    assert (found["sample"]["records"], found["sample"]["whole"]) == (RECORDS, True)
    assert sum(each["sample_records"] for each in found["partitions"]) == RECORDS
    assert all(each["disk_bytes"] > 0 and each["gaps"] == 0 for each in found["partitions"])
    skew = found["skew"]
    assert (skew["cause"], skew["hottest_partition"], skew["key"]["key"]) == ("key", HOT_PARTITION, HOT_KEY)
    assert (skew["key"]["share"], skew["parts_needed"]) == (0.5, 2)
    assert found["keys_by_records"][0]["weight"] == RECORDS / 2
    assert found["keys_by_bytes"][0]["key"] == HOT_KEY
    assert {"key": None, "key_hex": None, "key_bytes": None}.items() <= found["keys_by_records"][1].items()
    binary = found["keys_by_records"][2]
    assert (binary["key"], binary["key_hex"][:2]) == (None, "ff")
    assert found["remarks"] == []


def test_the_picture_is_for_people(klamm: Command, topic: str) -> None:
    """Without --json, the command prints bars for partitions and keys, and sentences."""
    write_skewed_records(_address(klamm), topic)
    lines = klamm.done("topic", "skew", topic, "-k", "3").splitlines()
    assert lines[0].startswith(f"topic {topic}  3 partitions, 3,000 offsets, ")
    assert lines[1].startswith("sample: all 3,000 records (")
    (hot,) = (line for line in lines if f'"{HOT_KEY}"' in line and "█" in line)
    assert hot.split()[1:3] == ["50.0", "%"]
    assert sum(line.startswith("no key") for line in lines) == 1
    assert any(line.startswith("0xff") for line in lines)
    said = [line.strip().removeprefix("· ") for line in lines if "· " in line]
    assert said[0].startswith(f"partition {HOT_PARTITION} has ")
    assert said[0].rstrip().endswith(f'the key "{HOT_KEY}" alone has 50.0 %')
    assert said[1].startswith("more partitions do not help")


def test_the_sample_is_bounded(klamm: Command, topic: str) -> None:
    """--records bounds the sample to the newest records, --since to those from a time on."""
    write_skewed_records(_address(klamm), topic)
    newest = _skew(klamm, topic, "--records", "500")
    assert not newest["sample"]["whole"]
    assert 0 < newest["sample"]["records"] <= 500
    assert newest["skew"]["key"]["key"] == HOT_KEY
    assert _skew(klamm, topic, "--since", "1h")["sample"]["records"] == RECORDS
    future = _skew(klamm, topic, "--since", "2100-01-01")
    assert future["sample"]["records"] == 0
    assert future["findings"] == ["there are too few records to judge the partitions by"]
    late = _skew(klamm, topic, "--time-limit", "0s")
    assert (late["sample"]["cut_by"], late["skew"]["cause"]) == ("time", "too_few_records")


def test_an_empty_topic_has_nothing_to_judge(klamm: Command, topic: str) -> None:
    """An empty topic is shown with its partitions, without a judgement."""
    found = _skew(klamm, topic)
    assert [each["sample_records"] for each in found["partitions"]] == [0, 0, 0]
    assert found["skew"]["cause"] == "too_few_records"
    assert "sample: no records" in klamm.done("topic", "skew", topic)


def test_transactions_do_not_mislead(klamm: Command, topic: str) -> None:
    """Markers and aborted records take offsets, and do not count as records. An open transaction is told."""
    producer = Producer({"bootstrap.servers": _address(klamm), "transactional.id": topic})
    producer.init_transactions()
    for end, records, partition in (
        (producer.commit_transaction, 100, 0),
        (producer.commit_transaction, 100, 1),
        (producer.abort_transaction, 500, 2),
        (producer.commit_transaction, 100, 2),
    ):
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(topic, b"v", b"k%d" % partition, partition=partition)
        producer.flush()  # an abort drops the records that were not sent
        end()
    producer.begin_transaction()
    for _ in range(7):
        producer.produce(topic, b"v", b"k0", partition=0)
    producer.flush()
    found = _skew(klamm, topic)
    producer.abort_transaction()
    assert [each["sample_records"] for each in found["partitions"]] == [100, 100, 100]
    assert [each["gaps"] for each in found["partitions"]] == [1, 1, 502]
    assert [round(share, 3) for share in found["skew"]["shares"].values()] == [0.333, 0.333, 0.333]
    gaps, hidden = found["remarks"]
    assert "of the offsets in the sample hold no record (transactions or compaction)" in gaps
    assert hidden == "an open transaction hides the newest 7 offsets of partition 0"


@pytest.fixture
def compacting() -> Iterator[Command]:
    """The command, configured for a broker that compacts at once."""
    with Broker(config={"log.cleaner.backoff.ms": "50"}) as running:
        yield Command(running.bootstrap_servers)


def test_a_compacted_topic_does_not_mislead(compacting: Command) -> None:
    """Offsets of records that compaction removed do not count as records."""
    klamm, name = compacting, "compacted"
    compacted = ("cleanup.policy=compact", "segment.ms=100", "min.cleanable.dirty.ratio=0.01", "delete.retention.ms=0")
    klamm.done("topic", "create", name, "-p", "1", *(word for each in compacted for word in ("-c", each)))
    klamm.done("produce", name, "-K", ":", stdin="".join(f"k{number % 5}:v\n" for number in range(1_000)))
    for _ in range(60):
        klamm.done("produce", name, "-K", ":", stdin="k0:v\n")  # rolls the segment, so that it can be compacted
        found = _skew(klamm, name)
        if found["partitions"][0]["gaps"]:
            break
    (partition,) = found["partitions"]
    assert partition["sample_records"] + partition["gaps"] == partition["end"]
    assert partition["sample_records"] < 200
    assert "are an upper limit for the records" in found["remarks"][0]


def test_a_missing_topic_is_told(klamm: Command) -> None:
    """The error for an unknown topic says what to do next, and the topic is not created."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    finished = klamm("topic", "skew", name)
    assert (finished.status, finished.stdout) == (1, "")
    assert finished.stderr == f"klamm topic: there is no topic {name}; `klamm topic list --all` shows the topics\n"
    assert name not in klamm.done("topic", "list")
    assert klamm("topic", "skew", name, "--records", "0").status == 2
