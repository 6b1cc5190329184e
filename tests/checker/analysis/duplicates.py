"""Duplicates: one record at two offsets (I4, I10). Producers are idempotent, and nobody sends a value twice.

A producer may do so all the same, by Kafka's own rules: its client gives up on a record when `message.timeout.ms` is
over, which leaves a gap in the sequence. So it begins again with a new producer epoch, and sends what was not answered
before once more: the broker, which knows records by epoch and sequence, can't recognize them. (librdkafka:
`rd_kafka_idemp_drain_epoch_bump`, called when messages time out; the Java client does the same since KIP-360.) Such
copies are the client's: they are in batches of different epochs, outside of transactions, and the client has said that
it gave up on a record. Two copies of one epoch, and copies of a client that gave up on nothing, are the broker's.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts, Record

__all__ = ["find"]

_Place = tuple[str, int]
"""Partition and offset."""


def find(facts: Facts) -> Iterator[Anomaly]:
    """`duplicate`: a value that was seen at two places, or at another one than its producer was told; `phantom`: a
    value that nobody sent."""
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
    """Whether the client itself sent the record again, in a way in which no broker can recognize it."""
    writers = {facts.writer(*place) for place in places}
    if record.transaction is not None or None in writers or len(writers) < len(places):
        return False
    # After a loss of power a client that finds a gap in the log begins a new epoch too.
    return record.process in facts.gave_up or facts.may_lose


def _written_by(facts: Facts, places: set[_Place]) -> str:
    writers = [facts.writer(*place) for place in sorted(places)]
    told = [f"producer {who[0]} in epoch {who[1]}" for who in writers if who is not None]
    return f", written by {', '.join(told)}" if told else ""
