"""Tests of writing and reading records that every client must pass with klamm.

A suite inherits these tests and defines the fixture `new_client`; its class attributes name what its client can't do.
"""

from __future__ import annotations

import itertools
import time
import uuid
from typing import Any, ClassVar

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tests.interop.client_process import ClientProcess
from tests.support.topic_readiness import wait_until_transactions_ended

__all__ = ["MINUTES_AGO", "PARTITIONS", "RecordScenarios", "end_offsets", "places", "spread", "wait_until_written"]

PARTITIONS = 6
# A fixed time that is recent enough for the retention time.
MINUTES_AGO = int(time.time() - 600) * 1_000


def spread(count: int) -> list[dict[str, Any]]:
    """Returns `count` records for each partition."""
    pairs = itertools.product(range(count), range(PARTITIONS))
    return [{"partition": partition, "value": f"{partition}-{number}"} for number, partition in pairs]


def places(count: int) -> set[tuple[int, int]]:
    """Returns partition and offset of every record of `spread(count)` in a fresh topic."""
    return {(partition, offset) for offset, partition in itertools.product(range(count), range(PARTITIONS))}


def end_offsets(bootstrap: str, topic: str) -> list[int]:
    """Returns the end offset of each partition, as a different client than the one under test reads it."""
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    admin = AdminClient({"bootstrap.servers": bootstrap})  # the futures complete only while the client exists
    answers = admin.list_offsets(wanted)
    return [future.result(30).offset for _, future in sorted(answers.items(), key=lambda item: item[0].partition)]


def wait_until_written(client: ClientProcess, bootstrap: str, topic: str, count: int) -> None:
    """Waits until a fresh topic contains `count` records, for records without acknowledgement."""
    client.wait_until(
        lambda: sum(end_offsets(bootstrap, topic)) == count,
        lambda: f"of {count} records only {end_offsets(bootstrap, topic)} were written",
    )


def write_transactions(client: ClientProcess, bootstrap: str, topic: str) -> list[str]:
    """Writes interleaved transactions of two producers to partition 0, six of each, and returns the committed values in
    order.

    Every third transaction is aborted. The last record is in no transaction, because some clients read up to that
    record.
    """
    producers = {}
    for name in ("one", "two"):
        transactional_id = f"{name}-{uuid.uuid4().hex}"
        producers[name] = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
        producers[name].init_transactions(30)
    committed = []
    for number in range(6):
        for name, producer in producers.items():
            producer.begin_transaction()
            producer.produce(topic, f"{name}-{number}", partition=0)
            assert producer.flush(30) == 0
        for name, producer in producers.items():
            if (number + (name == "two")) % 3 == 2:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
                committed.append(f"{name}-{number}")
    wait_until_transactions_ended(bootstrap, topic, 1)
    client.call("produce", topic=topic, records=[{"partition": 0, "value": "the end"}])
    return [*committed, "the end"]


