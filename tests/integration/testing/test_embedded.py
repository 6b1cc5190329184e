"""The broker that runs in a thread of a test's process."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
from pathlib import Path
from weakref import ref

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from tests.support.wire import Wire

from klamm import Broker as BrokerOfThePackage
from klamm import KlammError
from klamm.broker.server import BrokerServer
from klamm.config.errors import ConfigurationError
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.testing import Broker


def _write(broker: Broker, *values: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(30) == 0


def _read(broker: Broker, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader"})
    try:
        consumer.assign([TopicPartition("orders", 0, OFFSET_BEGINNING)])
        return [message.value() for message in consumer.consume(count, 30)]
    finally:
        consumer.close()


def _is_open(bootstrap_servers: str) -> bool:
    host, port = bootstrap_servers.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=30).close()
    except ConnectionRefusedError:
        return False
    return True


def test_it_serves_within_its_block() -> None:
    """The broker answers from the start of its `with` block; after the block its port and its folder are gone."""
    with Broker() as broker:
        address, folder = broker.bootstrap_servers, broker.data_dir
        _write(broker, "anna", "bert")
        assert _read(broker, 2) == [b"anna", b"bert"]
    assert not _is_open(address)
    assert not folder.exists()


_READ_AND_WRITE = """
import threading

from confluent_kafka import Consumer, Producer
from klamm.testing import Broker

