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

from tests.interop.broker_process import BrokerProcess
from tests.support.cut_proxy import CutProxy
from tests.support.etcd_server import Etcd
from tests.support.links import Links
from tests.support.patience import Limit, slowness
from tests.support.wire import Wire

from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse, MetadataResponsePartition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

__all__ = ["CONFIG", "ClusterBrokers"]

_SESSION_S: Final = 4
"""How long a broker is live without keep-alives, on an idle machine."""
_LONGEST_SESSION_S: Final = 30
_BROKERS: Final = 3
_PREFIX: Final = "checked"
_PATIENCE_S: Final = 90
_LOOK_S: Final = 0.1
_METADATA: Final = 12
"""The version of Metadata requests."""
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
        """Starts etcd and the brokers with their data in `folder`, and waits until all brokers know each other.

        `program` is the command line that starts klamm. Raises RuntimeError if a broker does not start.
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
        try:
            # A broker that does not know all others yet refuses a topic with three replicas.
            self.wait_until_up()
        except BaseException:
            self.close()
            raise

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
        """Waits until all brokers run, and know that all are live. Raises RuntimeError if one does not come back.

        The others list a broker that was killed until its session ends, so that what they know is not enough.
        """

        def is_up() -> bool:
            views = self._views()
            return len(views) == _BROKERS and all(_live(view) == {*self.numbers} for view in views)

        self._wait(is_up, "live brokers")

    def wait_until_in_sync(self, *topics: str) -> None:
        """Waits until all brokers run, and know that all replicas of topics are in sync. Raises RuntimeError if they
        don't become so."""

        def is_in_sync() -> bool:
            views = self._views()
            return len(views) == _BROKERS and all(_are_all_in_sync(view, topic) for view in views for topic in topics)

        self._wait(is_in_sync, "in-sync replicas")

    def wait_until_not_in_sync(self, broker: int, topic: str) -> None:
        """Waits until a broker is in sync in no partition of a topic. Raises RuntimeError if it does not come to
        that."""
        self._wait(lambda: broker not in (self.in_sync(topic) or {broker}), f"in-sync replicas without broker {broker}")

    def in_sync(self, topic: str) -> set[int]:
        """Returns the brokers that are in sync in a partition of a topic according to any running broker; none if the
        topic is not known yet. Raises OSError if a running broker does not answer."""
        return {broker for view in self._views() for each in _partitions(view, topic) for broker in each.isr_nodes}

    def leader(self, topic: str, partition: int = 0) -> int:
        """Returns the broker that leads a partition, as soon as all running brokers know the same one."""
        found: set[int] = set()

        def is_known() -> bool:
            found.clear()
            found.update(self._leaders(topic, partition))
            return len(found) == 1 and found <= {*self.numbers}

        self._wait(is_known, "leader")
        return found.pop()

    def wait_until_led_by(self, broker: int, topic: str, partition: int) -> None:
        """Waits until a broker leads a partition. Raises RuntimeError if it does not come to that."""
        self._wait(lambda: self._leaders(topic, partition) == {broker}, f"leader {broker}")

    def wait_until_leading(self, broker: int, topic: str) -> None:
        """Waits until a broker leads a partition of a topic. Raises RuntimeError if it does not come to that."""

        def is_leading() -> bool:
            return all(broker in {each.leader_id for each in _partitions(view, topic)} for view in self._views())

        self._wait(is_leading, f"partition that broker {broker} leads")

    def wait_until_not_led_by(self, broker: int, topic: str) -> None:
        """Waits until other brokers lead all partitions of a topic. Raises RuntimeError if it does not come to that."""
        others = {*self.numbers} - {broker}

        def is_led_by_others() -> bool:
            leaders = [{each.leader_id for each in _partitions(view, topic)} for view in self._views()]
            return all(each and each <= others for each in leaders)

        self._wait(is_led_by_others, f"leaders other than {broker}")

    def controller(self) -> int:
        """Returns the broker that is the controller, as soon as all running brokers know the same one."""
        found: set[int] = set()

        def is_known() -> bool:
            found.clear()
            found.update(view.controller_id for view in self._views())
            return len(found) == 1 and found <= {*self.numbers}

        self._wait(is_known, "controller")
        return found.pop()

    def _leaders(self, topic: str, partition: int) -> set[int]:
        """Returns the leaders of a partition that the running brokers know; -1 if one of them knows none."""
        return {
            next((each.leader_id for each in _partitions(view, topic) if each.partition_index == partition), -1)
            for view in self._views()
        }

    def _views(self) -> list[MetadataResponse]:
        """Returns what each running broker knows. Raises OSError if one does not answer, or if none runs.

        The brokers learn of changes one after the other, so a state is reached when all of them know it.
        """
        views = []
        for broker in self.brokers.values():
            if broker.is_running:
                with Wire(broker.bootstrap_servers) as wire:
                    views.append(wire.call(MetadataResponse, _METADATA, MetadataRequest(topics=None)))
        if not views:
            raise ConnectionError("no broker is running")
        return views

    def _wait(self, is_true: Callable[[], bool], what: str) -> None:
        limit = Limit(_PATIENCE_S)
        while True:
            with suppress(OSError):
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


def _live(view: MetadataResponse) -> set[int]:
    return {broker.node_id for broker in view.brokers}


def _partitions(view: MetadataResponse, topic: str) -> list[MetadataResponsePartition]:
    """Returns the partitions of a topic; none if the broker does not know the topic yet."""
    return [partition for each in view.topics if each.name == topic for partition in each.partitions]


def _are_all_in_sync(view: MetadataResponse, topic: str) -> bool:
    partitions = _partitions(view, topic)
    return bool(partitions) and all(len(each.isr_nodes) == _BROKERS for each in partitions)
