"""Several brokers in this process, which a test can kill, pause and cut off.

with Cluster(brokers=3) as cluster:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    cluster.kill(2)
    cluster.restart(2)

The brokers are real: sockets, log files, and requests between brokers. Only the metadata store is in memory. By default
a partition has one replica, so the partitions of a broker that is away are away, too, until it is back. With a
replication factor of 2 or 3 another broker takes over.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

from klamm.broker.network.peer_connections import TcpPeerConnections
from klamm.broker.server import BrokerServer
from klamm.client.config import Address
from klamm.errors import KlammError
from klamm.metadata.image import MetadataImage
from klamm.metadata.memory_store import MemoryMetadata, MemoryStore
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC
from klamm.testing.broker_thread import OPEN_FILES, BrokerThread
from klamm.testing.cluster_member import ClusterMember
from klamm.testing.cluster_settings import ClusterSettings
from klamm.testing.cuts import Cuts, CuttableConnections
from klamm.testing.group_control import fence_member, rebalance_group
from klamm.testing.leader_control import move_leader

__all__ = ["Cluster"]

T = TypeVar("T")

_HOST: Final = "127.0.0.1"
_SESSION_TIMEOUT_MS: Final = 9_000
"""Kafka's default of `broker.session.timeout.ms`."""


class Cluster:
    """Brokers 1 to `brokers` on free ports of 127.0.0.1, each on a thread of its own; `add_broker` starts more.

    `config`: Kafka's broker keys, as text, for every broker. `profile`: as for `Broker`. `data_dir`: the folder with a
    folder for each broker; by default a new one that is removed at the end. `session_timeout_ms`: after this time, the
    others see a paused broker as gone. `replication_factor`: of new topics without one, and of the internal topics.
    `racks`: the racks of the brokers, in turn; by default they have none. Use the cluster as a context manager, or call
    `start` and `stop`. Its methods may be called from any thread, one at a time. Brokers are named by their ids.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        config: Mapping[str, str] | None = None,
        profile: Literal["default", "test"] = "test",
        data_dir: str | Path | None = None,
        session_timeout_ms: int = _SESSION_TIMEOUT_MS,
        replication_factor: int = 1,
        racks: Sequence[str] = (),
    ) -> None:
        self._settings = ClusterSettings(brokers, replication_factor, config or {}, profile=profile, racks=racks)
        self._session_timeout_ms = session_timeout_ms
        self._metadata = MemoryMetadata()
        self._cuts = Cuts()
        self._lock = threading.RLock()
        self._brokers = {number: ClusterMember(number) for number in range(1, brokers + 1)}
        self._remove_data_dir: Callable[[], object] = lambda: None
        self._given_data_dir = Path(data_dir) if data_dir is not None else None
        self._data_dir: Path | None = None

    # Life

    def start(self) -> Self:
        """Starts all brokers, waits until they accept requests and know each other, and returns the cluster.

        Raises KlammError when it is running already or a broker can't start.
        """
        with self._lock:
            if self._data_dir is not None:
                raise KlammError("the cluster is running already")
            self._data_dir = self._given_data_dir
            if self._data_dir is None:
                self._metadata = MemoryMetadata()  # those of an earlier start are without their logs
                self._data_dir = Path(tempfile.mkdtemp(prefix="klamm-cluster-"))
                self._remove_data_dir = weakref.finalize(self, shutil.rmtree, self._data_dir, ignore_errors=True)
            try:
                for member in self._brokers.values():
                    self._begin(member)
                self._wait_for_all()
            except BaseException:
                self.stop()
                raise
            self._let_all_know()
        return self

    def stop(self) -> None:
        """Stops all brokers cleanly, and removes the data folder if it was not given. Safe to call twice."""
        with self._lock:
            for member in self._brokers.values():
                if member.thread is not None:
                    member.unblock()
                    member.end(is_kill=False)
            self._remove_data_dir()
            self._data_dir = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Facts

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, those that are away included, in the form that every Kafka client accepts.

        Raises KlammError when the cluster has not been started.
        """
        return ",".join(self.address_of(broker) for broker in self._brokers)

    @property
    def brokers(self) -> list[int]:
        """The ids of all brokers, those that are away included."""
        return list(self._brokers)

    def address_of(self, broker: int) -> str:
        """Returns `host:port` of one broker. It stays the same when the broker starts again.

        Raises KlammError for an unknown broker, and when the cluster has not been started.
        """
        port = self._member(broker).port
        if port == 0:
            raise KlammError("the cluster is not running: use `with Cluster() as cluster:` or call start() first")
        return f"{_HOST}:{port}"

    def data_dir_of(self, broker: int) -> Path:
        """Returns the data folder of one broker. Raises KlammError when the cluster has not been started."""
        self._member(broker)
        if self._data_dir is None:
            raise KlammError("the cluster has no data folder: call start() first")
        return self._data_dir / f"broker-{broker}"

    def leader_of(self, topic: str, partition: int) -> int | None:
        """Returns the broker that leads the partition, None if that broker is away.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION.
        """
        image = self._image()
        found = image.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition}")
        leader = found.partitions[partition].leader
        return leader if leader in image.brokers else None

    def coordinator_of(self, group: str) -> int | None:
        """Returns the broker that coordinates the group; None if it is away, or if there is no group yet."""
        if OFFSETS_TOPIC not in self._image().topics:
            return None

        async def partition_of(server: BrokerServer) -> int:
            assert server.context is not None
            return server.context.groups.partition_for(group)

        return self.leader_of(OFFSETS_TOPIC, self._running().run(partition_of))

    # Growth

    def add_broker(self) -> int:
        """Starts one more broker, and returns its id, which the cluster allocates: no broker had it before.

        Topics that exist keep their partitions where they are. Raises KlammError when no broker is running.
        """
        with self._lock:

            async def allocate(server: BrokerServer) -> int:
                assert server.context is not None
                return await server.context.metadata.allocate_broker_id()

            number = self._running().run(allocate)
            member, before = ClusterMember(number), self._brokers
            # A new dict: the threads of brokers look for each other in the old one meanwhile.
            self._brokers = {**before, number: member}
            try:
                self._begin(member)
                member.wait()
            except BaseException:
                self._brokers = before
                raise
            self._let_all_know()
            return number

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Lets another in-sync replica lead. Raises the errors of `leader_control.move_leader`."""
        self._member(to)
        self._running().run(lambda server: move_leader(server, topic, partition, to))
        self._let_all_know()

    # Failures

    def kill(self, broker: int) -> None:
        """Ends a broker as `kill -9` would, and returns when the other brokers know that it is gone.

        Its clients lose their connections without an answer. What it wrote to its files stays; the next start recovers
        its logs. A paused broker reads nothing that was sent to it during the pause. Raises KlammError if it is not
        running.
        """
        with self._lock:
            member = self._expect_running(broker)
            member.unblock(is_kill=True)
            member.end(is_kill=True)
            self._let_all_know()

    def restart(self, broker: int) -> None:
        """Starts a broker again with the same data and port, and waits until it accepts requests.

        A running broker is stopped cleanly before.
        """
        with self._lock:
            member = self._member(broker)
            self._require_started()
            member.failure = None
            if member.thread is not None:
                member.unblock()
                member.end(is_kill=False)
            self._begin(member)
            member.wait()
            self._let_all_know()

    def pause(self, broker: int) -> None:
        """Stops a broker as SIGSTOP would: it keeps its connections and answers nothing, until `resume`.

        After the session timeout the others see it as gone. It then starts again when it is resumed. Raises KlammError
        if it is not running, or paused already.
        """
        with self._lock:
            member = self._expect_running(broker)
            if member.is_paused:
                raise KlammError(f"broker {broker} is paused already")
            member.pause(self._session_timeout_ms / 1000)

    def resume(self, broker: int) -> None:
        """Lets a paused broker continue. Does nothing if it is not paused."""
        with self._lock:
            self._member(broker).unblock()

    def cut(self, one: int, other: int, *, one_way: bool = False) -> None:
        """Breaks the network between two brokers until `heal`; clients still reach both.

        Requests between the brokers fail at once. With `one_way`, only those that `one` sends to `other`.
        """
        self._member(one)
        self._member(other)
        self._cuts.cut(one, other)
        if not one_way:
            self._cuts.cut(other, one)

    def heal(self, one: int | None = None, other: int | None = None) -> None:
        """Ends the cuts between two brokers in both directions; without arguments, all cuts."""
        if one is None or other is None:
            self._cuts.heal_all()
            return
        self._cuts.heal(one, other)
        self._cuts.heal(other, one)

    # Groups

    def rebalance(self, group: str) -> None:
        """Makes a group rebalance now; see `Broker.rebalance`.

        Raises KafkaError: GROUP_ID_NOT_FOUND, COORDINATOR_NOT_AVAILABLE while the group's broker is away or paused.
        """
        self._in_coordinator(group, lambda server: rebalance_group(server, group))

    def fence(self, group: str, member_id: str) -> None:
        """Removes a member from its group as if its session had timed out; see `Broker.fence`.

        Raises its errors, and KafkaError COORDINATOR_NOT_AVAILABLE while the group's broker is away or paused.
        """
        self._in_coordinator(group, lambda server: fence_member(server, group, member_id))

    def run_in_broker(self, broker: int, function: Callable[[BrokerServer], Coroutine[Any, Any, T]]) -> T:
        """Runs a coroutine on a broker's own loop and returns its result, for tests of internals."""
        with self._lock:  # a broker may be starting again just now
            thread = self._expect_running(broker).thread
        assert thread is not None
        return thread.run(function)

    def _in_coordinator(self, group: str, function: Callable[[BrokerServer], Coroutine[Any, Any, None]]) -> None:
        if OFFSETS_TOPIC not in self._image().topics:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group}")
        coordinator = self.coordinator_of(group)
        if coordinator is None or self._member(coordinator).is_paused:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator of group {group} is away")
        self.run_in_broker(coordinator, function)

    # Members

    def _member(self, broker: int) -> ClusterMember:
        try:
            return self._brokers[broker]
        except KeyError:
            raise KlammError(f"there is no broker {broker}: the cluster has {self.brokers}") from None

    def _require_started(self) -> None:
        if self._data_dir is None:
            raise KlammError("the cluster is not running: use `with Cluster() as cluster:` or call start() first")

    def _expect_running(self, broker: int) -> ClusterMember:
        self._require_started()
        member = self._member(broker)
        if member.thread is None:
            failure, member.failure = member.failure, None
            reason = "" if failure is None else f": it could not start again after its session had ended: {failure}"
            raise KlammError(f"broker {broker} is not running{reason}") from failure
        return member

    def _running(self) -> BrokerThread:
        """Returns the thread of a broker that can answer. Raises KlammError if there is none."""
        with self._lock:  # a broker may be starting again just now
            self._require_started()
            for member in self._brokers.values():
                if member.thread is not None and not member.is_paused:
                    return member.thread
        raise KlammError("no broker of the cluster is running")

    def _image(self) -> MetadataImage:
        async def image_of(server: BrokerServer) -> MetadataImage:
            assert server.context is not None
            return server.context.metadata.image

        return self._running().run(image_of)

    def _begin(self, member: ClusterMember) -> None:
        member.choose_port()
        directory, listener = self.data_dir_of(member.number), f"PLAINTEXT://{_HOST}:{member.port}"
        config = self._settings.config_of(member.number, directory, listener)

        async def open_store() -> MemoryStore:
            session = member.session = self._metadata.connect()
            session.on_session_lost(lambda: self._end_soon(member, session, starts_again=True))
            return session

        connections = CuttableConnections(member.number, self._broker_at, self._cuts, TcpPeerConnections(config))

        def make_server() -> BrokerServer:
            return BrokerServer(
                config,
                open_files=OPEN_FILES,
                open_store=open_store,
                open_peer_connection=connections,
                on_unregistered=lambda: self._end_soon(member, member.session, starts_again=False),
            )

        member.begin(make_server)

    def _wait_for_all(self) -> None:
        """Waits until each broker has started or failed, so that no start is broken off. Raises the first failure."""
        failures = []
        for member in self._brokers.values():
            try:
                member.wait()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _broker_at(self, address: Address) -> int | None:
        return next((number for number, member in self._brokers.items() if member.port == address[1]), None)

    def _end_soon(self, member: ClusterMember, session: MemoryStore | None, *, starts_again: bool) -> None:
        """Ends a broker: it was unregistered, or its session is over, and it `starts_again` as with a supervisor."""
        threading.Thread(target=self._end, args=(member, session, starts_again), daemon=True).start()

    def _end(self, member: ClusterMember, session: MemoryStore | None, starts_again: bool) -> None:
        with self._lock:
            if session is not None and member.session is session and self._data_dir is not None:
                member.end(is_kill=starts_again)
                if starts_again:
                    try:
                        self._begin(member)
                        member.wait()
                    except Exception as error:
                        member.failure = error

    def _let_all_know(self) -> None:
        """Waits until every broker that can answer has seen the metadata as they are now."""
        with self._lock:  # a broker may be starting again just now
            for member in self._brokers.values():
                if member.thread is not None and not member.is_paused:
                    member.thread.run(lambda _: asyncio.sleep(0))  # after the commits that its loop has received
