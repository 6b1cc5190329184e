"""What the clients of a world of brokers share: their network, the expected content, and the steps of the world."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.simulation.brokers.asyncio_loop import ProcessLoop
from tests.simulation.brokers.checks import check_all_read, check_batches
from tests.simulation.brokers.clients.base import Participant
from tests.simulation.brokers.clients.client import Client
from tests.simulation.brokers.clients.markers import Markers
from tests.simulation.brokers.clients.offset_reader import OffsetReader
from tests.simulation.brokers.clients.reader import Reader
from tests.simulation.brokers.clients.streams import StreamReader
from tests.simulation.brokers.machine import START_MS
from tests.simulation.brokers.model import Batch, Model
from tests.simulation.brokers.network import Network
from tests.simulation.brokers.plan import BrokerPlan
from tests.simulation.brokers.transaction_logs import TransactionLogs
from tests.simulation.brokers.transactions import Outcome, Transaction, Transactions
from tests.simulation.loop import EventLoop, Process
from tests.simulation.notes import Notes
from tests.simulation.violation import Violation

from klamm.protocol.internal_topic_names import OFFSETS_TOPIC
from klamm.protocol.types import BrokerId, Millis, PartitionIndex, TopicId, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.clients.producer import ProducerIdentity
    from tests.simulation.brokers.machine import Machine

    from klamm.client.config import Address, ClientConfig
    from klamm.storage.log.log import Log

__all__ = ["LATE_MS", "ClientWorld", "OutdatedLeader"]

LATE_MS: Final = 2_000
"""Longest time that a request is on its way."""
_ABORT_MS: Final = 5_000
"""Longest time that the coordinator needs to find a transaction that has timed out, and to write its markers."""
_LOOK_MS: Final = 20.0
"""How often a world looks whether all transactions have ended."""
_END_MS: Final = 60_000
"""Longest time that clients may need after the last fault."""


class OutdatedLeader(NamedTuple):
    """What a broker knows of a partition that it leads in its own metadata only."""

    leader_epoch: int
    high_watermark: int


class ClientWorld(ABC):
    """A world with clients of real brokers."""

    plan: BrokerPlan
    markers_ms = 500.0
    """Without disk faults, the markers of an ended transaction are written within this time."""
    offsets_partitions = 1
    """Number of partitions of `__consumer_offsets`."""
    addresses: tuple[Address, ...]
    """The addresses of the brokers."""

    def __init__(
        self, seed: int, plan: BrokerPlan, loop: EventLoop, listener: Callable[[str], None] | None, *, sums: bool
    ) -> None:
        self.seed = seed
        self.loop = loop
        self.plan = plan
        self.notes = Notes(loop, listener, sums=sums)
        self.sizes = Random(f"sizes of {seed}")
        """Source of the random sizes of batches and answers. Worlds without large batches draw nothing from it."""
        self.partitions = [
            TopicPartition(topic, PartitionIndex(index))
            for topic, count in plan.topics.items()
            for index in range(count)
        ]
        self.model = Model(self.partitions, waits_for_disk=plan.fsync == "ack")
        self.transactions = Transactions(self.model)
        self._transaction_logs = TransactionLogs(self.model, self.transactions, plan.producer_expiry_ms)
        self.topic_ids: dict[str, TopicId] = {}
        self.is_calm = False
        """Whether the members of the group do nothing but read, commit and send heartbeats."""
        self.is_ending = False
        """Whether the faults have ended: writers finish now."""
        self.is_quiet = False
        """Whether the writers have finished: readers finish now."""
        self.life = 0
        """Number of starts of brokers so far, and of moves of partitions."""
        self.is_over = False
        self._failure: BaseException | None = None
        self._clients = ProcessLoop(loop, Process(loop), self.fail)
        self.network = Network(loop, self._clients, latency_ms=plan.latency_ms, has_pieces=plan.has_pieces)
        self._participants: list[Participant] = []
        self._producer_ids: dict[int, str] = {}

    def make_client(self, config: ClientConfig, ceilings: Mapping[int, int]) -> Client:
        """Returns the connections of a client."""
        return Client(self.network, config, ceilings)

    def _spawn(self, coroutine: object) -> None:
        task = self._clients.create_task(coroutine)
        task.add_done_callback(lambda done: self.fail(error) if (error := done.exception()) is not None else None)

    def now_ms(self) -> Millis:
        """Returns the time of the wall clock."""
        return Millis(START_MS + int(self.loop.now_ms))

    @abstractmethod
    def log_of(self, where: TopicPartition) -> Log | None:
        """Returns the log of the partition's leader; None if no broker leads it now."""

    @abstractmethod
    def machine_at(self, address: Address) -> Machine:
        """Returns the machine whose broker has this address."""

    @property
    def compared_life(self) -> int:
        """The life within which the answers of a group's coordinators can be compared.

        All lives count as one unless acknowledged records may be lost. The next coordinator has all that its
        predecessor acknowledged, and gives each member the full timeouts.
        """
        return self.life if self.plan.may_lose else 0

    def coordinator_term(self, group_id: str, address: Address) -> object | None:
        """Returns what identifies the present term of a group's coordinator at this address; None if the broker there
        does not coordinate the group, or has not loaded it yet.

        While a group loads, a heartbeat of the classic protocol succeeds without a check, as in Kafka.
        """
        context = self.machine_at(address).context
        return None if context is None else context.groups._shard_of(group_id)

    # The end

    def _finish(self) -> None:
        """Waits until all is written and read, and checks the result. There are no more faults."""
        self.is_ending = True
        self.notes.add("nothing goes wrong any more")
        self._wait_for(lambda participant: not participant.is_reader)
        self._run(LATE_MS if self.plan.has_stalled_links else 4 * self.plan.latency_ms)
        self.is_quiet = True
        self.notes.add("nothing is written any more")
        self._check_stable()
        self._wait_for(lambda participant: True)
        if not self._run(_END_MS, self._has_all_markers):
            raise Violation(12, f"a committed transaction has no marker after {_END_MS} ms")
        self._transaction_logs.check_outcomes()
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

    def _check_stable(self) -> None:
        """Checks that transactions whose producers have died end in time (I14). No client writes any more."""
        if not self.plan.transactional:
            return
        until_ms = self.loop.now_ms + self.plan.transaction_timeout_ms + _ABORT_MS
        while held := [where for where in self._with_transactions() if not self._is_stable(where)]:
            if self.loop.now_ms >= until_ms:
                raise Violation(14, f"a transaction holds {held[0]} for longer than its timeout")
            self._run(_LOOK_MS)

    def _is_stable(self, where: TopicPartition) -> bool:
        log = self.log_of(where)
        return log is not None and log.last_stable_offset == log.log_end_offset

    def _with_transactions(self) -> Iterator[TopicPartition]:
        """Yields the partitions to which transactions write."""
        yield from self.partitions
        for index in range(self.offsets_partitions):
            yield TopicPartition(OFFSETS_TOPIC, PartitionIndex(index))

    def _has_all_markers(self) -> bool:
        self.read_transactions()
        return not self._transaction_logs.lacks_markers

    def read_transactions(self) -> None:
        """Checks the markers and epochs of transactions that were written since the last call (I12, I13)."""
        if not self.plan.transactional:
            return
        for where in self._with_transactions():
            log = self.log_of(where)
            # A broker that stops closes its logs some time before it is gone.
            if log is not None and not log.is_offline and log.state.segments.active is not None:
                self._transaction_logs.read(where, log)

    def _wait_for(self, is_meant: Callable[[Participant], bool]) -> None:
        participants = [participant for participant in self._participants if is_meant(participant)]
        if not self._run(_END_MS, lambda: all(participant.is_finished for participant in participants)):
            late = [each.name for each in participants if not each.is_finished]
            raise Violation(26, f"{', '.join(late)} did not come to an end in {_END_MS} ms")

    # Steps

    def _run(self, duration_ms: float, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Lets time pass; returns whether `is_over` became true."""
        end_ms = self.loop.now_ms + duration_ms
        if is_over():
            return True
        self.loop.run_until(end_ms, is_over)
        return is_over()

    def _after_step(self) -> None:
        """Raises the failure of the last step, if there is one."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

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
        patience = LATE_MS / 4 if self.is_ending and not self.is_quiet else self.plan.think_ms
        await asyncio.sleep(self.loop.random.random() * patience / 500)

    @abstractmethod
    async def revoking(self) -> None:
        """Waits as long as a member of a consumer group works before it gives up partitions that it must revoke."""

    def begin(self, batch: Batch) -> None:
        """Records that a producer is about to write a batch."""
        if self.plan.producer_expiry_ms < LATE_MS and batch.transaction is None:
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

    def gave_producer_id(self, name: str, producer_id: int) -> None:
        """Records a producer id that a broker gave to a producer: no other producer may have it."""
        owner = self._producer_ids.setdefault(producer_id, name)
        if owner != name:
            raise Violation(10, f"{name} was given producer id {producer_id}, which {owner} has")

    def _check_synced(self, where: TopicPartition, offset: int, invariant: int) -> None:
        if self.plan.fsync != "ack":
            return
        # A new process does not know yet what the last process has synced.
        log, synced_offset = self.log_of(where), self.model.partitions[where].synced_offset
        if offset >= (synced_offset if log is None else max(synced_offset, log.recovery_point)):
            raise Violation(invariant, f"offset {offset} of {where} is known, and not on the disk")

    def end_of(self, where: TopicPartition) -> int:
        """Returns the end offset of the partition's log; a huge number if there is no log."""
        log = self.log_of(where)
        return 1 << 62 if log is None else log.log_end_offset

    def may_be_outdated(self, address: Address) -> bool:
        """Returns whether the broker at this address may not know that it leads nothing any more."""
        return False

    def may_have_lost_since(self, life: int) -> bool:
        """Returns whether data that was acknowledged in that life may be lost."""
        return self.plan.may_lose and self.life > life

    def outdated_leaders(self, where: TopicPartition) -> Mapping[BrokerId, OutdatedLeader]:
        """Returns the brokers that lead the partition in their own metadata only, and may be asked for offsets."""
        return {}

    def may_lack_committed(self, where: TopicPartition, epoch: int, address: Address) -> bool:
        """Returns whether the broker at this address, if it answers a fetch in this leader epoch, may lack committed
        records. Then it may answer that their offsets do not exist."""
        return False

    def newest_epoch_at(self, where: TopicPartition, address: Address) -> int:
        """Returns the newest leader epoch of a partition of which the broker at this address must know."""
        return self.model.partitions[where].newest_epoch

    def first_undecided(self, where: TopicPartition) -> int | None:
        """Returns the first known offset of an open transaction that has not timed out, or None.

        Deleted records don't count. Retention deletes the records of open transactions, too, as in Kafka. Then the last
        stable offset is where the log begins. A replica that has never had these records does not know the transaction.
        """
        partition = self.model.partitions[where]
        offsets = (
            max(batch.first_offset, partition.deleted)
            for batch in partition.batches
            if batch.transaction is not None
            and batch.transaction.outcome is Outcome.OPEN
            and not batch.transaction.may_be_fenced
            and self.loop.now_ms < batch.transaction.began_ms + self.plan.transaction_timeout_ms
            and batch.first_offset is not None
            and batch.first_offset + len(batch.values) > partition.deleted
        )
        return min(offsets, default=None)

    def stable_end_of(self, where: TopicPartition) -> int:
        """Returns the partition's last stable offset, at most the known high watermark."""
        log = self.log_of(where)
        return 0 if log is None else min(log.last_stable_offset, self.model.partitions[where].high_watermark)
