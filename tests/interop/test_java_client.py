"""Apache Kafka's Java producer and consumer take klamm for Apache Kafka."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.interop.broker_process import BrokerProcess
from tests.interop.java_client import JavaClient

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

PARTITIONS = 6
# Recent enough for retention, and known in advance.
MINUTES_AGO = int(time.time() - 600) * 1_000
SESSION = {"session_timeout_ms": "3000", "heartbeat_interval_ms": "500"}


def _numbered(count: int) -> list[dict[str, Any]]:
    return [{"key": f"key-{number}", "value": f"value-{number}"} for number in range(count)]


def _spread(count: int) -> list[dict[str, Any]]:
    """`count` records in each partition."""
    pairs = itertools.product(range(count), range(PARTITIONS))
    return [{"partition": partition, "value": f"{partition}-{number}"} for number, partition in pairs]


def _places(count: int) -> set[tuple[int, int]]:
    """Partition and offset of what `_spread(count)` wrote to a fresh topic."""
    return {(partition, offset) for offset, partition in itertools.product(range(count), range(PARTITIONS))}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_arrive_with_every_codec_and_acks_level(java: JavaClient, topic: str, codec: str) -> None:
    """What is produced with any codec and any acks level is read back as it was, in order per partition."""
    expected: dict[int, list[str]] = {}
    for acks in ("0", "1", "all"):
        config = {"compression.type": codec, "acks": acks, "enable.idempotence": "false", "linger.ms": "50"}
        records: list[dict[str, Any]] = [
            {"partition": number % 3, "value": f"{acks}-{number}-" + "x" * 500} for number in range(60)
        ]
        java.call("produce", topic=topic, config=config, records=records)
        for record in records:
            expected.setdefault(record["partition"], []).append(record["value"])
    arrived: dict[int, list[str]] = {}
    java.wait_until(
        lambda: sum(offset for offset, _ in _ends(java, topic).values()) == 180,
        lambda: "the records sent without acknowledgement never arrived",
    )
    for record in java.call("read", topic=topic, **{"from": "earliest"}):
        arrived.setdefault(record["partition"], []).append(record["value"])
    assert arrived == expected


def _ends(java: JavaClient, topic: str) -> dict[str, list[int]]:
    ends: dict[str, list[int]] = java.call("list offsets", topic=topic, partitions=[*range(PARTITIONS)], spec="latest")
    return ends


def test_an_idempotent_producer_writes_every_record_once(java: JavaClient, topic: str) -> None:
    """An idempotent producer with small batches in flight gets offsets without gaps or repetitions."""
    config = {"enable.idempotence": "true", "acks": "all", "batch.size": "200", "linger.ms": "0"}
    records = [{"partition": 0, "value": f"{number}"} for number in range(500)]
    answers = java.call("produce", topic=topic, config=config, records=records)
    assert [offset for _, offset, _ in answers] == list(range(500))
    arrived = java.call("read", topic=topic, **{"from": "earliest"})
    assert [record["value"] for record in arrived] == [f"{number}" for number in range(500)]


def test_keys_headers_and_nulls_are_kept(java: JavaClient, topic: str) -> None:
    """Null keys, null values, empty texts, other alphabets and repeated or empty headers come back as they went."""
    records: list[dict[str, Any]] = [
        {"partition": 0, "key": None, "value": None, "headers": []},
        {"partition": 0, "key": "", "value": "", "headers": [["name", "value"], ["name", "again"], ["none", None]]},
        {"partition": 0, "key": "Schlüssel", "value": "значение", "headers": [["größe", "µ"]]},
        {"partition": 0, "key": "timed", "value": "then", "headers": [], "timestamp": MINUTES_AGO},
    ]
    java.call("produce", topic=topic, records=records)
    arrived = java.call("read", topic=topic, **{"from": "earliest"})
    kept = ("key", "value", "headers")
    assert [{name: record[name] for name in kept} for record in arrived] == [
        {name: record[name] for name in kept} for record in records
    ]
    assert arrived[-1]["timestamp"] == MINUTES_AGO


def test_records_of_a_key_share_a_partition(java: JavaClient, topic: str) -> None:
    """Java's partitioner spreads keys over all partitions it is told of, and keeps each key in one."""
    first = java.call("produce", topic=topic, records=_numbered(100))
    second = java.call("produce", topic=topic, records=_numbered(100))
    assert [partition for partition, _, _ in first] == [partition for partition, _, _ in second]
    assert {partition for partition, _, _ in first} == set(range(PARTITIONS))