with Broker() as broker:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("orders", "anna")
    assert producer.flush(30) == 0
    group = {"group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **group})
    consumer.subscribe(["orders"])
    (message,) = consumer.consume(1, 30)
    assert message.value() == b"anna"
    consumer.close()
print([thread.name for thread in threading.enumerate()])
"""


def test_it_leaves_no_thread_behind() -> None:
    """After the block, none of the broker's threads is left. The broker has its own process here, because brokers of
    other tests may start threads at any time."""
    command = [sys.executable, "-c", _READ_AND_WRITE]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert (completed.returncode, completed.stdout) == (0, "['MainThread']\n"), completed


def test_it_leaves_no_memory_behind() -> None:
    """A stopped broker is freed, so that a process can run many brokers one after the other."""
    with Broker() as broker:
        _write(broker, *map(str, range(100)))
        left = [ref(thing) for thing in broker.run_in_broker(_loop_and_server)]
        large = [CreatableTopic(name=f"topic-{number}-{'x' * 200}") for number in range(2_000)]
        with Wire(broker.bootstrap_servers) as wire:  # so many topics are handled in steps, like configuration changes
            wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=large, validate_only=True, timeout_ms=10_000))
        entry = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        assert admin.incremental_alter_configs([resource])[resource].result() is None
    del broker
    gc.collect()
    assert [thing() for thing in left] == [None, None]


async def _loop_and_server(server: BrokerServer) -> tuple[object, object]:
    return asyncio.get_running_loop(), server


def test_it_leaves_descriptors_to_whose_process_it_is() -> None:
    """The broker uses few file descriptors for many partitions: code that calls `select()` can't use descriptors above
    1,023."""
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("many", 400, 1)])["many"].result(30)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for partition in range(400):
            producer.produce("many", "a record", partition=partition)
        assert producer.flush(60) == 0
        descriptors = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
        assert sum(str(broker.data_dir) in each for each in descriptors) < 300


def test_it_is_part_of_the_package() -> None:
    """`klamm.Broker` is the class of `klamm.testing`."""
    assert BrokerOfThePackage is Broker


def test_a_restart_keeps_port_and_data() -> None:
    """A restarted broker keeps its port and its data."""
    with Broker() as broker:
        address = broker.bootstrap_servers
        _write(broker, "before")
        broker.stop()
        assert not _is_open(address)
        assert broker.start() is broker
        assert broker.bootstrap_servers == address
        _write(broker, "after")
        assert _read(broker, 2) == [b"before", b"after"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets two sockets share a port")
def test_no_other_program_gets_the_port_of_a_stopped_broker() -> None:
    """The system gives the port to no other socket while the broker is stopped, so that the next start finds it
    free."""
    with Broker() as broker:
        address = broker.bootstrap_servers
        broker.stop()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", int(address.split(":")[1])))
        assert not _is_open(address)
        broker.start()
        assert broker.bootstrap_servers == address


def test_a_folder_that_was_given_is_kept(tmp_path: Path) -> None:
    """A given data folder is kept, and another broker on it has the same cluster id and records."""

    def cluster_id(broker: Broker) -> str:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        found = admin.describe_cluster().result(30).cluster_id
        assert isinstance(found, str)
        return found

    with Broker(tmp_path / "data") as broker:
        assert broker.data_dir == tmp_path / "data"
        first = cluster_id(broker)
        _write(broker, "before")
    with Broker(str(tmp_path / "data")) as broker:
        assert cluster_id(broker) == first
        assert _read(broker, 1) == [b"before"]
    assert (tmp_path / "data" / "meta.properties").is_file()


def test_a_folder_of_its_own_goes_away_with_the_object() -> None:
    """A temporary data folder is removed with the Broker object, also without `with`."""
    broker = Broker().start()
    folder = broker.data_dir
    broker.stop()
    assert folder.is_dir()
    del broker
    gc.collect()
    assert not folder.exists()


def test_two_brokers_are_two_clusters() -> None:
    """Each broker has its own port, folder and topics."""
    with Broker() as one, Broker() as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        assert one.data_dir != other.data_dir
        _write(one, "one")
        _write(other, "other")
        assert (_read(one, 1), _read(other, 1)) == ([b"one"], [b"other"])


def test_its_configuration_has_kafkas_names() -> None:
    """`config` overrides the profile; the profile `test` does not wait for members."""

    def setting(broker: Broker, key: str) -> str:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        resource = ConfigResource(ResourceType.BROKER, "1")
        value = admin.describe_configs([resource])[resource].result(30)[key].value
        assert isinstance(value, str)
        return value

    with Broker(config={"num.partitions": "6", "offsets.topic.num.partitions": "2"}) as broker:
        assert setting(broker, "num.partitions") == "6"
        assert setting(broker, "offsets.topic.num.partitions") == "2"
        assert setting(broker, "group.initial.rebalance.delay.ms") == "0"
    with Broker(profile="default") as broker:
        assert setting(broker, "group.initial.rebalance.delay.ms") == "3000"


def test_the_environment_is_not_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker ignores KLAMM_ environment variables, so that a test behaves the same on every machine."""
    monkeypatch.setenv("KLAMM_NUM_PARTITIONS", "none at all")
    with Broker() as broker:
        assert _is_open(broker.bootstrap_servers)


def test_a_port_can_be_chosen() -> None:
    """A port in use raises KlammError, and the broker can be started when the port is free."""
    with Broker() as first:
        port = int(first.bootstrap_servers.split(":")[1])
        second = Broker(port=port)
        with pytest.raises(KlammError, match="in use; --listen HOST:PORT picks another"):
            second.start()
    with second as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{port}"


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    """A data folder in use is refused, and the first broker keeps running."""
    with Broker(tmp_path) as broker:
        with pytest.raises(KlammError, match="is in use by another broker"):
            Broker(tmp_path).start()
        assert _is_open(broker.bootstrap_servers)


def test_a_wrong_configuration_is_refused() -> None:
    """A wrong configuration is refused before the start; the error names the key and its source."""
    with pytest.raises(ConfigurationError, match=r"num\.partitions=none \(Broker\(config=\.\.\.\)\)"):
        Broker(config={"num.partitions": "none"}).start()


def test_what_needs_a_running_broker_says_so(tmp_path: Path) -> None:
    """Without a running broker the error says what to do. A second start is refused, a second stop does nothing."""
    broker = Broker()
    with pytest.raises(KlammError, match=r"use `with Broker\(\) as broker:` or call start\(\) first"):
        _ = broker.bootstrap_servers
    with pytest.raises(KlammError, match=r"call start\(\) first"):
        _ = broker.data_dir
    with pytest.raises(KlammError, match="not running"):
        broker.run_in_broker(_node_id)
    broker.stop()
    with broker:
        with pytest.raises(KlammError, match="running already"):
            broker.start()
        assert broker.run_in_broker(_node_id) == 1
    broker.stop()
    with pytest.raises(KlammError, match="not running"):
        _ = broker.bootstrap_servers


async def _node_id(server: BrokerServer) -> int:
    return server.config.node_id


def test_a_block_that_fails_stops_it_too() -> None:
    """An error in the `with` block stops the broker and is passed on."""
    addresses = []

    def fail() -> None:
        with Broker() as broker:
            addresses.append(broker.bootstrap_servers)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not _is_open(addresses[0])
