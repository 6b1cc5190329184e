"""One world of brokers: a machine whose broker is real from its connections to its files, and clients that use the
broker.

The world goes through several lives of the machine. In each life, clients produce and read. Connections break and
stall; the disk is slow, fills up and fails. Then the broker stops, is killed, or loses power, at any call. After each
start all promised data must be there. At the end there are no more faults, and all clients finish.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import TYPE_CHECKING, Final

from tests.simulation.brokers.asyncio_loop import ProcessLoop
from tests.simulation.brokers.client_world import ClientWorld
from tests.simulation.brokers.clients.classic_member import ClassicMember
from tests.simulation.brokers.clients.committer import Committer
from tests.simulation.brokers.clients.consumer_member import ConsumerMember
from tests.simulation.brokers.clients.lookups import Lookups
from tests.simulation.brokers.clients.markers import Markers
from tests.simulation.brokers.clients.offset_reader import OffsetReader
from tests.simulation.brokers.clients.producer import Producer
from tests.simulation.brokers.clients.reader import Reader
from tests.simulation.brokers.clients.streams import StreamReader
from tests.simulation.brokers.clients.topics import create_topics
from tests.simulation.brokers.clients.transactional import TransactionalProducer
from tests.simulation.brokers.groups import GroupLedger
from tests.simulation.brokers.machine import Machine, replaced
from tests.simulation.brokers.metadata_store import MemoryStore, StoredMetadata
from tests.simulation.brokers.plan import broker_config, make_plan
from tests.simulation.brokers.surroundings import listening, undisturbed
from tests.simulation.logs.device import Device, Strike
from tests.simulation.loop import EventLoop
from tests.simulation.violation import Violation

from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from klamm.client.config import Address
    from klamm.metadata.metadata_store import MetadataStore
    from klamm.storage.log.log import Log

__all__ = ["BROKER_ADDRESS", "BrokerWorld"]

BROKER_ADDRESS: Final = ("broker", 9092)

_MEMORY: Final = Path("/dev/shm")
_START_MS: Final = 30_000
"""Longest duration of a start or a stop."""
_TROUBLE_MS: Final = 150


class BrokerWorld(ClientWorld):
    """The world of one seed."""

    def __init__(self, seed: int, *, listener: Callable[[str], None] | None = None, sums: bool = False) -> None:
        loop, sizes = EventLoop(seed), Random(f"sizes of {seed}")
        super().__init__(seed, make_plan(loop.random, sizes), loop, listener, sums=sums)
        self.sizes = sizes
        self.addresses = (BROKER_ADDRESS,)
        self._is_serving = self._is_stopped = False
        self._may_lose = False
        """Whether unsynced data may be lost, because the power or a sync failed."""

    def run(self) -> None:
        """Runs the world. Raises Violation."""
        folder = tempfile.mkdtemp(prefix="klamm-simulation-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None)
        self._root = Path(folder)
        self.device = Device(self._root, self.loop.random, self.notes.add)
        metadata = StoredMetadata()

        async def connect(loop: ProcessLoop) -> MetadataStore:
            return MemoryStore(metadata, latency_s=0.002)

        self.machine = Machine(
            self._root,
            self.device,
            self.network,
            broker_config(self.plan, folder),
            self.fail,
            address=BROKER_ADDRESS,
            connect=connect,
        )
        self.machine.thread_ms = self._thread_ms
        self.loop.after_step = self._after_step
        try:
            with (
                undisturbed(self.seed),
                listening(self.fail),
                replaced(self.loop, self.device.attached(), self.plan.step_ms),
            ):
                try:
                    self._begin()
                    for _ in range(self.plan.lives):
                        self._live()
                    self._end()
                except Violation as violation:
                    raise Violation(violation.invariant, violation.text.replace(f"{folder}/", "")) from violation
                finally:
                    self.is_over = True
                    self.machine.end(Strike.KILL)
                    self._clients.end()
                    asyncio._set_running_loop(None)
        finally:
            rmtree(folder)

    # Lives

    def _begin(self) -> None:
        plan = self.plan
        for number in range(plan.producers):
            Producer(self, f"producer-{number}")
        for number, version in enumerate(plan.transactional):
            TransactionalProducer(self, f"transactional-{number}", version)
        if plan.transactional:
            OffsetReader(self, "offset-reader")
            Markers(self, "markers")
        if plan.has_lookups:
            Lookups(self, "lookups")
        if plan.has_committer:
            Committer(self, "committer")
        for number in range(plan.readers):
            is_committed = bool(plan.transactional) and number == 0
            Reader(self, f"reader-{number}", "read_committed" if is_committed else "read_uncommitted")
        for number in range(plan.streams):
            StreamReader(self, f"stream-{number}", "read_committed" if self.loop.chance(0.5) else "read_uncommitted")
        ledger, kind = GroupLedger(self), ConsumerMember if plan.has_consumer_protocol else ClassicMember
        for number in range(plan.members):
            kind(self, f"member-{number}", ledger)
        self._start()
        self._clients.run(self._spawn, create_topics(self))
        self._run(_START_MS, lambda: len(self.topic_ids) == len(plan.topics))
        for participant in self._participants:
            self._clients.run(self._spawn, participant.live())

    def _live(self) -> None:
        if not self.machine.is_alive:
            self._start()
        until_ms = self.loop.now_ms + self.loop.random.randint(1, self.plan.life_ms)
        while self.machine.is_alive and self.loop.now_ms < until_ms:
            self._run(self.loop.random.random() * _TROUBLE_MS)
            if self.machine.is_alive:
                self._trouble()
        if self.machine.is_alive:
            self._stop()

    def _start(self, *, is_calm: bool = False) -> None:
        """Starts the broker, and starts it again if it dies during the start."""
        self._heal()
        while not self._is_serving:
            strike = self._some_strike()
            if not is_calm and strike is not None and self.loop.chance(0.1):
                self.device.begin_life()
                self.device.arm(strike, self.loop.random.randint(1, 40))
            self.machine.start(self._started)
            self._run(_START_MS, lambda: self._is_serving or not self.machine.is_alive)
            if self.machine.is_alive and not self._is_serving:
                raise Violation(26, f"the broker has not started in {_START_MS} ms")

    def _started(self) -> None:
        self._is_serving = True
        self.life += 1
        self.notes.add("the broker serves")
        for where, log in self.machine.logs.items():
            partition = self.model.partitions.get(where)
            if partition is None:
                continue
            if log.is_offline:
                raise Violation(8, f"{log.offline_reason}")
            must_last = partition.synced_offset if self._may_lose else partition.end_offset
            if log.log_end_offset < must_last:
                raise Violation(8, f"{where} ends at {log.log_end_offset}, and {must_last} must last")
            self.model.cut(where, log.log_end_offset)
        self._may_lose = False

    def _stop(self) -> None:
        strike = self._some_strike()
        if strike is not None and not (self.plan.has_clean_stops and self.loop.chance(0.4)):
            self._die(strike)
            return
        if strike is not None and self.loop.chance(0.3):
            self.device.arm(strike, self.loop.random.randint(1, 20))
        self.notes.add("the broker is told to stop")
        self._is_stopped = False
        self._note_ends()
        self.machine.stop(self._stopped)
        self._run(_START_MS, lambda: self._is_stopped or not self.machine.is_alive)
        if self.machine.is_alive:
            if not self._is_stopped:
                raise Violation(26, f"the broker has not stopped in {_START_MS} ms")
            self._die(None)

    def _stopped(self) -> None:
        self._is_stopped = True

    def _die(self, strike: Strike | None) -> None:
        """Ends the process. `strike` is None if the process was struck before, or has stopped."""
        if strike is not None:
            self.notes.add("%s", strike)
        self._note_ends()
        self.machine.end(strike)
        if self.device.image is not None:
            self._may_lose = True
        self._is_serving = False

    def _note_ends(self) -> None:
        if not self._is_serving:
            return
        for where, log in self.machine.logs.items():
            partition = self.model.partitions.get(where)
            if partition is not None:
                partition.synced_offset = max(partition.synced_offset, log.recovery_point)
                partition.end_offset = log.log_end_offset

    def _end(self) -> None:
        """Ends all faults, waits until all is written and read, and checks the result."""
        if self.machine.is_alive and self.loop.chance(0.5):
            self._heal()
        if any(log.is_offline for log in self.machine.logs.values()):
            self._stop()
        if not self.machine.is_alive:
            self._start(is_calm=True)
        self._heal()
        self._finish()

    # Faults

    def _trouble(self) -> None:
        self.read_transactions()
        plan, chance, draw = self.plan, self.loop.chance, self.loop.random
        links = self.network.links
        if plan.has_cut_links and links and chance(0.3):
            draw.choice(links).break_off()
        if plan.has_stalled_links and links and chance(0.3):
            up = chance(0.5)
            draw.choice(links).stall(draw.choice((50, 500, 1_500)), up=up, down=not up)
        if plan.has_full_disk and chance(0.1):
            self.device.free_bytes = draw.choice((0, 100, 2_000))
            self.notes.add("the disk is almost full")
        elif self.device.free_bytes is not None and chance(0.5):
            self._heal()
        if plan.has_failed_syncs and self.device.free_bytes is None and chance(0.05):
            self.device.failing_syncs = 1
            self._may_lose = True
        strike = self._some_strike()
        if strike is not None and chance(0.1):
            self.device.arm(strike, draw.randint(1, 30))

    def _some_strike(self) -> Strike | None:
        strikes = [Strike.KILL] * self.plan.has_kills + [Strike.POWER] * self.plan.has_power_failures
        return self.loop.random.choice(strikes) if strikes else None

    def _heal(self) -> None:
        self.device.free_bytes = None
        self.device.failing_syncs = 0

    def _thread_ms(self, name: str) -> float:
        draw = self.loop.random.random()
        return draw * self.plan.sync_ms if name == "klamm-sync" else draw * 0.3

    def _after_step(self) -> None:
        super()._after_step()
        if self.device.is_gone and self.machine.is_alive:
            self._die(None)

    def log_of(self, where: TopicPartition) -> Log | None:
        return self.machine.logs.get(where)

    async def revoking(self) -> None:
        """Members give up partitions at once."""

    def machine_at(self, address: Address) -> Machine:
        return self.machine