def test_reading_starts_where_it_is_told(java: JavaClient, topic: str) -> None:
    """A consumer reads from the earliest record, the latest, an offset, or a timestamp on."""
    records = [{"partition": 1, "value": f"{n}", "timestamp": MINUTES_AGO + n * 1_000} for n in range(10)]
    java.call("produce", topic=topic, records=records, config={"batch.size": "100", "linger.ms": "0"})

    def read(**start: Any) -> list[str]:
        return [record["value"] for record in java.call("read", topic=topic, **start) if record["partition"] == 1]

    numbers = [f"{number}" for number in range(10)]
    assert read(**{"from": "earliest"}) == numbers
    assert read(**{"from": "latest"}) == []
    assert read(timestamp=MINUTES_AGO + 4_000) == numbers[4:]
    assert read(timestamp=MINUTES_AGO + 3_001) == numbers[4:]
    assert read(timestamp=MINUTES_AGO + 9_001) == []
    java.call("produce", topic=topic, records=_spread(5))
    assert read(offset=4) == [*numbers[4:], *(f"1-{number}" for number in range(5))]


def test_a_record_that_is_too_large_is_refused(java: JavaClient, topic: str) -> None:
    """A batch beyond max.message.bytes fails with Kafka's exception, and the producer's next record is taken."""
    java.call("set topic config", topic=topic, operation="SET", key="max.message.bytes", value="1000")
    with pytest.raises(Exception, match="RecordTooLargeException"):
        java.call("produce", topic=topic, records=[{"partition": 0, "value": "x" * 5_000}])
    java.call("produce", topic=topic, records=[{"partition": 0, "value": "x"}])
    assert [record["value"] for record in java.call("read", topic=topic, **{"from": "earliest"})] == ["x"]


def test_a_member_rewinds_and_replays(java: JavaClient, topic: str, group: str) -> None:
    """A member that seeks to the beginning sees all its records again, in the same order."""
    java.call("produce", topic=topic, records=_spread(5))
    member = java.join("reader", group, topic)
    member.wait_until(lambda m: len(m.records) == 30, "reads everything")
    member.rewind()
    member.wait_until(lambda m: len(m.records) == 60, "reads everything again")
    for partition in range(PARTITIONS):
        offsets = [record["offset"] for record in member.records if record["partition"] == partition]
        assert offsets == [*range(5), *range(5)]


def test_two_groups_see_everything(java: JavaClient, topic: str, group: str) -> None:
    """Groups don't share records: each sees all of them, once."""
    readers = [java.join(f"reader-{number}", f"{group}-{number}", topic) for number in range(2)]
    java.call("produce", topic=topic, records=_spread(20))
    for reader in readers:
        reader.wait_until(lambda m: len(m.records) == 120, "reads everything")
        assert reader.places == _places(20)


def test_two_members_split_a_topic(java: JavaClient, topic: str, group: str) -> None:
    """Two members of a group share the partitions between them, and each record reaches one of them."""
    first, second = java.join("first", group, topic), java.join("second", group, topic)
    first.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
    second.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
    assert sorted([*(first.assignment or []), *(second.assignment or [])]) == list(range(PARTITIONS))
    java.call("produce", topic=topic, records=_spread(20))
    java.wait_until(lambda: len(first.records) + len(second.records) == 120, lambda: "not everything arrived")
    assert first.places | second.places == _places(20)
    assert not first.places & second.places


def test_members_that_leave_hand_over_where_they_stopped(java: JavaClient, topic: str, group: str) -> None:
    """What a member has read and committed on leaving is not read again by the one that follows it."""
    java.call("produce", topic=topic, records=_spread(5))
    first = java.join("first", group, topic)
    first.wait_until(lambda m: len(m.records) == 30, "reads everything")
    first.leave()
    java.call("produce", topic=topic, records=_spread(5))
    second = java.join("second", group, topic)
    second.wait_until(lambda m: len(m.records) >= 30, "reads the rest")
    assert second.places == _places(10) - first.places


def test_partitions_of_a_killed_member_are_taken_over(
    java: JavaClient, start_java: Callable[[], JavaClient], topic: str, group: str
) -> None:
    """A member that dies without a word loses its partitions after its session, and no record is lost with it."""
    other = start_java()
    survivor = java.join("survivor", group, topic, **SESSION)
    victim = other.join("victim", group, topic, **SESSION)
    survivor.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
    victim.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
    java.call("produce", topic=topic, records=_spread(10))
    victim.wait_until(lambda m: len(m.records) == 30, "reads its half")
    other.kill()
    java.call("produce", topic=topic, records=_spread(10))
    survivor.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "takes over")
    java.wait_until(lambda: survivor.places | victim.places == _places(20), lambda: "records were lost")


