"""Tests transactions under random requests, restarts, refusals, slow replicas and time steps.

A producer that was replaced achieves nothing. An acknowledged outcome reaches every partition that was acknowledged as
part of the transaction, and no partition gets the other outcome. The state equals a replay of the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.examples import examples
from tests.unit.runtime.fake_ports import Pledge
from tests.unit.runtime.transaction_world import P0, TransactionWorld, close_unfinished

from klamm.core.txn.coordinator_config import TransactionCoordinatorConfig
from klamm.core.txn.transaction import NO_PRODUCER_EPOCH
from klamm.core.txn.transaction_store import TransactionStore
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import PartitionIndex, TopicPartition
from klamm.runtime.transaction_record_serde import TransactionRecordSerde

IDS = ("transfers", "refunds")
PARTITIONS = tuple(TopicPartition("events", PartitionIndex(index)) for index in range(3))
REFUSALS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR)
NORMAL_ERRORS = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


@dataclass
class Producer:
    """One client: its producer id and epoch as far as it knows, and the partitions added to its open transaction."""

    transactional_id: str
    producer: tuple[int, int]
    bumps: bool
    added: set[TopicPartition] = field(default_factory=set)
    is_open: bool = False


class Transactions(RuleBasedStateMachine):
    """Two transactional ids, some clients that compete for them, and three partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.world = TransactionWorld(config=TransactionCoordinatorConfig(max_timeout_ms=60_000))
        self.producers: list[Producer] = []
        self.current: dict[str, Producer] = {}
        """The last initialized producer, by transactional id; other producers must achieve nothing."""
        self.acknowledged: list[tuple[tuple[int, int], bool, set[TopicPartition]]] = []
        """Producer, outcome and partitions of each transaction whose end has bumped the epoch."""
        self.granted: set[tuple[int, int]] = set()

    # Clients

    @rule(transactional_id=st.sampled_from(IDS), bumps=st.booleans(), timeout_ms=st.sampled_from((5000, 60_000)))
    def initialize(self, transactional_id: str, bumps: bool, timeout_ms: int) -> None:
        if self.world.log.holds_high_watermark and self.world.coordinator._producer_ids.is_empty:
            return  # The request would wait for replicas and producer ids, and no time passes here.
        response = self._answer(self.world.init(transactional_id, timeout_ms=timeout_ms))
        if response is None:
            self._lose(transactional_id)
            return
        if response.error_code:
            assert response.error_code in NORMAL_ERRORS
            return
        granted = (response.producer_id, response.producer_epoch)
        assert granted not in self.granted
        self.granted.add(granted)
        replaced = self.current.get(transactional_id)
        if replaced is not None and replaced.is_open:
            # The new producer, or the timeout, has fenced the old one and aborted its transaction.
            self.acknowledged.append((replaced.producer, False, replaced.added))
        producer = Producer(transactional_id, granted, bumps)
        self.producers = [*self.producers[-4:], producer]
        self.current[transactional_id] = producer

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), partitions=st.sets(st.sampled_from(PARTITIONS), min_size=1))
    def add(self, data: st.DataObject, partitions: set[TopicPartition]) -> None:
        producer = data.draw(st.sampled_from(self.producers))
        version = 5 if producer.bumps else 3
        if self.world.log.holds_high_watermark:
            return  # The answer would be pending, and a client with a pending answer does not end its transaction.
        codes = set(self.world.add(producer.producer, partitions, producer.transactional_id, version=version).values())
        if codes == {ErrorCode.NONE}:
            assert self.current.get(producer.transactional_id) is producer
            producer.added |= partitions
            producer.is_open = True
        else:
            assert codes <= NORMAL_ERRORS

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), commit=st.booleans())
    def end(self, data: st.DataObject, commit: bool) -> None:
        producer = data.draw(st.sampled_from(self.producers))
        version = 5 if producer.bumps else 4
        response = self._answer(
            self.world.end(producer.producer, producer.transactional_id, commit=commit, version=version)
        )
        if response is None:
            self._lose(producer.transactional_id)
            return
        if response.error_code:
            assert response.error_code in NORMAL_ERRORS
            return
        assert self.current.get(producer.transactional_id) is producer
        if producer.bumps:
            self.acknowledged.append((producer.producer, commit, producer.added))
            producer.producer = (response.producer_id, response.producer_epoch)
            assert producer.producer not in self.granted
            self.granted.add(producer.producer)
        producer.added, producer.is_open = set(), False

    def _answer(self, answer: Any) -> Any:
        """Returns the answer, or None if it waits for replicas: the client gives up, and the outcome is unknown."""
        if isinstance(answer, Pledge) and answer.result is None:
            answer.is_abandoned = True
            return None
        return self.world.now(answer)

    def _lose(self, transactional_id: str) -> None:
        self.producers = [each for each in self.producers if each.transactional_id != transactional_id]
        self.current.pop(transactional_id, None)

    # Events at the broker

    @rule(duration_ms=st.sampled_from((0, 1, 200, 6000, 15_000)))
    def wait(self, duration_ms: int) -> None:
        self.world.timers.advance(duration_ms)

    @rule(partition=st.sampled_from(PARTITIONS), code=st.sampled_from(REFUSALS))
    def partition_fails(self, partition: TopicPartition, code: ErrorCode) -> None:
        self.world.marker_logs.refusals[partition] = code

    @rule()
    def partitions_heal(self) -> None:
        self.world.marker_logs.refusals.clear()

    @rule(holds=st.booleans())
    def replicas(self, holds: bool) -> None:
        self.world.log.holds_high_watermark = holds
        if not holds:
            self.world.log.commit(P0)

    @rule(code=st.sampled_from((None, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
    def log_refuses(self, code: ErrorCode | None) -> None:
        self.world.log.append_error = code

    @rule()
    def restart(self) -> None:
        self.world = self.world.restart()

    # Invariants

    @invariant()
    def partitions_hear_of_one_outcome(self) -> None:
        outcomes: dict[tuple[TopicPartition, int, int], bool] = {}
        for partition, marker in self.world.marker_logs.written:
            if marker.transaction_version >= 2:
                key = (partition, marker.producer_id, marker.producer_epoch)
                assert outcomes.setdefault(key, marker.is_commit) is marker.is_commit

    @invariant()
    def state_is_what_the_log_says(self) -> None:
        replayed, serde = TransactionStore(), TransactionRecordSerde()
        for record in self.world.log.records(P0):
            decoded = serde.deserialize(record.key or b"", record.value)
            assert decoded is not None
            replayed.replay(decoded)
        store = self.world.shard.store
        in_memory = {
            key: replace(each, last_producer_epoch=NO_PRODUCER_EPOCH) for key, each in store.transactions.items()
        }
        assert in_memory == replayed.transactions
        assert set(store.ongoing) == set(replayed.ongoing)

    def teardown(self) -> None:
        try:
            self._check_end()
        finally:
            close_unfinished()

    def _check_end(self) -> None:
        """Ends all faults, then checks that every acknowledged outcome is in every partition of its transaction."""
        self.partitions_heal()
        self.log_refuses(None)
        self.replicas(False)
        self.world.timers.advance(200_000)
        assert not any(each.is_ending for each in self.world.shard.store.transactions.values())
        assert not self.world.shard.store.ongoing
        written: dict[tuple[int, int], dict[TopicPartition, bool]] = {}
        for partition, marker in self.world.marker_logs.written:
            of_producer = written.setdefault((marker.producer_id, marker.producer_epoch), {})
            of_producer[partition] = marker.is_commit
        for (producer_id, epoch), commit, partitions in self.acknowledged:
            outcomes = written.get((producer_id, epoch + 1), {})
            assert {partition: outcomes.get(partition) for partition in partitions} == dict.fromkeys(partitions, commit)


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=examples(50), stateful_step_count=30, deadline=None)
