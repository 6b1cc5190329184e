"""`klamm cluster` with real processes: start, produce and consume, stop, crashes, and starts that fail."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.cli.conftest import PATIENCE_S, Command, until
from tests.support.etcd_programs import etcd_program

from klamm.cli.cluster.cluster_record import read_record

TOPIC = "orders"
PARTITIONS = 6
MEMBERS = ["etcd", "broker-1", "broker-2", "broker-3"]


class ClusterCommand:
    """`klamm cluster` on one folder."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.command = Command("")
        del self.command.environment["KLAMM_BOOTSTRAP_SERVER"]
        self.command.environment["PATH"] = f"{etcd_program().parent}{os.pathsep}{os.environ['PATH']}"
        # The variables of the environment are for all brokers.
        self.command.environment["KLAMM_GROUP_INITIAL_REBALANCE_DELAY_MS"] = "0"

    def __call__(self, verb: str, *options: str) -> Any:
        return self.command("cluster", verb, "--data-dir", str(self.directory), *options)

    def start(self, *options: str) -> str:
        """Starts the cluster and returns its bootstrap servers."""
        done = self("start", *options)
        assert done.status == 0, done
        (line,) = (line for line in done.stdout.splitlines() if line.startswith("bootstrap.servers="))
        return str(line.partition("=")[2])

    def states(self) -> dict[str, dict[str, Any]]:
        """Returns the members by name, and checks that the exit status says whether all of them run."""
        done = self("status", "--json")
        rows = {row["member"]: row for row in json.loads(done.stdout)}
        assert done.status == (0 if all(row["state"] == "running" for row in rows.values()) else 1)
        return rows

    def running(self) -> list[str]:
        """Returns the names of the members that run."""
        return [name for name, row in self.states().items() if row["state"] == "running"]

    def kill(self, name: str) -> None:
        """Kills a member like a crash."""
        os.kill(self.states()[name]["pid"], signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_S
        while name in self.running():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def end(self) -> None:
        """Ends all processes, whatever the test has done to them."""
        record = read_record(self.directory)
        for member in record.members if record is not None else ():
            if member.process is not None:
                member.process.send(signal.SIGKILL)
        self.command.end()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterCommand]:
    """Provides the command on an empty folder, and ends what it has started. Skips the test without etcd."""
    command = ClusterCommand(tmp_path / "a cluster")
    yield command
    command.end()


def _client(bootstrap_servers: str, **config: Any) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap_servers, "log_level": 0, "reconnect.backoff.max.ms": 200, **config}


def _create(bootstrap_servers: str) -> None:
    admin = AdminClient(_client(bootstrap_servers))
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()


def _in_sync(bootstrap_servers: str) -> set[tuple[int, ...]]:
    """Returns which sets of in-sync replicas the partitions have."""
    admin = AdminClient(_client(bootstrap_servers))
    topic = admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC]
    return {tuple(sorted(partition.isrs)) for partition in topic.partitions.values()}


