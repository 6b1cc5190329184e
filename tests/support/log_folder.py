"""A data directory for tests, with a manual clock, batches in one line, restarts and crashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from klamm.config.topic_config import TopicConfig
from klamm.core.log.batch_opening import finish
from klamm.core.log.timestamp_lookup import TimestampedOffset
from klamm.protocol.compression import Compression
from klamm.protocol.record_batch import HEADER_SIZE_BYTES, pack_header, read_batch_header
from klamm.protocol.records import Record, UnstampedRecord, decode_records, encode_batch, iterate_batches
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId, TopicPartition
from klamm.storage.checkpoints import RECOVERY_POINT_FILE
from klamm.storage.directory.log_directory import LogDirectory
from klamm.storage.log.log import Log
from klamm.storage.log.log_appender import AppendInfo
from klamm.storage.log.log_timestamps import TimestampSearch
from klamm.storage.log_files import SNAPSHOT_SUFFIX

__all__ = ["NOW_MS", "ORDERS", "LogFolder", "append", "batch", "found_by_time", "read_all", "read_bytes", "sent"]

NOW_MS = Millis(1_700_000_000_000)
ORDERS = TopicPartition("orders", PartitionIndex(0))
TOPIC_ID = TopicId(bytes(range(16)))


def batch(  # noqa: PLR0917 - a batch in one line is what this is for
    count: int = 1,
    value: bytes = b"value",
    timestamp_ms: int = NOW_MS,
    key: bytes | None = b"key",
    compression: Compression = Compression.NONE,
    sequence: int = -1,
    producer_id: int = -1,
    epoch: int = -1,
    **others: Any,
) -> bytes:
    """Returns a batch of `count` records, as a client sends it."""
    records: Sequence[UnstampedRecord] = [(timestamp_ms, key, value, ())] * count
    return encode_batch(
        records,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        **others,
    )


def sent(base_offset: int, epoch: int, *, last_offset_delta: int = 0) -> bytes:
    """Returns a batch of one record as a leader sends it."""
    records = encode_batch([(NOW_MS, b"key", b"value", ())], base_offset=Offset(base_offset))
    header = read_batch_header(records)._replace(
        partition_leader_epoch=LeaderEpoch(epoch), last_offset_delta=last_offset_delta
    )
    return pack_header(header, records[HEADER_SIZE_BYTES:]) + records[HEADER_SIZE_BYTES:]


def append(log: Log, records: bytes | None = None, *, leader_epoch: int = 0, now_ms: int = NOW_MS) -> AppendInfo:
    """Appends `records`, or a batch of one record, and commits the batch."""
    info = log.appender.append_as_leader(
        records if records is not None else batch(), leader_epoch=LeaderEpoch(leader_epoch), now_ms=Millis(now_ms)
    )
    log.advance_high_watermark(log.log_end_offset)
    return info


def read_bytes(log: Log, start: int | None = None, max_bytes: int = 1024 * 1024) -> bytes:
    """Returns the batches from `start` to the log end; each read continues where the last one ended."""
    offset = log.log_start_offset if start is None else Offset(start)
    parts = []
    while offset < log.log_end_offset:
        part = log.read(offset, max_bytes, upper_bound=log.log_end_offset, minimum_one_batch=True)
        parts.append(bytes(part))
        offset = [header for _, header in iterate_batches(part)][-1].next_offset
    return b"".join(parts)


def read_all(log: Log, start: int | None = None, max_bytes: int = 1024 * 1024) -> list[Record]:
    """Returns all records from `start` on, and checks the CRCs of their batches."""
    offset = log.log_start_offset if start is None else start
    return list(decode_records(read_bytes(log, start, max_bytes), offset))


def found_by_time(search: TimestampSearch) -> TimestampedOffset | None:
    """Runs a search by time to its end on the test's thread, and returns the offset that it finds."""
    found = None
    while True:
        try:
            lookup = search.send(found)
        except StopIteration as end:
            result: TimestampedOffset | None = end.value
            return result
        found = None if lookup is None else finish(lookup.steps(lookup.open_within(lookup.max_bytes)))


class LogFolder:
    """A data directory that tests open, close and open again."""

    def __init__(self, path: Path, config: TopicConfig | None = None, *, open_files: int = 64) -> None:
        self.path = path
        self.config = config if config is not None else TopicConfig()
        self.now_ms = NOW_MS
        self._open_files = open_files
        self.directory = self._open()

    def _open(self) -> LogDirectory:
        directory = LogDirectory(self.path, clock=lambda: self.now_ms, open_files=self._open_files, random=Random(0))
        directory.open(lambda _: self.config)
        return directory

    def create(self, topic_partition: TopicPartition = ORDERS, **config: Any) -> Log:
        """Creates a log; `config` overrides settings of the folder's topic configuration."""
        self.config = replace(self.config, **config)
        return self.directory.create(topic_partition, TOPIC_ID, self.config)

    def log(self, topic_partition: TopicPartition = ORDERS) -> Log:
        """Returns the log of an existing partition."""
        log = self.directory.get(topic_partition)
        assert log is not None
        return log

    def restart(self) -> None:
        """Closes the directory cleanly and opens it again."""
        self.directory.close()
        self.directory = self._open()

    def crash(self) -> None:
        """Closes the directory without a clean shutdown and opens it again, as after a crash."""
        self.kill()
        self.start()

    def kill(self) -> None:
        """Closes the directory without a clean shutdown."""
        self.directory.close(clean=False)

    def forget_syncs(self, above: int = 0, topic_partition: TopicPartition = ORDERS) -> None:
        """Resets the recovery point to `above` and removes later snapshots, as if later flushes never happened.

        Tests call this after `kill`.
        """
        (self.path / RECOVERY_POINT_FILE).write_text(
            f"0\n1\n{topic_partition.topic} {topic_partition.partition} {above}\n"
        )
        for path in (self.path / str(topic_partition)).glob(f"*{SNAPSHOT_SUFFIX}"):
            if int(path.stem) > above:
                path.unlink()

    def start(self) -> None:
        """Opens the directory after `kill`."""
        self.directory = self._open()

    def advance(self, milliseconds: int) -> None:
        """Moves the clock forward."""
        self.now_ms = Millis(self.now_ms + milliseconds)

    def log_files(self, topic_partition: TopicPartition = ORDERS) -> list[Path]:
        """Returns the log files of a partition, oldest first."""
        return sorted((self.path / str(topic_partition)).glob("*.log"))

    def close(self) -> None:
        """Closes the directory cleanly."""
        self.directory.close()
