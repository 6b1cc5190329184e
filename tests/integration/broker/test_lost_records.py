"""How clients and users of the command line see records that are lost from the disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from klamm.cli.main import main
from klamm.testing import Broker

RECORDS = 40


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Creates a data directory with a topic of two partitions, each with several segments."""
    directory = tmp_path / "data"
    with Broker(directory) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        config = {"segment.bytes": str(1024 * 1024)}
        admin.create_topics([NewTopic("orders", 2, 1, config=config)])["orders"].result()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
        for number in range(2 * RECORDS):
            producer.produce("orders", b"v" * 100_000, partition=number % 2)
            if number % 8 == 0:
                producer.flush()
        assert not producer.flush()
    assert len(_segments(directory)) > 2
    return directory


def _segments(directory: Path) -> list[Path]:
    return sorted((directory / "orders-0").glob("*.log"))


def _produce(broker: Broker, partition: int) -> KafkaError | int | None:
    """Writes one record; returns its error or its offset."""
    outcomes: list[KafkaError | int | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        outcomes.append(error if error is not None else message.offset())

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 1_000})
    producer.produce("orders", b"another", partition=partition, on_delivery=delivered)
    producer.flush(60)
    return outcomes[0]


def _leaders(broker: Broker) -> list[int]:
    topic = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics("orders").topics["orders"]
    return [topic.partitions[index].leader for index in (0, 1)]


@pytest.mark.parametrize("what", ["folder", "first segment", "middle segment", "last segment"])
def test_what_is_gone_is_refused_until_it_is_accepted(
    directory: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A partition with missing files has no leader and accepts no records; the other partition does. `klamm log verify`
    reports the damage. After `--repair` the partition continues and reuses no offset that clients may have read."""
    if what == "folder":
        shutil.rmtree(directory / "orders-0")
    else:
        _segments(directory)[{"first": 0, "middle": 1, "last": -1}[what.split(maxsplit=1)[0]]].unlink()
    with Broker(directory) as broker:
        lost, other = _leaders(broker)
        assert lost == -1 < other
        assert isinstance(_produce(broker, 0), KafkaError)
        assert _produce(broker, 1) == RECORDS
    assert main(["log", "verify", str(directory)]) == 1
    shown = capsys.readouterr().out
    assert "damage: " in shown
    assert "problems remain" in shown
    assert main(["log", "verify", str(directory), "--repair"]) == 0
    capsys.readouterr()
    assert main(["log", "verify", str(directory)]) == 0
    assert "no problems" in capsys.readouterr().out
    with Broker(directory) as broker:
        assert -1 not in _leaders(broker)
        offset = _produce(broker, 0)
        assert isinstance(offset, int)
        assert offset < RECORDS if what == "last segment" else offset == RECORDS
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
        start, end = consumer.get_watermark_offsets(TopicPartition("orders", 0))
        consumer.close()
        assert end == offset + 1
        assert start == {"folder": RECORDS, "first segment": int(_segments(directory)[0].stem)}.get(what, 0)


def test_a_topic_that_lost_its_folders_can_be_deleted(directory: Path) -> None:
    """A topic whose folders are lost can be deleted and created again, from offset 0."""
    for index in (0, 1):
        shutil.rmtree(directory / f"orders-{index}")
    with Broker(directory) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.delete_topics(["orders"])["orders"].result()
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
        assert _produce(broker, 0) == 0
    with Broker(directory) as broker:
        assert _produce(broker, 0) == 1
