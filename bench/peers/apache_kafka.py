"""Apache Kafka from its Maven jars: one node in KRaft mode, with the settings of its own start scripts."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.support.kafka_broker import KAFKA_VERSION, KafkaUnavailable, kafka_classpath
from tests.support.ports import free_port

from bench.peers.base import Peer, PeerUnavailable, RunningPeer
from bench.peers.cluster import CLUSTER_CONFIG, BrokerOfCluster, RunningCluster, write_settings

__all__ = ["ApacheKafka"]

# config/server.properties as Apache Kafka ships it; addresses and the folder are filled in.
_STOCK = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "127.0.0.1:{controller_port}",
    "listeners": "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "{folder}",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "2",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}

_CLUSTER_ID = "klammbenchAAAAAAAAAAAA"

# The JVM options of kafka-server-start.sh and kafka-run-class.sh.
_JVM = [
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]


class ApacheKafka(Peer):
    """Apache Kafka. Without an SLF4J binding on the class path it logs nothing, which can only improve its figures.

    The start time does not include formatting the storage. Raises `PeerUnavailable`.
    """

    def __init__(self) -> None:
        try:
            self._classpath = kafka_classpath()
        except KafkaUnavailable as error:
            raise PeerUnavailable(str(error)) from error
        self.name = f"Apache Kafka {KAFKA_VERSION}"

    def start(self, folder: Path, config: Mapping[str, str]) -> RunningPeer:
        port, controller_port = free_port(), free_port()
        settings = folder / "server.properties"
        write_settings(settings, {**_stock(port, controller_port, folder / "data"), **config})
        self._format(settings, "--standalone")
        process, spawned_at = self.spawn(self._command(settings), folder)
        return RunningPeer(process, port, spawned_at)

    def start_cluster(self, folder: Path, config: Mapping[str, str]) -> RunningCluster:
        """Starts three nodes, each of which is a broker and a controller, as small clusters run Kafka."""
        ports = {node: (free_port(), free_port()) for node in (1, 2, 3)}
        voters = ",".join(f"{node}@127.0.0.1:{controller_port}" for node, (_, controller_port) in ports.items())
        commands: dict[int, tuple[list[str], Path]] = {}
        for node, (port, controller_port) in ports.items():
            own = folder / f"node-{node}"
            stock = _stock(port, controller_port, own / "data")
            del stock["controller.quorum.bootstrap.servers"]
            nodes = {"node.id": str(node), "controller.quorum.voters": voters}
            write_settings(own / "server.properties", {**stock, **nodes, **CLUSTER_CONFIG, **config})
            self._format(own / "server.properties", "--no-initial-controllers")
            commands[node] = self._command(own / "server.properties"), own
        brokers: list[BrokerOfCluster] = []
        try:
            for node, (command, own) in commands.items():
                brokers.append(
                    BrokerOfCluster(node, ports[node][0], own / "data", partial(_process, self, command, own))
                )
            return RunningCluster(brokers)
        except BaseException:
            for broker in brokers:
                broker.kill()
            raise

    def _command(self, settings: Path) -> list[str]:
        return ["java", *_JVM, "-cp", self._classpath, "kafka.Kafka", str(settings)]

    def _format(self, settings: Path, quorum: str) -> None:
        """Formats the storage. Raises PeerUnavailable."""
        java = ["java", "-cp", self._classpath, "kafka.tools.StorageTool"]
        formatted = subprocess.run(
            [*java, "format", "--ignore-formatted", quorum, "-t", _CLUSTER_ID, "-c", str(settings)],
            capture_output=True,
            text=True,
            check=False,
        )
        if formatted.returncode != 0:
            raise PeerUnavailable(
                f"Apache Kafka's storage could not be formatted: {formatted.stdout[-200:]} {formatted.stderr[-500:]}"
            )


def _stock(port: int, controller_port: int, data_folder: Path) -> dict[str, str]:
    values = {"port": port, "controller_port": controller_port, "folder": data_folder}
    return {key: value.format_map(values) for key, value in _STOCK.items()}


def _process(peer: Peer, command: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    return peer.spawn(command, folder)[0]
