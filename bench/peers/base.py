"""The interface of a broker for the bench."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from bench.measure import cpu_seconds, wait_for_first_answer
from bench.peers.cluster import RunningCluster

__all__ = ["Peer", "PeerUnavailable", "RunningPeer"]


class PeerUnavailable(Exception):
    """This broker can't run on this machine. The text is the reason, and goes into the result."""


class RunningPeer:
    """A broker process that has sent its first response.

    `seconds_to_first_answer` counts from just before the process was created.
    """

    def __init__(self, process: subprocess.Popen[str], port: int, spawned_at: float) -> None:
        self.process = process
        self.bootstrap_servers = f"127.0.0.1:{port}"
        try:
            self.seconds_to_first_answer = wait_for_first_answer(port) - spawned_at
        except BaseException:
            self.stop()
            raise

    @property
    def process_id(self) -> int:
        """The id of the broker's process. Measurements include its child processes."""
        return self.process.pid

    def cpu_seconds(self) -> float:
        """Returns the processor time of the broker's processes."""
        return cpu_seconds(self.process_id)

    def create_topic(self, name: str, partitions: int) -> None:
        """Creates a topic with one replica. Raises KafkaException."""
        admin = self._admin()  # must live until its future is done
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic, so that a row's data doesn't accumulate. Raises KafkaException."""
        admin = self._admin()
        admin.delete_topics([name])[name].result(30)

    def count_offsets(self, topic: str, partitions: int) -> int:
        """Returns the sum of the partitions' end offsets: how many records were ever written. Raises KafkaException."""
        admin = self._admin()
        latest = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
        return sum(future.result(30).offset for future in admin.list_offsets(latest).values())

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 3})

    def stop(self) -> None:
        """Ends the process: with SIGTERM, and after 20 s with SIGKILL."""
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Peer(ABC):
    """A kind of broker that can be started any number of times, each time with a new data directory."""

    name: str
    """The name in the tables, with the version."""

    @abstractmethod
    def start(self, folder: Path, config: Mapping[str, str]) -> RunningPeer:
        """Starts a broker with its data in `folder` and waits for its first response.

        `config` holds Kafka's broker keys that a row needs. A peer ignores keys that it does not have.
        """

    def start_cluster(self, folder: Path, config: Mapping[str, str]) -> RunningCluster:
        """Starts three brokers with their data in `folder`, and waits until they know each other.

        `config` holds the broker keys of a row, next to CLUSTER_CONFIG. Raises PeerUnavailable.
        """
        raise PeerUnavailable("it has no cluster")

    @staticmethod
    def spawn(
        command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
    ) -> tuple[subprocess.Popen[str], float]:
        """Starts a process with its output in `folder`/output.txt. Returns it and the time just before its creation.

        `environment` holds the environment variables of the process; None: those of this process.
        """
        with (folder / "output.txt").open("w", encoding="utf-8") as output:
            spawned_at = time.monotonic()
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return process, spawned_at
