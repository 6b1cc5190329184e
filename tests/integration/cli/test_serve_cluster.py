"""`klamm serve --metadata etcd://…` as processes: brokers of one cluster, and the starts that are refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.cli.conftest import PATIENCE_S
from tests.interop.broker_process import BrokerProcess
from tests.support.etcd_server import Etcd
from tests.support.wire import Wire

from klamm.metadata.etcd.etcd_transaction import TRANSACT
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages
from klamm.protocol.schema.unregister_broker_request import UnregisterBrokerRequest
from klamm.protocol.schema.unregister_broker_response import UnregisterBrokerResponse
from klamm.storage.directory.meta_properties import MetaProperties

TOPIC = "orders"
PARTITIONS = 6

Start = Callable[..., BrokerProcess]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    """Provides an etcd of the test's own."""
    with Etcd(tmp_path / "etcd") as running:
        yield running


@pytest.fixture
def start(tmp_path: Path, etcd: Etcd) -> Iterator[Start]:
    """Returns a function that starts a broker with its data in a folder of that name."""
    with ExitStack() as stack:

        def begin(
            name: str, *options: str, prefix: str = "test", config: dict[str, str] | None = None
        ) -> BrokerProcess:
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            words = ["--profile", "test", *(["--metadata", etcd.url(prefix)] if prefix else []), *options]
            broker = BrokerProcess(folder, config or {}, options=words)
            stack.callback(broker.kill)
            return broker

        yield begin


def _client(broker: BrokerProcess, **config: Any) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "reconnect.backoff.max.ms": 200, **config}


def _create(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient(_client(broker))
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()


def _leaders(broker: BrokerProcess) -> list[int]:
    admin = AdminClient(_client(broker))
    topic = admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC]
    return sorted(partition.leader for partition in topic.partitions.values())


def _wait(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _properties(tmp_path: Path, name: str) -> MetaProperties:
    properties = MetaProperties.read(tmp_path / name / "data")
    assert properties is not None
    return properties


def test_three_brokers_over_one_etcd(start: Start, tmp_path: Path) -> None:
    """Three brokers share topics, one with a given id and two with ids from the store. A topic that one creates is led
    by all, and a group reads it through another one. A broker that was killed comes back under its id."""
    brokers = [start("one", "--broker-id", "5"), start("two"), start("three")]
    ids = {name: _properties(tmp_path, name).node_id for name in ("one", "two", "three")}
    assert sorted(ids.values()) == [1, 2, 5]
    _create(brokers[0], TOPIC)
    _wait(lambda: _leaders(brokers[1]) == [1, 1, 2, 2, 5, 5])  # it hears of the topic a little later
    producer = Producer(_client(brokers[2]))
    for number in range(60):
        producer.produce(TOPIC, str(number), partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    brokers[1].kill()
    brokers[1].start()
    assert _properties(tmp_path, "two").node_id == ids["two"]
    _wait(lambda: _leaders(brokers[0]) == [1, 1, 2, 2, 5, 5])
    consumer = Consumer(_client(brokers[0], **{"group.id": "g", "auto.offset.reset": "earliest"}))
    consumer.subscribe([TOPIC])
    values = [int(message.value() or b"") for message in consumer.consume(60, PATIENCE_S)]
    consumer.close()
    assert sorted(values) == list(range(60))
    for broker in brokers:
        broker.stop()


def test_a_broker_that_is_unregistered_ends(start: Start) -> None:
    """A running broker that is removed from the cluster lets another one lead, and ends in order. When it is started
    again, it registers again and is in sync."""
    one, two = start("one", "--broker-id", "1"), start("two", "--broker-id", "2")
    admin = AdminClient(_client(one))
    admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[2, 1]])])[TOPIC].result()
    producer = Producer(_client(one, acks="all"))
    producer.produce(TOPIC, "kept")
    assert producer.flush(PATIENCE_S) == 0
    with Wire(one.bootstrap_servers) as wire:
        assert wire.call(UnregisterBrokerResponse, 0, UnregisterBrokerRequest(broker_id=2)).error_code == 0
    _wait(lambda: not two.is_running)
    assert two.exit_status == 0
    assert "broker 2 was unregistered: it stops" in two.log()
    assert "Traceback" not in two.log()

    def partition() -> Any:
        return admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions[0]

    _wait(lambda: partition().leader == 1 and partition().isrs == [1])
    two.start()
    _wait(lambda: sorted(partition().isrs) == [1, 2])
    for broker in (one, two):
        broker.stop()


