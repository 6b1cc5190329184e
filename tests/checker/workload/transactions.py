"""A client that writes in transactions and records the outcome of each."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.checker.history import Commit, End, Ended, Outcome
from tests.checker.workload.sending import Operation, send
from tests.checker.workload.worker import PATIENCE_S, AsExceptions, Setting, code_of

__all__ = ["TransactionalClient"]

_ONE_CALL_S = 10
_STUCK_S = 60
"""Also on a slow machine: the run would wait for a client that hangs, and another one takes its place."""


class TransactionalClient:
    """One life of a transactional id. After one of its methods raises KafkaException, it must not be used again.

    A transaction has an unknown outcome if its end was requested and got no clear answer. This holds even if the client
    could abort it later: the client may have ended it with a new epoch, which does not tell whether the commit
    happened.
    """

    def __init__(self, setting: Setting, transactional_id: str, process: str) -> None:
        self.process = process
        self._setting = setting
        self._one_call_s = setting.stretched(_ONE_CALL_S)
        self._number = 0
        self._sent: list[Operation] = []
        self._has_lost_connection = False
        """Whether a connection was lost since the transaction began."""
        self._producer = Producer(
            setting.client_config()
            | {
                "error_cb": self._failed,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 20_000,
                "message.timeout.ms": 20_000,
                "request.timeout.ms": 2000,
                "linger.ms": 1,
            }
        )

    def initialize(self) -> None:
        """Gets an epoch from the broker, which also ends the previous client's open transaction."""
        deadline = time.monotonic() + self._setting.stretched(PATIENCE_S / 2)
        while True:
            try:
                return self._producer.init_transactions(self._one_call_s)
            except KafkaException as error:
                if not code_of(error).retriable() or time.monotonic() > deadline:
                    raise

    def begin(self) -> None:
        """Begins a transaction."""
        self._producer.begin_transaction()
        self._number += 1
        self._sent.clear()
        self._has_lost_connection = False

    def send(self, partitions: Sequence[str], sources: Sequence[int] = ()) -> None:
        """Sends one record to each of the partitions, in the transaction."""
        self._sent.append(
            send(self._setting, self.process, self._producer, partitions, transaction=self._number, sources=sources)
        )
        self._producer.poll(0)

    def send_offsets(self, group: str, offsets: dict[str, int], consumer: Consumer) -> None:
        """Adds offsets of the consumer's group to the transaction."""
        event = Commit(self.process, self._setting.next_operation(), group, tuple(offsets.items()), self._number)
        self._setting.recorder.record(event)
        named = []
        for partition, offset in offsets.items():
            topic, _, index = partition.rpartition("-")
            named.append(TopicPartition(topic, int(index), offset))
        # librdkafka 2.16 may wait forever here after the broker died (its issue 5511).
        signal.alarm(int(min(3 * self._one_call_s, _STUCK_S)))
        self._producer.send_offsets_to_transaction(named, consumer.consumer_group_metadata(), self._one_call_s)

    def flush(self) -> None:
        """Waits until each record is answered or given up, for one call's time at most."""
        self._producer.flush(self._one_call_s)

    def end(self, *, commits: bool, is_fenced: bool = False) -> bool:
        """Commits or aborts, and returns True. Returns False after an abort instead of a commit.

        `is_fenced`: a successor has already ended the transaction, so that a failure is certain.
        """
        recorder = self._setting.recorder
        recorder.record(End(self.process, self._number, commits))
        try:
            self._end(commits=commits)
        except KafkaException as error:
            outcome: Outcome = "failed" if is_fenced else "unknown"
            recorder.record(Ended(self.process, self._number, outcome, str(error)))
            if is_fenced or not commits or not code_of(error).txn_requires_abort():
                raise
            self._end(commits=False)
            return False
        recorder.record(Ended(self.process, self._number, "ok"))
        return True

    def abort(self) -> None:
        """Aborts the transaction after a KafkaException that requires it, when no commit was requested."""
        self.end(commits=False)

    @property
    def is_unsafe_after_abort(self) -> bool:
        """Whether the client may lose records of its next transaction, after it has aborted one.

        librdkafka 2.16 drops the records that wait to be sent again, and gives their sequences to the records of the
        next transaction, in the same epoch. If the broker has the first ones, it takes the next ones for repetitions
        and acknowledges them without storing them, as Apache Kafka does.
        """
        return self._has_lost_connection and not all(operation.is_ok for operation in self._sent)

    def discard(self) -> None:
        """Empties a fenced client's queue: librdkafka 2.16 corrupts its memory if it destroys a client with queued
        records."""
        self._producer.purge()
        # The client raises the fencing error here if it has not raised it before.
        with contextlib.suppress(KafkaException), AsExceptions():
            self._producer.flush(self._one_call_s)

    def _failed(self, error: KafkaError) -> None:
        self._has_lost_connection = True

    def _end(self, *, commits: bool) -> None:
        deadline = time.monotonic() + self._setting.stretched(PATIENCE_S / 2)
        call = self._producer.commit_transaction if commits else self._producer.abort_transaction
        while True:
            try:
                return call(self._one_call_s)
            except KafkaException as error:
                carried = code_of(error)
                is_late = carried.retriable() or carried.code() == KafkaError._TIMED_OUT
                if not is_late or time.monotonic() > deadline:
                    raise
