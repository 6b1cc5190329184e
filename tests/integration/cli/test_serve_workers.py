"""`klamm serve --workers` as processes: how workers start, die, come back, and stop."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.cli.conftest import KLAMM, PATIENCE_S
from tests.support.group_coordinator import committed_by_group
from tests.support.ports import free_port
from tests.support.wire import Wire
from tests.support.workers import Workers

import klamm
from klamm.protocol.schema.unregister_broker_request import UnregisterBrokerRequest
from klamm.protocol.schema.unregister_broker_response import UnregisterBrokerResponse

TOPIC = "orders"
PARTITIONS = 6
_MAP = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PLAINTEXT_B:PLAINTEXT"


Start = Callable[..., Workers]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Returns a function that starts workers on the test's data; kills what is left after the test."""
    started: list[Workers] = []

    def begin(*words: str, **options: Any) -> Workers:
        started.append(Workers(tmp_path, *words, **options))
        return started[-1]

    yield begin
    for workers in started:
        workers.end()


def _wait(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _client(bootstrap_servers: str, **config: Any) -> dict[str, Any]:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return {"bootstrap.servers": bootstrap_servers, "log_level": 0, "reconnect.backoff.max.ms": 200, **settings}


def _create(bootstrap_servers: str, topic: str, partitions: int) -> None:
    admin = AdminClient(_client(bootstrap_servers))
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()


def _leaders(bootstrap_servers: str) -> list[int]:
    topic = AdminClient(_client(bootstrap_servers)).list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC]
    return [topic.partitions[index].leader for index in range(len(topic.partitions))]


def _wait_for_leaders(bootstrap_servers: str, leaders: list[int]) -> None:
    """Waits until a worker knows these leaders: it hears a little later of what another one has changed."""
    _wait(lambda: sorted(_leaders(bootstrap_servers)) == leaders)


def _read(bootstrap_servers: str, count: int) -> list[str]:
    consumer = Consumer(_client(bootstrap_servers, group_id="reader"))
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    messages = consumer.consume(count, PATIENCE_S)
    consumer.close()
    return sorted((message.value() or b"").decode() for message in messages)


def test_a_killed_worker_is_back_with_its_partitions(start: Start) -> None:
    """Workers share the partitions. One that is killed while a producer writes comes back: nothing that the producer
    wrote is lost or repeated, and a clean stop ends all processes with status 0."""
    workers = start("--workers", "3")
    addresses = workers.ready(3)
    _create(addresses, TOPIC, PARTITIONS)
    _wait_for_leaders(addresses, [1, 1, 2, 2, 3, 3])
    producer = Producer(_client(addresses, enable_idempotence=True, retry_backoff_ms=20))
    values = [f"{number:05}" for number in range(3_000)]
    for number, value in enumerate(values):
        producer.produce(TOPIC, value, partition=number % PARTITIONS)
        if number == 1_500:
            producer.poll(0.1)
            killed = workers.children()
            os.kill(killed[2], signal.SIGKILL)
    assert producer.flush(PATIENCE_S) == 0
    assert workers.children()[2] != killed[2]

    # The new process has the same port, although the test lets each pick a free one.
    def ports() -> set[str]:
        brokers = AdminClient(_client(addresses)).list_topics(timeout=PATIENCE_S).brokers.values()
        return {f"{broker.host}:{broker.port}" for broker in brokers}

    _wait(lambda: ports() == set(addresses.split(",")))
    assert _read(addresses, 3_000) == values
    assert workers.stop() == 0


def test_a_worker_that_is_unregistered_is_back(start: Start) -> None:
    """A worker that is removed from the cluster ends, and its supervisor starts it again: it leads its partitions."""
    workers = start("--workers", "2")
    addresses = workers.ready(2)
    _create(addresses, TOPIC, PARTITIONS)
    before = workers.children()
    with Wire(addresses.split(",")[0]) as wire:
        assert wire.call(UnregisterBrokerResponse, 0, UnregisterBrokerRequest(broker_id=2)).error_code == 0
    _wait(lambda: workers.children().get(2, before[2]) != before[2])
    _wait_for_leaders(addresses, [1, 1, 1, 2, 2, 2])
    assert workers.stop() == 0


def test_workers_stop_when_their_supervisor_dies(start: Start) -> None:
    """A second supervisor is refused. After a kill of the first its workers stop by themselves, and then a new
    supervisor finds everything."""
    workers = start("--workers", "2")
    addresses = workers.ready(2)
    _create(addresses, TOPIC, PARTITIONS)
    producer = Producer(_client(addresses))
    for number in range(PARTITIONS):
        producer.produce(TOPIC, str(number), partition=number)
    assert producer.flush(PATIENCE_S) == 0
    second = start("--workers", "2")
    assert second.process.wait(PATIENCE_S) == 1
    assert "in use by another process" in second.log.read_text()
    children = workers.children()
    assert set(children) == {1, 2}
    workers.process.kill()
    workers.process.wait()
    _wait(lambda: not any(Path(f"/proc/{child}").exists() for child in children.values()))
    again = start("--workers", "2")
    assert _read(again.ready(2), PARTITIONS) == [str(number) for number in range(PARTITIONS)]
    assert again.stop() == 0


def _committed(bootstrap_servers: str) -> list[int]:
    consumer = Consumer(_client(bootstrap_servers, group_id="billing"))
    positions = committed_by_group(consumer, [TopicPartition(TOPIC, index) for index in range(PARTITIONS)])
    consumer.close()
    return [position.offset for position in positions]


