"""What must hold of a real log, beside the model of what was written to it."""

from __future__ import annotations

from random import Random

from tests.simulation.logs.model import PartitionModel, Written
from tests.simulation.logs.reader import read_batches, read_committed
from tests.simulation.violation import Violation

from klamm.protocol.record_batch import batch_crc_is_valid
from klamm.protocol.records import Record
from klamm.protocol.types import ProducerId
from klamm.storage.log import Log

__all__ = ["check_log", "check_producers", "check_transactions"]


def check_log(log: Log, model: PartitionModel, random: Random) -> list[Written]:
    """I1 and I9: what can be read is what was written, in order; compaction leaves gaps, and each key its latest value.

    Raises KafkaError if the log can't be read.
    """
    found = read_batches(log, random)
    _check_order(log, found)
    expected = [batch for batch in model.batches if batch.header.next_offset > log.log_start_offset]
    if log.log_end_offset != model.end:
        raise Violation(1, f"{log} ends at {log.log_end_offset}, and what was written at {model.end}")
    if not model.is_compacted:
        _check_same(log, found, expected)
        return found
    below = model.cleaned_below
    _check_same(
        log,
        [batch for batch in found if batch.header.base_offset >= below],
        [batch for batch in expected if batch.header.base_offset >= below],
    )
    known = {record.offset: record for batch in model.batches for record in batch.records}
    for batch in found:
        for record in batch.records:
            if known.get(record.offset) != record:
                raise Violation(9, f"{log} holds {record}, and {known.get(record.offset)} was written")
    return found


def _check_order(log: Log, found: list[Written]) -> None:
    end, epoch = 0, -1
    epochs = log.leader_epochs
    for batch in found:
        header = batch.header
        if not batch_crc_is_valid(batch.data, 0, header):
            raise Violation(1, f"{log} serves a batch at {header.base_offset} whose CRC does not match")
        if header.base_offset < end or header.partition_leader_epoch < epoch:
            raise Violation(1, f"{log} has {header} after a batch up to {end} of leader epoch {epoch}")
        end, epoch = header.next_offset, header.partition_leader_epoch
        # A crash may bring back records that were deleted, of epochs that are not known any more.
        noted = [each.epoch for each in epochs if each.start_offset <= header.base_offset]
        if header.base_offset >= log.log_start_offset and noted[-1:] != [epoch] and noted:
            raise Violation(
                1, f"{log} knows leader epochs {epochs}, and has a batch at {header.base_offset} of {epoch}"
            )


def _check_same(log: Log, found: list[Written], expected: list[Written]) -> None:
    for one, other in zip(found, expected, strict=False):
        if one.data != other.data:
            raise Violation(9, f"{log} holds {one.header}, and {other.header} was written")
    if len(found) != len(expected):
        some = [each.header.base_offset for each in found]
        raise Violation(
            4, f"{log} has batches at {some}, written were {[each.header.base_offset for each in expected]}"
        )


def check_producers(log: Log, model: PartitionModel, found: list[Written]) -> None:
    """I10: epochs, sequences and open transactions of all producers are what their batches say."""
    present = {batch.header.base_offset for batch in found}
    known = dict(log.active_producers())
    for producer_id, expected in model.producers().items():
        entry = known.pop(ProducerId(producer_id), None)
        last = expected.batches[-1].header if expected.batches else None
        # A cleaner may have taken it for the sake of a later one, which a power failure then took.
        is_deleted = last is None or last.base_offset not in present
        if entry is None:
            if is_deleted:
                continue
            raise Violation(10, f"{log} has forgotten producer {producer_id}: {_words(expected)}")
        state = (entry.epoch, entry.last_sequence)
        wanted = (expected.epoch, expected.last_sequence)
        if state != wanted and not is_deleted:
            raise Violation(10, f"{log} knows (epoch, sequence) {state} of {producer_id}, not {wanted}")
        # What was deleted of a transaction may be forgotten.
        begins = {expected.first_open, next((offset for offset in expected.open_offsets if offset in present), -1)}
        if entry.current_transaction_first_offset not in begins:
            first = entry.current_transaction_first_offset
            raise Violation(10, f"{log} has a transaction of {producer_id} begin at {first}, not {sorted(begins)}")
        if (
            entry.batches
            and last is not None
            and not is_deleted
            and (entry.batches[-1].first_offset, entry.batches[-1].last_offset) != (last.base_offset, last.last_offset)
        ):
            raise Violation(10, f"{log} takes {entry.batches[-1]} for the last batch of {producer_id}, not {last}")
    if known:
        raise Violation(10, f"{log} knows producers who have written nothing: {sorted(known)}")


def _words(producer: object) -> str:
    return str(producer)[:200]


def check_transactions(log: Log, model: PartitionModel, found_batches: list[Written], random: Random) -> None:
    """I11: the last stable offset, and what a read_committed consumer sees below it.

    Raises KafkaError if the log can't be read.
    """
    expected_end = model.last_stable_offset(log.high_watermark)
    present = {batch.header.base_offset for batch in found_batches}
    highest = model.last_stable_offset(log.high_watermark, present)
    end = log.last_stable_offset
    if end > max(highest, log.log_start_offset):
        raise Violation(11, f"the last stable offset of {log} is {end}, above {highest}")
    if log.high_watermark == log.log_end_offset and end < expected_end:
        raise Violation(11, f"the last stable offset of {log} is {end}, below {expected_end}")
    start = random.randint(log.log_start_offset, end)
    found = list(read_committed(log, start, end, random))
    # After a crash the checkpoint's high watermark may be within a batch, which is read as a whole or not at all.
    last = model.batch_at(end)
    end = end if last is None else min(end, last.header.base_offset)
    expected = [record for record in model.committed(end) if start <= record.offset < end]
    if not model.is_compacted:
        if found != expected:
            raise Violation(11, f"of {log}, from {start} to {end}: {_difference(found, expected)}")
        return
    aborted = [record for record in found if record not in expected]
    if aborted:
        raise Violation(11, f"of {log} a read_committed consumer sees {aborted[0]}")
    # The high watermark may be lower than it was when the log was cleaned.
    everything = model.committed(model.last_stable_offset(model.end))
    latest = {record.key: record for record in everything if record.offset >= start}
    there = {record.offset for record in found}
    for record in latest.values():
        if record.offset in there or record.offset >= end:
            continue
        if record.value is not None:
            raise Violation(9, f"the latest value of a key is gone from {log}: {record}")
        if any(each.key == record.key for each in found):
            raise Violation(9, f"{log} has forgotten that a key was deleted: {record}")


def _difference(found: list[Record], expected: list[Record]) -> str:
    extra = [record for record in found if record not in expected]
    missing = [record for record in expected if record not in found]
    return f"seen but not committed {extra[:3]}, committed but not seen {missing[:3]}"
