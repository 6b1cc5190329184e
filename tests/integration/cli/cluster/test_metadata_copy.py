"""`klamm cluster metadata dump` and `restore` with real etcd and brokers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.cli.cluster.conftest import Start
from tests.integration.cli.conftest import PATIENCE_S, Command
from tests.interop.broker_process import BrokerProcess
from tests.support.etcd_server import Etcd

from klamm.metadata.etcd.etcd_client import Method
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages
from klamm.storage.directory.meta_properties import MetaProperties

pytestmark = pytest.mark.timeout(300)  # each test starts several processes, one after the other


def _produce(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(30):
        producer.produce("orders", str(number), partition=number % 3)
    assert producer.flush(PATIENCE_S) == 0


def _values(broker: BrokerProcess) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    values = sorted(int(message.value() or b"") for message in consumer.consume(30, PATIENCE_S))
    consumer.close()
    return values


def _empty(etcd: Etcd, prefix: str) -> None:
    delete = Method("/etcdserverpb.KV/Txn", messages.TxnResponse, messages.TxnRequest, True)
    keys = messages.DeleteRangeRequest(key=f"/{prefix}/".encode(), range_end=f"/{prefix}0".encode())
    etcd.call(delete, messages.TxnRequest(success=[messages.RequestOp(request_delete_range=keys)]))


def _accept(data: Path) -> None:
    """Does what the command says: removes the lines of the store."""
    path = data / "meta.properties"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("klamm.store.")))


def test_a_store_is_dumped_and_restored(etcd: Etcd, start: Start, command: Command, tmp_path: Path) -> None:
    """The dump is readable and has every key. Restored to the same etcd or to another prefix, the store is refused by
    the broker until its data directory accepts it; then all records are there."""
    broker = start("one", etcd.url(), "--broker-id", "1")
    _produce(broker)
    broker.stop()
    file = tmp_path / "dump.jsonl"
    assert "keys at revision" in command.done("cluster", "metadata", "dump", str(file), "--metadata", etcd.url())
    header, *lines = (json.loads(line) for line in file.read_text().splitlines())
    keys = {line["key"]: line["value"] for line in lines}
    assert header["keys"] == len(lines)
    assert keys["topics/orders"]["partitions"] == 3
    assert not any(key.startswith("live/") for key in keys)
    again = command("cluster", "metadata", "dump", str(file), "--metadata", etcd.url())
    assert again.status == 1
    assert "File exists" in again.stderr

    restore = ("cluster", "metadata", "restore", str(file), "--metadata")
    used = command(*restore, etcd.url())
    assert used.status == 1
    assert "keys already" in used.stderr

    told = command.done(*restore, etcd.url("other"))
    assert "klamm.store." in told
    with pytest.raises(RuntimeError, match="has used the prefix 'test'"):
        start("one", etcd.url("other"), "--broker-id", "1")

    _empty(etcd, "test")
    command.done(*restore, etcd.url())
    with pytest.raises(RuntimeError, match="It was restored from a dump"):
        start("one", etcd.url(), "--broker-id", "1")

    second = command.done("cluster", "metadata", "dump", "-", "--metadata", etcd.url())
    assert {json.loads(line)["key"] for line in second.splitlines()[1:]} == keys.keys()

    _accept(tmp_path / "one" / "data")
    accepted = start("one", etcd.url(), "--broker-id", "1")
    assert _values(accepted) == list(range(30))
    accepted.stop()


def test_the_metadata_of_a_single_broker_are_dumped(etcd: Etcd, start: Start, command: Command, tmp_path: Path) -> None:
    """A single broker's data directory can be dumped while the broker does not run. Its dump, in etcd, does not make
    the data directory one of a cluster."""
    broker = start("one")
    _produce(broker)
    data = tmp_path / "one" / "data"
    words = ("cluster", "metadata", "dump", "-", "--data-dir", str(data))
    busy = command(*words)
    assert busy.status == 1
    assert "in use by another process" in busy.stderr
    broker.stop()
    dump = command.done(*words)
    properties = MetaProperties.read(data)
    assert properties is not None
    assert json.loads(dump.splitlines()[0])["cluster"] == properties.cluster_id
    command.done("cluster", "metadata", "restore", "-", "--metadata", etcd.url(), stdin=dump)
    with pytest.raises(RuntimeError, match="belongs to a single broker"):
        start("one", etcd.url(), "--broker-id", "1")


def test_wrong_uses_are_explained(etcd: Etcd, command: Command, tmp_path: Path) -> None:
    """A dump needs one store, which is not empty; a restore needs a whole dump."""
    neither = command("cluster", "metadata", "dump", "-")
    assert neither.status == 2
    assert "--metadata etcd://... or --data-dir DIR" in neither.stderr
    empty = command("cluster", "metadata", "dump", "-", "--metadata", etcd.url())
    assert empty.status == 1
    assert "is empty: check the address and the prefix" in empty.stderr
    missing = command("cluster", "metadata", "dump", "-", "--data-dir", str(tmp_path / "nothing"))
    assert missing.status == 1
    assert "there is no metadata store" in missing.stderr
    part = command("cluster", "metadata", "restore", "-", "--metadata", etcd.url(), stdin="{}")
    assert part.status == 1
    assert "not the beginning of a dump" in part.stderr
