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
from typing import Final

from tests.simulation.brokers.asyncio_loop import ProcessLoop
from tests.simulation.brokers.checks import check_all_read, check_batches
from tests.simulation.brokers.clients.base import Participant
from tests.simulation.brokers.clients.classic_member import ClassicMember
from tests.simulation.brokers.clients.committer import Committer
from tests.simulation.brokers.clients.consumer_member import ConsumerMember
from tests.simulation.brokers.clients.lookups import Lookups
from tests.simulation.brokers.clients.markers import Markers
from tests.simulation.brokers.clients.offset_reader import OffsetReader
from tests.simulation.brokers.clients.producer import Producer, ProducerIdentity
from tests.simulation.brokers.clients.reader import Reader
from tests.simulation.brokers.clients.streams import StreamReader
from tests.simulation.brokers.clients.topics import create_topics
from tests.simulation.brokers.clients.transactional import TransactionalProducer
from tests.simulation.brokers.groups import GroupLedger
from tests.simulation.brokers.machine import Machine
from tests.simulation.brokers.model import Batch, Model
from tests.simulation.brokers.network import Network
from tests.simulation.brokers.plan import broker_config, make_plan
from tests.simulation.brokers.surroundings import listening, undisturbed
from tests.simulation.brokers.transactions import Outcome, Transaction, Transactions
from tests.simulation.logs.device import Device, Strike
from tests.simulation.loop import EventLoop, Process
from tests.simulation.notes import Notes
from tests.simulation.violation import Violation

from klamm.protocol.types import PartitionIndex, TopicId, TopicPartition

__all__ = ["BrokerWorld"]

_MEMORY: Final = Path("/dev/shm")
_START_MS: Final = 30_000
"""Longest duration of a start or a stop."""
_END_MS: Final = 60_000
"""Longest time that clients may need after the last fault."""
_TROUBLE_MS: Final = 150
_LATE_MS: Final = 2_000
"""Longest time that a request is on its way."""


