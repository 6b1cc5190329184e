"""What compaction must leave of the replicated internal topics: the newest committed record of each key.

Each replica compacts its own log, so the replicas may hold different bytes. But a replica that may be elected must
hold, of each key, the newest record that is committed and does not belong to an aborted transaction (I3): the next
coordinator loads the groups and transactions from it. And a key has the same newest record in all replicas (I2).

No tombstone is old enough to be dropped in a world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch

from tests.simulation.violation import Violation

from klamm.broker.services.coordinators import internal_topics
from klamm.protocol.control_batch import read_end_transaction_marker
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klamm.protocol.record_batch import BatchHeader, iterate_batches
from klamm.protocol.records import Record, decode_batch
from klamm.protocol.types import Offset, ProducerId, TopicPartition
from klamm.storage.log.log_compaction import LogCompaction

if TYPE_CHECKING:
    from tests.simulation.clusters.replica_checks import ReplicaChecks

    from klamm.config.broker_config import BrokerConfig
    from klamm.storage.log.log import Log

__all__ = ["COMPACTED", "CompactionChecks", "check_alike", "small_segments"]

COMPACTED: Final = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
"""The compacted topics."""
_SEGMENTS: Final = (2_500, 5_000)
"""Sizes of segments. A segment must have room for the largest batch, which holds a group with all its members."""


@contextmanager
def small_segments(draw: Random) -> Iterator[None]:
    """Lets the compacted topics be created with small segments while the context is open. The key is Kafka's for tests:
    `segment.bytes` has a minimum of 1 MiB."""
    configs = internal_topics._CONFIGS
    changed = {name: partial(_with_segments, configs[name], str(draw.choice(_SEGMENTS))) for name in COMPACTED}
    with patch.object(internal_topics, "_CONFIGS", {**configs, **changed}):
        yield


def _with_segments(
    configs: Callable[[BrokerConfig], Mapping[str, str]], size_bytes: str, config: BrokerConfig
) -> Mapping[str, str]:
    return {**configs(config), "internal.segment.bytes": size_bytes}


class _Batch(NamedTuple):
    """A batch with its records."""

    header: BatchHeader
    records: list[Record]


class _Fold:
    """The newest record of each key, of the batches so far; records of a transaction count once it is committed."""

    def __init__(self) -> None:
        self.newest: dict[bytes, Record] = {}
        self.end = 0
        """The first offset that was not read."""
        self._open: dict[ProducerId, list[Record]] = {}

    def add(self, batch: _Batch) -> None:
        header = batch.header
        start, self.end = self.end, max(self.end, header.next_offset)
        records = [record for record in batch.records if record.offset >= start]
        if header.is_control:
            for record in records:
                marker = read_end_transaction_marker(record)
                if marker is not None:
                    written = self._open.pop(header.producer_id, [])
                    self._note(written if marker.is_commit else [])
        elif header.is_transactional:
            self._open.setdefault(header.producer_id, []).extend(records)
        else:
            self._note(records)

    def _note(self, records: list[Record]) -> None:
        for record in records:
            assert record.key is not None
            before = self.newest.get(record.key)
            if before is None or before.offset < record.offset:
                self.newest[record.key] = record


def newest_records(log: Log, end: Offset) -> dict[bytes, Record]:
    """Returns the newest record of each key below the offset `end`, without open and aborted transactions."""
    fold = _Fold()
    for batch in _batches_of(log, 0, end):
        fold.add(batch)
    return fold.newest


def check_alike(where: TopicPartition, logs: Iterable[Log], end: Offset) -> None:
    """Checks that the newest record of each key is the same in all replicas (I2). Raises Violation."""
    first, *others = (newest_records(log, end) for log in logs)
    for other in others:
        if other != first:
            differing = [key for key in {**first, **other} if first.get(key) != other.get(key)]
            pairs = [(first.get(key), other.get(key)) for key in differing]
            raise Violation(2, f"the replicas of {where} have different newest records: {pairs}")


def _batches_of(log: Log, start: int, end: int) -> Iterator[_Batch]:
    position = max(start, int(log.log_start_offset))
    while position < end:
        before = position
        part = log.read(Offset(position), 1_000_000, upper_bound=Offset(end), minimum_one_batch=True)
        for at, header in iterate_batches(part):
            if header.base_offset >= end:
                return
            if header.next_offset > position:
                yield _Batch(header, decode_batch(part, at))
                position = int(header.next_offset)
        if position == before:
            return


class CompactionChecks:
    """The checks of a world. They report to `checks`."""

    def __init__(self, checks: ReplicaChecks, report: Callable[[Callable[[], None]], None]) -> None:
        self._checks = checks
        self._report = report
        self._committed: dict[TopicPartition, _Fold] = {}

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Watches the cleaner while the context is open."""
        swap = LogCompaction.swap_in

        def watched_swap(compaction: LogCompaction, *arguments: Any) -> None:
            swap(compaction, *arguments)
            where = compaction._log.topic_partition
            self._checks.note("a log of %s was compacted", str(where))
            self._report(lambda: self.check(where, "a log was compacted"))

        with patch.object(LogCompaction, "swap_in", watched_swap):
            yield

    def committed(self, where: TopicPartition, log: Log, end: Offset) -> None:
        """Adds the committed records of a partition below `end`, read from its leader's log."""
        if where.topic in COMPACTED:
            fold = self._committed.setdefault(where, _Fold())
            for batch in _batches_of(log, fold.end, end):
                fold.add(batch)

    def forget(self, topic: str) -> None:
        """Forgets a topic that was deleted."""
        self._committed = {where: fold for where, fold in self._committed.items() if where.topic != topic}

    def check(self, where: TopicPartition, when: str) -> None:
        """Checks that each replica of a partition that may be elected has the newest committed record of each key, and
        no other newest record."""
        fold = self._committed.get(where)
        if fold is None or self._checks.may_lack_records(where):
            return
        for number, log in self._checks.candidates(where):
            held = newest_records(log, Offset(fold.end))
            for key in {**fold.newest, **held}:
                record, own = fold.newest.get(key), held.get(key)
                if own != record:
                    raise Violation(
                        3,
                        f"broker {number} may lead {where} and has {own} as the newest record of a key below offset"
                        f" {fold.end}, and {record} was committed: {when}",
                    )