def test_starts_on_the_wrong_store_are_refused(start: Start, etcd: Etcd, tmp_path: Path) -> None:
    """A broker does not start with another prefix, without its store, or with an etcd that was restored from a backup.
    Nothing in its folder changes."""
    (member,) = etcd.members
    first = start("one")
    _create(first, TOPIC)
    first.stop()
    member.stop()
    etcd.copy_data(tmp_path / "backup")
    etcd.start()
    first.start()
    _create(first, "later")
    first.stop()
    before = _contents(tmp_path / "one" / "data")
    assert any(name.startswith("later-") for name in before)
    for prefix, reason in (("other", "has used the prefix 'test'"), ("", "start it with --metadata")):
        with pytest.raises(RuntimeError, match=reason):
            start("one", prefix=prefix)
    member.stop()
    etcd.restore_data(tmp_path / "backup")
    etcd.start()
    with pytest.raises(RuntimeError, match="restored from a backup"):
        start("one")
    assert _contents(tmp_path / "one" / "data") == before


def _contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name not in (".lock", ".kafka_cleanshutdown")
    }


def test_an_empty_prefix_next_to_partitions_is_refused(start: Start, etcd: Etcd, tmp_path: Path) -> None:
    """The folder has partitions, and etcd has lost all keys and has a new id: the broker does not start."""
    (member,) = etcd.members
    first = start("one")
    _create(first, TOPIC)
    first.stop()
    before = _contents(tmp_path / "one" / "data")
    member.stop()
    with Etcd(tmp_path / "new-etcd") as new, pytest.raises(RuntimeError, match="has used the etcd cluster"):
        start("one", "--metadata", new.url())
    etcd.start()
    # Without the record of the store, the cluster id and the partitions are enough.
    properties = _properties(tmp_path, "one")
    properties._replace(store=None).write(tmp_path / "one" / "data")
    with pytest.raises(RuntimeError, match="the metadata store is empty"):
        start("one", prefix="other")
    properties.write(tmp_path / "one" / "data")
    assert _contents(tmp_path / "one" / "data") == before


def test_clients_that_share_the_listener_of_brokers_are_warned_of(start: Start) -> None:
    """If other machines reach the only listener, each start logs one warning that says what to do."""
    broker = start("one", "--listen", "0.0.0.0:0")
    broker.stop()
    assert broker.log().count("clients and brokers share the listener PLAINTEXT://0.0.0.0:0") == 1
    local = start("two")
    local.stop()
    assert "share the listener" not in local.log()


def test_the_folder_of_a_single_broker_is_refused(start: Start, tmp_path: Path) -> None:
    """A folder with the metadata of a single broker is not used with etcd."""
    start("one", prefix="").stop()
    with pytest.raises(RuntimeError, match="belongs to a single broker"):
        start("one", "--broker-id", "1")


def test_a_broker_without_etcd_stops(start: Start, etcd: Etcd) -> None:
    """When etcd does not answer for the session's timeout, the broker answers nothing more and ends with status 1."""
    broker = start("one", config={"broker.session.timeout.ms": "3000"})
    etcd.members[0].kill()
    _wait(lambda: not broker.is_running)
    assert broker.exit_status == 1
    assert "this broker stops, because other brokers may see it as gone" in broker.log()


def test_a_broker_whose_session_entry_was_removed_stops(start: Start, etcd: Etcd) -> None:
    """A process with a copy of the data directory removes `live/<id>` when it starts, and may die before it has
    registered. The running broker is no longer part of the cluster: it ends with status 1, and registers again when it
    is started."""
    first = start("one", "--broker-id", "1")
    second = start("two", "--broker-id", "2")
    key = b"/test/live/1"
    removal = messages.RequestOp(request_delete_range=messages.DeleteRangeRequest(key=key))
    answer = etcd.call(TRANSACT, messages.TxnRequest(success=[removal]))
    assert answer.responses[0].response_delete_range.deleted == 1
    _wait(lambda: not first.is_running)
    assert first.exit_status == 1
    assert "its entry live/1 was removed" in first.log()
    start("one", "--broker-id", "1")
    admin = AdminClient(_client(second))
    assert sorted(admin.list_topics(timeout=PATIENCE_S).brokers) == [1, 2]