def _produce(bootstrap_servers: str, values: range) -> None:
    producer = Producer(_client(bootstrap_servers))
    for number in values:
        producer.produce(TOPIC, str(number), partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def _consume(bootstrap_servers: str, number: int) -> list[int]:
    """Returns the values of the first records that a new group reads."""
    group = {"group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
    consumer = Consumer(_client(bootstrap_servers, **group))
    consumer.subscribe([TOPIC])
    values = [int(message.value() or b"") for message in consumer.consume(number, PATIENCE_S)]
    consumer.close()
    return sorted(values)


def test_a_cluster_from_start_to_stop_and_back(cluster: ClusterCommand) -> None:
    """A cluster starts, serves clients after the command has ended, and stops. It comes back with its data and its
    addresses. A broker that was killed is shown as stopped, and the next start starts only this one."""
    servers = cluster.start("--replication-factor", "1")
    assert len(servers.split(",")) == 3
    rows = cluster.states()
    assert list(rows) == MEMBERS
    assert ",".join(row["address"] for row in rows.values() if row["broker_id"]) == servers
    _create(servers)
    _produce(servers, range(60))
    assert _consume(servers, 60) == [*range(60)]

    again = cluster("start")
    assert again.status == 0
    assert "runs already" in again.stdout
    assert cluster.states() == rows

    stopped = cluster("stop")
    assert (stopped.status, stopped.stderr) == (0, "")
    assert stopped.stdout == "stopped broker-1, broker-2, broker-3 and etcd\n"
    assert cluster.running() == []
    assert "does not run" in cluster("stop").stdout

    assert cluster.start() == servers
    assert _consume(servers, 60) == [*range(60)]
    before = cluster.states()
    cluster.kill("broker-2")
    assert cluster.running() == ["etcd", "broker-1", "broker-3"]
    assert "`klamm cluster start`" in cluster("status").stdout

    assert cluster.start() == servers
    after = cluster.states()
    assert [name for name in MEMBERS if after[name]["pid"] != before[name]["pid"]] == ["broker-2"]
    _produce(servers, range(60, 120))
    assert _consume(servers, 120) == [*range(120)]


def test_a_cluster_as_it_is_survives_a_broker(cluster: ClusterCommand) -> None:
    """Without options, topics have three replicas, and two must be in sync. While a killed broker is away, producers go
    on, and a new group reads all that was acknowledged. The next start brings the broker back into sync."""
    cluster.command.environment["KLAMM_BROKER_SESSION_TIMEOUT_MS"] = "3000"
    servers = cluster.start()
    _create(servers)
    until(lambda: _in_sync(servers) == {(1, 2, 3)})  # a broker hears of the topic a little later
    _produce(servers, range(60))
    assert _consume(servers, 60) == [*range(60)]
    cluster.kill("broker-2")
    _produce(servers, range(60, 120))
    assert _consume(servers, 120) == [*range(120)]
    until(lambda: _in_sync(servers) == {(1, 3)})
    assert cluster.start() == servers
    until(lambda: _in_sync(servers) == {(1, 2, 3)})


def test_a_cluster_without_its_etcd_comes_back(cluster: ClusterCommand) -> None:
    """etcd was killed, and then one of two brokers: the next start starts both, and the other broker serves, whether it
    went on meanwhile or has stopped by itself."""
    servers = cluster.start("--brokers", "2")
    _create(servers)
    _produce(servers, range(60))
    cluster.kill("etcd")
    cluster.kill("broker-1")
    assert cluster.start() == servers
    assert cluster.running() == ["etcd", "broker-1", "broker-2"]
    assert _consume(servers, 60) == [*range(60)]


def test_a_broker_that_ends_during_a_start_is_started_again(cluster: ClusterCommand) -> None:
    """A broker that ran when the start began does not answer, and then ends: the start brings it back too."""
    cluster.start("--brokers", "2")
    before = cluster.states()
    os.kill(before["broker-1"]["pid"], signal.SIGSTOP)
    cluster.kill("broker-2")
    start = cluster.command.start("cluster", "start", "--data-dir", str(cluster.directory))
    deadline = time.monotonic() + PATIENCE_S
    while "broker-2" not in cluster.running():
        assert start.poll() is None
        assert time.monotonic() < deadline
    os.kill(before["broker-1"]["pid"], signal.SIGKILL)
    out, _ = start.communicate(timeout=PATIENCE_S)
    assert start.returncode == 0
    assert b"started broker-2 and broker-1" in out
    after = cluster.states()
    assert [name for name in after if after[name] == before[name]] == ["etcd"]
    assert cluster.running() == ["etcd", "broker-1", "broker-2"]


def test_a_cluster_grows(cluster: ClusterCommand) -> None:
    """A start with more brokers adds them to the running ones."""
    servers = cluster.start("--brokers", "1")
    before = cluster.states()
    assert cluster.start("--brokers", "2").startswith(f"{servers},")
    after = cluster.states()
    assert list(after) == ["etcd", "broker-1", "broker-2"]
    assert {name: after[name] for name in before} == before


def test_a_broker_that_does_not_stop_is_killed(cluster: ClusterCommand) -> None:
    """A paused broker does not answer SIGTERM. The command kills it after the time limit and says so."""
    cluster.start("--brokers", "1")
    pid = cluster.states()["broker-1"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    stopped = cluster("stop", "--timeout", "1s")
    assert stopped.status == 0
    assert f"broker-1 (process {pid}) did not stop within 1 s: killed" in stopped.stderr
    assert cluster.running() == []


def test_a_failed_first_start_leaves_nothing_running(cluster: ClusterCommand) -> None:
    """The brokers refuse a setting: the command shows the end of a log, stops what it has started, and forgets the
    cluster, so that the next start may have other options."""
    cluster.command.environment["KLAMM_SOCKET_REQUEST_MAX_BYTES"] = "many"
    failed = cluster("start")
    assert failed.status == 1
    assert "ended with status 2" in failed.stderr
    assert "socket.request.max.bytes" in failed.stderr
    assert "there is no cluster" in cluster("status").stderr
    del cluster.command.environment["KLAMM_SOCKET_REQUEST_MAX_BYTES"]
    cluster.start("--brokers", "1")


def test_a_failed_start_leaves_the_others_running(cluster: ClusterCommand) -> None:
    """The port of a broker that was killed is taken. The start of this broker fails with the reason, and the members
    that ran before go on."""
    cluster.start("--brokers", "2")
    cluster.kill("broker-2")
    host, _, port = cluster.states()["broker-2"]["address"].partition(":")
    with socket.create_server((host, int(port))):
        failed = cluster("start")
    assert failed.status == 1
    assert f"another program uses {host}:{port}" in failed.stderr
    assert cluster.running() == ["etcd", "broker-1"]
    assert cluster("start").status == 0
    assert cluster.running() == ["etcd", "broker-1", "broker-2"]


def test_without_etcd_the_command_says_what_to_install(cluster: ClusterCommand, tmp_path: Path) -> None:
    """Nothing is started, and no cluster is recorded."""
    cluster.command.environment["PATH"] = str(tmp_path)
    failed = cluster("start")
    assert failed.status == 1
    assert "apt-get install etcd-server" in failed.stderr
    assert list(cluster.directory.iterdir()) == []


@pytest.fixture
def silent_etcd(cluster: ClusterCommand, tmp_path: Path) -> None:
    """Puts an etcd on PATH that runs and never answers."""
    program = tmp_path / "programs" / "etcd"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho waiting for nothing\nexec sleep 600\n")
    program.chmod(0o755)
    cluster.command.environment["PATH"] = f"{program.parent}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.usefixtures("silent_etcd")
def test_a_member_that_is_not_ready_in_time_is_told_and_stopped(cluster: ClusterCommand) -> None:
    """The error has the end of the member's log."""
    failed = cluster("start", "--timeout", "1s")
    assert failed.status == 1
    assert "etcd is not ready after 1 s" in failed.stderr
    assert "waiting for nothing" in failed.stderr
    assert read_record(cluster.directory) is None


@pytest.mark.usefixtures("silent_etcd")
def test_an_interrupted_start_stops_what_it_has_started(cluster: ClusterCommand) -> None:
    """While a start waits, another command is refused. Ctrl-C ends the start, and the process that it has started."""
    start = cluster.command.start("cluster", "start", "--data-dir", str(cluster.directory))
    deadline = time.monotonic() + PATIENCE_S
    while (record := read_record(cluster.directory)) is None or not record.etcd.is_running:
        assert start.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "another command starts or stops the cluster" in cluster("stop").stderr
    start.send_signal(signal.SIGINT)
    assert start.wait(PATIENCE_S) == 130
    assert not record.etcd.is_running
    assert read_record(cluster.directory) is None
