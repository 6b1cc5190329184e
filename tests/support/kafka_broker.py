"""Apache Kafka itself, one node in KRaft mode from its Maven jars: the broker that klamm is held against.

The classpath comes from the environment variable KLAMM_KAFKA_CLASSPATH, or from Maven (offline first, then online).
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType

from tests.support.ports import free_port
from tests.support.short_lived_java import remembered_classpath, start_command

from klamm.errors import KlammError

__all__ = ["ApacheKafka", "KafkaUnavailable", "end_with_parent", "kafka_classpath"]

KAFKA_VERSION = "4.3.0"
_READY_SECONDS = 120
"""A machine that has better to do may give a process hardly any time."""
_SET_PARENT_DEATH_SIGNAL = 1
_POM = Path(__file__).parents[1] / "interop" / "java" / "pom.xml"


class KafkaUnavailable(KlammError):
    """Apache Kafka cannot be run on this machine; the text says what is missing."""


@cache
def kafka_classpath() -> str:
    """The jars of Apache Kafka's broker, clients and tools, joined by colons.

    Raises `KafkaUnavailable` when there is no JDK, no Maven, or the jars cannot be had.
    """
    if shutil.which("javac") is None:
        raise KafkaUnavailable("no javac on PATH: install a JDK 17 or later to test against Apache Kafka")
    if given := os.environ.get("KLAMM_KAFKA_CLASSPATH"):
        return given
    if shutil.which("mvn") is None:
        raise KafkaUnavailable("no mvn on PATH: install Maven, or set KLAMM_KAFKA_CLASSPATH to Apache Kafka's jars")
    return remembered_classpath(_POM, _ask_maven)


def _ask_maven(output: Path) -> None:
    command = ["mvn", "-q", "-B", "-f", str(_POM), "dependency:build-classpath", f"-Dmdep.outputFile={output}"]
    for attempt in ([*command, "-o"], command):
        completed = subprocess.run(attempt, capture_output=True, text=True, check=False)
        if completed.returncode == 0:
            return
    raise KafkaUnavailable(f"Maven could not find Apache Kafka {KAFKA_VERSION}: {completed.stdout[-500:]}")


def _format(java: list[str], config: Path, quorum: str, users: Mapping[str, str], features: Mapping[str, int]) -> None:
    arguments = ["format", quorum, "-t", "klammtestAAAAAAAAAAAAA", "-c", str(config)]
    for name, level in features.items():
        arguments += ["--feature", f"{name}={level}"]
    for name, password in users.items():
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            arguments += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
    formatted = subprocess.run(
        [*java, "kafka.tools.StorageTool", *arguments], capture_output=True, text=True, check=False
    )
    if formatted.returncode != 0:
        raise KafkaUnavailable(f"Apache Kafka's storage could not be formatted: {formatted.stderr[-1000:]}")


def _train(java: list[str]) -> None:
    """Has a JVM load what a broker loads until it can answer, and while it stops."""
    broker = ApacheKafka()
    broker.java = java
    with broker:
        pass


def end_with_parent() -> None:
    """Asks Linux to end this process when its parent ends, so that a test run that is killed leaves no broker behind.

    Runs between fork and exec, and does one system call there: no lock can be in the way.
    """
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


class ApacheKafka:
    """A fresh single-node Apache Kafka: `with ApacheKafka() as kafka: kafka.bootstrap_servers`.

    `config` overrides keys of server.properties. Beside the listener PLAINTEXT there are those of `listeners`, each a
    name with its security protocol; their addresses are in `addresses`, and what they need is for `config` to say.
    Who is in `scram_users` has a password for both of SCRAM's mechanisms. `features` are formatted at the levels given.
    With `has_static_quorum` the controllers are named in the configuration: `kraft.version` is 0. The data lies in a
    temporary folder that goes with the broker, unless there is a `data_directory` that was made for it: then nothing is
    formatted, the broker is `node_id` and its controller listens on `controller_port`.
    """

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        *,
        heap: str = "512M",
        data_directory: Path | None = None,
        node_id: int = 1,
        controller_port: int | None = None,
        listeners: Mapping[str, str] | None = None,
        scram_users: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        has_static_quorum: bool = False,
    ) -> None:
        self.java: list[str] = []
        """What starts it instead of the usual command."""
        self.addresses: dict[str, str] = {}
        self._listeners = dict(listeners or {})
        self._scram_users = dict(scram_users or {})
        self._features = dict(features or {})
        self._has_static_quorum = has_static_quorum
        self._given_data_directory = data_directory
        self._node_id = node_id
        self._controller_port = controller_port
        self._overrides = dict(config or {})
        self._heap = heap
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._command: list[str] = []
        self.bootstrap_servers = ""

    def __enter__(self) -> ApacheKafka:
        classpath = kafka_classpath()
        self._folder = Path(tempfile.mkdtemp(prefix="klamm-apache-kafka-"))
        try:
            self._start(classpath, self._folder)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, classpath: str, folder: Path) -> None:
        port, controller_port = free_port(), self._controller_port or free_port()
        self.addresses = {name: f"localhost:{free_port()}" for name in self._listeners}
        others = "".join(f",{name}://{address}" for name, address in self.addresses.items())
        protocols = "".join(f",{name}:{protocol}" for name, protocol in self._listeners.items())
        quorum = (
            {"controller.quorum.voters": f"{self._node_id}@127.0.0.1:{controller_port}"}
            if self._has_static_quorum
            else {"controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}"}
        )
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(self._node_id),
            **quorum,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}{others}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}{others}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT{protocols}",
            "log.dirs": str(self.data_directory),
            "num.partitions": "1",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.retention.check.interval.ms": "1000",
            **self._overrides,
        }
        config = folder / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
        plain = start_command(classpath)
        java = self.java or start_command(classpath, name="kafka", train=_train)
        if self._given_data_directory is None:
            kind = "--no-initial-controllers" if self._has_static_quorum else "--standalone"
            _format(plain if self.java else java, config, kind, self._scram_users, self._features)
        self._command = [java[0], f"-Xmx{self._heap}", *java[1:], "kafka.Kafka", str(config)]
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self._run(folder)

    def _run(self, folder: Path) -> None:
        with (folder / "broker.out").open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                preexec_fn=end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - see there
            )
        self._wait_until_ready(self._process, folder)

    def _wait_until_ready(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                break
            try:
                if admin.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                time.sleep(0.1)
        raise KafkaUnavailable(f"Apache Kafka did not start: {(folder / 'broker.out').read_text()[-2000:]}")

    def kill(self) -> None:
        """Ends the broker as a crash would, with SIGKILL; `restart` starts it again."""
        assert self._process is not None, "it is not running"
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Stops the broker and starts it again on the same port and data."""
        assert self._folder is not None, "it is not running"
        self._end()
        self._run(self._folder)

    @property
    def data_directory(self) -> Path:
        """Where it keeps its data."""
        if self._given_data_directory is not None:
            return self._given_data_directory
        assert self._folder is not None, "it has not been started"
        return self._folder / "data"

    def halt(self) -> None:
        """Stops the broker in order and leaves its data. Raises `subprocess.TimeoutExpired` if it does not stop: its
        files would not be closed."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=_READY_SECONDS)
        self._end()

    def stop(self) -> None:
        """Stops the broker and removes its data, unless they were given. Safe to call twice."""
        self._end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
