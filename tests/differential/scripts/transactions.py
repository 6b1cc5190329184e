"""Transactions whose coordinator is killed between their records and their end; fenced producers."""

from __future__ import annotations

from typing import Any

from tests.differential.coordinators import TRANSACTION, fail_over, place_coordinator, wait_for_producer_ids
from tests.differential.records import batch, fetch_fields, produce_fields
from tests.differential.script import Run, script

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode

_OLD, _NEW, _OTHER = 3, 1, 2
"""The coordinator before and after the failure, and a broker that never coordinates."""


class _Producer:
    def __init__(self, run: Run, topic: str) -> None:
        self._run = run
        self._topic = topic
        self.producer_id = -1
        self.epoch = -1

    def init(self, label: str, broker: int, *, is_later: bool = False) -> None:
        """Begins as a new producer. With `is_later` it waits until the transaction before has ended."""
        answer = self._run.ask_until(
            label,
            lambda answer: not is_later or answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS,
            ApiKey.INIT_PRODUCER_ID,
            broker=broker,
            version=5,
            transactional_id=self._run.name,
            transaction_timeout_ms=300_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def send(self, label: str, sequence: int, epoch: int | None = None, producer_id: int | None = None) -> None:
        """Sends a record to the leader, in a transaction that this begins."""
        records = batch(
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        fields = produce_fields(self._topic, records)
        self._run.ask(label, ApiKey.PRODUCE, broker=1, transactional_id=self._run.name, **fields)

    def end(self, label: str, broker: int, *, commits: bool, epoch: int | None = None) -> None:
        answer = self._run.ask(
            label,
            ApiKey.END_TXN,
            broker=broker,
            version=5,
            transactional_id=self._run.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commits,
        )
        if not answer.error_code and epoch is None:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch


def _describe(run: Run, label: str, broker: int) -> None:
    run.ask(label, ApiKey.DESCRIBE_TRANSACTIONS, broker=broker, transactional_ids=[run.name, f"{run.name}-none"])


def _read(run: Run, label: str, topic: str, count: int) -> None:
    """Reads the committed records when the last stable offset is behind all of the log."""

    def is_stable(answer: Any) -> bool:
        return bool(answer.responses[0].partitions[0].last_stable_offset == count)

    fields = fetch_fields(topic)
    run.ask_until(label, is_stable, ApiKey.FETCH, broker=1, isolation_level=1, **fields)


@script
def transactions(run: Run) -> None:
    """A transaction that one coordinator began is ended by the next one. Old epochs are fenced there, too."""
    topic = run.topic(replicas=(1, 2))
    place_coordinator(run, TRANSACTION, [_OLD, _NEW, _OTHER])
    wait_for_producer_ids(run)
    producer = _Producer(run, topic)
    keys = [run.name]
    for broker in (1, 3):
        label = f"FindCoordinator at broker {broker}"
        run.ask(label, ApiKey.FIND_COORDINATOR, broker=broker, key_type=TRANSACTION, coordinator_keys=keys)
    producer.init("InitProducerId at a broker that does not coordinate", _OTHER)
    producer.init("InitProducerId", _OLD)
    producer.send("Produce", 0)
    producer.end("EndTxn at a broker that does not coordinate", _OTHER, commits=True)
    producer.end("EndTxn", _OLD, commits=True)
    _read(run, "Fetch of the first transaction", topic, 2)
    first_epoch = producer.epoch
    producer.send("Produce in the second transaction", 0)
    _describe(run, "DescribeTransactions", _OLD)
    fail_over(run, TRANSACTION, _OLD, _NEW)
    _describe(run, "DescribeTransactions after the failure", _NEW)
    _describe(run, "DescribeTransactions elsewhere", _OTHER)
    producer.send("Produce after the failure", 1)
    producer.end("EndTxn with the epoch before", _NEW, commits=True, epoch=first_epoch - 1)
    producer.end("EndTxn with a later epoch", _NEW, commits=True, epoch=first_epoch + 5)
    producer.end("EndTxn elsewhere", _OTHER, commits=True)
    producer.end("EndTxn after the failure", _NEW, commits=True)
    _read(run, "Fetch of the second transaction", topic, 5)
    producer.send("Produce with the epoch before", 2, producer.epoch - 1)
    producer.end("EndTxn again, with the epoch before", _NEW, commits=True, epoch=producer.epoch - 1)
    producer.end("EndTxn of an empty transaction", _NEW, commits=False)
    producer.send("Produce in a transaction that is fenced", 0)
    before = producer.epoch
    producer.init("InitProducerId in an open transaction", _NEW)
    producer.init("InitProducerId again", _NEW, is_later=True)
    producer.send("Produce of the fenced producer", 1, before)
    producer.end("EndTxn of the fenced producer", _NEW, commits=True, epoch=before)
    producer.send("Produce of the next producer", 0)
    producer.end("EndTxn, aborted", _NEW, commits=False)
    run.start(_OLD)
    producer.send("Produce after the return", 0)
    producer.end("EndTxn at the coordinator before", _OLD, commits=True)
    producer.end("EndTxn after the return", _NEW, commits=True)
    _describe(run, "DescribeTransactions at the end", _NEW)
    producers = [{"name": topic, "partition_indexes": [0]}]
    for broker in (1, 2, 3):
        label = f"DescribeProducers of broker {broker}"
        answer = run.call(ApiKey.DESCRIBE_PRODUCERS, broker=broker, topics=producers)
        for partition in answer.topics[0].partitions:
            for each in partition.active_producers:
                each.coordinator_epoch = min(each.coordinator_epoch, 0)  # a number of the cluster's own
        run.record(label, ApiKey.DESCRIBE_PRODUCERS, answer)
