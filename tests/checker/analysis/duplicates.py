"""Duplicates: one record at two offsets (I4, I10). Producers are idempotent, and no client sends a value twice.

By Kafka's own rules a producer may still write a duplicate: its client gives up on a record after `message.timeout.ms`,
which leaves a gap in the sequence. So the client begins a new producer epoch and sends the unanswered records again.
The broker identifies records by epoch and sequence, so it cannot recognize them. (librdkafka:
`rd_kafka_idemp_drain_epoch_bump`, called when messages time out; the Java client does the same since KIP-360.) The
client causes a copy if three conditions hold: the copies are in batches of different epochs, they are outside of
transactions, and the client reported that it gave up on a record. The broker causes two copies in one epoch, and copies
of a client that gave up on no record.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts, Record

__all__ = ["find"]

_Place = tuple[str, int]
"""Partition and offset."""


def find(facts: Facts) -> Iterator[Anomaly]:
    """Yields `duplicate` for a value that was seen at two places, or at another place than its producer was told.

    Yields `phantom` for a value that no producer sent.
    """
    seen: dict[int, dict[_Place, int]] = {}
    for sights in facts.sights.values():
        for value, places in sights.items():
            for sight in places:
                seen.setdefault(value, {}).setdefault((sight.partition, sight.offset), sight.index)
    for value, by_place in seen.items():
        indexes = tuple(sorted(by_place.values()))
        record = facts.records.get(value)
        if record is None:
            yield Anomaly("phantom", f"{value} was read, and nobody sent it", indexes, frozenset({value}))
            continue
        found = set(by_place)
        if record.offset is not None and facts.is_certain(record):
            found.add((record.partition, record.offset))
        is_elsewhere = any(partition != record.partition for partition, _ in found)
        if is_elsewhere or (len(found) > 1 and not _is_of_client(facts, record, found)):
            where = ", ".join(f"{partition} at {offset}" for partition, offset in sorted(found))
            yield Anomaly(
                "duplicate",
                f"{value}, sent once to {record.partition}, is in {where}{_written_by(facts, found)}",
                (record.index, *indexes),
                frozenset({value}),
            )


def _is_of_client(facts: Facts, record: Record, places: set[_Place]) -> bool:
    """Returns whether the client itself sent the record again in a way that no broker can recognize."""
    writers = {facts.writer(*place) for place in places}
    if record.transaction is not None or None in writers or len(writers) < len(places):
        return False
    # After a power loss, a client that finds a gap in the log begins a new epoch too.
    return record.process in facts.gave_up or facts.may_lose


def _written_by(facts: Facts, places: set[_Place]) -> str:
    writers = [facts.writer(*place) for place in sorted(places)]
    told = [f"producer {who[0]} in epoch {who[1]}" for who in writers if who is not None]
    return f", written by {', '.join(told)}" if told else ""
