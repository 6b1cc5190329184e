"""Three nodes of Apache Kafka, whose partitions have a replica on each node: leaders and coordinators move."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import TracebackType

from tests.support.kafka_broker import ApacheKafka
from tests.support.ports import free_port

__all__ = ["KafkaCluster"]

_NODES = 3


class KafkaCluster:
    """The cluster: `with KafkaCluster(transaction_version=2) as cluster: …`.

    `overrides` has keys for all nodes, `racks` the rack of each.
    """

    def __init__(
        self, transaction_version: int, overrides: Mapping[str, str] | None = None, racks: Sequence[str] = ()
    ) -> None:
        ports = [free_port() for _ in range(_NODES)]
        config = {
            "controller.quorum.voters": ",".join(f"{node + 1}@127.0.0.1:{port}" for node, port in enumerate(ports)),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.num.partitions": "3",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "500",
            **(overrides or {}),
        }
        self.nodes = [
            ApacheKafka(
                {**config, **({"broker.rack": racks[node]} if racks else {})},
                heap="384M",
                node_id=node + 1,
                controller_port=port,
                features={"transaction.version": transaction_version},
                has_static_quorum=True,
            )
            for node, port in enumerate(ports)
        ]
        self._errors: list[BaseException] = []
        self.is_over = threading.Event()
        """Set at the end. A node ends with the thread that has started it, so such a thread waits for this."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    def __enter__(self) -> KafkaCluster:
        # A node is ready when two of them run, so all start at once.
        started = [threading.Event() for _ in self.nodes]
        for node, event in zip(self.nodes, started, strict=True):
            threading.Thread(target=self._start, args=(node, event), daemon=True).start()
        for event in started:
            event.wait()
        if self._errors:
            self.stop()
            raise self._errors[0]
        return self

    def _start(self, node: ApacheKafka, started: threading.Event) -> None:
        try:
            node.__enter__()
        except BaseException as error:
            self._errors.append(error)
        started.set()
        self.is_over.wait()

    def start_again(self, node: int) -> None:
        """Starts a node again that was killed, on the same port and data. Nodes are numbered from 1."""
        started = threading.Event()
        threading.Thread(target=self._start_again, args=(node, started), daemon=True).start()
        started.wait()
        if self._errors:
            raise self._errors[0]

    def _start_again(self, node: int, started: threading.Event) -> None:
        try:
            self.nodes[node - 1].restart()
        except BaseException as error:
            self._errors.append(error)
        started.set()
        self.is_over.wait()

    def stop(self) -> None:
        """Stops all nodes and removes their data."""
        for node in self.nodes:
            node.stop()
        self.is_over.set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
