"""A broker of the simulated cluster: the real group coordinator over simulated ports, and its lives and deaths."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.disk import BrokerLog, Disk
from tests.simulation.handlers import ask
from tests.simulation.loop import EventLoop, Process
from tests.simulation.network import Call, Connection
from tests.simulation.ports import Clock, Promises, RandomIds, Threads, follow

from klamm.core.coordinator.contract import ClientContext
from klamm.core.group.config import GroupConfig
from klamm.core.group.settings import GroupSettings
from klamm.core.group.traffic import Traffic
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage
from klamm.protocol.message import Message
from klamm.protocol.types import LeaderEpoch, PartitionIndex
from klamm.runtime.group_coordinator import GroupCoordinator

if TYPE_CHECKING:
    from tests.simulation.checkers.checkers import Checkers

__all__ = ["Broker"]


class Broker:
    """One broker; while it is down `process` is None."""

    def __init__(
        self,
        loop: EventLoop,
        broker_id: int,
        *,
        disk: Disk,
        config: GroupConfig,
        settings: GroupSettings,
        checkers: Checkers,
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._config = config
        self._settings = settings
        self._checkers = checkers
        self.broker_id = broker_id
        self.process: Process | None = None
        self.coordinator: GroupCoordinator | None = None
        self.clock: Clock | None = None
        self.image: MetadataImage = EMPTY_IMAGE
        self.wall_jump_ms = 0
        self._promises: Promises | None = None
        self._connections: list[Connection] = []

    # Life

    def start(self, image: MetadataImage) -> None:
        """Begin a life that knows nothing of the one before."""
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
            partition_count=lambda: len(self._disk.replicas),
            settings_of=lambda group_id: self._settings,
        )
        self.coordinator.start()
        self.learn(image)

    def kill(self) -> None:
        """kill -9: whatever it was about to do or say is lost, and the connections break."""
        assert self.process is not None
        self.process.kill()
        self.process = self.coordinator = self.clock = None
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.reset()

    def jump(self, milliseconds: int) -> None:
        """Set the clock on the wall."""
        self.wall_jump_ms += milliseconds
        if self.clock is not None:
            self.clock.jump_ms = self.wall_jump_ms

    # What the controller tells

    def lead(self, partition: PartitionIndex, leader_epoch: LeaderEpoch) -> None:
        """Lead a partition of the internal topic."""
        if self.coordinator is not None:
            self._checkers.on_leadership(self, partition)
            self.coordinator.on_leadership(partition, leader_epoch)

    def resign(self, partition: PartitionIndex) -> None:
        """Lead it no more."""
        if self.coordinator is not None:
            self.coordinator.on_resignation(partition)
            self._checkers.on_resignation(self, partition)

    def learn(self, image: MetadataImage) -> None:
        """Hear of a change of the cluster; an older picture is none."""
        if self.coordinator is not None and image.revision > self.image.revision:
            old, self.image = self.image, image
            self._checkers.on_image(self, old, image)
            self.coordinator.on_metadata_update(old, image)

    def measure(self, traffic: Traffic) -> None:
        """Hear what flows through the topics' partitions."""
        if self.coordinator is not None:
            self.coordinator.on_traffic(traffic)

    # What clients ask

    def connect(self, connection: Connection) -> None:
        """Take a connection."""
        self._connections = [each for each in self._connections if each.is_open]
        self._connections.append(connection)

    def handle(self, call: Call) -> None:
        """Take a request, and give the answer to its connection once there is one."""
        assert self.coordinator is not None
        assert self._promises is not None
        assert call.connection is not None
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

    def _publish(self, partition: PartitionIndex, events: Sequence[object]) -> None:
        self._checkers.on_events(self, partition, events)
