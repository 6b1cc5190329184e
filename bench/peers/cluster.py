"""A cluster of brokers for the bench: processes that the rows can kill and start again."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.measure import cpu_seconds, received_segments, resident_bytes

__all__ = ["CLUSTER_CONFIG", "BrokerOfCluster", "RunningCluster", "write_settings"]

_BROKERS = 3
_START_TIMEOUT_S = 120
_STOP_TIMEOUT_S = 60
_LOOK_INTERVAL_S = 0.02

CLUSTER_CONFIG = {
    "default.replication.factor": str(_BROKERS),
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": str(_BROKERS),
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.replication.factor": str(_BROKERS),
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": str(_BROKERS),
    "share.coordinator.state.topic.min.isr": "2",
}
"""The broker keys of every cluster. Session timeout and replica lag have their defaults, which are equal."""


class BrokerOfCluster:
    """One broker: how it is started, and its process."""

    def __init__(
        self, broker_id: int, port: int, data_folder: Path, spawn: Callable[[], subprocess.Popen[str]]
    ) -> None:
        """`data_folder`: where the broker keeps its partitions."""
        self.broker_id = broker_id
        self.address = f"127.0.0.1:{port}"
        self.data_folder = data_folder
        self._spawn = spawn
        self.process = spawn()

    def kill(self) -> None:
        """Ends the process at once, as a crash does."""
        self.process.kill()
        self.process.wait()

    def terminate(self) -> None:
        """Stops the broker in order."""
        self.process.terminate()
        try:
            self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def start_again(self) -> None:
        """Starts the broker with the data that it has."""
        self.process = self._spawn()

    def forget(self, topic: str) -> None:
        """Removes the topic's partitions from the disk of a broker that does not run."""
        for folder in self.data_folder.glob(f"{topic}-*"):
            shutil.rmtree(folder)


class RunningCluster:
    """Three brokers that answer, and the processes that they need."""

    def __init__(self, brokers: Sequence[BrokerOfCluster], others: Sequence[subprocess.Popen[str]] = ()) -> None:
        """Waits until the brokers know each other. Raises TimeoutError. `others`: for example etcd."""
        self.brokers = brokers
        self._others = others
        self.bootstrap_servers = ",".join(broker.address for broker in brokers)
        try:
            self._wait(lambda: len(self._admin().list_topics(timeout=5).brokers) == len(brokers), "know each other")
        except BaseException:
            self.stop()
            raise

    @property
    def process_ids(self) -> list[int]:
        """The processes of the whole cluster, etcd among them."""
        running = [*(broker.process for broker in self.brokers), *self._others]
        return [process.pid for process in running if process.poll() is None]

    def cpu_seconds(self) -> float:
        """Returns the processor time of all processes that run."""
        return sum(map(cpu_seconds, self.process_ids))

    def resident_bytes(self) -> int:
        """Returns the resident memory of all processes."""
        return sum(map(resident_bytes, self.process_ids))

    def received_segments(self) -> dict[tuple[int, str], int]:
        """Returns how many segments with data came on each connection to a broker: at rest, requests of followers.

        Raises OSError if `ss` is not installed.
        """
        return received_segments(frozenset(int(broker.address.rpartition(":")[2]) for broker in self.brokers))

    def create_topic(self, name: str, partitions: int) -> None:
        """Creates a topic with a replica on each broker, and waits until all of them are in sync and lead."""
        admin = self._admin()  # must live until its future is done
        admin.create_topics([NewTopic(name, partitions, len(self.brokers))])[name].result(60)
        self.wait_in_sync(name)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic, so that a row's data doesn't accumulate. Raises KafkaException."""
        admin = self._admin()
        admin.delete_topics([name])[name].result(60)

    def wait_in_sync(self, topic: str) -> float:
        """Waits until each partition has all replicas in sync; returns time.monotonic() then. Raises TimeoutError."""
        admin = self._admin()

        def is_in_sync() -> bool:
            partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
            return bool(partitions) and all(len(each.isrs) == len(self.brokers) for each in partitions)

        self._wait(is_in_sync, f"have all of {topic} in sync")
        return time.monotonic()

    def leader_of(self, topic: str) -> BrokerOfCluster:
        """Returns the leader of the topic's first partition."""
        leader = self._admin().list_topics(topic, timeout=10).topics[topic].partitions[0].leader
        return next(broker for broker in self.brokers if broker.broker_id == leader)

    def coordinator_of(self, group: str) -> BrokerOfCluster:
        """Returns the coordinator of a group that exists."""
        admin = self._admin()  # must live until its future is done
        coordinator = admin.describe_consumer_groups([group])[group].result(30).coordinator
        return next(broker for broker in self.brokers if broker.broker_id == coordinator.id)

    def wait_for(self, broker: BrokerOfCluster) -> float:
        """Waits until the broker is one of the cluster again; returns time.monotonic() then. Raises TimeoutError."""
        admin = self._admin()
        self._wait(lambda: broker.broker_id in admin.list_topics(timeout=5).brokers, f"see broker {broker.broker_id}")
        return time.monotonic()

    def stop(self) -> None:
        """Ends all processes, the brokers first. Their data goes with the folder of the row."""
        for broker in self.brokers:
            broker.kill()
        for process in self._others:
            process.kill()
            process.wait()

    def _wait(self, is_true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                if is_true():
                    return
            except (KafkaException, KeyError):
                pass
            if time.monotonic() > deadline:
                raise TimeoutError(f"the brokers did not {what} within {_START_TIMEOUT_S} s")
            time.sleep(_LOOK_INTERVAL_S)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})


def write_settings(path: Path, config: Mapping[str, str]) -> None:
    """Writes Kafka's server.properties."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in config.items()), encoding="utf-8")