class BrokerWorld:
    """The world of one seed."""

    def __init__(self, seed: int, *, listener: Callable[[str], None] | None = None, sums: bool = False) -> None:
        self.seed = seed
        self.loop = loop = EventLoop(seed)
        self.notes = Notes(loop, listener, sums=sums)
        self.sizes = Random(f"sizes of {seed}")
        """Source of the random sizes of batches and answers. Worlds without large batches draw nothing from it."""
        self.plan = plan = make_plan(loop.random, self.sizes)
        self.partitions = [
            TopicPartition(topic, PartitionIndex(index))
            for topic, count in plan.topics.items()
            for index in range(count)
        ]
        self.model = Model(self.partitions, waits_for_disk=plan.fsync == "ack")
        self.transactions = Transactions(self.model)
        self.topic_ids: dict[str, TopicId] = {}
        self.is_ending = False
        """Whether the faults have ended: writers finish now."""
        self.is_quiet = False
        """Whether the writers have finished: readers finish now."""
        self.life = 0
        self.is_over = False
        self._failure: BaseException | None = None
        self._clients = ProcessLoop(loop, Process(loop), self.fail)
        self.network = Network(loop, self._clients, latency_ms=plan.latency_ms, has_pieces=plan.has_pieces)
        self._participants: list[Participant] = []
        self._is_serving = self._is_stopped = False
        self._may_lose = False
        """Whether unsynced data may be lost, because the power or a sync failed."""

    def run(self) -> None:
        """Runs the world. Raises Violation."""
        folder = tempfile.mkdtemp(prefix="klamm-simulation-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None)
        self._root = Path(folder)
        self.device = Device(self._root, self.loop.random, self.notes.add)
        self.machine = Machine(self._root, self.device, self.network, broker_config(self.plan, folder), self.fail)
        self.machine.thread_ms = self._thread_ms
        self.machine.step_ms = self.plan.step_ms
        self.loop.after_step = self._after_step
        try:
            with undisturbed(self.seed), listening(self.fail), self.machine.running():
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

    def _spawn(self, coroutine: object) -> None:
        task = self._clients.create_task(coroutine)
        task.add_done_callback(lambda done: self.fail(error) if (error := done.exception()) is not None else None)

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
        self.is_ending = True
        self.notes.add("nothing goes wrong any more")
        self._wait_for(lambda participant: not participant.is_reader)
        self._run(_LATE_MS if self.plan.has_stalled_links else 4 * self.plan.latency_ms)
        self.is_quiet = True
        self.notes.add("nothing is written any more")
        self._wait_for(lambda participant: True)
        self.transactions.settle()
        for participant in self._participants:
            if isinstance(participant, OffsetReader):
                self.transactions.check_offsets(participant.found)
            if isinstance(participant, StreamReader):
                for where, shown in participant.found.items():
                    check_all_read(self.model, participant.name, where, shown, is_committed=participant.is_committed)
            if isinstance(participant, Reader):
                for where in self.partitions:
                    check_all_read(
                        self.model,
                        participant.name,
                        where,
                        participant.visible[where],
                        is_committed=participant.is_committed,
                    )
        check_batches(self.model)

    def _wait_for(self, is_meant: Callable[[Participant], bool]) -> None:
        participants = [participant for participant in self._participants if is_meant(participant)]
        if not self._run(_END_MS, lambda: all(participant.is_finished for participant in participants)):
            late = [each.name for each in participants if not each.is_finished]
            raise Violation(26, f"{', '.join(late)} did not come to an end in {_END_MS} ms")

    # Faults

    def _trouble(self) -> None:
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

    # Steps

    def _run(self, duration_ms: float, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Lets time pass; returns whether `is_over` became true."""
        end_ms = self.loop.now_ms + duration_ms
        if is_over():
            return True
        self.loop.run_until(end_ms, is_over)
        return is_over()

    def _after_step(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self.device.is_gone and self.machine.is_alive:
            self._die(None)

    def fail(self, error: BaseException) -> None:
        """Reports a finding; the world ends with this step."""
        if self._failure is None and not self.is_over:
            self._failure = error

    # Calls from clients

    def add(self, participant: Participant) -> None:
        """Adds a participant."""
        self._participants.append(participant)

    async def think(self) -> None:
        """Waits as long as a client pauses between two requests."""
        patience = _LATE_MS / 4 if self.is_ending and not self.is_quiet else self.plan.think_ms
        await asyncio.sleep(self.loop.random.random() * patience / 500)

    def begin(self, batch: Batch) -> None:
        """Records that a producer is about to write a batch."""
        if self.plan.producer_expiry_ms < _LATE_MS and batch.transaction is None:
            batch.is_idempotent = False  # A producer that the log has forgotten may write the batch again.
        self.model.begin(batch)

    def ended(self, transaction: Transaction, identity: ProducerIdentity, *, is_commit: bool) -> None:
        """Tells the `Markers` clients that a transaction of version 2 has ended, and that its producer has the next
        epoch.
        """
        for participant in self._participants:
            if isinstance(participant, Markers):
                participant.remember(transaction, identity, is_commit=is_commit)

    def acknowledged(self, batch: Batch, first_offset: int) -> None:
        """Records that a batch was acknowledged to its producer (I4)."""
        self._check_synced(batch.where, first_offset + len(batch.values) - 1, 4)
        self.model.acknowledge(batch, first_offset)

    def saw(self, where: TopicPartition, offset: int, value: bytes | None, epoch: int) -> None:
        """Records that a reader got a record (I5)."""
        self._check_synced(where, offset, 5)
        self.model.see(where, offset, value, epoch)

    def told_high_watermark(self, where: TopicPartition, high_watermark: int) -> None:
        """Records the high watermark in an answer to a reader."""
        partition = self.model.partitions[where]
        partition.high_watermark = max(partition.high_watermark, high_watermark)

    def _check_synced(self, where: TopicPartition, offset: int, invariant: int) -> None:
        if self.plan.fsync != "ack":
            return
        # A new process does not know yet what the last process has synced.
        log, synced_offset = self.machine.logs.get(where), self.model.partitions[where].synced_offset
        if offset >= (synced_offset if log is None else max(synced_offset, log.recovery_point)):
            raise Violation(invariant, f"offset {offset} of {where} is known, and not on the disk")

    def end_of(self, where: TopicPartition) -> int:
        """Returns the end offset of the partition's log; a huge number if there is no log."""
        log = self.machine.logs.get(where)
        return 1 << 62 if log is None else log.log_end_offset

    def may_have_lost_since(self, life: int) -> bool:
        """Returns whether data that was acknowledged in that life may be lost."""
        return self.plan.may_lose and self.life > life

    def first_undecided(self, where: TopicPartition) -> int | None:
        """Returns the first known offset of an open transaction that has not timed out, or None."""
        offsets = (
            batch.first_offset
            for batch in self.model.partitions[where].batches
            if batch.transaction is not None
            and batch.transaction.outcome is Outcome.OPEN
            and self.loop.now_ms < batch.transaction.began_ms + self.plan.transaction_timeout_ms
            and batch.first_offset is not None
        )
        return min(offsets, default=None)

    def stable_end_of(self, where: TopicPartition) -> int:
        """Returns the partition's last stable offset, at most the known high watermark."""
        log = self.machine.logs.get(where)
        return 0 if log is None else min(log.last_stable_offset, self.model.partitions[where].high_watermark)