def test_a_paused_member_is_fenced(
    java: JavaClient, start_java: Callable[[], JavaClient], topic: str, group: str
) -> None:
    """A member paused past its session can't commit over its successor; it loses its partitions and comes back."""
    other = start_java()
    paused = other.join("paused", group, topic, **SESSION, enable_auto_commit="false")
    paused.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "owns everything")
    java.call("produce", topic=topic, records=_spread(10))
    paused.wait_until(lambda m: len(m.records) == 60, "reads everything")
    other.pause()
    successor = java.join("successor", group, topic, **SESSION, enable_auto_commit="false")
    successor.wait_until(lambda m: len(m.records) == 60, "reads everything again, as nothing was committed")
    successor.commit()
    successor.wait_until(lambda m: "committed" in m.names(), "commits")
    java.call("produce", topic=topic, records=_spread(10))
    successor.wait_until(lambda m: len(m.records) >= 120, "reads on")
    other.go_on()
    paused.commit()
    paused.wait_until(lambda m: "refused" in m.names() or "lost" in m.names(), "is told that it was fenced")
    assert {offset for offset, _ in java.call("group offsets", group=group).values()} == {10}
    paused.wait_until(lambda m: "lost" in m.names() and len(m.assignment or []) == 3, "joins again")
    successor.wait_until(lambda m: len(m.assignment or []) == 3, "shares again")


def test_the_seventh_member_idles_and_takes_over(java: JavaClient, topic: str, group: str) -> None:
    """Of seven members on six partitions one owns nothing, until another leaves."""
    members = [java.join(f"member-{number}", group, topic, **SESSION) for number in range(PARTITIONS + 1)]

    def sizes() -> list[int]:
        return sorted(len(member.assignment) for member in members if member.assignment is not None)

    java.wait_until(lambda: sizes() == [0, *[1] * PARTITIONS], lambda: f"{[m.assignment for m in members]}")
    idle = next(member for member in members if not member.assignment)
    owner = next(member for member in members if member.assignment)
    owner.leave()
    members.remove(owner)
    idle.wait_until(lambda m: len(m.assignment or []) == 1, "takes over")
    java.wait_until(lambda: sizes() == [1] * PARTITIONS, lambda: f"{[m.assignment for m in members]}")
    java.call("produce", topic=topic, records=_spread(3))
    java.wait_until(lambda: {place for m in members for place in m.places} == _places(3), lambda: "records are missing")


def test_a_topic_that_grows_is_shared_anew(java: JavaClient, topic: str, group: str) -> None:
    """Members notice partitions that are added while they read, and read them from their start."""
    member = java.join("reader", group, topic, metadata_max_age_ms="500")
    member.wait_until(lambda m: m.assignment == list(range(6)), "owns six")
    java.call("add partitions", topic=topic, count=8)
    java.call("produce", topic=topic, records=[{"partition": 7, "value": "new"}])
    member.wait_until(lambda m: m.assignment == list(range(8)), "owns eight")
    member.wait_until(lambda m: (7, 0) in m.places, "reads the new partition")


def test_a_group_resumes_after_a_restart_of_the_broker(
    java: JavaClient, restartable_broker: BrokerProcess, topic: str, group: str
) -> None:
    """Committed offsets outlive the broker's process: the group goes on with the first record it had not committed."""
    java.call("produce", topic=topic, records=_spread(10))
    first = java.join("first", group, topic)
    first.wait_until(lambda m: len(m.records) == 60, "reads everything")
    first.leave()
    restartable_broker.restart()
    java.call("produce", topic=topic, records=_spread(5))
    second = java.join("second", group, topic)
    second.wait_until(lambda m: len(m.records) >= 30, "reads the rest")
    assert second.places == _places(15) - _places(10)


def test_clients_live_through_a_restart_of_the_broker(
    java: JavaClient, restartable_broker: BrokerProcess, topic: str, group: str
) -> None:
    """A member that was there before a restart is there after it, and sees each record once."""
    member = java.join("reader", group, topic)
    java.call("produce", topic=topic, records=_spread(5))
    member.wait_until(lambda m: len(m.records) == 30, "reads the first part")
    restartable_broker.restart()
    java.call("produce", topic=topic, records=_spread(5))
    member.wait_until(lambda m: m.places == _places(10), "reads the second part")


def test_acknowledged_records_outlive_a_kill_of_the_broker(
    java: JavaClient, restartable_broker: BrokerProcess, topic: str
) -> None:
    """What was acknowledged before SIGKILL is there after it, and an offset is never given twice."""
    before = java.call("produce", topic=topic, records=_spread(20))
    restartable_broker.kill()
    restartable_broker.start()
    after = java.call("produce", topic=topic, records=_spread(20))
    places = [(partition, offset) for partition, offset, _ in [*before, *after]]
    assert len(set(places)) == 240
    arrived = java.call("read", topic=topic, **{"from": "earliest"})
    assert sorted((record["partition"], record["offset"]) for record in arrived) == sorted(places)