class RecordScenarios:
    """Scenarios of producing and reading records, with different settings."""

    lacks_codecs: ClassVar[frozenset[str]] = frozenset()
    """Codecs that this client can't write in the test environment."""

    keeps_null_headers: ClassVar[bool] = True
    """Whether this client can write a header without a value."""

    @pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_records_arrive_with_every_codec_and_acks_level(
        self, client: ClientProcess, bootstrap: str, topic: str, codec: str
    ) -> None:
        """Records that are produced with any codec and any acks level are read back unchanged, in order per
        partition."""
        if codec in self.lacks_codecs:
            pytest.skip(f"this client can't write {codec}")
        expected: dict[int, list[str]] = {}
        for acks in ("0", "1", "all"):
            config = {"compression.type": codec, "acks": acks, "enable.idempotence": "false", "linger.ms": "50"}
            records: list[dict[str, Any]] = [
                {"partition": number % 3, "value": f"{acks}-{number}-" + "x" * 500} for number in range(60)
            ]
            client.call("produce", topic=topic, config=config, records=records)
            for record in records:
                expected.setdefault(record["partition"], []).append(record["value"])
            wait_until_written(client, bootstrap, topic, sum(map(len, expected.values())))
        arrived: dict[int, list[str]] = {}
        for record in client.call("read", topic=topic, **{"from": "earliest"}):
            arrived.setdefault(record["partition"], []).append(record["value"])
        assert arrived == expected

    def test_an_idempotent_producer_writes_every_record_once(self, client: ClientProcess, topic: str) -> None:
        """An idempotent producer with many small batches in flight gets offsets without gaps or repetitions."""
        config = {"enable.idempotence": "true", "acks": "all", "batch.size": "200", "linger.ms": "0"}
        records = [{"partition": 0, "value": f"{number}"} for number in range(500)]
        answers = client.call("produce", topic=topic, config=config, records=records)
        assert [offset for _, offset, _ in answers] == list(range(500))
        arrived = client.call("read", topic=topic, **{"from": "earliest"})
        assert [record["value"] for record in arrived] == [f"{number}" for number in range(500)]

    def test_keys_headers_and_nulls_are_kept(self, client: ClientProcess, topic: str) -> None:
        """Null keys, null values, empty texts, other alphabets and repeated or empty headers are read back
        unchanged."""
        empty = [["none", None]] if self.keeps_null_headers else []
        records: list[dict[str, Any]] = [
            {"partition": 0, "key": None, "value": "nobody's", "headers": []},
            {"partition": 0, "key": "gone", "value": None, "headers": []},
            {"partition": 0, "key": "", "value": "", "headers": [["name", "value"], ["name", "again"], *empty]},
            {"partition": 0, "key": "Schlüssel", "value": "значение", "headers": [["größe", "µ"]]},
            {"partition": 0, "key": "timed", "value": "then", "headers": [], "timestamp": MINUTES_AGO},
        ]
        client.call("produce", topic=topic, records=records)
        arrived = client.call("read", topic=topic, **{"from": "earliest"})
        kept = ("key", "value", "headers")
        assert [{name: record[name] for name in kept} for record in arrived] == [
            {name: record[name] for name in kept} for record in records
        ]
        assert arrived[-1]["timestamp"] == MINUTES_AGO

    def test_records_of_a_key_share_a_partition(self, client: ClientProcess, topic: str) -> None:
        """The client distributes keys over all partitions, and writes the records of a key to one partition."""
        records = [{"key": f"key-{number}", "value": f"value-{number}"} for number in range(100)]
        first = client.call("produce", topic=topic, records=records)
        second = client.call("produce", topic=topic, records=records)
        assert [partition for partition, _, _ in first] == [partition for partition, _, _ in second]
        assert {partition for partition, _, _ in first} == set(range(PARTITIONS))

    def test_reading_starts_where_it_is_told(self, client: ClientProcess, topic: str) -> None:
        """A consumer reads from the earliest record, the latest record, an offset, or a timestamp."""
        records = [{"partition": 1, "value": f"{n}", "timestamp": MINUTES_AGO + n * 1_000} for n in range(10)]
        client.call("produce", topic=topic, records=records, config={"batch.size": "100", "linger.ms": "0"})

        def read(**start: Any) -> list[str]:
            arrived = client.call("read", topic=topic, **start)
            return [record["value"] for record in arrived if record["partition"] == 1]

        numbers = [f"{number}" for number in range(10)]
        assert read(**{"from": "earliest"}) == numbers
        assert read(**{"from": "latest"}) == []
        assert read(timestamp=MINUTES_AGO + 4_000) == numbers[4:]
        assert read(timestamp=MINUTES_AGO + 3_001) == numbers[4:]
        assert read(timestamp=MINUTES_AGO + 9_001) == []
        client.call("produce", topic=topic, records=spread(5))
        assert read(offset=4) == [*numbers[4:], *(f"1-{number}" for number in range(5))]

    def test_only_committed_records_are_read(self, client: ClientProcess, bootstrap: str, topic: str) -> None:
        """A consumer with read_committed reads the records of all transactions except aborted ones, in order (I11)."""
        committed = write_transactions(client, bootstrap, topic)
        config = {"isolation.level": "read_committed"}
        arrived = client.call("read", topic=topic, config=config, **{"from": "earliest"})
        assert [record["value"] for record in arrived] == committed
        assert end_offsets(bootstrap, topic)[0] == 2 * 6 * 2 + 1
