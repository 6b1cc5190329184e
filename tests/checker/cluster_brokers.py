"""The brokers of a cluster for a run of the checker: three `klamm serve --metadata etcd://…`, with a real etcd.

Proxies stand on the links between brokers, and between each broker and each member of etcd. A keeper starts a broker
again that has ended by itself, as a service manager does: a broker ends when its session with etcd is lost.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from tests.interop.broker_process import BrokerProcess
from tests.support.cut_proxy import CutProxy
from tests.support.etcd_server import Etcd
from tests.support.links import Links
from tests.support.patience import Limit, slowness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from confluent_kafka.admin import ClusterMetadata, PartitionMetadata

__all__ = ["CONFIG", "ClusterBrokers"]

_SESSION_S: Final = 4
"""How long a broker is live without keep-alives, on an idle machine."""
_LONGEST_SESSION_S: Final = 30
_BROKERS: Final = 3
_PREFIX: Final = "checked"
_PATIENCE_S: Final = 90
_ANSWER_S: Final = 5
_LOOK_S: Final = 0.1
CONFIG: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "replica.lag.time.max.ms": "3000",
    # How long brokers wait for each other.
    "request.timeout.ms": "2000",
    "leader.imbalance.check.interval.seconds": "5",
}


class ClusterBrokers:
    """Brokers 1 to 3, which keep their addresses, those of the proxies, over all starts."""

    numbers = range(1, _BROKERS + 1)

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, str] = CONFIG,
        etcd_members: int = 1,
        *,
        etcd_options: Sequence[str] = (),
        program: Sequence[str] = (),
    ) -> None:
        """Starts etcd and the brokers with their data in `folder`. `program` is the command line that starts klamm.

        Raises RuntimeError if a broker does not start.
        """
        self.session_s = min(round(_SESSION_S * slowness()), _LONGEST_SESSION_S)
        """How long a broker is live without keep-alives. On a busy machine brokers would lose shorter sessions without
        a fault, again and again."""
        config = {**config, "broker.session.timeout.ms": str(self.session_s * 1000)}
        self._stack = ExitStack()
        self._is_closed = False
        try:
            self.etcd = self._stack.enter_context(Etcd(folder / "etcd", etcd_members, options=etcd_options))
            self.links = self._stack.enter_context(Links(_BROKERS))
            self.etcd_proxies = {
                number: [self._stack.enter_context(CutProxy(member.port)) for member in self.etcd.members]
                for number in self.numbers
            }
            self._locks = {number: threading.RLock() for number in self.numbers}
            self.brokers = {number: self._create(number, folder, config, program) for number in self.numbers}
        except BaseException:
            self.close()
            raise
        real = ",".join(self.brokers[number].bootstrap_servers for number in self.numbers)
        self.bootstrap_servers = self.links.lead_to(real)
        self.starts = 0
        """How often a broker was started again."""
        self.failure = ""
        """Why a broker can't be started again."""
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._keeper.start()
        # Before the brokers are killed: the keeper may be starting one.
        self._stack.callback(self._keeper.join)

    def _create(self, number: int, folder: Path, config: Mapping[str, str], program: Sequence[str]) -> BrokerProcess:
        own = folder / f"broker-{number}"
        own.mkdir(parents=True, exist_ok=True)
        endpoints = ",".join(proxy.endpoint for proxy in self.etcd_proxies[number])
        address = f"PLAINTEXT://127.0.0.1:{self.links.port + number - 1}"
        options = ["--profile", "test", "-v", "--broker-id", str(number)]
        options += ["--metadata", f"etcd://{endpoints}/{_PREFIX}"]
        settings = {**config, "advertised.listeners": address}
        broker = BrokerProcess(own, settings, program=program, options=options)
        self._stack.callback(broker.kill)
        return broker

    @property
    def is_running(self) -> bool:
        """Whether brokers are running, or will be started again."""
        return not self._is_closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def stop(self) -> None:
        """Stops all brokers with SIGTERM, one after the other. Raises RuntimeError if a broker could not be started."""
        self._is_closed = True
        self._keeper.join()
        for broker in self.brokers.values():
            broker.stop()
        if self.failure:
            raise RuntimeError(self.failure)

    def close(self) -> None:
        """Ends what still runs: brokers, proxies and etcd."""
        self._is_closed = True
        self._stack.close()

    def data_of(self, number: int) -> Path:
        """Returns the data directory of a broker."""
        return self.brokers[number].data_directory

    def log(self) -> str:
        """Returns what all brokers have logged, over all starts."""
        return "".join(broker.log() for broker in self.brokers.values())

    @contextmanager
    def down(self, *numbers: int, cleanly: bool = False) -> Iterator[None]:
        """Kills brokers with kill -9, or stops them one after the other with SIGTERM; they run again afterwards."""
        with ExitStack() as stack:
            for number in numbers:
                stack.enter_context(self._locks[number])
            for number in numbers:
                if cleanly:
                    self.brokers[number].stop()
                else:
                    self.brokers[number].kill()
            yield
        # The keeper starts them.
        self.wait_until_up()

    def pause(self, number: int, seconds: float) -> None:
        """Stops a broker with SIGSTOP for some seconds."""
        with self._locks[number]:
            broker = self.brokers[number]
            if not broker.is_running:
                return
            os.kill(broker.pid, signal.SIGSTOP)
            try:
                time.sleep(seconds)
            finally:
                os.kill(broker.pid, signal.SIGCONT)

    def wait_until_up(self) -> None:
        """Waits until all brokers are live. Raises RuntimeError if one does not come back."""
        self._wait(lambda: self._metadata().brokers.keys() == {*self.numbers}, "live brokers")

    def wait_until_in_sync(self, *topics: str) -> None:
        """Waits until all replicas of topics are in sync. Raises RuntimeError if they don't become so."""

        def is_in_sync() -> bool:
            return all(len(partition.isrs) == _BROKERS for topic in topics for partition in self._partitions(topic))

        self._wait(is_in_sync, "in-sync replicas")

    def wait_until_not_in_sync(self, broker: int, topic: str) -> None:
        """Waits until a broker is in sync in no partition of a topic. Raises RuntimeError if it does not come to
        that."""
        self._wait(lambda: broker not in self.in_sync(topic), f"in-sync replicas without broker {broker}")

    def in_sync(self, topic: str) -> set[int]:
        """Returns the brokers that are in sync in a partition of a topic. Raises KafkaException if no broker tells."""
        return {broker for partition in self._partitions(topic) for broker in partition.isrs}

    def leader(self, topic: str, partition: int = 0) -> int:
        """Returns the broker that leads a partition, as soon as there is one."""
        self._wait(lambda: self._leader(topic, partition) in self.numbers, "leader")
        return self._leader(topic, partition)

    def wait_until_led_by(self, broker: int, topic: str, partition: int) -> None:
        """Waits until a broker leads a partition. Raises RuntimeError if it does not come to that."""
        self._wait(lambda: self._leader(topic, partition) == broker, f"leader {broker}")

    def wait_until_not_led_by(self, broker: int, topic: str) -> None:
        """Waits until other brokers lead all partitions of a topic. Raises RuntimeError if it does not come to that."""

        def is_led_by_others() -> bool:
            return {partition.leader for partition in self._partitions(topic)} <= {*self.numbers} - {broker}

        self._wait(is_led_by_others, f"leaders other than {broker}")

    def controller(self) -> int:
        """Returns the broker that is the controller."""
        return self._metadata().controller_id

    def _leader(self, topic: str, partition: int) -> int:
        found = self._metadata().topics.get(topic)
        return -1 if found is None or partition not in found.partitions else found.partitions[partition].leader

    def _partitions(self, topic: str) -> list[PartitionMetadata]:
        """Returns what one of the brokers knows of a topic. Raises KafkaException if it does not know the topic: the
        topic is new, and another broker created it."""
        found = self._metadata().topics.get(topic)
        if found is None or not found.partitions:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return list(found.partitions.values())

    def _metadata(self) -> ClusterMetadata:
        """Returns what one of the brokers knows. Raises KafkaException if none answers."""
        addresses = [broker.bootstrap_servers for broker in self.brokers.values() if broker.is_running]
        client = AdminClient({"bootstrap.servers": ",".join(addresses), "log_level": 0})
        return client.list_topics(timeout=_ANSWER_S)

    def _wait(self, is_true: Callable[[], bool], what: str) -> None:
        limit = Limit(_PATIENCE_S)
        while True:
            with suppress(KafkaException):
                if is_true():
                    return
            if self.failure or limit.is_over:
                raise RuntimeError(f"the cluster did not come to its {what}: {self.failure}\n{self.log()[-4000:]}")
            time.sleep(_LOOK_S)

    def _keep(self) -> None:
        """Starts brokers that have ended. A start can fail while etcd is away, so it is repeated for some time."""
        limits: dict[int, Limit] = {}
        while not self._is_closed:
            for number, broker in self.brokers.items():
                if broker.is_running or not self._locks[number].acquire(blocking=False):
                    continue
                try:
                    if self._is_closed or broker.is_running:
                        continue
                    self.starts += 1
                    broker.start()
                    limits.pop(number, None)
                except RuntimeError as error:
                    if limits.setdefault(number, Limit(_PATIENCE_S)).is_over:
                        self.failure = str(error)
                finally:
                    self._locks[number].release()
            time.sleep(_LOOK_S)
