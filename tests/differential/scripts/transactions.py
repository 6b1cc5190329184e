"""Transactions whose coordinator is killed, together with a leader: another broker ends them as they were decided."""

from __future__ import annotations

from typing import Final

from tests.differential.coordinators import TRANSACTION, fail_over, place_coordinator, wait_for_producer_ids
from tests.differential.script import Run, script
from tests.differential.transactions import Producer, read_committed, wait_for_end

from klamm.protocol.api import ApiKey

_OLD, _NEW, _OTHER = 3, 1, 2
"""The coordinator before and after the failure, and a broker that never coordinates."""
_STAYS, _MOVES = "stays", "moves"
"""Topics whose leader lives, and whose leader dies with the coordinator."""
_NEXT_LEADERS: Final = {_STAYS: _NEW, _MOVES: _OTHER}
"""The leaders of these topics after the failure."""


def _prepare(run: Run, *, is_explicit: bool) -> tuple[Producer, dict[str, str]]:
    """Returns the producer and the names of the topics."""
    wait_for_producer_ids(run)
    # The records are older than a segment may be, and the markers are new. A Fetch reads one segment.
    longest = str(2**62)
    names = {
        _STAYS: run.topic(_STAYS, replicas=(_NEW, _OTHER, _OLD), partitions=2, segment_ms=longest),
        _MOVES: run.topic(_MOVES, replicas=(_OLD, _OTHER, _NEW), segment_ms=longest),
    }
    place_coordinator(run, TRANSACTION, [_OLD, _NEW, _OTHER])
    return Producer(run, _OLD, is_explicit=is_explicit), names


def _take_over(run: Run, producer: Producer, names: dict[str, str]) -> None:
    """Kills the coordinator and the leader of a topic; other brokers take over."""
    fail_over(run, TRANSACTION, _OLD, _NEW)
    run.wait_for_partition(names[_MOVES], 0, lambda found: found.leader_id == _OTHER)
    producer.coordinator = _NEW


def _find(run: Run, label: str, broker: int) -> None:
    run.ask(label, ApiKey.FIND_COORDINATOR, broker=broker, key_type=TRANSACTION, coordinator_keys=[run.name])


def _read(run: Run, label: str, names: dict[str, str], ends: dict[str, int]) -> None:
    """Reads both topics after the failure, when readers of committed records may read up to these offsets."""
    for topic, end in ends.items():
        broker = _NEXT_LEADERS[topic]
        wait_for_end(run, names[topic], end, broker=broker)
        read_committed(run, f"{label}, the topic that {topic}", names[topic], broker=broker)


@script
def transaction_with_added_partitions(run: Run) -> None:
    """The coordinator is killed between AddPartitionsToTxn and EndTxn, in the protocol before KIP-890."""
    producer, names = _prepare(run, is_explicit=True)
    stays, moves = names[_STAYS], names[_MOVES]
    _find(run, "FindCoordinator", _OTHER)
    producer.begin("InitProducerId elsewhere", broker=_OTHER)
    producer.begin("InitProducerId")
    producer.add("Add elsewhere", stays, 0, broker=_OTHER)
    producer.add("Add", stays, 0)
    producer.add("Add another topic", moves, 0)
    producer.write("Produce", stays, b"one", broker=_NEW)
    producer.write("Produce to the leader that will die", moves, b"one", broker=_OLD)
    producer.describe("DescribeTransactions")
    _take_over(run, producer, names)
    _find(run, "FindCoordinator after the failure", _OTHER)
    producer.describe("DescribeTransactions after the failure")
    producer.describe("DescribeTransactions elsewhere after the failure", broker=_OTHER)
    producer.write("Produce again what was written", moves, b"one", broker=_OTHER, sequence=0)
    producer.write("Produce with a gap", moves, b"late", broker=_OTHER, sequence=5)
    producer.write("Produce to a leader that has changed", moves, b"two", broker=_OTHER)
    producer.write("Produce to a partition that is not added", stays, b"none", broker=_NEW, index=1)
    producer.add("Add after the failure", stays, 1)
    producer.write("Produce to the partition added after the failure", stays, b"two", broker=_NEW, index=1)
    for topic, broker in ((stays, _NEW), (moves, _OTHER)):
        wait_for_end(run, topic, 0, broker=broker)
        read_committed(run, f"Fetch of the open transaction from {broker}", topic, broker=broker)
    producer.end("EndTxn elsewhere", commits=True, broker=_OTHER)
    producer.end("EndTxn of a later epoch", commits=True, epoch=producer.epoch + 1)
    producer.end("EndTxn", commits=True)
    producer.describe("DescribeTransactions of the commit", state="CompleteCommit")
    producer.end("EndTxn again", commits=True)
    producer.end("EndTxn with the other result", commits=False)
    _read(run, "Fetch after the commit", names, {_STAYS: 2, _MOVES: 3})
    producer.add("Add to the next transaction", moves, 0)
    producer.write("Produce in the next transaction", moves, b"three", broker=_OTHER)
    producer.end("EndTxn of an abort", commits=False)
    _read(run, "Fetch after the abort", names, {_MOVES: 5})
    run.start(_OLD)
    _find(run, "FindCoordinator after the return", _OLD)
    producer.end("EndTxn at the coordinator before", commits=False, broker=_OLD)


