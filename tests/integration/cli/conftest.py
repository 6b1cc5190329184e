"""The `klamm` command as a real process, against a real broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from klamm.testing import Broker, Cluster

KLAMM = str(Path(sys.executable).with_name("klamm"))
PATIENCE_S = 60


class Finished(NamedTuple):
    """The exit status and the output of a command."""

    status: int
    stdout: str
    stderr: str


class Command:
    """Runs `klamm` with the broker's address in its environment."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.environment = {name: text for name, text in os.environ.items() if not name.startswith("KLAMM_")}
        self.environment["KLAMM_BOOTSTRAP_SERVER"] = bootstrap_servers
        self.environment["XDG_CONFIG_HOME"] = "/nonexistent"  # keeps the user's contexts out of the tests
        self._started: list[subprocess.Popen[bytes]] = []

    def __call__(self, *words: str, stdin: str | bytes = b"") -> Finished:
        """Runs one command to its end and asserts that it shows no traceback."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [KLAMM, *words], input=data, capture_output=True, env=self.environment, timeout=PATIENCE_S, check=False
        )
        finished = Finished(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        assert "Traceback" not in finished.stderr, finished.stderr
        return finished

    def done(self, *words: str, stdin: str | bytes = b"") -> str:
        """Runs one command that must succeed; returns its standard output."""
        finished = self(*words, stdin=stdin)
        assert finished.status == 0, finished
        return finished.stdout

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """Returns the rows that a command shows with `-o json`."""
        rows: list[dict[str, Any]] = json.loads(self.done(*words, "-o", "json"))
        return rows

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Starts a command that keeps running; the fixture ends it after the test."""
        process = subprocess.Popen(
            [KLAMM, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """Ends all started commands."""
        for process in self._started:
            process.kill()
            process.communicate()


# No longer than a module: in the process of the tests, it would write to its log while a simulated world runs there.
@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Runs one broker for the tests of a module."""
    with Broker(config={"num.partitions": "1", "auto.create.topics.enable": "true"}) as running:
        yield running


@pytest.fixture
def klamm(broker: Broker) -> Iterator[Command]:
    """Returns the command, configured for the broker."""
    command = Command(broker.bootstrap_servers)
    yield command
    command.end()


@pytest.fixture
def topic(klamm: Command) -> str:
    """Creates a new topic with three partitions."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    klamm.done("topic", "create", name, "-p", "3")
    return name


@pytest.fixture
def group() -> str:
    """Returns an unused group id."""
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Runs three brokers for the tests of one module. A test that stops one starts it again."""
    with Cluster(3, replication_factor=3, config={"min.insync.replicas": "2"}, session_timeout_ms=1_000) as running:
        yield running


@pytest.fixture
def on_cluster(cluster: Cluster) -> Iterator[Command]:
    """Returns the command, configured for the three brokers."""
    command = Command(cluster.bootstrap_servers)
    yield command
    command.end()


@pytest.fixture
def new_topic(cluster: Cluster) -> Callable[..., str]:
    """Returns a function that creates a topic with these replicas, the preferred leader first."""

    def create(*replicas: list[int], **config: str) -> str:
        name = f"topic-{uuid.uuid4().hex[:12]}"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        topic = NewTopic(
            name,
            num_partitions=len(replicas),
            replica_assignment=list(replicas),
            config={key.replace("_", "."): value for key, value in config.items()},
        )
        admin.create_topics([topic])[name].result()
        return name

    return create


def produce(cluster: Cluster, topic: str, *, records: int = 10, acks: str = "all") -> None:
    """Writes records of 100 bytes to partition 0."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": acks, "log_level": 0})
    for _ in range(records):
        producer.produce(topic, b"x" * 100, partition=0)
    assert producer.flush(30) == 0


def until(is_so: Callable[[], bool]) -> None:
    """Waits until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)
