"""The checks of a real log against the model of what was written to it."""

from __future__ import annotations

from random import Random

from tests.simulation.difference import difference
from tests.simulation.logs.model import PartitionModel, Producer, Written
from tests.simulation.logs.reader import read_batches, read_committed
from tests.simulation.notes import in_words, shorten
from tests.simulation.violation import Violation
from tests.support.log_folder import found_by_time

from klamm.protocol.record_batch import batch_crc_is_valid
from klamm.protocol.records import Record
from klamm.protocol.types import LeaderEpoch, Millis, ProducerId
from klamm.storage.log.log import Log

__all__ = ["check_epochs", "check_log", "check_producers", "check_timestamps", "check_transactions"]

_CHARACTERS = 200
"""Maximum length of a shown record."""


def check_log(log: Log, model: PartitionModel, random: Random) -> list[Written]:
    """I1 and I9: checks that the log returns what was written, in order. Compaction may leave gaps, but keeps the
    latest value of each key.

    Returns the batches that were read. Raises KafkaError if the log can't be read.
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
                raise Violation(9, f"{log}, record {record.offset}:\n{_difference(record, known.get(record.offset))}")
    return found


def _check_order(log: Log, found: list[Written]) -> None:
    end, epoch = 0, -1
    epochs = log.leader_epochs
    for batch in found:
        header = batch.header
        if not batch_crc_is_valid(batch.data, 0, header):
            raise Violation(1, f"{log} serves a batch at {header.base_offset} whose CRC does not match")
        if header.base_offset < end or header.partition_leader_epoch < epoch:
            this = f"a batch at {header.base_offset} of leader epoch {header.partition_leader_epoch}"
            raise Violation(1, f"{log} has {this} after one up to {end} of leader epoch {epoch}")
        end, epoch = header.next_offset, header.partition_leader_epoch
        # A crash may restore deleted records, whose epochs the log does not know any more.
        noted = [each.epoch for each in epochs if each.start_offset <= header.base_offset]
        if header.base_offset >= log.log_start_offset and noted[-1:] != [epoch] and noted:
            raise Violation(
                1, f"{log} knows leader epochs {in_words(epochs)}, and has a batch at {header.base_offset} of {epoch}"
            )


def _check_same(log: Log, found: list[Written], expected: list[Written]) -> None:
    for one, other in zip(found, expected, strict=False):
        if one.data != other.data:
            raise Violation(9, f"{log}, batch at {other.header.base_offset}:\n{_difference(one, other)}")
    if len(found) != len(expected):
        offsets = [{each.header.base_offset for each in side} for side in (found, expected)]
        raise Violation(4, f"{log}, where its batches begin: {_difference(*offsets)}")


def check_epochs(log: Log, model: PartitionModel, random: Random) -> None:
    """I1: checks that the log knows the leader epochs of its batches since its start, and reports where each epoch
    ended (KIP-101).
    """
    expected = model.leader_epochs()
    known: list[tuple[int, int]] = [(each.epoch, each.start_offset) for each in log.leader_epochs]
    if model.is_compacted:
        _check_epochs_of_compacted(log, known, expected, has_holes=model.has_holes)
    else:
        highest = max(model.highest_start, log.log_start_offset)
        first = known[0][1] if known else highest
        if not log.log_start_offset <= first <= highest:
            raise Violation(1, f"{log} begins at {log.log_start_offset}, and knows leader epochs {known}")
        # A crash may restore deleted records, whose epochs the log does not know any more. The epochs of an empty log
        # are not needed until another epoch begins there.
        is_nothing_left = log.log_start_offset == log.log_end_offset or (not known and first >= log.log_end_offset)
        if known != _from(expected, first) and not is_nothing_left:
            raise Violation(1, f"{log} knows leader epochs {known}, and has those of {expected} from {first} on")
    asked = random.randint(0, known[-1][0] + 1 if known else 1)
    answer, wanted = log.end_offset_for_epoch(LeaderEpoch(asked)), _end_of_epoch(asked, known, model.end)
    if answer != wanted:
        raise Violation(1, f"{log}, whose leader epochs are {known}, has epoch {asked} end at {answer}, not {wanted}")


def _from(epochs: list[tuple[int, int]], start: int) -> list[tuple[int, int]]:
    """Returns the leader epochs that are left when a log begins at `start`."""
    left: list[tuple[int, int]] = []
    for epoch, begins in epochs:
        if begins <= start:
            left = [(epoch, start)]
        else:
            left.append((epoch, begins))
    return left


def _check_epochs_of_compacted(
    log: Log, known: list[tuple[int, int]], expected: list[tuple[int, int]], *, has_holes: bool
) -> None:
    """Checks the leader epochs of a compacted log. A cleaner removes batches, so a recovered epoch may begin later, but
    not earlier.
    """
    begins = dict(expected)
    for epoch, start in known:
        # An epoch without batches may come back if a power failure removed the batches of the next epoch.
        if start < begins.get(epoch, 0) or (epoch not in begins and not has_holes):
            raise Violation(1, f"{log} knows leader epochs {known}, and was written under {expected}")
    if sorted(set(known)) != known or sorted(start for _, start in known) != [start for _, start in known]:
        raise Violation(1, f"{log} knows leader epochs {known}, which do not rise")


def _end_of_epoch(asked: int, known: list[tuple[int, int]], end: int) -> tuple[int, int]:
    """Returns the largest known epoch up to `asked`, and the offset at which the next epoch begins."""
    if not known or asked > known[-1][0]:
        return -1, -1
    starts_after = [start for epoch, start in known if epoch > asked]
    up_to = [epoch for epoch, _ in known if epoch <= asked]
    return (up_to[-1] if up_to else asked), (starts_after[0] if starts_after else end)


def check_timestamps(log: Log, found: list[Written], random: Random) -> None:
    """Checks lookups by time: the first record that is not older than a timestamp, and the record with the largest
    timestamp.

    Raises KafkaError if the log can't be read.
    """
    start = log.log_start_offset
    records = [
        (record.timestamp_ms, record.offset, batch.header.partition_leader_epoch)
        for batch in found
        for record in batch.records
        if record.offset >= start
    ]
    if not records:
        return
    asked = random.choice(records)[0] + random.choice((0, 0, 1, -500))
    answer = found_by_time(log.search_timestamp(Millis(asked)))
    wanted = next((each for each in records if each[0] >= asked), None)
    if answer != wanted:
        raise Violation(9, f"{log}: the first record from time {asked} on is {wanted}, and {answer} was found")
    youngest = found_by_time(log.search_max_timestamp())
    largest = max(timestamp for timestamp, *_ in records)
    # Records below the log start in its first segment count as well, as they do in Apache Kafka. A batch that a cleaner
    # has emptied keeps its timestamp and counts too: then klamm and Kafka find no record.
    is_emptied = any(not batch.records and batch.header.max_timestamp >= largest for batch in found)
    if youngest is None and is_emptied:
        return
    if youngest is None or youngest[0] < largest or (youngest[1] >= start and youngest not in records):
        raise Violation(9, f"{log}: the largest timestamp is {largest}, and {youngest} was found")


def check_producers(log: Log, model: PartitionModel, found: list[Written], now_ms: int) -> None:
    """I10: checks that epochs, sequences and open transactions of all producers follow from their batches."""
    present = {batch.header.base_offset for batch in found}
    known = dict(log.producers.active())
    for producer_id, expected in model.producers().items():
        entry = known.pop(ProducerId(producer_id), None)
        last = expected.batches[-1].header if expected.batches else None
        # A cleaner may have removed the batch because of a later one, which a power failure then removed.
        is_deleted = last is None or last.base_offset not in present
        if entry is None:
            if is_deleted or model.may_be_forgotten(expected, now_ms):
                continue
            raise Violation(10, f"{log} has forgotten producer {producer_id}, whose last batch is at {_last(expected)}")
        state = (entry.epoch, entry.last_sequence)
        wanted = (expected.epoch, expected.last_sequence)
        if not entry.batches and entry.epoch == expected.epoch and model.batches_may_be_forgotten(expected, now_ms):
            continue
        if state != wanted and not is_deleted:
            raise Violation(10, f"{log} knows (epoch, sequence) {state} of {producer_id}, not {wanted}")
        # A log may forget the deleted part of a transaction, at each deletion.
        first_present = min(present, default=model.end)
        begins = {expected.first_open, next((offset for offset in expected.open_offsets if offset in present), -1)}
        begins.update(offset for offset in expected.open_offsets if offset < first_present)
        if entry.current_transaction_first_offset not in begins:
            first = entry.current_transaction_first_offset
            raise Violation(10, f"{log} has a transaction of {producer_id} begin at {first}, not {sorted(begins)}")
        if (
            entry.batches
            and last is not None
            and not is_deleted
            and (entry.batches[-1].first_offset, entry.batches[-1].last_offset) != (last.base_offset, last.last_offset)
        ):
            taken = entry.batches[-1]
            raise Violation(
                10,
                f"{log} takes offsets {taken.first_offset} to {taken.last_offset} for the last batch of {producer_id},"
                f" not {last.base_offset} to {last.last_offset}",
            )
    if known:
        raise Violation(10, f"{log} knows producers who have written nothing: {sorted(known)}")


def _last(producer: Producer) -> int | None:
    return producer.batches[-1].header.base_offset if producer.batches else None


def check_transactions(
    log: Log, model: PartitionModel, found_batches: list[Written], random: Random, now_ms: int
) -> None:
    """I11: checks the last stable offset, and the records that a read_committed consumer gets below it.

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
    # After a crash, the high watermark of the checkpoint may lie within a batch, which is read as a whole or not at
    # all.
    last = model.batch_at(end)
    end = end if last is None else min(end, last.header.base_offset)
    expected = [record for record in model.committed(end) if start <= record.offset < end]
    if not model.is_compacted:
        if found != expected:
            raise Violation(11, f"{log}, committed records from {start} to {end}:\n{_records(found, expected)}")
        return
    aborted = [record for record in found if record not in expected]
    if aborted:
        raise Violation(11, f"of {log} a read_committed consumer sees {_shown(aborted[0])}")
    # The high watermark may be lower than at the time of the cleaning.
    stable_end = model.last_stable_offset(model.end)
    latest = {record.key: record for record in model.committed(stable_end) if record.offset >= start}
    later: dict[bytes | None, int] = {}
    if stable_end < model.was_stable:
        # A power failure removed the marker that decided these records, and a cleaner had already used it.
        later = {record.key: record.offset for batch in found_batches for record in batch.records}
    there = {record.offset for record in found}
    for record in latest.values():
        if record.offset in there or record.offset >= end or record.offset < later.get(record.key, -1):
            continue
        if record.value is not None:
            raise Violation(9, f"the latest value of a key is gone from {log}: {_shown(record)}")
        if any(each.key == record.key for each in found):
            raise Violation(9, f"{log} has forgotten that a key was deleted: {_shown(record)}")
        since_ms = model.first_cleaned_ms(record.offset)
        if since_ms is None or now_ms < since_ms + model.config.delete_retention_ms:
            raise Violation(
                9,
                f"{log} has dropped a tombstone at {now_ms}, the cleaner was there at {since_ms} first, and"
                f" delete.retention.ms are {model.config.delete_retention_ms}: {_shown(record)}",
            )


def _records(found: list[Record], expected: list[Record]) -> str:
    return _difference(*({record.offset: record for record in side} for side in (found, expected)))


def _difference(found: object, expected: object) -> str:
    return difference(found, expected, names=("read", "written"))


def _shown(record: Record) -> str:
    return shorten(str(in_words(record)), _CHARACTERS)