@script
def fenced_transaction(run: Run) -> None:
    """The coordinator is killed while a transaction is open, and a new instance of the producer aborts it."""
    producer, names = _prepare(run, is_explicit=True)
    stays, moves = names[_STAYS], names[_MOVES]
    producer.begin("InitProducerId")
    producer.add("Add", stays, 0)
    producer.write("Produce", stays, b"one", broker=_NEW)
    producer.add("Add another topic", moves, 0)
    producer.write("Produce to the leader that will die", moves, b"one", broker=_OLD)
    before = producer.epoch
    _take_over(run, producer, names)
    producer.begin("InitProducerId after the failure")
    producer.describe("DescribeTransactions")
    _read(run, "Fetch", names, {_STAYS: 2, _MOVES: 2})
    producer.write("Produce of the old instance", stays, b"two", broker=_NEW, epoch=before, sequence=1)
    producer.write("Produce of the old instance elsewhere", moves, b"two", broker=_OTHER, epoch=before, sequence=1)
    producer.add("Add of the old instance", stays, 0, epoch=before)
    producer.end("EndTxn of the old instance", commits=True, epoch=before)
    producer.add("Add of the new instance", stays, 0)
    producer.write("Produce of the new instance", stays, b"three", broker=_NEW)
    producer.end("EndTxn of the new instance", commits=True)
    _read(run, "Fetch at the end", names, {_STAYS: 4})


@script
def transaction_without_added_partitions(run: Run) -> None:
    """The coordinator is killed between Produce and EndTxn, and again between two EndTxn, in the protocol of KIP-890:
    leaders add the partitions, and each transaction has its own epoch."""
    producer, names = _prepare(run, is_explicit=False)
    stays, moves = names[_STAYS], names[_MOVES]
    producer.begin("InitProducerId")
    producer.write("Produce", stays, b"one", broker=_NEW)
    producer.write("Produce to the leader that will die", moves, b"one", broker=_OLD)
    _take_over(run, producer, names)
    producer.describe("DescribeTransactions after the failure")
    producer.write("Produce again what was written", moves, b"one", broker=_OTHER, sequence=0)
    producer.write("Produce to a leader that has changed", moves, b"two", broker=_OTHER)
    producer.write("Produce to another partition", stays, b"two", broker=_NEW, index=1)
    first = producer.epoch
    producer.end("EndTxn", commits=True)
    producer.describe("DescribeTransactions of the commit", state="CompleteCommit")
    _read(run, "Fetch after the commit", names, {_STAYS: 2, _MOVES: 3})
    producer.write("Produce with the epoch before", moves, b"late", broker=_OTHER, epoch=first, sequence=2)
    producer.end("EndTxn again with the epoch before", commits=True, epoch=first)
    producer.end("EndTxn with the epoch before and the other result", commits=False, epoch=first)
    run.start(_OLD)
    for topic in (stays, moves):
        run.wait_for_partition(topic, 0, lambda found: len(found.isr_nodes) == 3)
    run.wait_for_partition("__transaction_state", 0, lambda found: len(found.isr_nodes) == 3)
    second = producer.epoch
    producer.write("Produce in the next transaction", moves, b"three", broker=_OTHER)
    producer.end("EndTxn of an abort", commits=False)
    producer.describe("DescribeTransactions of the abort", state="CompleteAbort")
    fail_over(run, TRANSACTION, _NEW, _OLD)
    run.wait_for_partition(stays, 0, lambda found: found.leader_id == _OTHER)
    producer.coordinator = _OLD
    producer.end("EndTxn of the abort again, after a failure", commits=False, epoch=second, broker=_OLD)
    producer.end("EndTxn of the abort with the other result", commits=True, epoch=second, broker=_OLD)
    producer.write("Produce after the second failure", stays, b"four", broker=_OTHER)
    producer.end("EndTxn after the second failure", commits=True)
    for topic, end in ((stays, 4), (moves, 5)):
        wait_for_end(run, topic, end, broker=_OTHER)
        read_committed(run, f"Fetch of {end} offsets at the end", topic, broker=_OTHER)
