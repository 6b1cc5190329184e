"""Tests when segments are rolled by age, and the jitter that spreads the rolls of several logs."""

from __future__ import annotations

from tests.support.log_folder import NOW_MS, LogFolder, append, batch

from klamm.protocol.types import PartitionIndex, TopicPartition


def _rolled_after_ms(folder: LogFolder, partition: int, **config: int) -> int:
    """Returns the age of the first record at which the log begins a new segment."""
    log = folder.create(TopicPartition("orders", PartitionIndex(partition)), segment_ms=1000, **config)
    append(log, batch(timestamp_ms=NOW_MS))
    for age_ms in range(0, 2000, 10):
        append(log, batch(timestamp_ms=NOW_MS + age_ms))
        if log.segment_count > 1:
            return age_ms
    raise AssertionError("it was never rolled")


def test_a_segment_is_rolled_when_it_is_too_old(folder: LogFolder) -> None:
    """A segment is rolled after segment.ms, by the timestamps of its records."""
    assert _rolled_after_ms(folder, 0) == 1010


def test_jitter_brings_rolls_forward_by_chance(folder: LogFolder) -> None:
    """With segment.jitter.ms, each log rolls earlier by a random time below that limit."""
    ages_ms = [_rolled_after_ms(folder, partition, segment_jitter_ms=500) for partition in range(8)]
    assert all(500 < age_ms <= 1010 for age_ms in ages_ms)
    assert len(set(ages_ms)) > 1


def test_jitter_never_exceeds_the_age_itself(folder: LogFolder) -> None:
    """The jitter never exceeds segment.ms; otherwise a log would be rolled with every batch."""
    ages_ms = [_rolled_after_ms(folder, partition, segment_jitter_ms=1_000_000_000) for partition in range(8)]
    assert all(0 < age_ms <= 1010 for age_ms in ages_ms)
