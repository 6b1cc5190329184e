"""A broker of the simulated cluster: the real group coordinator on simulated ports, with its starts and crashes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.disk import STATE_PARTITION, BrokerLog, Disk
from tests.simulation.handlers import ask
from tests.simulation.loop import EventLoop, Process
from tests.simulation.network import Call, Connection, Network
from tests.simulation.ports import Clock, Promises, RandomIds, Threads, follow
from tests.simulation.transactions import REQUESTS, Transactions

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.group_config import GroupConfig
from klamm.core.group.partition_traffic import Traffic
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage
from klamm.protocol.message import Message
from klamm.protocol.types import LeaderEpoch, PartitionIndex
from klamm.runtime.group_coordinator import GroupCoordinator

if TYPE_CHECKING:
    from tests.simulation.checkers.checkers import Checkers

__all__ = ["Broker"]

_FIRST = PartitionIndex(0)


class Broker:
    """One broker. `process` is None while the broker is down."""

    def __init__(
        self,
        loop: EventLoop,
        broker_id: int,
        *,
        disk: Disk,
        network: Network,
        partition_count: int,
        leader_of: Callable[[PartitionIndex], Broker | None],
        next_producer_id: Callable[[], int] | None,
        config: GroupCoordinatorConfig,
        settings: GroupConfig,
        checkers: Checkers,
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._network = network
        self._partition_count = partition_count
        self._leader_of = leader_of
        self._next_producer_id = next_producer_id
        self._config = config
        self._settings = settings
        self._checkers = checkers
        self.broker_id = broker_id
        self.process: Process | None = None
        self.coordinator: GroupCoordinator | None = None
        self.transactions: Transactions | None = None
        """The broker's part in transactions, in worlds with transactional producers."""
        self.clock: Clock | None = None
        self.image: MetadataImage = EMPTY_IMAGE
        self.wall_jump_ms = 0
        self._promises: Promises | None = None
        self._connections: list[Connection] = []

    # Starts and crashes

    def start(self, image: MetadataImage) -> None:
        """Starts a new process, without any state of the previous one."""
        process = self.process = Process(self._loop, is_broker=True)
        clock = self.clock = Clock(self._loop, process, self.wall_jump_ms)
        promises = self._promises = Promises(self._loop, process)
        self.image = EMPTY_IMAGE
        self.coordinator = GroupCoordinator(
            config=self._config,
            log=BrokerLog(self._disk, self.broker_id, clock.pass_time),
            timers=clock,
            wall_clock=clock.wall,
            ids=RandomIds(self._loop),
            promises=promises,
            executor=Threads(self._loop, process, (0, 50)),
            publish=self._publish,
            partition_count=lambda: self._partition_count,
            group_config_of=lambda group_id: self._settings,
        )
        self.coordinator.start()
        if self._next_producer_id is not None:
            self.transactions = Transactions(
                self._loop,
                self._network,
                self._disk,
                self.broker_id,
                process=process,
                clock=clock,
                promises=promises,
                groups=self.coordinator,
                leader_of=self._leader_of,
                next_producer_id=self._next_producer_id,
            )
        self.learn(image)

    def kill(self) -> None:
        """Kills the process as `kill -9` does: pending work and pending answers are lost, and the connections break."""
        assert self.process is not None
        self.process.kill()
        self.process = self.coordinator = self.transactions = self.clock = None
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.reset()

    def jump(self, milliseconds: int) -> None:
        """Moves the wall clock by `milliseconds`."""
        self.wall_jump_ms += milliseconds
        if self.clock is not None:
            self.clock.jump_ms = self.wall_jump_ms

    # Calls from the controller

    def lead(self, partition: PartitionIndex, leader_epoch: LeaderEpoch) -> None:
        """Makes the broker the leader of a partition of an internal topic."""
        if partition == STATE_PARTITION:
            if self.transactions is not None:
                self._checkers.on_leadership(self, partition)
                self.transactions.coordinator.on_leadership(_FIRST, leader_epoch)
        elif self.coordinator is not None:
            self._checkers.on_leadership(self, partition)
            self.coordinator.on_leadership(partition, leader_epoch)

    def resign(self, partition: PartitionIndex) -> None:
        """Ends the broker's leadership of a partition."""
        if partition == STATE_PARTITION:
            if self.transactions is not None:
                self.transactions.coordinator.on_resignation(_FIRST)
        elif self.coordinator is not None:
            self.coordinator.on_resignation(partition)
            self._checkers.on_resignation(self, partition)

    def learn(self, image: MetadataImage) -> None:
        """Applies a new metadata image; ignores an image that is not newer than the current one."""
        if self.coordinator is not None and image.revision > self.image.revision:
            old, self.image = self.image, image
            self._checkers.on_image(self, old, image)
            self.coordinator.on_metadata_update(old, image)
            if self.transactions is not None:
                self.transactions.coordinator.on_metadata_update(old, image)

    def measure(self, traffic: Traffic) -> None:
        """Passes the measured traffic of the topics' partitions to the coordinator."""
        if self.coordinator is not None:
            self.coordinator.measurements.on_traffic(traffic)

    # Requests of clients

    def connect(self, connection: Connection) -> None:
        """Accepts a connection."""
        self._connections = [each for each in self._connections if each.is_open]
        self._connections.append(connection)

    def handle(self, call: Call) -> None:
        """Handles a request, and sends the answer to the request's connection when the answer is ready."""
        assert self.coordinator is not None
        assert self._promises is not None
        assert call.connection is not None
        if isinstance(call.request, REQUESTS):
            self._handle_transactional(call)
            return
        self._checkers.on_request(self, call)
        self._promises.observe = partial(self._checkers.on_answer, self, call)
        context = ClientContext(call.client_id, "/10.0.0.1", call.version)
        answer = ask(self.coordinator, self.image, call.request, context)
        self._promises.observe = None
        if isinstance(answer, Message):
            self._checkers.on_answer(self, call, answer)
            call.connection.respond(call, answer)
        else:
            self._checkers.on_parked(self, call)
            follow(answer, partial(call.connection.respond, call))

    def _handle_transactional(self, call: Call) -> None:
        assert self.transactions is not None
        self._checkers.on_transactional_request(self, call)

        def respond(answer: Message) -> None:
            assert call.connection is not None
            self._checkers.on_transactional_answer(self, call, answer)
            call.connection.respond(call, answer)

        answer = self.transactions.ask(call.request, ClientContext(call.client_id, "/10.0.0.1", call.version))
        if isinstance(answer, Message):
            respond(answer)
        else:
            follow(answer, respond)

    def _publish(self, partition: PartitionIndex, events: Sequence[object]) -> None:
        self._checkers.on_events(self, partition, events)
