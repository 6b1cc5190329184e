"""Producers of a real log: in order and out of order, with and without transactions, and the coordinator's markers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.logs.model import PartitionModel, Producer, stamped
from tests.simulation.violation import Violation

from klamm.protocol.compression import Compression
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import read_batch_header
from klamm.protocol.records import UnstampedRecord, encode_batch
from klamm.protocol.types import LeaderEpoch, Millis, ProducerEpoch, ProducerId
from klamm.storage.log.log import Log
from klamm.storage.log.log_appender import AppendInfo

if TYPE_CHECKING:
    from tests.simulation.notes import Notes

__all__ = ["Writers"]

_KEYS = tuple(b"key-%d" % number for number in range(6))
_WITHOUT_TRANSACTIONS = 3
"""The producer that is only idempotent: a real producer does not switch to transactions."""


class Writers:
    """All writers of the logs in one world. They know about themselves what the partition's model says.

    `is_well` returns whether the disk has no fault; then no write may fail because of the disk. `is_damaged` returns
    whether a log is offline because of a flipped bit: the first append to a segment reads its batches.
    """

    def __init__(
        self,
        random: Random,
        notes: Notes,
        *,
        producers: int,
        is_well: Callable[[], bool],
        is_damaged: Callable[[Log], bool],
    ) -> None:
        self._random = random
        self._notes = notes
        self._producers = producers
        self._is_well = is_well
        self._is_damaged = is_damaged
        self._values = 0

    def write(self, log: Log, model: PartitionModel, now_ms: Millis) -> None:
        """Writes a batch or a marker of a random producer, or one that the log must refuse."""
        random = self._random
        if random.random() < 0.25:
            self._append(log, model, self._batch(now_ms), now_ms)
            return
        producer_id = random.randint(1, self._producers)
        known = model.producers().get(producer_id) or Producer(0)
        draw = random.random()
        # A log need not know a producer after a start if all its records are deleted.
        is_known = any(batch.header.base_offset >= log.log_start_offset for batch in known.batches[-1:])
        is_idle = model.may_be_forgotten(known, now_ms) or model.batches_may_be_forgotten(known, now_ms)
        if not known.batches or (is_known and (model.is_compacted or is_idle)):
            remembered = dict(log.producers.active()).get(ProducerId(producer_id))
            said = None if remembered is None else (remembered.epoch, remembered.last_sequence)
            is_known = said == (known.epoch, known.last_sequence)
        if not is_known and known.first_open < 0:
            model.newest_epochs[producer_id] = max(known.epoch, model.newest_epochs.get(producer_id, 0)) + 1
        if draw < 0.2 and is_known:
            self._write_wrongly(log, model, producer_id, known, now_ms)
        elif known.first_open >= 0:
            if draw < 0.6 and is_known:
                self._write_in_order(log, model, producer_id, known, now_ms, is_transactional=True)
            else:
                self.end_transaction(log, model, producer_id, known, now_ms, is_commit=random.random() < 0.5)
        else:
            is_transactional = producer_id != _WITHOUT_TRANSACTIONS
            self._write_in_order(log, model, producer_id, known, now_ms, is_transactional=is_transactional)

    def end_transaction(
        self, log: Log, model: PartitionModel, producer_id: int, known: Producer, now_ms: Millis, *, is_commit: bool
    ) -> None:
        """Writes a marker as the transaction coordinator does; with transaction version 2 the marker has the next
        epoch.
        """
        version = self._version(producer_id)
        batch = encode_end_transaction_marker(
            EndTransactionMarker(is_commit, 0),
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(known.epoch + (version == 2)),
            timestamp_ms=now_ms,
        )
        self._append(log, model, batch, now_ms, from_client=False, transaction_version=version)

    def _version(self, producer_id: int) -> int:
        return 1 + producer_id % 2

    def _batch(self, now_ms: Millis, **options: Any) -> bytes:
        random = self._random
        records: list[UnstampedRecord] = []
        for _ in range(random.choice((1, 1, 2, 4))):
            self._values += 1
            value = None if random.random() < 0.25 else b"%d" % self._values * random.randint(1, 9)
            headers = (("header", b"%d" % self._values),) if random.random() < 0.1 else ()
            # Some clients are late, and some set their own timestamps.
            timestamp_ms = Millis(now_ms - random.choice((0, 0, 0, random.randint(0, 3_000))))
            records.append((timestamp_ms, random.choice(_KEYS), value, headers))
        compression = Compression.GZIP if random.random() < 0.1 else Compression.NONE
        return encode_batch(records, compression=compression, **options)

    def _write_in_order(
        self,
        log: Log,
        model: PartitionModel,
        producer_id: int,
        known: Producer,
        now_ms: Millis,
        *,
        is_transactional: bool,
    ) -> None:
        epoch, sequence = known.epoch, known.last_sequence + 1
        newest = model.newest_epochs.get(producer_id, 0)
        if known.first_open < 0:
            if self._random.random() < 0.1:
                newest = max(epoch, newest) + 1  # Another process of the producer takes over.
            if newest > epoch:
                epoch, sequence = newest, 0
            model.newest_epochs[producer_id] = epoch
        batch = self._batch(
            now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        guard = 0
        if is_transactional and not log.is_offline:
            guard = log.transactions.begin_verification(
                ProducerId(producer_id),
                ProducerEpoch(epoch),
                sequence,
                adds_partitions=self._version(producer_id) == 2,
                now_ms=now_ms,
            )
        self._append(log, model, batch, now_ms, verification_guard=guard)

    def _write_wrongly(
        self, log: Log, model: PartitionModel, producer_id: int, known: Producer, now_ms: Millis
    ) -> None:
        """I10 and I11: repeats a batch, which is not written again, or sends a batch that must be refused: a gap, a
        former epoch, or a batch outside of its transaction.
        """
        random = self._random
        sent = known.batches[-5:]
        choice = random.choice(("repeat", "repeat", "gap", "former epoch", "outside", "unverified", "marker", "marker"))
        if choice == "marker":
            self._repeat_marker(log, model, producer_id, known, now_ms)
            return
        if choice == "repeat":
            if sent:
                self._repeat(log, model, random.choice(sent).header.base_offset, known, now_ms)
            return
        epoch, sequence, is_transactional = known.epoch, known.last_sequence + 1, known.first_open >= 0
        if choice == "gap" and sent:
            sequence += random.randint(1, 5)
            code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif choice == "former epoch" and epoch > 0:
            epoch, sequence = epoch - 1, 0
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif choice == "outside" and is_transactional:
            is_transactional = False
            code = ErrorCode.INVALID_TXN_STATE
        elif choice == "unverified" and not is_transactional:
            is_transactional = True
            code = ErrorCode.INVALID_TXN_STATE
        else:
            return
        batch = self._batch(
            now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        self._append(log, model, batch, now_ms, refused=(code,))

    def _repeat_marker(
        self, log: Log, model: PartitionModel, producer_id: int, known: Producer, now_ms: Millis
    ) -> None:
        """Repeats the last marker: it is refused, or ends no transaction.

        A marker of transaction version 1 would end the next transaction, which has the same epoch. Version 2 prevents
        that.
        """
        marker = next(
            (
                batch
                for batch in reversed(model.batches)
                if batch.header.is_control and batch.header.producer_id == producer_id
            ),
            None,
        )
        if marker is None:
            return
        version, epoch = self._version(producer_id), marker.header.producer_epoch
        is_open = known.first_open >= 0
        if is_open and epoch == known.epoch and version == 1:
            return
        self._append(
            log,
            model,
            stamped(marker.data, 0, -1),
            now_ms,
            refused=(ErrorCode.INVALID_PRODUCER_EPOCH,) if epoch < known.epoch or is_open else (),
            from_client=False,
            transaction_version=version,
        )

    def _repeat(self, log: Log, model: PartitionModel, base_offset: int, known: Producer, now_ms: Millis) -> None:
        """Repeats one of the producer's last five batches.

        The log knows it after a start, too, unless it was deleted or has expired before the start. A cleaner removes
        all of a producer's batches but the last one, so they are known only if a snapshot has outlasted the start.
        """
        before = model.batch_at(base_offset)
        assert before is not None
        may_be_forgotten = base_offset < model.loaded_end and (
            base_offset < log.log_start_offset
            or (model.is_compacted and before is not known.batches[-1])
            or now_ms - before.header.max_timestamp >= model.producer_id_expiration_ms
        )
        info = self._append(
            log,
            model,
            stamped(before.data, 0, -1),
            now_ms,
            refused=(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_TXN_STATE) if may_be_forgotten else (),
            repeats=base_offset,
        )
        if info is not None and info.first_offset != base_offset:
            raise Violation(10, f"a retry of the batch at {base_offset} was answered with {info.first_offset}")

    def _append(
        self,
        log: Log,
        model: PartitionModel,
        batch: bytes,
        now_ms: Millis,
        *,
        refused: Sequence[ErrorCode] = (),
        repeats: int | None = None,
        from_client: bool = True,
        verification_guard: int = 0,
        transaction_version: int = 0,
    ) -> AppendInfo | None:
        """Appends a batch, records the result, and checks the answer. May end with a Crash."""
        must_work = not log.is_offline and self._is_well()
        at = log.log_end_offset
        data = stamped(batch, at, log.latest_epoch)
        model.in_flight = data if not refused and repeats is None else None
        info, code, refusal = None, ErrorCode.NONE, ""
        try:
            info = log.appender.append_as_leader(
                batch,
                leader_epoch=LeaderEpoch(log.latest_epoch),
                now_ms=now_ms,
                from_client=from_client,
                verification_guard=verification_guard,
                transaction_version=transaction_version,
            )
        except KafkaError as error:
            code, refusal = error.code, str(error)
        model.in_flight = None
        if log.log_end_offset > at:
            model.append(data)
        header = read_batch_header(batch)
        producer = (header.producer_id, header.producer_epoch, header.base_sequence)
        template = "append to %s at %d, %d bytes of producer, epoch, sequence %s, repeats %s: %s"
        self._notes.add(template, log, at, len(batch), producer, repeats, code)
        if code is ErrorCode.KAFKA_STORAGE_ERROR:
            if must_work and not self._is_damaged(log):
                raise Violation(4, f"{log} refuses to be written, and nothing is wrong with the disk: {refusal}")
            return None
        is_written = log.log_end_offset > at
        if repeats is not None:
            is_expected = not is_written and (code in refused or (info is not None and info.is_duplicate))
        else:
            is_expected = code in refused if refused else is_written and info is not None
        if not is_expected:
            expected = ", ".join(each.name for each in refused) or "success"
            raise Violation(10, f"a batch (a repetition of {repeats}) got {code.name}, {info}; expected was {expected}")
        return info