def _check_with_commands(data: Path) -> None:
    """Checks that `klamm log verify` looks at the logs of all workers, and that Kafka does not get those of one."""
    for directory, count in ((data, 3), (data / "workers" / "2", 1)):
        checked = subprocess.run([KLAMM, "log", "verify", directory], capture_output=True, text=True, check=False)
        assert checked.stdout.count("no problems") == count, checked
    exported = subprocess.run([KLAMM, "log", "export-kafka", data], capture_output=True, text=True, check=False)
    assert exported.returncode
    assert "start a single broker" in exported.stderr


def test_partitions_follow_the_number_of_workers(start: Start) -> None:
    """A single broker becomes three workers, two, and a single broker again. Each start spreads the partitions over its
    workers; all records and committed offsets stay, and each step adds to them."""
    written: list[str] = []
    for step, (words, leaders) in enumerate(
        [
            ((), [1, 1, 1, 1, 1, 1]),
            (("--workers", "3"), [1, 1, 2, 2, 3, 3]),
            (("--workers", "2"), [1, 1, 1, 2, 2, 2]),
            ((), [1, 1, 1, 1, 1, 1]),
        ]
    ):
        workers = start(*words)
        addresses = workers.ready(int(words[-1]) if words else 1)
        if not step:
            _create(addresses, TOPIC, PARTITIONS)
        _wait_for_leaders(addresses, leaders)
        assert _read(addresses, len(written)) == written
        if step:
            assert _committed(addresses) == [step * 10 + index for index in range(PARTITIONS)]
        producer = Producer(_client(addresses))
        for index in range(PARTITIONS):
            producer.produce(TOPIC, value := f"{step} {index}", partition=index)
            written.append(value)
        assert producer.flush(PATIENCE_S) == 0
        consumer = Consumer(_client(addresses, group_id="billing"))
        positions = [TopicPartition(TOPIC, index, (step + 1) * 10 + index) for index in range(PARTITIONS)]
        consumer.commit(offsets=positions, asynchronous=False)
        consumer.close()
        assert workers.stop() == 0
        if max(leaders) == 3:
            _check_with_commands(workers.data)
    assert not (workers.data / "workers").exists()


def test_a_worker_that_can_not_start_ends_the_command(tmp_path: Path) -> None:
    """If a worker fails again and again before it has ever served, all workers stop and the command says why."""
    # The port of the first worker must stay free: one that the system gives to any socket could be taken by now.
    port = free_port() + 1
    with socket.create_server(("127.0.0.1", port)):
        workers = Workers(tmp_path, "--workers", "2", listen=f"127.0.0.1:{port - 1}")
        assert workers.process.wait(PATIENCE_S) == 1
    assert workers.process.stdout is not None
    assert workers.process.stdout.read() == ""
    workers.process.stdout.close()
    log = workers.log.read_text()
    assert f"klamm serve: worker 2: 127.0.0.1:{port} is in use" in log
    assert "worker 2 has ended with status 1. It has failed 3 times, so the command ends" in log


def _install_other_version(folder: Path) -> None:
    """Makes a klamm with another version, and otherwise the same code."""
    package = folder / "klamm"
    package.mkdir(parents=True)
    for each in Path(klamm.__file__).parent.iterdir():
        if each.name not in ("_version.py", "__pycache__"):
            (package / each.name).symlink_to(each)
    (package / "_version.py").write_text('__version__ = "1000.0"\n')


def test_another_version_does_not_run_beside_its_supervisor(start: Start, tmp_path: Path) -> None:
    """A worker that is started again after another version was installed ends, and so do the command and all workers.
    The next start runs the other version, with all data."""
    installed = tmp_path / "installed"
    path = ":".join(filter(None, [str(installed), os.environ.get("PYTHONPATH")]))
    workers = start("--workers", "2", environment={"PYTHONPATH": path})
    _create(workers.ready(2), TOPIC, PARTITIONS)
    children = workers.children()
    _install_other_version(installed)
    workers.kill(2)
    assert workers.process.wait(PATIENCE_S) == 1
    assert not any(Path(f"/proc/{child}").exists() for child in children.values())
    log = workers.log.read_text()
    assert f"worker 2: this is klamm 1000.0, and its supervisor is klamm {klamm.__version__}: stop the command" in log
    assert f"since this command, klamm {klamm.__version__}, was started" in log
    assert "Traceback" not in log
    again = start("--workers", "2", environment={"PYTHONPATH": path})
    assert len(_leaders(again.ready(2))) == PARTITIONS
    assert again.stop() == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--workers", "0"), "takes a number from 1 on"),
        (("--workers", "2", "-X", "node.id=7"), "goes without node.id=7"),
        (("--workers", "2", "--metadata", "etcd://127.0.0.1:1/orders"), "goes without klamm.metadata"),
        (
            ("--workers", "2", "-X", "listeners=PLAINTEXT://127.0.0.1:1,PLAINTEXT_B://127.0.0.1:2", "-X", _MAP),
            "takes one listener",
        ),
    ],
)
def test_what_workers_can_not_share_is_refused(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    """A configuration that makes no sense for several workers is refused with a sentence, and nothing is written."""
    workers = Workers(tmp_path, *words, listen="")
    assert workers.process.wait(PATIENCE_S) == 2
    workers.end()
    assert reason in workers.log.read_text()
    assert not (tmp_path / "data").exists()
